"""Fleets: the schedule, where machines are, operators as a queue, and what kills of any process lose."""

import dataclasses
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from tests.bank import same_rounds
from tests.killing import rounds_of
from tests.waiting import until

import resetfree as rf
from resetfree.core import EnvironmentFailed
from resetfree.game.fleet import Fleet, FleetGame, HereCrew
from resetfree.problems import find_world
from resetfree.problems.operators.channel import Answer
from resetfree.runs.fleet.crews import Hosts
from resetfree.runs.request import Who
from resetfree.runs.result import fleet_table
from resetfree.runs.resuming import whole_run
from resetfree.runs.setup import prepare

GRID: dict[str, Any] = {"episodes": 150, "operators": 2, "reset_time": 7, "seed": 3}
QUICK: dict[str, Any] = {
    "primal": "model-search", "dual": "constant-penalty", "feedback": "realised", "seed": 1,
    "settings": {"primal": {"population": 6, "rounds": 1, "planning": 10}, "dual": {"C": 3.0}},
}  # fmt: skip
CALM: dict[str, Any] = {
    **QUICK,
    "settings": {**QUICK["settings"], "primal": {"least": 10**6}},
}  # the first policy for good
POLE: dict[str, Any] = {**QUICK, "settings": {**QUICK["settings"], "problem": {"horizon": 10}}}


def test_one_machine_rests_on_every_round_and_many_on_all_that_were_over() -> None:
    """No claim about the record is refuted, and each machine plays."""
    alone, many = rf.learn_fleet("grid-v0", n=1, **GRID), rf.learn_fleet(["grid-v0"] * 5, **GRID)
    assert alone.plan_ages.tolist() == [0] * 150
    assert sorted(set(many.columns["machine"])) == [1, 2, 3, 4, 5]
    assert many.columns["ended"][-1] < 0.3 * alone.columns["ended"][-1]
    for run in (alone, many):
        assert not [c for c in run.certificates() if c.refuted]
        (bound,) = [c for c in run.certificates() if "of all machines together" in c.claim]
        assert bound.status == "proved"


def test_it_does_not_matter_where_finite_machines_are() -> None:
    """Threads, other processes and this one play the same rounds."""
    here = rf.learn_fleet("grid-v0", n=4, **GRID)
    for where in ("threads", "processes"):
        same_rounds(here, rf.learn_fleet("grid-v0", n=4, where=where, **GRID))


def test_a_killed_machine_process_loses_nothing(tmp_path: Path) -> None:
    """The episode under way is begun again: with the same result where states can be put back."""
    path, killed = tmp_path / "fleet.rfrun", []

    def kill(game: Any, this: rf.Round) -> None:
        children = multiprocessing.active_children()
        if this.k in (10, 40) and children:
            killed.append(children[0].pid)
            os.kill(children[0].pid or 0, signal.SIGKILL)

    run = rf.learn_fleet("grid-v0", n=3, where="processes", path=path, progress=kill, **GRID)
    assert len(killed) == 2
    assert [one.restart for one in run.notes] == ["ended"] * len(run.notes) != []
    same_rounds(run, rf.learn_fleet("grid-v0", n=3, **GRID))


def test_a_killed_process_of_machines_with_a_state_costs_a_reset_of_each() -> None:
    """Their state is gone with the process: they are reset first, as after any interruption."""

    def kill(game: Any, this: rf.Round) -> None:
        if this.k == 6:
            for child in multiprocessing.active_children():
                os.kill(child.pid or 0, signal.SIGKILL)

    run = rf.learn_fleet("CartPole-v1", n=2, episodes=12, where="processes", progress=kill, **POLE)
    assert len(run) == 12
    assert "resume" in [one.why for one in run.interventions]
    assert not [c for c in run.certificates() if c.refuted]


