"""Data for environments whose states are numbered as they appear: what the numbers mean is part of the data."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from tests.bank import edit

import resetfree as rf
from resetfree.core import EnvironmentFailed
from resetfree.runs.dataset_loading import gather
from resetfree.runs.file.ledger import Ledger
from resetfree.show.cli import main

WIDTH = 5
PLAYERS: dict[str, Any] = {"primal": "support-elimination", "dual": "counting", "feedback": "realised"}


class Ledge(gym.Env[Any, Any]):
    """A ledge of five places: right of the last one is a fall. Observations are vectors of the floats of a sensor."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.place = 0 if seed is None or seed % 2 else 1
        return self.seen(), {}

    def seen(self) -> Any:
        return np.array([self.place / 10, 0.1], dtype=np.float32)

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = self.place + 1 if action else max(self.place - 1, 0)
        return self.seen(), self.place / WIDTH, self.place >= WIDTH, False, {}


def ledge(**options: Any) -> Any:
    return rf.from_gym(
        Ledge(), **{"horizon": 8, "states": 20, "reset_when": "terminated", "reward_range": (0, 1), **options}
    )


def life(*actions: int) -> list[tuple[Any, ...]]:
    env = Ledge()
    seen, _ = env.reset()
    steps = []
    for action in actions:
        after, reward, terminated, _, _ = env.step(action)
        steps.append((seen, action, reward, terminated, False, after))
        seen = after
    return steps


FALL = life(1, 0, 1, 1, 1, 1, 1)  # right of place 4


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> rf.Run:
    return rf.learn(ledge(), **PLAYERS, episodes=30, path=tmp_path_factory.mktemp("old") / "old.rfrun")


def place_of(problem: Any, state: int) -> float:
    """The place that a state is the number of, by looking at all of them."""
    known = {
        problem.recorded(np.array([p / 10, 0.1], dtype=np.float32), None, False, {}).state: p for p in range(WIDTH)
    }
    return known[state]


@pytest.mark.parametrize("form", ["lists", "float64", "arrays"])
def test_rollouts_are_numbered_as_the_environment_will_number_them(form: str) -> None:
    steps: Any = FALL
    if form == "float64":
        steps = [(np.float64(s), a, r, t, c, [float(x) for x in after]) for s, a, r, t, c, after in FALL]
    problem = ledge()
    data: Any = [steps]
    if form == "arrays":
        data = {
            "observations": np.array([*(step[0] for step in steps), steps[-1][5]]),
            "actions": [step[1] for step in steps],
            "rewards": [step[2] for step in steps],
            "terminated": [step[3] for step in steps],
        }
    given = gather(data, problem)
    (one,) = given.episodes
    assert one.states.tolist() == [0, 1, 0, 1, 2, 3, 4, 20]
    assert given.numbering is not None
    assert len(given.numbering["seen"]) == WIDTH  # where it fell has no number
    assert problem.first_start(0.0) in (0, 1)
    assert len(problem.saved()["seen"]) == WIDTH


def test_a_known_danger_is_not_met_again_and_no_crash_loses_what_the_numbers_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {**PLAYERS, "episodes": 40, "seed": 3}
    alone = rf.learn(ledge(), **asked)
    assert alone.realised_resets[-1] == 1  # it falls once, and never again
    data = [FALL[4:], FALL[:4]]  # the middle of the ledge has the first number
    whole = rf.learn(ledge(), **asked, data=data, path=tmp_path / "a.rfrun")
    assert whole.realised_resets[-1] == 0
    assert whole.spec["data"]["resets"] == 1

    with monkeypatch.context() as broken:
        broken.setattr(Ledge, "reset", None)  # before the first round, so that no checkpoint knows a number
        with pytest.raises(EnvironmentFailed):
            rf.learn(ledge(), **asked, data=data, path=tmp_path / "b.rfrun")
    run = rf.learn(ledge(), **asked, resume=True, path=tmp_path / "b.rfrun")
    assert run.realised_resets[-1] == 0
    assert np.array_equal(run.columns["reward"][-10:], whole.columns["reward"][-10:])


def test_a_run_file_is_renumbered(old: rf.Run) -> None:
    assert old.path is not None
    problem = ledge(states=12, horizon=4)
    problem.recorded(np.array([0.3, 0.1], dtype=np.float32), None, False, {})  # place 3 is number 0 here
    given = gather(old, problem)
    found = np.concatenate([one.states[:-1] for one in given.episodes])
    rewards = np.concatenate([one.rewards for one in given.episodes])
    after = np.concatenate([one.states[1:] for one in given.episodes])
    inner = after != 12
    assert inner.all() != (old.realised_resets[-1] > 0)
    assert [place_of(problem, int(s)) / WIDTH for s in after[inner]] == pytest.approx(rewards[inner].tolist())
    assert set(found) <= set(range(WIDTH))
    run = rf.learn(ledge(), **PLAYERS, episodes=20, seed=5, start_from=old)
    assert run.realised_resets[-1] == 0


def test_files_that_do_not_say_what_their_numbers_mean_are_refused(old: rf.Run, tmp_path: Path) -> None:
    other = rf.learn("grid-v0", episodes=2, path=tmp_path / "grid.rfrun")
    for data, sentence in (
        (other, "give a run file of this environment with states=N, or rollouts with their observations"),
        ([FALL, old], "more than 3 distinct observations: allow more .states=6."),
    ):
        with pytest.raises(rf.InvalidInput, match=sentence):
            gather(data, ledge(states=3))
    for name in ("data.npz", "data.parquet"):
        assert main(["transitions", str(old.path), "-o", str(tmp_path / name)]) == 0
        with pytest.raises(
            rf.InvalidInput, match=f"'{name}' does not say what its own are numbers of: give the run file"
        ):
            gather(tmp_path / name, ledge())


def test_what_the_numbers_mean_is_bound_by_the_digest(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    rf.learn(ledge(), **PLAYERS, episodes=2, data=[FALL], path=path)
    ledger = Ledger.reopen(path)
    try:
        known = ledger.data()
    finally:
        ledger.close()
    assert known is not None
    assert known.numbering is not None
    edit(path, "DELETE FROM data WHERE i = -1")
    with pytest.raises(rf.RunError, match="is damaged or was not written by resetfree"):
        rf.learn(ledge(), **PLAYERS, episodes=4, resume=True, path=path)
