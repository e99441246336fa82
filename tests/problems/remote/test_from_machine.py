"""A machine over UDP as a problem: the same runs as in this process, whatever the wire does; by the clock too."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from tests.bank import same_rounds, stop_at
from tests.problems.remote.machines_served import Served, served
from tests.show.cli.commands import run as run_command
from tests.waiting import LONG, until

import resetfree as rf
from resetfree.core import EnvironmentFailed, OperatorTimeout
from resetfree.problems.machines import MACHINES, cart_pole
from resetfree.problems.operators import Automatic, Request
from resetfree.problems.remote import remote_machine
from resetfree.problems.remote.packets import Kind, packet
from resetfree.problems.remote.remote_machine import MachineClient, RemoteMachine
from resetfree.problems.remote.station import Station
from resetfree.problems.remote.wires import UdpPort, UdpWire, open_wire, pull

SEED, HORIZON = 3, 40
START = Request("cart", "start", "a test")


class OwnChance(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A machine whose chance is its own: seeded when it is switched on, and by no reset."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        env.reset(seed=SEED)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset()


def learn(problem: Any, **more: Any) -> rf.Run:
    settings: dict[str, Any] = {"dual": {"C": 200.0}, "primal": {"planning": 10, "population": 8, "rounds": 2}}
    how = {"episodes": 6, "seed": 5, "feedback": "realised", "settings": settings, **more}
    return rf.learn(problem, "model-search", "constant-penalty", **how)


@pytest.fixture
def cart(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, lockstep=True, seed=SEED) as machine:
        yield machine


@pytest.mark.parametrize("name", MACHINES)
def test_a_run_in_lockstep_is_that_of_the_machine_in_this_process(name: str, tmp_path: Path) -> None:
    here = learn(rf.from_gym(OwnChance(MACHINES[name].physics()), horizon=HORIZON))
    assert here.realised_resets[-1] > 0 or name == "tanks"
    with served(tmp_path, name, lockstep=True, seed=SEED) as machine:
        with machine.problem(horizon=HORIZON) as problem:
            assert problem.names == list(MACHINES[name].sensors)
            there = learn(problem)
        counts = machine.station.counts
    same_rounds(here, there)
    assert counts.ticks == counts.commands == there.columns["steps"].sum()
    assert [one.who for one in there.interventions] == ["lever"] * counts.pulls


def test_lost_late_doubled_and_overtaken_packets_change_nothing_in_lockstep(cart: Served, tmp_path: Path) -> None:
    def played(machine: Served) -> rf.Run:
        with machine.problem(horizon=HORIZON) as problem:
            return learn(problem, episodes=3)

    quiet = played(cart)
    (tmp_path / "other").mkdir()
    faults = {"loss": 0.05, "delay_ms": 0.5, "duplicate": 0.1, "reorder": 0.05}
    with served(tmp_path / "other", lockstep=True, seed=SEED, faults=faults) as noisy:
        run = played(noisy)
        assert noisy.station.counts.repeated > 0  # copies came, and did not count
    same_rounds(quiet, run)


def test_a_run_is_resumed_after_the_machine_was_switched_off_and_on(tmp_path: Path) -> None:
    def session(error: type[Exception] | None, rate: float | None = None, **more: Any) -> rf.Run | None:
        """On another port each time."""
        options: dict[str, Any] = {} if rate is None else {"rate": rate}
        with served(tmp_path, lockstep=True, **options) as machine, machine.problem(horizon=HORIZON) as problem:
            if error is None:
                return learn(problem, path=file, **more)
            with pytest.raises(error, match="another problem" if rate else "Stopped after 2"):
                learn(problem, path=file, **more)
        return None

    file = tmp_path / "a.rfrun"
    session(rf.Stopped, progress=stop_at(2))
    run = session(None, resume=True)
    assert run is not None
    assert len(run) == 6
    assert [one.why for one in run.interventions].count("resume") == 1
    session(rf.RunError, rate=60.0, resume=True, episodes=7)


def test_options_are_those_of_an_environment(cart: Served) -> None:
    with cart.problem(horizon=7, actions=3, reset_when="angular speed>0.5", name="mine") as problem:
        assert (problem.name, problem.horizon, problem.n_actions) == ("mine", 7, 3)
        run = rf.learn(problem, "uniform", "constant-penalty", episodes=5, settings={"dual": {"C": 1.0}})
    assert run.realised_resets[-1] > 0
    with pytest.raises(rf.InvalidInput, match="are called position, speed, angle, angular speed"):
        rf.from_machine(cart.url, reset_when="height>1")
    with pytest.raises(rf.InvalidInput, match="takes options"):
        rf.from_machine(cart.url, colour="red")


def test_by_the_clock_the_controller_keeps_it_up_and_sensors_are_fresh(tmp_path: Path) -> None:
    def keeps_up(problem: Any) -> bool:
        """Whether it stays up for 200 sensors: a busy computer may stop us for long enough to let it fall."""
        observation, env = problem.perform_reset(0.5, "start"), problem.env
        numbers, fallen = [env.client.sensors.number], False
        while len(numbers) < 200 and not fallen:
            observation, reward, fallen, _, info = env.step(cart_pole.controller(observation))
            numbers.append(info["number"])
            assert 0 < reward <= 1
            assert 0 <= time.monotonic_ns() - info["received_ns"] < LONG * 1e9
        assert (np.diff(numbers) > 0).all()  # never the same sensors twice
        return not fallen

    with served(tmp_path, rate=100.0) as machine, machine.problem() as problem:
        until(lambda: keeps_up(problem))


def test_by_the_clock_a_learner_falls_and_is_put_back_and_loss_does_no_harm(tmp_path: Path) -> None:
    faults = {"loss": 0.05, "delay_ms": 1.0, "duplicate": 0.05, "reorder": 0.05, "freeze": 0.01, "freeze_ms": 30.0}
    with served(tmp_path, rate=200.0, faults=faults) as machine:
        with machine.problem(horizon=HORIZON) as problem:
            run = learn(problem, episodes=4)
        counts = machine.station.counts
    assert len(run) == 4
    assert counts.pulls == len(run.interventions) >= 1
    assert run.realised_resets[-1] <= counts.falls


def test_a_machine_that_falls_silent_fails_the_run_and_loses_nothing(tmp_path: Path) -> None:
    file, calls = tmp_path / "a.rfrun", list[int]()
    with served(tmp_path, rate=200.0) as machine:

        def cut(game: Any, this: Any) -> None:
            """The end of the session, as if the client had sent it: from then on there are no sensors."""
            calls.append(this.k)
            if this.k == 2:
                one = packet(Kind.BYE, machine.station._session, 0, 0)
                machine.station.receive(one, len(one), machine.station.client, time.monotonic_ns())
                problem.env.unwrapped.timeout = 0.5  # type: ignore[attr-defined]

        silent = pytest.raises(EnvironmentFailed, match=r"no sensors came for 0\.5 s")
        with machine.problem(horizon=5) as problem, silent:
            learn(problem, path=file, progress=cut)
    assert len(rf.load(file)) == calls[-1] == 2


def test_an_operator_who_did_not_put_it_back_is_noticed(tmp_path: Path) -> None:
    with served(tmp_path, rate=500.0) as machine:
        until(lambda: machine.station.fallen)
        lies = pytest.raises(EnvironmentFailed, match=r"still lies where it fell .*pull its lever")
        with machine.problem(operator=Automatic()) as problem, lies:
            learn(problem)


def test_the_lever_must_be_that_of_the_machine(cart: Served, tmp_path: Path) -> None:
    (tmp_path / "other.key").write_text(json.dumps({"url": cart.url, "token": "00" * 16}))
    operator = rf.OperatorReset(f"lever:{tmp_path / 'other.key'}", deadline=0.3)
    with pytest.raises(OperatorTimeout, match="is it switched on"):
        operator.perform(START)
    with open_wire(cart.url) as wire:
        assert pull(wire, cart.key.token, LONG) == 1
    with pytest.raises(rf.InvalidInput, match="cannot be read"):
        rf.OperatorReset(f"lever:{tmp_path / 'none.key'}").perform(START)


def test_one_program_at_a_time_commands_it(cart: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Station.__module__], "LEASE", 10**12)
    mine = rf.from_machine(cart.url, operator=cart.operator)
    other = MachineClient(UdpWire("127.0.0.1", int(cart.url.rpartition(":")[2])))
    with closing(other):
        with closing(mine), pytest.raises(rf.ResetFreeError, match="it is commanded by another program"):
            other.connect(5.0)
        assert other.connect(LONG) == mine.env.statement  # type: ignore[attr-defined]


def test_what_is_no_machine_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        rf.InvalidInput, match=r"at udp://127\.0\.0\.1:9 cannot be commanded: no program listens there\."
    ):
        rf.from_machine("udp://127.0.0.1:9")
    for address in ("udp://127.0.0.1", "udp://:5", "udp://x:y", "tcp://127.0.0.1:5", "", 5, "udp://h:99999"):
        with pytest.raises(rf.InvalidInput, match="The address of a machine must be"):
            rf.from_machine(address)  # type: ignore[arg-type]
    monkeypatch.setattr(remote_machine, "GREETING", 0.1)
    with UdpPort() as deaf, pytest.raises(rf.InvalidInput, match="it did not answer within 1 s"):
        rf.from_machine(deaf.url)
    with pytest.raises(rf.InvalidInput, match="must be a Wire"):
        rf.from_machine(lambda: 5)  # type: ignore[arg-type, return-value]


class Liar(UdpWire):
    """A wire on which every packet comes with other bytes in its place now and then."""

    def __init__(self, port: int) -> None:
        super().__init__("127.0.0.1", port)
        self._chance, self.count = np.random.default_rng(0), 0

    def receive(self, buffer: bytearray) -> int:
        size = super().receive(buffer)
        self.count += size > 0
        if size and self.count % 3 == 0:
            buffer[int(self._chance.integers(size))] ^= 1 << int(self._chance.integers(8))
        return size


def test_damaged_packets_are_dropped_and_asked_for_again(cart: Served) -> None:
    port = int(cart.url.rpartition(":")[2])
    env = RemoteMachine(lambda: Liar(port))
    twin = OwnChance(cart_pole.CartPole())
    with closing(env):
        observation, _ = env.reset()
        for _ in range(20):
            action = cart_pole.controller(observation)
            observation, reward, *_ = env.step(action)
            expected, paid, *_ = twin.step(action)
            np.testing.assert_array_equal(observation, expected)
            assert reward == paid
        assert env.client.dropped > 5


def test_the_command_line_learns_on_a_machine(cart: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.rfrun"
    words = ["--set", "horizon=20", "--set", "actions=3", "--primal", "uniform", "--dual", "constant-penalty"]
    words += ["--set", "dual.C=1", "--episodes", "5", "--out", str(file)]
    status, out, err = run_command(
        capsys, "run", cart.url, *words, "--operator", f"lever:{tmp_path / 'lever.key'}", "--json"
    )
    assert status == 0, err
    assert json.loads(out)["problem"] == cart.url
    assert cart.station.counts.ticks > 0
    until(lambda: cart.station.client is None)  # it was closed
    status, _, err = run_command(capsys, "run", cart.url, *words, "--overwrite")
    assert (status, err.count("\n")) == (2, 1)  # no person at a terminal
    assert "must be confirmed at a terminal" in err
    status, _, err = run_command(capsys, "run", "udp://127.0.0.1:9", *words, "--overwrite")
    assert (status, err) == (2, "The machine at udp://127.0.0.1:9 cannot be commanded: no program listens there.\n")
