"""A reset commits rows and no checkpoint; who goes on is fed the rounds since, and knows what it would have known."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.bank import stop_at
from tests.killing import run_driver
from tests.runs.chatty import Chatty, Walk, everything
from tests.runs.kill_driver import CASES

import resetfree as rf
from resetfree.core import state
from resetfree.game.loop import play
from resetfree.problems import State, find_world
from resetfree.problems.gym.observations import Numbered
from resetfree.problems.operators import Request
from resetfree.runs.file import runfile
from resetfree.runs.file.ledger import read
from resetfree.runs.file.newfile import Contents
from resetfree.runs.file.recorded import ReplayedProblem
from resetfree.runs.file.runfile import connect, read_checkpoint, read_played, read_problem
from resetfree.runs.request import Who
from resetfree.runs.setup import prepare

DRIVER = Path(__file__).parent / "kill_driver.py"


def test_resets_write_rows_and_few_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round is in the file when somebody is asked, and what is written at a reset does not grow with the run."""
    path, usual = tmp_path / "a.rfrun", runfile.write_checkpoint
    written: list[int] = []
    asked: list[int] = []

    def write(connection: Any, checkpoint: Any) -> None:
        written.append(checkpoint.k)
        usual(connection, checkpoint)

    def ask(request: Request) -> str:
        asked.append(len(read(path).columns["k"]))
        return ""

    monkeypatch.setattr(runfile, "write_checkpoint", write)
    run = rf.learn(
        "gym:CartPole-v1", "uniform", "constant-penalty", episodes=100, path=path, operator=rf.OperatorReset(ask),
        settings={"problem": {"horizon": 30}, "dual": {"C": 1.0}}, checkpoint_every=1000.0,
    )  # fmt: skip
    assert run.realised_resets[-1] > 60
    assert asked == [0, *(np.flatnonzero(run.columns["reset"]) + 1)[: len(asked) - 1]]
    assert len(asked) >= run.realised_resets[-1]
    assert len(written) < 12  # each after twice the time of the one before, and one at the end
    assert written[-1] == 100


@dataclass
class Once:
    k: int = 0
    more: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Counting(rf.PrimalPlayer[Once]):
    """Counts how often it is asked for a fresh state."""

    name: ClassVar[str] = "counting-inits"
    inits: ClassVar[list[str]] = []
    B: float | None = None
    grows: bool = False

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Once:
        self.inits.append(problem.name)
        return Once()

    def plan(self, state: Once, s1: State, lam: float) -> rf.Plan:
        return rf.Plan(lambda h, s: np.full(3, 1 / 3), 0.0, 0.0)

    def update(self, state: Once, round: rf.Round) -> Once:
        state.k += 1
        if self.grows:
            state.more.append(state.k)
        return state


def test_init_runs_once(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"dual": "counting", "episodes": 9, "path": tmp_path / "a.rfrun", "feedback": "realised"}
    Counting.inits.clear()
    rf.learn(Walk(), Counting(), max_resets=1, **asked)
    assert len(Counting.inits) == 1
    rf.learn(Walk(), Counting(), resume=True, **asked)
    assert len(Counting.inits) == 2


