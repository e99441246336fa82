"""`learn` loses nothing: whatever ends a run, it goes on bit for bit as if it had never ended."""

import signal
import sqlite3
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.bank import edit, learn, select, stop_at
from tests.killing import run_driver
from tests.runs.chatty import Chatty, Memory, Walk, everything
from tests.runs.forging import forge

import resetfree as rf
from resetfree.game.loop import Game
from resetfree.runs.file import ledger
from resetfree.runs.file.ledger import read

DRIVER = Path(__file__).parent / "kill_driver.py"


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "algorithm 1": ("grid-v0", {}),
    "lagged, optimistic": (
        "random-linear-v0",
        {"dual": "optimistic-gradient", "settings": {"primal": {"lagged": True}}, "feedback": "realised"},
    ),
    "politex, adagrad, contexts": ("contexts-v0", {"primal": "politex", "dual": "adagrad-norm", "feedback": "exact"}),
    "best response, coin": ("thresholds-v0", {"primal": "best-response", "dual": "coin-betting"}),
    "algorithm 1 on a continuum": (
        "continuous-linear-v0",
        {"settings": {"problem": {"dimension": 2, "horizon": 3}}, "feedback": "optimistic"},
    ),
    "greedy on a continuum": ("continuous-linear-v0", {"primal": "greedy-composite", "feedback": "realised"}),
    "continuum": ("continuous-linear-v0", {"primal": "uniform", "dual": "counting", "feedback": "realised"}),
    "no model, starts are arrays": (Walk(), {"primal": Chatty(), "dual": "counting", "feedback": "realised"}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_interrupted_run_goes_on_bit_for_bit(case: str, tmp_path: Path) -> None:
    problem, asked = CASES[case]
    asked = {"episodes": 120, "seed": 3, **asked}
    whole = learn(problem, path=tmp_path / "whole.rfrun", **asked)
    path = tmp_path / "parts.rfrun"
    resume = False
    for k, every in ((1, 2.0), (40, 0.0), (41, 2.0), (90, 2.0)):
        progress = stop_at(k, error=OSError)
        with pytest.raises(OSError):  # noqa: PT011
            learn(problem, path=path, resume=resume, progress=progress, checkpoint_every=every, **asked)
        resume = True
        assert len(rf.load(path)) == k
    run = learn(problem, path=path, resume=True, **asked)
    assert everything(path) == everything(tmp_path / "whole.rfrun")
    assert len(run) == len(whole) == 120
    for name, column in whole.columns.items():
        assert np.array_equal(np.stack(list(run.columns[name])), np.stack(list(column)), equal_nan=name != "s1"), name
    in_memory = learn(problem, **asked)
    assert in_memory.columns["reward"].tobytes() == whole.columns["reward"].tobytes()
    assert in_memory.path is None


@pytest.mark.parametrize("breaks_with", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_half_a_round_is_never_kept(breaks_with: type[BaseException], tmp_path: Path) -> None:
    asked: dict[str, Any] = {"dual": "counting", "feedback": "realised", "episodes": 60}
    learn(Walk(), Chatty(), path=tmp_path / "whole.rfrun", **asked)
    path = tmp_path / "parts.rfrun"
    whole = everything(tmp_path / "whole.rfrun")
    broken = Chatty(breaks_at=30, breaks_with=breaks_with)
    expected = rf.Stopped if breaks_with is KeyboardInterrupt else breaks_with
    with pytest.raises(expected):
        learn(Walk(), broken, path=path, **asked)
    assert len(rf.load(path)) == 29  # what was complete can be read
    # The mended player has other settings, so the file is told that it was the same one.
    name = f"{breaks_with.__module__}.{breaks_with.__qualname__}"

    def mend(text: sqlite3.Connection) -> None:
        (spec,) = text.execute("SELECT json FROM spec").fetchone()
        mended = spec.replace('"breaks_at": 30', '"breaks_at": -1').replace(name, "builtins.RuntimeError")
        text.execute("UPDATE spec SET json = ?", (mended,))

    forge(path, mend)
    learn(Walk(), Chatty(), path=path, resume=True, **asked)
    assert everything(path) == whole


def interrupt_at(k: int) -> Callable[[Any, rf.Round], None]:
    """Ctrl-C in this round."""
    return lambda game, this: signal.raise_signal(signal.SIGINT) if this.k == k else None


def test_ctrl_c_ends_after_the_round_saves_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(rf.Stopped, match=r"Stopped after 17 of 50 episodes, saved in") as stopped:
        learn("grid-v0", episodes=50, path=path, progress=interrupt_at(17))
    assert signal.getsignal(signal.SIGINT) is before
    assert len(stopped.value.run) == 17
    assert read(path).k == 17
    learn("grid-v0", episodes=50, path=path, resume=True)
    learn("grid-v0", episodes=50, path=tmp_path / "whole.rfrun")
    assert everything(path) == everything(tmp_path / "whole.rfrun")
    with pytest.raises(rf.Stopped, match=r"Stopped after 17 of 50 episodes\.$"):
        learn("grid-v0", episodes=50, progress=interrupt_at(17))


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    def twice(game: Game, this: rf.Round) -> None:
        if this.k == 9:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("must not be reached")

    with pytest.raises(rf.Stopped, match="Stopped after 9 of 50"):
        learn("grid-v0", episodes=50, path=tmp_path / "a.rfrun", progress=twice)
    assert read(tmp_path / "a.rfrun").k == 9


def test_ctrl_c_in_the_last_round_is_too_late() -> None:
    assert len(learn("grid-v0", episodes=20, progress=interrupt_at(20))) == 20


def kill_test(tmp_path: Path, episodes: int, kills: int, seed: int) -> None:
    path = tmp_path / "killed.rfrun"
    assert run_driver(DRIVER, path, episodes, kills, seed) == str(kills)
    learn("grid-v0", episodes=episodes, seed=5, path=tmp_path / "whole.rfrun")
    assert everything(path) == everything(tmp_path / "whole.rfrun")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["killed.rfrun", "whole.rfrun"]


def test_a_run_killed_at_random_moments_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    kill_test(tmp_path, episodes=3_000, kills=6, seed=0)


@pytest.mark.slow
def test_a_run_killed_a_hundred_times_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    kill_test(tmp_path, episodes=30_000, kills=100, seed=1)


def test_memory_does_not_grow_with_the_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "BATCH", 256)  # what may be held in memory is then far less than the rounds would take
    used: list[int] = []
    tracemalloc.start()
    try:
        learn(
            "edge-one-action-v0", "uniform", "counting", episodes=20_000, path=tmp_path / "a.rfrun",
            progress=lambda game, this: used.append(tracemalloc.get_traced_memory()[0]) if this.k % 16 == 0 else None,
        )  # fmt: skip
    finally:
        tracemalloc.stop()
    early, late = max(used[:600]), max(used[600:])
    assert late - early < 250_000  # 10,000 rounds take 4,000,000


def test_a_finished_run_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    run = learn("grid-v0", episodes=40, path=path)
    before = everything(path)
    again = learn("grid-v0", episodes=40, path=path, resume=True)
    assert everything(path) == before
    assert again.spec == run.spec
    assert again.seconds == run.seconds
    assert np.array_equal(again.regret, run.regret)


def test_what_differs_is_refused_with_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    asked: dict[str, Any] = {"problem": "grid-v0", "episodes": 40, "path": path, "B": 5.0}
    with pytest.raises(OSError):  # noqa: PT011
        learn(progress=stop_at(20, error=OSError), **asked)
    for change, sentence in (
        ({"episodes": 30}, "has 40 episodes, of which .* can be resumed for 40 or more, not for 30"),
        ({"seed": 1}, "was made with another seed: 0, not 1"),
        ({"B": 6.0}, r"another primal player: linear-ucb with B=5\.0, not B=6\.0"),
        ({"primal": "uniform"}, "another primal player: linear-ucb, not uniform"),
        ({"dual": "counting"}, "another dual player: projected-gradient, not counting"),
        ({"settings": {"primal": {"scale": 0.5}}}, r"linear-ucb with scale=0\.1, not scale=0\.5"),
        ({"feedback": "realised"}, "another feedback: optimistic, not realised"),
        ({"problem": rf.make("grid-v0", slip=0.1)}, r"holds a run of another problem \('grid-v0'"),
        ({"problem": "pits-v0"}, "holds a run of another problem"),
    ):
        with pytest.raises(rf.RunError, match=sentence):
            learn(resume=True, **{**asked, **change})
    with pytest.raises(rf.RunError, match="exists"):
        learn(**asked)
    assert len(learn(resume=True, **asked)) == 40
    assert len(learn(overwrite=True, **{**asked, "episodes": 30})) == 30


def test_a_checkpoint_of_another_version_of_a_player_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    with pytest.raises(OSError):  # noqa: PT011
        learn("grid-v0", episodes=40, path=path, progress=stop_at(20, error=OSError))
    for column, value in (("rng", "{}"), ("rng", '{"bit_generator": "MT19937"}'), ("rng", "7"), ("k", 999)):
        ((old,),) = select(path, f"SELECT {column} FROM checkpoints")
        edit(path, f"UPDATE checkpoints SET {column} = ?", values=(value,))
        with pytest.raises(rf.RunError, match=r"does not fit|is damaged"):
            learn("grid-v0", episodes=40, path=path, resume=True)
        edit(path, f"UPDATE checkpoints SET {column} = ?", values=(old,))
    assert len(learn("grid-v0", episodes=40, path=path, resume=True)) == 40


def test_the_spec_says_all_that_was_asked(tmp_path: Path) -> None:
    run = learn("grid-v0", episodes=10, seed=7, settings={"problem": {"slip": 0.1}, "primal": {"scale": 0.3}})
    spec = run.spec
    assert (spec["problem"], spec["problem_options"], spec["episodes"], spec["seed"]) == (
        "grid-v0",
        {"slip": 0.1},
        10,
        7,
    )
    assert spec["primal"]["name"] == "linear-ucb"
    assert spec["primal"]["settings"]["scale"] == 0.3
    assert spec["B_source"] == "oracle"
    assert spec["B"] == rf.check(rf.make("grid-v0", slip=0.1))["dual class"].detail["B"]
    assert spec["primal"]["settings"]["B"] == spec["dual"]["settings"]["B"] == spec["B"]
    assert set(spec["statements"]) == {"primal", "dual"}
    assert spec["statements"]["primal"]["covered"] is False
    assert (spec["horizon"], spec["n_states"], spec["n_actions"]) == (8, 12, 5)
    given = learn("grid-v0", episodes=1, B=4.5)
    assert (given.spec["B"], given.spec["B_source"]) == (4.5, "given")
    one = learn("grid-v0", episodes=1, settings={"dual": {"B": 3}})  # what one player knows, the other is told
    assert one.spec["primal"]["settings"]["B"] == 3.0
    assert learn("grid-v0", "uniform", "counting", episodes=1).spec["B"] is None


def test_problems_come_in_any_form() -> None:
    mdp = rf.make("grid-v0")
    runs = [learn(problem, "uniform", "counting", episodes=30) for problem in ("grid-v0", mdp, mdp.problem())]
    assert len({run.columns["reward"].tobytes() for run in runs}) == 1
    assert len({run.spec["fingerprint"] for run in runs}) == 1
    assert all(run.mdp is not None for run in runs)
    continuous = rf.make("continuous-linear-v0")
    runs = [learn(p, "uniform", "counting", episodes=30) for p in (continuous, continuous.problem())]
    assert len({run.spec["fingerprint"] for run in runs}) == 1
    other = learn(rf.make("continuous-linear-v0", seed=1), "uniform", "counting", episodes=30)
    assert other.spec["fingerprint"] != runs[0].spec["fingerprint"]
    assert runs[0].mdp is None
    assert runs[0].columns["s1"].dtype == np.float64
    with pytest.raises(rf.NotCertifiable, match="has no oracle"):
        _ = runs[0].regret


def test_load_makes_registered_problems_again_and_imports_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.rfrun"
    run = learn("pits-v0", "uniform", "counting", episodes=20, path=path, settings={"problem": {"n": 4}})
    loaded = rf.load(path)
    assert loaded.mdp is not None
    assert np.array_equal(loaded.regret, run.regret)
    assert loaded.seconds == run.seconds

    (tmp_path / "plant_of_a_stranger.py").write_text(
        "import resetfree as rf\nprint('boom')\ndef make(horizon=4):\n    return rf.make('grid-v0', horizon=horizon)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    other = tmp_path / "b.rfrun"
    name = "plant_of_a_stranger:make"
    learn(name, "uniform", "counting", episodes=5, path=other, settings={"problem": {"horizon": 3}})
    del sys.modules["plant_of_a_stranger"]
    assert rf.load(other).mdp is None
    assert "plant_of_a_stranger" not in sys.modules
    again = rf.load(other, problem=name)
    assert again.mdp is not None
    assert again.mdp.horizon == 3
    with pytest.raises(rf.RunError, match="holds a run of another problem"):
        rf.load(other, problem=rf.make("grid-v0"))

    for options in ('{"n": "many"}', '{"n": 5}', '{"nothing": 1}', '{"n": 4, "slip": [1]}'):
        edit(path, "UPDATE spec SET json = json_set(json, '$.problem_options', json(?))", values=(options,))
        assert rf.load(path).mdp is None


def test_own_models_are_known_again(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    mdp = rf.make("grid-v0").replace(name="mine")
    run = learn(mdp, "uniform", "counting", episodes=5, path=path)
    assert np.array_equal(rf.load(path).regret, run.regret)  # its table is in the file
    assert rf.load(path, mdp).mdp is mdp


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"problem": "grid-v1"}, rf.UnknownName, "Did you mean 'grid-v0'"),
    ({"problem": 7}, rf.InvalidInput, "Got int instead"),
    ({"problem": rf.make("grid-v0"), "settings": {"problem": {"slip": 0.1}}}, rf.InvalidInput, "given by name"),
    ({"primal": "linear-ucd"}, rf.UnknownName, "Did you mean 'linear-ucb'"),
    ({"primal": Memory(np.zeros(1))}, rf.InvalidInput, "Got Memory instead"),
    ({"episodes": 0}, rf.InvalidInput, "'episodes' of a run must be an integer from 1 to 1000000000000. Got 0"),
    ({"episodes": True}, rf.InvalidInput, "Got True instead"),
    ({"seed": -1}, rf.InvalidInput, "'seed' of a run must be an integer from 0. Got -1"),
    ({"feedback": "loud"}, rf.UnknownName, "There is no feedback 'loud'"),
    ({"settings": {"primals": {}}}, rf.UnknownName, "Did you mean 'primal'"),
    ({"settings": {"primal": {"scales": 1}}}, rf.UnknownName, "Did you mean 'scale'"),
    ({"settings": {"primal": {"scale": "wide"}}}, rf.InvalidInput, "instead"),
    (
        {"settings": {"primal": {"lagged": 1}}},
        rf.InvalidInput,
        "'lagged' of linear-ucb must be True or False",
    ),
    ({"primal": Chatty(), "settings": {"primal": {"b": 1}}}, rf.UnknownName, "setting of primal player 'chatty' 'b'"),
    ({"B": -1.0}, rf.InvalidInput, "must be a finite number that is not negative. Got -1"),
    ({"B": 3.0, "primal": "uniform", "dual": "counting"}, rf.InvalidInput, "No player here takes the bound B"),
    ({"problem": "gym:CartPole-v1", "primal": "uniform"}, rf.InvalidInput, "'projected-gradient' needs a bound B"),
    ({"problem": "gym:CartPole-v1", "B": 1.0}, rf.NotCertifiable, "needs a finite problem"),
    ({"problem": "gym:CartPole-v1", "dual": "counting"}, rf.NotCertifiable, "needs a finite problem"),
    (
        {"problem": "continuous-linear-v0", "primal": "uniform", "dual": "counting", "feedback": "exact"},
        rf.NotCertifiable,
        "'exact' needs an oracle",
    ),
    ({"resume": True}, rf.InvalidInput, "Only a run in a file"),
    ({"resume": True, "overwrite": True, "path": "x"}, rf.InvalidInput, "either resumed or overwritten"),
    ({"resume": True, "path": "no_such.rfrun"}, rf.RunError, "There is no run file 'no_such.rfrun'"),
]


