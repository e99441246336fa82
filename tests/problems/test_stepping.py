"""The loop that plays every problem of steps: who gets which chance, when it ends, and what it takes for a policy."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import resetfree as rf
from resetfree.players.model_based.model_search import LinearScores
from resetfree.problems import ActionSpace
from resetfree.problems.finite.tabular_policy import LazyPolicy, TabularPolicy, as_policy
from resetfree.problems.stepping import FunctionPolicy, Step, SteppedProblem, playable
from resetfree.use import DeployedPolicy
from resetfree.use.predictor import Sensor


class Recorder(SteppedProblem):
    """Writes down what it is given; the state counts the steps, and a given one is a reset state."""

    step_uniforms, end_uniforms = 2, 2

    def __init__(self, actions: ActionSpace, n_states: int | None = None, dies_at: int = 99) -> None:
        self.name, self.horizon, self.n_states, self.actions = "recorder", 3, n_states, actions
        self.stationary, self.n_transitions, self.end_resets, self.phi, self.xi = True, 3, False, None, None
        self.dies_at = dies_at
        self.told: list[Any] = []

    def first_start(self, u: float) -> int:
        return 0

    def step(self, h: int, state: int, action: Any, u: Any) -> Step:
        self.told.append((h, state, action, u.tolist()))
        return Step(state + 1, 0.25 * h, state + 1 == self.dies_at)

    def leave(self, state: int, reset: bool, u: Any) -> int:
        self.told.append((state, reset, u.tolist()))
        return 0 if reset else state


@dataclass
class Echo(rf.Policy):
    """The chance that it is given."""

    def act(self, h: int, s: Any, u: Any) -> Any:
        return np.array(u)


def test_every_step_gets_the_chance_that_is_its_own() -> None:
    """Blocks of H numbers: two for an action of two numbers, two for the step; two are left for the end."""
    problem = Recorder(rf.Box([0.0, 0.0], [1.0, 1.0]))
    assert problem.n_uniforms == 14
    u = np.arange(14) / 100
    episode = problem.rollout(Echo(), 0, u)
    assert [(h, s, v) for h, s, _, v in problem.told[:3]] == [
        (1, 0, [0.06, 0.09]), (2, 1, [0.07, 0.1]), (3, 2, [0.08, 0.11])
    ]  # fmt: skip
    assert problem.told[3] == (3, False, [0.12, 0.13])
    assert episode.actions.tolist() == [[0.0, 0.03], [0.01, 0.04], [0.02, 0.05]]
    assert episode.states.tolist() == [0, 1, 2, 3]
    assert episode.rewards.tolist() == [0.25, 0.5, 0.75]
    assert (episode.reset, episode.next_start) == (False, 3)
    assert np.isnan(episode.original_return)
    with pytest.raises(rf.InvalidInput, match=r"needs 14 uniforms\. Got 13"):
        problem.rollout(Echo(), 0, u[1:])


def test_a_reset_ends_the_episode() -> None:
    problem = Recorder(rf.Choices(4), dies_at=2)
    episode = problem.rollout(lambda h, s: np.full(4, 0.25), 0, np.full(11, 0.3))
    assert (episode.reset, episode.reset_at, episode.next_start) == (True, 3, 0)
    assert episode.actions.tolist() == [1, 1]
    assert episode.actions.dtype == np.int64
    assert problem.told[-1] == (2, True, [0.3, 0.3])


def test_every_form_of_a_policy_plays_the_same_episode() -> None:
    rng = np.random.default_rng(4)
    rows, u = rng.dirichlet(np.ones(3), size=(3, 4)), rng.random(11)

    class Lazy(LazyPolicy):
        def rows(self, h: int, states: NDArray[np.int64]) -> Any:
            return rows[h, states]

    forms = (rows, TabularPolicy(rows), lambda h, s: rows[h - 1, s], Lazy((3, 4, 3)))
    played = [Recorder(rf.Choices(3), n_states=4).rollout(form, 0, u).actions.tolist() for form in forms]
    assert played == [played[0]] * 4
    assert len(set(played[0])) > 1
    mdp = rf.make("coin-chain-v0")
    table = np.tile(rng.dirichlet(np.ones(mdp.n_actions), size=mdp.n_states), (mdp.horizon, 1, 1))
    function = FunctionPolicy(lambda h, s: table[h - 1, s], mdp.name, mdp.n_actions)
    assert np.array_equal(as_policy(function, mdp), table)
    again = [
        next(rf.simulate(mdp.problem(), form, 1, seed=2)).states for form in (table, function, TabularPolicy(table))
    ]
    assert all(np.array_equal(one, again[0]) for one in again)


def test_what_is_no_policy_here_is_refused() -> None:
    vectors, box = Recorder(rf.Choices(2)), Recorder(rf.Box(0.0, 1.0))
    for problem, policy, why in (
        (vectors, np.zeros((3, 2)), "must be a function"),
        (vectors, None, "Got NoneType"),
        (box, lambda h, s: [1.0], "must be a Policy whose 'act' gives 1 number in"),
        (box, TabularPolicy(np.ones((1, 1, 1))), "Got TabularPolicy"),
    ):
        with pytest.raises(rf.InvalidInput, match=why):
            playable(policy, problem)
    for wrong in (2, -1, 0.0, None, np.array([1])):

        class Wrong(rf.Policy):
            def act(self, h: int, s: Any, u: Any, wrong: Any = wrong) -> Any:
                return wrong

        with pytest.raises(rf.InvalidInput, match=r"An action of 'recorder' must be one of 0..1. Got .* at step 1"):
            vectors.rollout(Wrong(), 0, np.zeros(11))
    assert not vectors.told


def test_policies_are_compared_as_values() -> None:
    rng = np.random.default_rng(0)
    one = LinearScores(rng.normal(size=(3, 2)), rng.normal(size=3))
    other = LinearScores(one.weight.copy(), one.bias.copy())
    assert one.same(other)
    other.bias[0] += 1e-16 + abs(other.bias[0]) * 1e-15
    assert not one.same(other)
    assert not one.same(TabularPolicy(np.ones((1, 1, 1))))
    assert Echo().same(Echo()) is False  # nobody knows what code does
    assert one.stationary


def test_the_mode_is_the_policy_without_chance() -> None:
    table = TabularPolicy(np.array([[[0.2, 0.5, 0.3]], [[0.4, 0.4, 0.2]]]))
    assert [table.mode(h, 0) for h in (1, 2)] == [1, 0]
    assert np.array_equal(table.modal().probabilities, np.eye(3)[[1, 0]][:, None])
    assert Echo().mode(1, 0) == 0.5
    assert {float(Echo().modal().act(1, 0, u)) for u in (0.1, 0.9)} == {0.5}


def test_a_problem_says_its_actions_in_either_way() -> None:
    class Counted(rf.Problem):
        name, n_actions = "counted", 5
        n_uniforms = 0

        def first_start(self, u: float) -> Any: ...
        def rollout(self, policy: Any, start: Any, u: Any) -> Any: ...

    class Silent(Counted):
        n_actions = rf.Problem.n_actions

    assert isinstance(Counted().actions, rf.Choices)
    assert Counted().actions.n == 5
    assert Recorder(rf.Choices(7)).n_actions == 7
    with pytest.raises(
        rf.InvalidInput, match=r"The actions of 'recorder' are 1 number in \[0, 1\] and cannot be counted"
    ):
        _ = Recorder(rf.Box(0.0, 1.0)).n_actions
    with pytest.raises(NotImplementedError, match="Silent must set 'actions'"):
        _ = Silent().actions


def test_a_problem_of_steps_is_no_environment() -> None:
    """Both have a `step`; one that has a `reset` of its own is a problem all the same."""

    class Own(Recorder):
        reset = "what it likes"

    policy = DeployedPolicy(
        TabularPolicy(np.eye(2)[None, [0, 1, 0, 1]]), Sensor("number", count=4), np.arange(2), 3, {}
    )
    assert policy.evaluate(Own(rf.Choices(2), n_states=4), episodes=2).steps == 6
