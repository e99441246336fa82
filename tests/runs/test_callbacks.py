"""Callbacks and budgets: they end a run cleanly, say why, and change nothing in what is played."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from tests.show.cli import commands

import resetfree as rf
from resetfree.runs.file.ledger import read
from resetfree.runs.file.newfile import Ending

Columns = dict[str, Any]
LAKE = {"problem": {"horizon": 20, "is_slippery": True}}


def same(one: Columns, other: Columns) -> None:
    assert one.keys() == other.keys()
    for name, column in one.items():
        np.testing.assert_array_equal(column, other[name][: len(column)])


def test_true_or_a_text_ends_the_run_saved_and_resumable(tmp_path: Path) -> None:
    whole = rf.learn("grid-v0", episodes=60, seed=2)
    for i, (answer, why) in enumerate(((True, "the callback '<lambda>' ended it"), ("good  enough", "good enough"))):
        file = tmp_path / f"{i}.rfrun"
        run = rf.learn("grid-v0", episodes=60, seed=2, path=file, callbacks=[lambda now: now.k == 25 and answer])  # noqa: B023
        assert run.ended == rf.load(file).ended == Ending(25, "callback", why)
        assert len(run) == 25
        on = rf.learn("grid-v0", episodes=60, seed=2, path=file, resume=True)
        assert on.ended is None
        same(on.columns, whole.columns)


def test_only_these_answers_are_taken(tmp_path: Path) -> None:
    for bad in (7, "", [1]):
        with pytest.raises(rf.InvalidInput, match="True or a reason to end the run"):
            rf.learn("grid-v0", episodes=5, callbacks=[lambda now: bad], path=tmp_path / "a.rfrun", overwrite=True)  # noqa: B023
    assert len(rf.learn("grid-v0", episodes=5, callbacks=[lambda now: np.bool_(False)])) == 5
    refused: tuple[Any, ...] = (3, "print", [1], print, range(10**12), np.array(None))
    for bad in refused:
        with pytest.raises(rf.InvalidInput, match="'callbacks' of learn must be a list of functions"):
            rf.learn("grid-v0", episodes=5, callbacks=bad)


def test_rounds_are_saved_when_a_callback_raises(tmp_path: Path) -> None:
    def failing(now: rf.Session) -> None:
        if now.k == 7:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        rf.learn("grid-v0", episodes=20, path=tmp_path / "a.rfrun", callbacks=[failing])
    assert len(rf.load(tmp_path / "a.rfrun")) == 7

    def other(now: rf.Session) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine") as raised:  # also when resumed: the file is not to blame
        rf.learn("grid-v0", episodes=20, path=tmp_path / "a.rfrun", resume=True, callbacks=[other])
    assert raised.value.__notes__ == ["Raised in the callback 'other', after episode 8."]


class Watcher:
    """Notes when it is called."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def begin(self, session: rf.Session) -> None:
        self.seen.append(("begin", session.k, session.resumed))

    def __call__(self, session: rf.Session) -> None:
        assert session.round.k == session.row["k"] == session.k
        if session.k == 3:
            session.save()
            assert session.path is not None
            assert read(session.path).k == 3  # a checkpoint of now, readable by others
            assert len(session.columns()["k"]) == 3
        self.seen.append(session.k)

    def end(self, session: rf.Session) -> None:
        self.seen.append(("end", session.k))


def test_a_callback_begins_and_ends_and_saves_now(tmp_path: Path) -> None:
    one = Watcher()
    asked: dict[str, Any] = {"episodes": 5, "path": tmp_path / "a.rfrun", "checkpoint_every": 1e9}
    rf.learn("grid-v0", callbacks=[one, lambda now: now.k == 4], **asked)
    rf.learn("grid-v0", callbacks=[one], resume=True, **asked)
    assert one.seen == [("begin", 0, 0), 1, 2, 3, 4, ("end", 4), ("begin", 4, 4), 5, ("end", 5)]


@pytest.mark.parametrize(("limit", "column"), [("steps", "steps"), ("max_resets", "reset")])
def test_a_budget_ends_the_run_and_a_larger_one_goes_on(limit: str, column: str, tmp_path: Path) -> None:
    whole = rf.learn("grid-v0", episodes=80, seed=3)
    asked: dict[str, Any] = {"episodes": 80, "seed": 3, "path": tmp_path / "a.rfrun"}
    for most, resume in ((3, False), (3, True), (6, True)):
        run = rf.learn("grid-v0", **{**asked, "resume": resume, limit: most})
        spent = np.cumsum(whole.columns[column])
        assert len(run) == int(np.argmax(spent >= most)) + 1
        assert run.ended is not None
        assert run.ended.kind == limit
    same(rf.learn("grid-v0", resume=True, **asked).columns, whole.columns)


def test_time_is_a_budget_over_all_sessions(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"episodes": 10**6, "path": tmp_path / "a.rfrun"}
    first = rf.learn("grid-v0", seconds=0.2, **asked)
    assert first.ended is not None
    assert (first.ended.kind, 0 < len(first) < 10**6) == ("seconds", True)
    again = rf.learn("grid-v0", seconds=0.2, resume=True, **asked)
    assert len(again) == len(first)
    assert len(rf.learn("grid-v0", seconds=first.seconds + 0.3, resume=True, **asked)) > len(first)