@pytest.mark.parametrize(("asked", "kind", "sentence"), BAD, ids=[str(list(bad[0].items())) for bad in BAD])
def test_bad_input_is_one_sentence(
    asked: dict[str, Any],
    kind: type[Exception],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=sentence):
        learn(**{"problem": "grid-v0", "episodes": 3, "path": None, **asked})
    assert not list(tmp_path.iterdir())


def test_a_penalty_that_is_set_needs_no_bound() -> None:
    asked: dict[str, Any] = {"episodes": 3, "settings": {"dual": {"C": 2.0}}}
    run = learn("gym:CartPole-v1", "uniform", "constant-penalty", **asked)
    assert run.columns["lam"].tolist() == [2.0] * 3
    assert run.spec["B"] is None
    known = learn("continuous-linear-v0", "uniform", "constant-penalty", **asked)
    assert known.columns["lam"].tolist() == [2.0] * 3
    assert (known.spec["B_source"], known.spec["B"] > 10) == ("oracle", True)


@dataclass
class Secret:
    box: NDArray[Any]


@dataclass(frozen=True)
class Hoarder(Chatty):
    """Keeps what no checkpoint can hold."""

    name: ClassVar[str] = "hoarder"

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Any:
        return Secret(np.array([object()]))


def test_a_run_that_cannot_begin_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    with pytest.raises(rf.InvalidInput, match=r"Got object in 'primal\.box' instead"):
        learn(Walk(), Hoarder(), "counting", path=path)
    with pytest.raises(RuntimeError, match="half a round"):
        learn(Walk(), Chatty(breaks_at=1), "counting", path=path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("problem", "way"),
    [
        ("gym:CartPole-v1", r'or as settings=\{"problem": \{"horizon": \.\.\.\}\}'),
        (rf.from_gym("gym:CartPole-v1"), r"as in rf\.from_gym\(env, horizon=\.\.\.\)\. Got"),
    ],
    ids=["name", "problem"],
)
def test_an_option_of_the_problem_is_told_where_it_goes(problem: Any, way: str) -> None:
    options: Any = {"horizon": 50}
    with pytest.raises(
        rf.InvalidInput, match=rf"The 'horizon' is part of the problem, and no argument of learn: .*{way}"
    ):
        rf.learn(problem, **options)
    with pytest.raises(rf.UnknownName, match="Did you mean 'episodes'"):
        rf.learn(problem, **{"episode": 5})  # type: ignore[arg-type]


def test_the_original_return_is_always_a_number(tmp_path: Path) -> None:
    run = rf.learn("grid-v0", "ucbvi", episodes=5, path=tmp_path / "a.rfrun")
    assert np.array_equal(run.columns["original_return"], run.columns["reward"])
    edit(tmp_path / "a.rfrun", "UPDATE rounds SET original_return = NULL")  # as in files from before
    assert np.array_equal(read(tmp_path / "a.rfrun").columns["original_return"], run.columns["reward"])