@pytest.mark.parametrize(("problem", "how"), [("grid-v0", {}), ("CartPole-v1", POLE)])
def test_a_killed_process_is_resumed_by_the_command(tmp_path: Path, problem: str, how: dict[str, Any]) -> None:
    """What was committed stays; a finite fleet plays the very rounds of one that was never killed."""
    path, episodes = tmp_path / "killed.rfrun", 60
    how = {"n": 4, "operators": 2, "reset_time": 7, "episodes": episodes, **how}
    script = (  # every round is saved at once, and after half of them it waits to be killed
        "import time, resetfree as rf; pause = lambda game, this: this.k == 30 and time.sleep(3600); "
        f"rf.learn_fleet({problem!r}, path={str(path)!r}, checkpoint_every=0.0, progress=pause, **{how!r})"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as first:
        until(lambda: rounds_of(path) or first.poll() is not None)
        first.kill()
    before = rf.load(path)
    assert 0 < len(before) < episodes
    command = [sys.executable, "-m", "resetfree.show.cli", "fleet", problem, "--resume", "--out", str(path)]
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    run = rf.load(path)
    assert len(run) == episodes
    for name in ("machine", "reward", "reset", "ended"):
        assert np.array_equal(run.columns[name][: len(before)], before.columns[name])
    assert not [c for c in run.certificates() if c.refuted]
    if problem == "grid-v0":
        same_rounds(run, rf.learn_fleet(problem, **how))


def test_a_killed_process_costs_a_reset_of_the_machines_that_only_stood_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """All three are in one process, and where they stood is lost with it, whether they acted or not."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)

    def kill(game: Any, this: rf.Round) -> None:
        if this.k == 4:
            os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)

    tanks = "gym:resetfree/TwoTanks-v0"
    how = {**CALM, "settings": {**CALM["settings"], "problem": {"horizon": 10}}}
    run = rf.learn_fleet(tanks, n=3, episodes=12, where="processes", progress=kill, **how)
    assert len(run) == 12
    assert sorted(one.detail[:9] for one in run.interventions if one.why == "resume") == [
        f"machine {machine}" for machine in (1, 2, 3)
    ]


class Faulty(CartPoleEnv):
    """Its motor breaks at some step."""

    def __init__(self, breaks: int) -> None:
        super().__init__()
        self.left = breaks

    def step(self, action: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise OSError("no answer from the motor")
        return super().step(action)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("people", [False, True])
def test_a_machine_that_breaks_is_left_out_and_the_others_go_on(people: bool) -> None:
    class Porter:
        def perform(self, request: Any) -> Answer:
            return Answer("porter")

    machines = [rf.from_gym(Faulty(breaks), horizon=20, reward_range=(0, 1)) for breaks in (10**6, 5, 10**6)]
    how: dict[str, Any] = {"operators": [Porter()]} if people else {}
    run = rf.learn_fleet(machines, episodes=30, **CALM, **how)
    assert len(run) == 30
    said = [one.what for one in run.notes if "left out" in one.what]
    assert len(said) == 1
    assert said[0].startswith("Machine 2 is left out, until the run is resumed: At step ")
    assert "no answer from the motor" in said[0]
    assert set(run.columns["machine"][-10:].tolist()) == {1, 3}


def test_a_fleet_ends_when_its_last_machine_breaks(tmp_path: Path) -> None:
    machines = [rf.from_gym(Faulty(50), horizon=20, reward_range=(0, 1)) for _ in range(2)]
    with pytest.raises(EnvironmentFailed, match="no answer from the motor"):
        rf.learn_fleet(machines, episodes=30, path=tmp_path / "broken.rfrun", **CALM)
    assert 0 < len(rf.load(tmp_path / "broken.rfrun")) < 30


def test_a_process_that_dies_at_each_reset_ends_the_run() -> None:
    class Dies(Hosts):
        def _call(self, host: int, method: str, *arguments: Any) -> None:
            return None

    crew = Dies(rf.from_gym(Faulty(1), horizon=20), 2, 1)
    with pytest.raises(rf.RunError, match=r"process of machine 1 died 20 times in a row"):
        crew.reset(1, 0.5, "start")
    crew.close()


def test_people_are_a_queue_in_real_time(tmp_path: Path) -> None:
    """Each reset is performed by one of them; one who leaves ends the run, which goes on from its file."""
    asked: list[str] = []

    def person(request: Any) -> str:
        asked.append(request.problem)
        if len(asked) == 6:
            raise rf.InvalidInput("The page of the operator was closed.")
        time.sleep(0.01)
        return "stood up"

    def two() -> list[rf.OperatorReset]:
        return [rf.OperatorReset(by=person, who=name) for name in ("day", "night")]

    path = tmp_path / "people.rfrun"
    how: dict[str, Any] = {"episodes": 20, "path": path, **POLE}
    machines = [gymnasium.make("CartPole-v1") for _ in range(3)]
    with pytest.raises(rf.InvalidInput, match="page of the operator"):
        rf.learn_fleet(machines, operators=two(), **how)
    begun = len(rf.load(path))
    run = rf.learn_fleet([gymnasium.make("CartPole-v1") for _ in range(3)], operators=two(), resume=True, **how)
    assert len(run) == 20 > begun
    assert {one.who for one in run.interventions} == {"day", "night"}
    assert {"machine 1", "machine 2", "machine 3"} == {one.split(", ")[1] for one in asked}
    assert not [c for c in run.certificates() if c.refuted]


def test_the_machine_that_earns_most_is_helped_first_then_the_one_that_waited_longest() -> None:
    """One operator, three machines that wait."""
    world = find_world("grid-v0")
    setup = prepare(world, Who(), episodes=10, seed=0)
    game = FleetGame.of(setup.game, world.problem, 0, 3, 1)
    for machine, (pay, since) in zip(game.machines, [(0.2, 0.0), (0.5, 3.0), (0.5, 2.0)], strict=True):
        machine.waits, machine.pay, machine.ready = True, pay, since
    game.now, order = 5.0, []
    schedule = Fleet(world.problem, HereCrew([world.problem]), episodes=10, reset_time=4.0)
    for _ in range(3):
        before = [machine.waits for machine in game.machines]
        schedule._help(game)
        order += [i for i, machine in enumerate(game.machines) if before[i] and not machine.waits]
        game.now += 4.0
    assert order == [2, 1, 0]
    assert [machine.waited for machine in game.machines] == [13.0, 6.0, 3.0]


def test_a_pair_that_fell_is_tried_again_by_no_episode_that_begins_later() -> None:
    """What fell while no other trial of it was under way never falls again, on any machine."""
    run = rf.learn_fleet("grid-v0", "support-elimination", n=8, episodes=400, seed=2)
    moves, fell = rf.transitions(run), dict[tuple[int, int], int]()
    for i in np.flatnonzero(moves["reset"]):
        pair, k = (int(moves["state"][i]), int(moves["action"][i])), int(moves["round"][i])
        assert run.columns["based_on"][k - 1] < fell.setdefault(pair, k)
    assert fell


def test_time_adds_up_in_the_table() -> None:
    """Acting, waiting, standing and being reset are all of a machine's time."""
    run = rf.learn_fleet("grid-v0", n=4, risk=0.0, **GRID)
    found = fleet_table(run)
    assert found is not None
    for one in found["machines"]:
        helped = 7 * int((run.columns["operator"][run.columns["machine"] == one["machine"]] > 0).sum())
        assert one["acted"] + one["waited"] + one["stood"] + helped == pytest.approx(found["time"])
    assert sum(one["resets"] for one in found["operators"]) <= run.realised_resets[-1]


@pytest.mark.parametrize(
    ("machines", "how", "sentence"),
    [
        (["grid-v0", "pits-v0"], {}, "of one kind"),
        (["grid-v0"] * 3, {"n": 2}, "fleet of as many"),
        ("grid-v0", {"n": 0}, "'machines' of a fleet"),
        ("grid-v0", {"delay": 2}, "for one machine"),
        ("grid-v0", {"where": "moon"}, "'where' of a fleet"),
        ("grid-v0", {"operators": []}, "'operators' of a fleet"),
    ],
)
def test_other_fleets_are_refused(machines: Any, how: dict[str, Any], sentence: str) -> None:
    """One sentence for each."""
    with pytest.raises(rf.InvalidInput, match=sentence):
        rf.learn_fleet(machines, episodes=5, **how)


def test_a_finite_fleet_is_played_again_from_its_seed(tmp_path: Path) -> None:
    """Bit for bit, with its checkpoint; an edited round is found."""
    run = rf.learn_fleet("grid-v0", n=4, path=(path := tmp_path / "again.rfrun"), **GRID)
    assert [c.holds for c in whole_run(rf.load(path)) if c.applies] == [True, True, True]
    edited = dataclasses.replace(rf.load(path), columns={**run.columns, "began": run.columns["began"] + 1.0})
    assert not all(c.holds for c in whole_run(edited) if c.applies)