def test_budgets_are_checked_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(rf.InvalidInput, match=r"at most episodes x horizon = 80. Got 81 .* at least episodes=11"):
        rf.learn("grid-v0", episodes=10, steps=81)
    for name, bad in (("steps", 0), ("steps", 1.5), ("seconds", 0), ("seconds", "long"), ("seconds", float("nan"))):
        with pytest.raises(rf.InvalidInput, match=f"'{name}' of a run must be"):
            rf.learn("grid-v0", path=tmp_path / "a.rfrun", **{name: bad})  # type: ignore[arg-type]
    assert not (tmp_path / "a.rfrun").exists()


def test_the_command_line_has_the_budgets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("run", "grid-v0", "--episodes", "50", "--out", str(tmp_path / "a.rfrun"), "--json")
    status, out, err = commands.run(capsys, *words, "--steps", "40")
    assert (status, '"stopped_because": "steps"' in out) == (0, True)
    assert "Reached the limit of 4" in err
    assert "--resume" in err
    status, out, err = commands.run(capsys, *words, "--resume", "--seconds", "1e-9")
    assert (status, '"stopped_because": "seconds"' in out) == (0, True)
    data = commands.run_json(capsys, *words[:-1], "--resume")
    assert (data["episodes_played"], data["stopped_because"], data["ended"]) == (50, None, None)


def test_stop_when_knows_its_columns_and_its_aim() -> None:
    run = rf.learn("grid-v0", episodes=500, seed=2, callbacks=[rf.StopWhen("reward", at_least=2.3, at_most=9, over=20)])
    means = np.convolve(run.columns["reward"], np.ones(20) / 20, "valid")
    assert means[-1] >= 2.3 > means[:-1].max()
    with pytest.raises(rf.UnknownName, match="Did you mean 'reward'"):
        rf.StopWhen("rewards", at_least=1)
    with pytest.raises(rf.InvalidInput, match="give at_least="):
        rf.StopWhen("reward")
    with pytest.raises(rf.InvalidInput, match="'over' of StopWhen must be an integer from 1 to"):
        rf.StopWhen("reward", at_least=1, over=10**30)
    with pytest.raises(rf.InvalidInput, match="must be a list of functions"):
        rf.learn("grid-v0", episodes=5, callbacks=[rf.StopWhen])
    with pytest.raises(rf.InvalidInput, match="'progress' of learn must be a function"):
        rf.learn("grid-v0", episodes=5, progress=dict)  # type: ignore[arg-type]


@pytest.mark.parametrize("primal", ["auto", "linear-ucb", "rlsvi", "ucbvi", "politex"])
def test_evaluations_on_a_copy_change_nothing(primal: str, tmp_path: Path) -> None:
    plain = rf.learn("grid-v0", primal, episodes=60, seed=5, path=tmp_path / "a.rfrun")
    watch = rf.EvaluateEvery(7, episodes=5)
    run = rf.learn("grid-v0", primal, episodes=60, seed=5, path=tmp_path / "b.rfrun", callbacks=[watch])
    same(run.columns, plain.columns)
    assert [k for k, _ in watch.results] == list(range(7, 60, 7))


class Global(gym.Env[Any, Any]):
    """Draws from the random numbers that all share, as careless environments do."""

    observation_space = gym.spaces.Box(-10.0, 10.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.x = 0.0
        return np.array([self.x], dtype=np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.x = float(np.clip(self.x + action - 0.5 + np.random.normal(), -9, 9))  # noqa: NPY002
        fell = abs(self.x) > 5
        return np.array([self.x], dtype=np.float32), float(not fell), fell, False, {}


def made() -> Any:
    np.random.seed(1)  # noqa: NPY002
    return rf.from_gym(Global(), horizon=10, reward_range=(0, 1), reset_when="terminated")


def test_evaluations_of_an_environment_are_on_an_environment_of_their_own() -> None:
    watch = rf.EvaluateEvery(4, episodes=3)
    asked: dict[str, Any] = {"episodes": 12, "seed": 1, "settings": {"dual": {"C": 5.0}}}
    plain = rf.learn(made(), "stored-linear", "constant-penalty", **asked)
    run = rf.learn(made(), "stored-linear", "constant-penalty", callbacks=[watch], **asked)
    same(run.columns, plain.columns)
    assert run.interventions[-1].k == plain.interventions[-1].k
    by_name = rf.EvaluateEvery(4, episodes=3)
    asked = {"episodes": 12, "seed": 1, "settings": LAKE}
    same(rf.learn("FrozenLake-v1", callbacks=[by_name], **asked).columns, rf.learn("FrozenLake-v1", **asked).columns)
    assert len(watch.results) == len(by_name.results) == 3


def test_a_good_evaluation_ends_the_run_and_another_place_may_be_named() -> None:
    watch = rf.EvaluateEvery(20, episodes=10, on=rf.make("grid-v0", slip=0.0), stop_at=0.1)
    run = rf.learn("grid-v0", episodes=100, seed=8, callbacks=[watch])
    assert run.ended is not None
    assert run.ended.why.startswith("the evaluation earned")
    assert watch.best[0] == len(run)


def test_a_machine_whose_resets_a_person_performs_is_not_copied(tmp_path: Path) -> None:
    file = tmp_path / "a.rfrun"
    person = rf.OperatorReset(lambda request: "done")
    with pytest.raises(rf.InvalidInput, match=r"performed by an operator, so it is not copied: .* on="):
        rf.learn("FrozenLake-v1", path=file, operator=person, callbacks=[rf.EvaluateEvery(5)], settings=LAKE)
    assert not file.exists()
