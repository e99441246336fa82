"""A command makes its environment once and closes it, however it ends; what is given ready-made stays open."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import resetfree as rf
from resetfree.problems.zoo import fields as drawn
from resetfree.show.cli import main
from resetfree.studies.plan import check_plan, parse_plan

MODULE = """
import gymnasium

OPEN = []  # every environment that was made and is not closed
LOG = []


class Machine(gymnasium.Env):
    def __init__(self, fails_at=0, stops_at=0):
        assert not OPEN, "the port is open already"
        OPEN.append(self)
        LOG.append("made")
        self.fails_at, self.stops_at, self.steps = fails_at, stops_at, 0
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(2)
        # the same as `step`, so that `check` and `solve` have something to read
        self.P = {
            s: {a: [(1.0, min(s + a, 3), float(a), s + a >= 3)] for a in range(2)} for s in range(4)
        }
        self.initial_state_distrib = [1.0, 0.0, 0.0, 0.0]

    def reset(self, *, seed=None, options=None):
        assert self in OPEN, "it is closed"
        super().reset(seed=seed)
        self.cell = 0
        return 0, {}

    def step(self, action):
        assert self in OPEN, "it is closed"
        self.steps += 1
        if self.steps == self.fails_at:
            raise RuntimeError("the belt came off")
        if self.steps == self.stops_at:
            raise KeyboardInterrupt
        self.cell = min(self.cell + int(action), 3)
        return self.cell, float(action), self.cell == 3, False, {}

    def close(self):
        OPEN.remove(self)
        LOG.append("closed")


gymnasium.register("Machine-v0", entry_point=Machine)
"""
ONCE = ["made", "closed"]
NAMES = ["machine:Machine", "gym:machine:Machine-v0"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "machine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "machine", raising=False)
    import machine  # type: ignore[import-not-found]

    yield machine
    assert machine.OPEN == []
    gymnasium.registry.pop("Machine-v0")
    sys.modules.pop("machine")


def counted(machine: Any, *words: str) -> tuple[int, list[str]]:
    """The status of a command, and what happened to the environment meanwhile."""
    before = len(machine.LOG)
    status = main(list(words))
    return status, machine.LOG[before:]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_makes_it_once_and_closes_it(machine: Any, name: str) -> None:
    own = ["--set", "horizon=5"]
    run = ["run", name, *own, "--episodes", "40", "--out", "a.rfrun", "--json"]
    assert counted(machine, *run, "--max-resets", "2") == (0, ONCE)
    assert counted(machine, *run, "--resume") == (0, ONCE)
    assert counted(machine, *run, "--resume") == (0, ONCE)  # a finished one is only read
    assert counted(machine, *run, "--overwrite", "--primal", "uniform", "--dual", "counting") == (0, ONCE)
    assert counted(machine, *run, "--overwrite", "--tensorboard", "events") == (0, ONCE)
    assert counted(machine, "evaluate", "a.rfrun", name, "--episodes", "3") == (0, ONCE)
    assert counted(machine, "export", "a.rfrun", "-o", "policy.npz") == (0, [])
    assert counted(machine, "evaluate", "policy.npz", name, *own, "--episodes", "3") == (0, ONCE)
    assert counted(machine, "check", name, *own) == (0, ONCE)
    assert counted(machine, "solve", name, *own) == (0, ONCE)
    assert counted(machine, "certify", "a.rfrun", "--problem", name) == (0, ONCE)
    assert counted(machine, "report", "a.rfrun") == (0, [])


@pytest.mark.parametrize("primal", ["uniform", "nobody"])
def test_the_check_of_a_sweep_closes_what_it_made(machine: Any, primal: str) -> None:
    text = f'[sweep]\nepisodes = 5\n[[problem]]\nid = "{NAMES[0]}"\n[[players]]\nprimal = ["uniform", "{primal}"]\n'
    with suppress(rf.ResetFreeError):
        check_plan(parse_plan(text))
    assert machine.LOG == ONCE


def test_the_demo_maps_learns_and_checks_one_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counting(*arrays: Any, **options: Any) -> rf.FiniteMDP:
        made.append(options["name"])
        return rf.FiniteMDP(*arrays, **options)

    monkeypatch.setattr(sys.modules["resetfree.show.cli"], "EPISODES", 20)
    monkeypatch.setattr(drawn, "FiniteMDP", counting)
    assert main(["demo", "--out", str(tmp_path / "demo"), "--json"]) == 0
    assert made == 2 * ["grid-v0"]  # once for the demo, once for its report, which reads the run file like any other


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--set", "fails_at=7"], 2),  # in an episode
        (["--set", "stops_at=7"], 130),  # Ctrl-C in an episode
        (["--set", "horizon=0"], 2),  # refused by the adapter, after it was made
        (["--primal", "linear-ucb", "--bound", "-1"], 2),  # refused by a player
        (["--set", "primal.nothing=1"], 2),
        (["--set", "features=polynomial"], 2),
    ],
)
def test_it_is_closed_however_a_run_ends(machine: Any, name: str, words: list[str], status: int) -> None:
    assert counted(machine, "run", name, "--episodes", "40", "--out", "a.rfrun", *words) == (status, ONCE)


@pytest.mark.parametrize("name", NAMES)
def test_in_python_a_name_is_closed_and_opened_again_where_it_is_played(machine: Any, name: str) -> None:
    options: dict[str, Any] = {"settings": {"problem": {"horizon": 5}}}
    run = rf.learn(name, episodes=20, path="a.rfrun", **options)
    assert machine.LOG == ONCE
    assert run.policy.evaluate(episodes=3).episodes == 3  # where it was learned
    assert machine.LOG == 2 * ONCE
    again = rf.load("a.rfrun", name)
    assert machine.LOG == 3 * ONCE
    assert again.policy.evaluate(episodes=3).episodes == 3
    assert machine.LOG == 4 * ONCE


def test_what_is_given_ready_made_stays_open(machine: Any) -> None:
    env = machine.Machine()
    problem = rf.from_gym(env, horizon=5)
    run = rf.learn(problem, episodes=20)
    run.policy.evaluate(episodes=3)
    run.policy.evaluate(env, episodes=3, horizon=5)
    assert machine.LOG == ["made"]
    problem.close()
    problem.close()
    assert machine.LOG == ONCE
