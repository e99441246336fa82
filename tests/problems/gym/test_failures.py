"""What an environment cannot mean ends the run with one sentence, and the rounds before it are kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.problems.gym.reaching import even

import resetfree as rf
from resetfree.core import EnvironmentFailed


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (np.array([0.0, np.nan]), "observed nan in entry 1 of its observation"),
        (np.array([-np.inf, 0.0]), "observed -inf in entry 0 of its observation"),
        (np.zeros(3), "observed 3 numbers, and its observation space has 2"),
        ("far", "observed what does not fit its observation space: ValueError: could not convert string"),
        (RuntimeError("motor\nstalled"), "raised RuntimeError: motor stalled"),
    ],
)
def test_a_step_that_cannot_be_is_named(line: Any, wrong: Any, sentence: str) -> None:
    env = line(length=100)
    env.fail[27] = wrong
    problem = rf.from_gym(env, horizon=10)
    with pytest.raises(EnvironmentFailed) as caught:
        list(rf.simulate(problem, even, 5, seed=0))
    said = str(caught.value)
    assert said.startswith(f"At step 7 of an episode (step 27 in all), the environment 'Line' {sentence}")
    assert said.endswith(".")
    assert "\n" not in said
    if isinstance(wrong, RuntimeError):
        assert caught.value.__cause__ is wrong


def test_a_reset_that_fails_is_named(line: Any) -> None:
    env = line()
    problem = rf.from_gym(env)
    env.reset = lambda **kwargs: (np.full(2, np.nan), {})
    with pytest.raises(EnvironmentFailed, match=r"^At a reset, the environment 'Line' observed nan in entry 0"):
        problem.perform_reset(0.5, "start")
    env.reset = lambda **kwargs: 1 / 0
    with pytest.raises(EnvironmentFailed, match=r"^At a reset, .* raised ZeroDivisionError: division by zero\.$"):
        problem.perform_reset(0.5, "start")


def test_discrete_observations_outside_the_space_are_named(line: Any) -> None:
    for wrong, sentence in (
        (21, "observed 21, which is not in"),
        (2.5, "observed 2.5"),
        (None, "is not a whole number"),
    ):
        env = line(observation="discrete", length=100)
        env.fail[3] = "x" if wrong is None else wrong
        with pytest.raises(EnvironmentFailed, match=sentence):
            list(rf.simulate(rf.from_gym(env, horizon=10), even, 1))


def test_rewards_must_be_finite_numbers_and_ranges_two_of_them(line: Any) -> None:
    for wrong in (np.nan, "much", None):
        env = line(length=100)
        env.rewards[4] = wrong
        with pytest.raises(
            EnvironmentFailed, match=r"^At step 4 .* gave the reward .*, which is not a (finite )?number"
        ):
            list(rf.simulate(rf.from_gym(env, horizon=10), even, 1))
    for bad in ((1, 0), (0, np.inf), 3, ("a", "b"), (1, 2, 3)):
        with pytest.raises(rf.InvalidInput, match="'reward_range' of 'Line' must be two finite numbers"):
            rf.from_gym(line(), reward_range=bad)  # type: ignore[arg-type]


def test_functions_of_the_user_that_raise_are_named(line: Any) -> None:
    for options, sentence in (
        ({"reset_when": lambda o, r, t, i: i["nothing"]}, "could not be classified: its 'reset_when' raised KeyError"),
        ({"reset_when": lambda o, r, t, i: None}, "'reset_when' must return True or False, and returned None"),
        ({"reward": lambda o, r, t, i: 1 / 0}, "its 'reward' raised ZeroDivisionError"),
        ({"reward": lambda o, r, t, i: np.nan}, "gave the reward nan"),
    ):
        with pytest.raises(EnvironmentFailed, match=sentence):
            list(rf.simulate(rf.from_gym(line(), **options), even, 1))
    lengths = iter([2, 2, 1])
    problem = rf.from_gym(line(), features=lambda o: np.ones(next(lengths)))
    with pytest.raises(EnvironmentFailed, match="observed 1 numbers, and its observation space has 2"):
        list(rf.simulate(problem, even, 1))


def test_after_a_failure_the_environment_stands_nowhere(line: Any) -> None:
    env = line(length=100)
    env.fail[5] = RuntimeError("stalled")
    problem = rf.from_gym(env, horizon=10)
    start = problem.first_start(0.5)
    with pytest.raises(EnvironmentFailed):
        problem.rollout(even, start, np.full(10, 0.5))
    with pytest.raises(rf.InvalidInput, match="none before a reset"):
        problem.rollout(even, start, np.full(10, 0.5))
    assert len(problem.rollout(even, problem.perform_reset(0.1, "resume"), np.full(10, 0.5)).actions) == 10


@pytest.mark.parametrize("wrong", [RuntimeError("motor stalled"), 99], ids=["raises", "observes what cannot be"])
def test_a_run_is_saved_where_the_environment_fails_and_goes_on(line: Any, tmp_path: Path, wrong: Any) -> None:
    file = tmp_path / "plant.rfrun"
    env = line(observation="discrete")
    env.fail[207] = wrong
    given = {"primal": "uniform", "episodes": 40, "seed": 4, "path": file, "B": 1.0}
    with pytest.raises(EnvironmentFailed, match=r"step 207 in all\), the environment 'Line' (raised|observed)"):
        rf.learn(rf.from_gym(env, horizon=10), **given)  # type: ignore[arg-type]
    kept = rf.load(file)
    assert 0 < len(kept) < 40
    assert kept.columns["steps"].sum() < 207
    other = line(observation="discrete")
    run = rf.learn(rf.from_gym(other, horizon=10), resume=True, **given)  # type: ignore[arg-type]
    assert len(run) == 40
    for name in ("s1", "reward", "reset", "steps"):
        assert np.array_equal(run.columns[name][: len(kept)], kept.columns[name])
    whys = [one.why for one in run.interventions]
    assert whys.count("start") == whys.count("resume") == 1
    resets = int(run.realised_resets[-1]) - int(run.columns["reset"][-1])
    assert len(other.reset_calls) + len(env.reset_calls) == len(whys)
    # A reset event in the round before the failure leads to one reset, and the resumed session asks for its own.
    assert resets <= len(whys) - 1 <= resets + 1


@dataclass
class Nothing:
    """The state of a player that learns nothing."""

    k: int = 0


@dataclass(frozen=True)
class Balance(rf.PrimalPlayer[Nothing]):
    """Goes back to the middle."""

    name: ClassVar[str] = "balance"

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Nothing:
        return Nothing()

    def plan(self, state: Nothing, s1: Any, lam: float) -> rf.Plan:
        return rf.Plan(lambda h, s: np.array([0.9, 0.1]) if s[0] > 0 else np.array([0.1, 0.9]), 0.0, 0.0)

    def update(self, state: Nothing, round: rf.Round) -> Nothing:
        state.k += 1
        return state


def test_a_run_on_vectors_is_saved_where_an_observation_is_nan_and_goes_on(line: Any, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "primal": Balance(), "dual": "constant-penalty", "settings": {"dual": {"C": 1.0}}, "episodes": 20, "seed": 4,
        "path": tmp_path / "plant.rfrun", "feedback": "realised", "B": 1.0,
    }  # fmt: skip
    env = line(length=100)
    env.fail[57] = np.array([np.nan, 0.0])
    with pytest.raises(
        EnvironmentFailed, match=r"^At step 7 of an episode \(step 57 in all\), .* observed nan in entry 0"
    ):
        rf.learn(rf.from_gym(env, horizon=10, reward_range=(-1, 1)), **given)
    kept = rf.load(given["path"])
    assert len(kept) == 5
    run = rf.learn(rf.from_gym(line(length=100), horizon=10, reward_range=(-1, 1)), resume=True, **given)
    assert len(run) == 20
    assert run.columns["original_return"].tolist() == [10.0] * 20
    assert run.columns["reward"].tolist() == [10.0] * 20  # 1 is the upper end of the range
    assert all(np.array_equal(a, b) for a, b in zip(run.columns["s1"][:5], kept.columns["s1"], strict=True))
    assert [(one.k, one.why) for one in run.interventions] == [(0, "start"), (5, "resume")]


def test_another_environment_is_another_problem(line: Any, tmp_path: Path) -> None:
    file = tmp_path / "plant.rfrun"
    given = {"primal": "uniform", "episodes": 5, "seed": 4, "path": file, "B": 1.0}
    rf.learn(rf.from_gym("gym:FrozenLake-v1", horizon=10), **given)  # type: ignore[arg-type]
    for other in (
        rf.from_gym("gym:FrozenLake-v1", horizon=10, is_slippery=False),
        rf.from_gym("gym:FrozenLake-v1", horizon=10, reset_when="terminated and observation!=15"),
        rf.from_gym("gym:FrozenLake-v1", horizon=10, reward_range=(0, 2)),
        rf.from_gym("gym:FrozenLake-v1", horizon=10, table=False),
    ):
        with pytest.raises(rf.RunError, match="holds a run of another problem"):
            rf.learn(other, resume=True, **given)  # type: ignore[arg-type]
    assert len(rf.load(file, rf.from_gym("gym:FrozenLake-v1", horizon=10))) == 5
    assert len(rf.load(file, rf.from_gym("gym:FrozenLake-v1", horizon=10)).regret) == 5


def test_who_performs_resets_may_change_while_a_run_is_interrupted(line: Any, tmp_path: Path) -> None:
    file = tmp_path / "plant.rfrun"
    env = line(observation="discrete")
    env.fail[107] = RuntimeError("motor stalled")
    given: dict[str, Any] = {"primal": "uniform", "episodes": 30, "seed": 4, "path": file, "B": 1.0}
    with pytest.raises(EnvironmentFailed):
        rf.learn(rf.from_gym(env, horizon=10), **given)
    person = rf.OperatorReset(by=lambda request: f"after {request.why}", who="Ada")
    problem = rf.from_gym(line(observation="discrete"), horizon=10)
    run = rf.learn(problem, resume=True, operator=person, **given)
    whos = [one.who for one in run.interventions]
    assert whos[0] == "environment"
    assert whos[-1] == "Ada"
    assert {one.detail.split("; ")[-1] for one in run.interventions if one.who == "Ada"} == {
        "after resume",
        "after reset",
    }
    other = rf.from_gym(line(observation="discrete"), horizon=10, operator=person)
    assert len(rf.load(file, other)) == 30


def test_environments_of_several_agents_get_one_sentence_that_helps() -> None:
    class Parallel:
        """As those of PettingZoo, whose spaces are functions of an agent."""

        possible_agents = ["hunter", "hare"]  # noqa: RUF012

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            return {}, {}

        def step(self, actions: Any) -> Any:
            return {}, {}, {}, {}, {}

    said = (
        r"^'Parallel' must be a gymnasium.Env with one agent. Got a PettingZoo environment \(hunter, hare\) instead: ch"
    )
    for ask in (rf.from_gym, rf.learn):
        with pytest.raises(rf.InvalidInput, match=said):
            ask(Parallel())