def test_a_state_that_changes_its_structure_is_refused_while_it_is_played(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    with pytest.raises(rf.InvalidInput, match=r"must keep its structure\. Got 'primal\.more\.0' in round"):
        rf.learn(Walk(), Counting(grows=True), "counting", episodes=50, path=path, checkpoint_every=0.0)
    assert len(read(path).columns["k"]) >= 1


class Wearing(Walk):
    """Moves less with every episode: it keeps its own state, and can be put back where it was."""

    name = "wearing"

    def __init__(self) -> None:
        self.worn = np.zeros(1)

    def rollout(self, policy: Any, start: State, u: NDArray[np.float64]) -> rf.Episode:
        found = super().rollout(policy, start, u)
        self.worn += 1.0
        end = found.next_start / (1 + self.worn[0])
        return replace(found, states=np.stack([start, end]), next_start=end)

    def saved(self) -> dict[str, NDArray[Any]]:
        return {"worn": self.worn}  # the array itself: whoever keeps it must copy it

    def restore(self, saved: dict[str, NDArray[Any]]) -> None:
        self.worn[:] = saved["worn"]


def test_a_problem_that_keeps_its_own_state_goes_on_bit_for_bit(tmp_path: Path) -> None:
    """However it ends: between two rounds, or in the middle of one when the problem is ahead of the record."""
    asked: dict[str, Any] = {"dual": "counting", "feedback": "realised", "episodes": 60}
    rf.learn(Wearing(), Breaking(), path=tmp_path / "whole.rfrun", **asked)
    path = tmp_path / "parts.rfrun"
    for k, every in ((5, 0.0), (6, 1000.0), (20, 0.0), (31, 1000.0)):
        Breaking.at = k
        with pytest.raises(RuntimeError, match="half a round"):
            rf.learn(Wearing(), Breaking(), path=path, resume=path.exists(), checkpoint_every=every, **asked)
        assert len(read(path).columns["k"]) < k
    Breaking.at = 0

    with pytest.raises(OSError):  # noqa: PT011
        rf.learn(Wearing(), Breaking(), path=path, resume=True, progress=stop_at(40, error=OSError), **asked)
    rf.learn(Wearing(), Breaking(), path=path, resume=True, **asked)
    assert everything(path) == everything(tmp_path / "whole.rfrun")


@dataclass(frozen=True)
class Breaking(Chatty):
    """Breaks in the middle of an update, without this being one of its settings."""

    name: ClassVar[str] = "breaking"
    at: ClassVar[int] = 0

    def update(self, state: Any, round: rf.Round) -> Any:
        if round.k == self.at:
            raise RuntimeError("half a round")
        return super().update(state, round)


def test_random_numbers_go_on_where_sessions_without_a_checkpoint_of_their_own_ended(tmp_path: Path) -> None:
    """Each session begins with a reset, which draws a number, and breaks before its first checkpoint is due."""
    path = tmp_path / "a.rfrun"
    asked: dict[str, Any] = {
        "dual": "counting", "feedback": "realised", "episodes": 30, "seed": 4, "path": path, "checkpoint_every": 1000.0,
    }  # fmt: skip
    for k in (4, 9, 10, 17, 0):
        Breaking.at = k
        problem = rf.from_gym("CartPole-v1", horizon=8)
        if k:
            with pytest.raises(RuntimeError, match="half a round"):
                rf.learn(problem, Breaking(), resume=path.exists(), **asked)
            assert len(read(path).columns["k"]) == k - 1
        else:
            rf.learn(problem, Breaking(), resume=True, **asked)
    resets, rng = {one.k for one in read(path).interventions}, np.random.default_rng(4)
    assert {0, 3, 8, 9, 16} <= resets
    for played in range(30):
        if played in resets:
            rng.random()
        rng.random(8)
    connection = connect(path, "ro")
    found = read_checkpoint(connection, path)
    connection.close()
    assert found is not None
    assert found.rng == rng.bit_generator.state


def test_a_start_of_minus_zero_comes_back_as_such(tmp_path: Path) -> None:
    """SQLite keeps no -0.0, and whoever divides by a start would notice."""

    class Back(rf.make("continuous-linear-v0").problem().__class__):  # type: ignore[misc]
        def rollout(self, policy: Any, start: State, u: NDArray[np.float64]) -> rf.Episode:
            played: rf.Episode = super().rollout(policy, 0.5, u)
            return replace(played, next_start=-0.0)

    seen: list[float] = []

    @dataclass(frozen=True)
    class Looking(Counting):
        def update(self, state: Once, round: rf.Round) -> Once:
            seen.append(float(np.copysign(1.0, round.s1)))
            if len(seen) == 4:
                raise RuntimeError("half a round")
            return super().update(state, round)

    problem = Back(rf.make("continuous-linear-v0"))
    asked: dict[str, Any] = {"dual": "counting", "feedback": "realised", "episodes": 5, "path": tmp_path / "a.rfrun"}
    with pytest.raises(RuntimeError):
        rf.learn(problem, Looking(), checkpoint_every=1000.0, **asked)
    rf.learn(problem, Looking(), resume=True, **asked)
    assert seen == [1.0, -1.0, -1.0, -1.0, *[1.0, -1.0, -1.0], -1.0, -1.0]


def fed_again(path: Path, case: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What a checkpoint would hold of two fresh players who see every recorded round: arrays, and random numbers."""
    asked, contents = {**CASES[case]}, read(path)
    given, spec = asked.pop("settings", {}), contents.spec
    world = find_world(asked["problem"], given.get("problem"))
    who = Who(asked["primal"], spec["dual"]["name"], feedback=spec["feedback"], settings=given)
    setup = prepare(world, who, episodes=spec["episodes"], seed=spec["seed"])
    game, resets = setup.game, {one.k for one in contents.interventions}
    connection = connect(path, "ro")
    fed = ReplayedProblem(world.problem, read_played(connection, path, 1, spec["episodes"]))
    for this in play(fed, setup.primal, setup.dual, game, episodes=spec["episodes"], feedback=spec["feedback"]):
        if this.k in resets:  # a session may have begun here, with a reset
            game.s1 = None
    connection.close()
    arrays = state.dump(game.primal, "primal.") | state.dump(game.dual, "dual.")
    return arrays, dict(game.rng.bit_generator.state)


def killed(tmp_path: Path, case: str, episodes: int, kills: int, seed: int = 3) -> Path:
    path = tmp_path / "killed.rfrun"
    assert run_driver(DRIVER, path, episodes, kills, seed, case) == str(kills)
    return path


def check_killed(path: Path, case: str, episodes: int, kills: int) -> None:
    contents = read(path)
    assert contents.fit.whole
    assert contents.columns["k"].tolist() == list(range(1, episodes + 1))
    assert sum(one.why == "resume" for one in contents.interventions) >= 1
    connection = connect(path, "ro")
    checkpoint = read_checkpoint(connection, path)
    assert checkpoint is not None
    expected, rng = fed_again(path, case)
    assert checkpoint.rng == rng
    assert checkpoint.arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert checkpoint.arrays[name].tobytes() == array.tobytes(), name
    if case == "numbered observations":
        check_numbers(list(read_played(connection, path, 1, episodes)), read_problem(connection, path)["seen"])
    if case == "rewards outside":
        check_units(contents, (-5.0, 0.0))
    if case == "rewards learned":
        first = next(read_played(connection, path, 1, 1)).episode
        low, high = (float(end) for end in read_problem(connection, path)["units"])
        assert (float(first.rewards.min()), high) == (0.0, 1.0)  # the lowest reward of the first episode
        check_units(contents, (low, high), learned=True)
    connection.close()


def check_numbers(played: list[Any], seen: NDArray[np.uint8]) -> None:
    """Every step is one that the lake can take: a number stands for the same observation in all sessions."""
    lake = gymnasium.make("FrozenLake-v1", map_name="8x8", is_slippery=True)
    reader = Numbered(64)
    numbers = [reader(observation) for observation in range(64)]
    meaning = {row.tobytes(): number for row, number in zip(reader.seen, numbers, strict=True)}
    told = [meaning[row.tobytes()] for row in seen]
    table: Any = lake.unwrapped
    steps = 0
    for one in played:
        states, actions = one.episode.states.tolist(), one.episode.actions.tolist()
        for s, a, after in zip(states, actions, states[1:], strict=False):
            if after < 64:  # the last number stands for a reset
                steps += 1
                possible = {to for _, to, _, _ in table.P[told[s]][a]}
                assert told[after] in possible or (told[after] == 0 and 63 in possible)  # a goal restarts for free
    assert steps > 100


def check_units(contents: Contents, units: tuple[float, float], learned: bool = False) -> None:
    """Every session scaled by the same range, and rewards came that lie outside of it.

    learned: where the range was learned, the reward of a step that leads to a reset counts as the end that it exceeds.
    """
    (low, high), c = units, contents.columns
    cut = c["reward"] * (high - low) + c["steps"] * low - c["original_return"]
    assert np.allclose(cut[~c["reset"]] if learned else cut, 0.0, atol=1e-9)
    assert (cut >= -1e-9).all()
    assert any(one.tuned for one in contents.notes)


SMALL = {
    **{"stored rows": 150, "a search": 60, "a search in a box": 60, "numbered observations": 200},
    **{"rewards outside": 150, "rewards learned": 60},
}
LONG = {"a search in a box", "rewards learned"}  # seconds of planning: killed often only


@pytest.mark.parametrize("case", [case for case in SMALL if case not in LONG])
def test_a_run_on_an_environment_survives_being_killed(case: str, tmp_path: Path) -> None:
    check_killed(killed(tmp_path, case, SMALL[case], 4), case, SMALL[case], 4)


@pytest.mark.slow
@pytest.mark.parametrize("case", SMALL)
def test_a_run_on_an_environment_survives_being_killed_often(case: str, tmp_path: Path) -> None:
    episodes = 4 * SMALL[case]
    check_killed(killed(tmp_path, case, episodes, 30), case, episodes, 30)


Make = Callable[[], rf.Episode]
EPISODES: dict[str, Make] = {
    "numbers": lambda: rf.Episode(np.array([3, 70000, -2]), np.array([0, 1]), np.array([0.1, np.nan]), True, 3),
    "vectors": lambda: rf.Episode(np.random.default_rng(0).random((4, 5)), np.arange(3), np.zeros(3), False, None),
    "continuous actions": lambda: rf.Episode(np.zeros((3, 2)), np.array([[0.5, -1], [1, 2]]), np.ones(2), False, None),
    "single precision": lambda: rf.Episode(np.zeros((3, 2), dtype="f4"), np.arange(2), np.ones(2), False, None),
    "the other end first": lambda: rf.Episode(np.arange(3, dtype=">i4"), np.arange(2), np.ones(2), False, 1),
    "nothing": lambda: rf.Episode(np.array([5]), np.empty(0, dtype=np.int64), np.empty(0), False, 5),
    "words": lambda: rf.Episode(np.array(["left", "on"]), np.array([2]), np.array([1.0]), False, "on"),
}


def test_episodes_of_any_kind_come_back_bit_for_bit(tmp_path: Path) -> None:
    from resetfree.runs.file.recorded import EpisodeBuffer, unpacked

    waiting = EpisodeBuffer()
    for make in EPISODES.values():
        waiting.add(make())
    together = list(zip(*waiting.take(), strict=True))
    for name, (form, data) in zip(EPISODES, together, strict=True):
        waiting.add(EPISODES[name]())
        ((alone, packed),) = zip(*waiting.take(), strict=True)
        for found in (unpacked(form, data), unpacked(alone, packed)):
            for now, part in zip(found, ("states", "actions", "rewards"), strict=True):
                then = getattr(EPISODES[name](), part)
                assert now.dtype == then.dtype.newbyteorder("<"), name
                assert now.shape == then.shape
                assert now.tobytes() == then.astype(now.dtype).tobytes()
    assert len(together[0][1]) > len(packed)
    with pytest.raises(rf.InvalidInput, match="Got an array of object instead"):
        waiting.add(replace(EPISODES["numbers"](), states=np.array([None, 1])))


@pytest.mark.parametrize(
    ("form", "data"),
    [
        ("", b""), ("f8 1;f8 1", bytes(16)), ("f8 1;f8 1;f8 1", bytes(23)), ("f8 1;f8 1;f8 1", bytes(25)),
        ("f8 1000000000000000;f8 0;f8 0", b""), ("O8 1;f8 0;f8 0", bytes(8)), ("f8:u1 1;f8 0;f8 0", bytes(1)),
        ("S2000000000 0;f8 0;f8 0", b""), ("f8" + " 1" * 40 + ";f8 0;f8 0", bytes(8)), (b"f8", b""), ("f8", None),
        ("f8 1;f8 1;f8 1;f8 1", bytes(32)), ("i8:f4 1;f8 0;f8 0", bytes(4)), ("f8 -1;f8 0;f8 0", bytes(8)),
    ],
)  # fmt: skip
def test_transitions_that_are_none_are_a_value_error(form: Any, data: Any) -> None:
    from resetfree.runs.file.recorded import unpacked

    with pytest.raises(ValueError, match=r"transitions|array"):
        unpacked(form, data)
