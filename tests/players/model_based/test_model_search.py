"""Policy search in a fitted model: its parts against naive ones, and the whole on worlds whose answer is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import resetfree as rf
from resetfree.core import state as saving
from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput, NotCertifiable, ResetFreeError
from resetfree.game.contract import Plan, Round
from resetfree.game.replay_buffer import NO_ACTION
from resetfree.players.model_based.choice_search import (
    FAR,
    ChoiceSearchState,
    FittedModel,
    LinearScores,
    _danger,
    _scaled,
    _unscaled,
    _with_neighbours,
    choose,
    evaluate,
    rollout,
)
from resetfree.players.model_based.model_search import ModelSearch
from resetfree.problems.contract import Episode
from resetfree.problems.stepping import Step, SteppedProblem

PUSH = np.array([[0.0, -0.1], [0.0, 0.0], [0.0, 0.1]])  # what each action adds to (place, speed)
MOVE = np.array([[1.0, 0.1], [0.05, 1.0]])  # place and speed, pushed outwards: left alone, the agent leaves [-1, 1]


class Unstable(SteppedProblem):
    """A linear world: s' = MOVE s + PUSH[a]; the reset is to leave [-1, 1], the reward is 1 - |place|."""

    end_uniforms = 1

    def __init__(self, bounds: float = np.inf) -> None:
        self.name, self.horizon, self.n_actions, self.n_states = "unstable", 40, 3, None
        self.stationary, self.n_transitions, self.end_resets, self.phi, self.xi = True, 40, False, None, None
        self.low, self.high = np.full(2, -bounds), np.full(2, bounds)

    def first_start(self, u: float) -> Floats:
        return np.array([0.4 * u - 0.2, 0.0])

    def step(self, h: int, state: Floats, action: int, u: Floats) -> Step:
        after = MOVE @ state + PUSH[action]
        return Step(after, max(0.0, 1.0 - abs(after[0])), bool(abs(after[0]) > 1))

    def leave(self, state: Floats, reset: bool, u: Floats) -> Floats:
        return self.first_start(u[0]) if reset else state


def uniform(h: int, s: Any) -> Floats:
    return np.full(3, 1.0 / 3.0)


def after_random(player: ModelSearch, episodes: int, seed: int = 0, bounds: float = np.inf) -> ChoiceSearchState:
    """What the player knows after some episodes of random actions."""
    state = player.init(Unstable(bounds), episodes, seed)
    for k, episode in enumerate(random_episodes(episodes, seed, bounds)):
        state = player.update(state, Round(k + 1, episode.start, 0.0, Plan(state.policy, 0.0, 0.0), episode, 0.0, None))
    assert isinstance(state, ChoiceSearchState)
    return state


def random_episodes(episodes: int, seed: int = 0, bounds: float = np.inf) -> Iterator[Episode]:
    """Episodes of random actions."""
    problem, rng = Unstable(bounds), np.random.default_rng(seed)
    start = problem.first_start(rng.random())
    for _ in range(episodes):
        episode = problem.rollout(uniform, start, rng.random(problem.n_uniforms))
        yield episode
        start = episode.next_start


def steady(policy: LinearScores) -> list[int]:
    """The true world under a policy from five starts: how many of 1,000 steps each life lasted."""
    lengths = []
    for place in np.linspace(-0.2, 0.2, 5):
        s, steps = np.array([place, 0.0]), 0
        while steps < 1000 and abs(s[0]) <= 1:
            s = MOVE @ s + PUSH[int(policy(1, s).argmax())]
            steps += 1
        lengths.append(steps)
    return lengths


@pytest.mark.parametrize("waves", [0, 7])
def test_the_model_is_the_least_squares_fit(waves: int) -> None:
    """Both regressions as one augmented least-squares problem each, solved by QR, row by row from the data."""
    player = ModelSearch(waves=waves, reg=0.3)
    state = after_random(player, 6)
    n = state.rows.n
    scaling, model = state.model(n, player)
    inputs, targets, actions = [], [], []
    for j in range(n):
        if state.rows.action[j] == NO_ACTION:
            continue
        z, after = scaling(state.rows.state[j : j + 1])[0], scaling(state.rows.state[j + 1 : j + 2])[0]
        cosines = [np.sqrt(2 / waves) * np.cos(z @ model.wave[:, i] + model.phase[i]) for i in range(waves)]
        inputs.append([1.0, *z, *cosines])
        targets.append([*(after - z), state.rows.reward[j]])
        actions.append(state.rows.action[j])
    x, y, a = np.array(inputs), np.array(targets), np.array(actions)
    ridge = np.diag(np.sqrt([0.03] * 3 + [0.3] * waves))

    def fit(x: Floats, y: Floats) -> Floats:
        filled = np.vstack([x, ridge]), np.vstack([y, np.zeros((len(ridge), 3))])
        return np.asarray(np.linalg.lstsq(*filled, rcond=None)[0])

    shared = fit(x, y)
    for action in range(3):
        mine = a == action
        expected = shared + fit(x[mine], y[mine] - x[mine] @ shared)
        left = y[mine] - x[mine] @ expected
        expected[3:] *= np.sqrt(2 / max(1, waves))  # the kernel's cosines have height 1
        np.testing.assert_allclose(model.coefficient[action], expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(model.spread[action], left[:, :2].std(axis=0), rtol=1e-6, atol=1e-9)


def test_imagined_lives_are_those_of_a_known_linear_world() -> None:
    """Exactly linear dynamics without waves are found: 30 steps ahead, place and speed agree to 1e-4."""
    player = ModelSearch(waves=0, reg=1e-9, caution=0.0)
    state = after_random(player, 10)
    scaling, model = state.model(state.rows.n, player)
    policy = LinearScores(np.array([[1.0, 1.0], [0.0, 0.0], [-1.0, -1.0]]), np.array([-0.05, 0.0, -0.05]))
    theta, s = _scaled(policy, scaling), np.array([0.17, -0.1])
    z = scaling(s[None])[0]
    for _ in range(30):
        a = choose(theta, z)
        assert a == int(policy(1, s).argmax())
        z = z + (np.concatenate([[1.0], z]) @ model.coefficient[a])[:2]
        s = MOVE @ s + PUSH[a]
        np.testing.assert_allclose(z * scaling.scale + scaling.centre, s, atol=1e-4)


def _model(
    rng: np.random.Generator, size: int, dead: int, lived: int, caution: float, spread: float = 0.0
) -> FittedModel:
    coefficient = 0.1 * rng.normal(size=(3, 1 + size + 4, size + 1))
    known = rng.normal(size=(dead + lived if dead else 0, size))
    return FittedModel(
        rng.normal(size=(size, 4)), rng.uniform(size=4), coefficient, np.full((3, size), spread), known, dead,
        -np.ones(size), np.ones(size), np.full(size, -3.0), np.full(size, 3.0), caution,
    )  # fmt: skip


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(0, 5), st.integers(1, 9), st.floats(0.0, 3.0))
def test_danger_is_that_of_the_nearest_known_state(seed: int, size: int, dead: int, lived: int, caution: float) -> None:
    rng = np.random.default_rng(seed)
    model = _model(rng, size, dead, lived, caution)
    for z in 2.0 * rng.normal(size=(20, size)):
        beyond = max(0.0, *(np.maximum(-1.0 - z, z - 1.0) / 2.0))
        expected = min(1.0, caution * beyond)
        if dead and int(np.linalg.norm(model.known - z, axis=1).argmin()) < dead:
            expected = 1.0
        assert _danger(model, z) == pytest.approx(expected, abs=1e-8)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.floats(0.0, 50.0))
def test_a_policy_is_worth_its_imagined_lives(seed: int, size: int, lam: float) -> None:
    """`imagine` and `judge` against a life that is written out in NumPy."""
    rng = np.random.default_rng(seed)
    model = _model(rng, size, 3, 5, 0.3, spread=0.1)
    policies, starts = rng.normal(size=(4, 3, size + 1)), rng.normal(size=(5, size))
    noise, values = rng.normal(size=(5, 12, size)), np.empty(4)
    evaluate(model, policies, starts, noise, lam, values)
    for policy, value in zip(policies, values, strict=True):
        lives = []
        for z, shocks in zip(starts, noise, strict=True):
            alive, earned = 1.0, 0.0
            for shock in shocks:
                a = int((policy[:, :-1] @ z + policy[:, -1]).argmax())
                step = np.concatenate([[1.0], z, np.cos(z @ model.wave + model.phase)]) @ model.coefficient[a]
                z = np.clip(z + step[:-1] + model.spread[a] * shock, -3.0, 3.0)
                earned += alive * min(1.0, max(0.0, step[-1]))
                alive *= 1.0 - _danger(model, z)
            lives.append(earned - lam * (1.0 - alive))
        assert value == pytest.approx(np.mean(lives), abs=1e-4 + 1e-5 * lam)  # lives below GONE are cut


def test_the_reward_and_the_risk_of_a_life_without_danger() -> None:
    """Nothing known to be dangerous, and no fear of the unknown: no risk."""
    model = _model(np.random.default_rng(0), 2, 0, 0, 0.0)
    out = np.empty(2)
    rollout(model, np.ones((3, 3)), np.zeros(2), np.zeros((20, 2)), out)
    assert out[1] == 0.0
    assert 0.0 <= out[0] <= 20.0


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(11, 30))
def test_judges_are_the_dead_and_the_ten_nearest_to_each(seed: int, dead: int, lived: int) -> None:
    rng = np.random.default_rng(seed)
    z, alive = rng.normal(size=(dead, 2)), rng.normal(size=(lived, 2))
    expected = {tuple(alive[i]) for d in z for i in np.argsort(((alive - d) ** 2).sum(axis=1))[:10]}
    found = _with_neighbours(z, alive)
    np.testing.assert_array_equal(found[:dead], z)
    assert {tuple(row) for row in found[dead:]} == expected
    assert len(found) == dead + len(expected)
    assert len(_with_neighbours(z[:0], alive)) == 0


def test_scaling_a_policy_and_back_changes_nothing() -> None:
    player = ModelSearch()
    state = after_random(player, 4)
    scaling, _ = state.model(state.rows.n, player)
    rng = np.random.default_rng(3)
    policy = LinearScores(rng.normal(size=(3, 2)), rng.normal(size=3))
    back = _unscaled(_scaled(policy, scaling), scaling)
    np.testing.assert_allclose(back.weight, policy.weight, rtol=1e-12)
    np.testing.assert_allclose(back.bias, policy.bias, atol=1e-12)


def test_what_bounds_rule_out_is_not_imagined() -> None:
    player = ModelSearch()
    bounded, free = (after_random(player, 4, bounds=bounds) for bounds in (1.5, np.inf))
    scaling, model = bounded.model(bounded.rows.n, player)
    np.testing.assert_allclose(model.least * scaling.scale + scaling.centre, -1.5)
    np.testing.assert_allclose(model.most * scaling.scale + scaling.centre, 1.5)
    _, model = free.model(free.rows.n, player)
    assert (model.least == -FAR).all()
    assert (model.most == FAR).all()


def test_it_keeps_an_unstable_world_in_place() -> None:
    """Left alone or at random the world runs away; the policy found in the model stays for 1,000 true steps."""
    state = after_random(ModelSearch(), 3)
    assert max(steady(LinearScores(np.zeros((3, 2)), np.array([0.0, 1.0, 0.0])))[:2]) < 1000  # no push
    found = state.search(state.rows.n, np.zeros(2), 200.0, ModelSearch())
    assert steady(found) == [1000] * 5


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_it_learns_within_a_few_resets(seed: int) -> None:
    """Uniform play is reset in nearly every one of 60 episodes."""
    run = rf.learn(Unstable(), episodes=60, seed=seed)
    assert run.spec["primal"]["name"] == "model-search"
    assert run.realised_resets[-1] <= 6
    assert run.columns["reset"][-40:].sum() == 0


def test_planning_twice_gives_the_same_and_changes_nothing() -> None:
    player = ModelSearch(population=12, rounds=2)
    state = after_random(player, 4)
    state.stale = True
    before = {key: value.copy() for key, value in saving.dump(state).items()}
    first, second = (player.plan(state, np.array([0.1, 0.0]), 50.0) for _ in range(2))
    np.testing.assert_array_equal(first.policy.weight, second.policy.weight)
    assert (first.v_r, first.v_c) == (second.v_r, second.v_c)
    for key, value in saving.dump(state).items():
        np.testing.assert_array_equal(value, before[key])


def test_a_loaded_state_plans_bit_for_bit_as_the_saved_one() -> None:
    player = ModelSearch(population=12, rounds=2)
    state = after_random(player, 4)
    state.stale = True
    again = player.init(Unstable(), 4, 0)
    saving.replay(again, random_episodes(4))
    saving.load(again, saving.dump(state))
    one, other = (player.plan(kept, np.array([0.1, 0.0]), 50.0) for kept in (state, again))
    np.testing.assert_array_equal(one.policy.weight, other.policy.weight)
    np.testing.assert_array_equal(one.policy.bias, other.policy.bias)
    assert (one.v_r, one.v_c) == (other.v_r, other.v_c)


def test_before_anything_is_known_every_action_is_alike() -> None:
    player = ModelSearch()
    plan = player.plan(player.init(Unstable(), 5, 0), np.zeros(2), 1.0)
    np.testing.assert_allclose(plan.policy(1, np.zeros(2)), 1 / 3)


def test_it_refuses_states_that_are_counted() -> None:
    with pytest.raises(NotCertifiable, match="needs states that are vectors"):
        ModelSearch().init(rf.make("grid-v0").problem(), 5, 0)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("planning", 0), ("caution", -1.0), ("waves", -1), ("bandwidth", 0.0), ("reg", 0.0), ("growth", 1.0),
     ("population", 3), ("rounds", 0), ("starts", -1), ("least", 0)],
)  # fmt: skip
def test_settings_are_refused_with_one_sentence(setting: str, value: float) -> None:
    with pytest.raises(ResetFreeError, match=f"The '{setting}' of model-search") as caught:
        ModelSearch(**{setting: value})  # type: ignore[arg-type]
    assert isinstance(caught.value, InvalidInput)
    assert str(caught.value).count(". ") <= 1
    assert "\n" not in str(caught.value)


POINTS: dict[str, Any] = {"horizon": 12, "reward_range": (-17, 0), "reset_when": "reward<=-9.5"}


@pytest.mark.parametrize("actions", ["box", 3])
def test_by_its_name_alone_it_is_played_as_auto_plays_it(actions: str | int) -> None:
    """The same partner, feedback and settings, for both kinds of actions; and nobody asks for a bound B."""
    named, chosen = (
        rf.learn(rf.from_gym("gym:Pendulum-v1", actions=actions, **POINTS), player, episodes=2, seed=1).spec
        for player in ("model-search", "auto")
    )
    for part in ("primal", "dual", "feedback", "B"):
        assert named[part] == chosen[part]
    assert named["primal"]["settings"]["planning"] == (200 if actions == 3 else 100)
    assert (named["chosen"], named["dual"]["settings"]["C"]) == (None, 200.0)


def test_what_is_set_or_given_is_kept() -> None:
    problem = rf.from_gym("gym:Pendulum-v1", actions="box", **POINTS)
    ours: dict[str, dict[str, Any]] = {"primal": {"planning": 7}, "dual": {"C": 3.0}}
    spec = rf.learn(problem, "model-search", episodes=2, seed=1, settings=ours).spec
    assert (spec["primal"]["settings"]["planning"], spec["primal"]["settings"]["caution"]) == (7, 0.3)
    assert spec["dual"]["settings"]["C"] == 3.0
    spec = rf.learn(problem, ModelSearch(planning=9), episodes=2, seed=1).spec  # it has settings, and gets a partner
    assert (spec["primal"]["settings"]["planning"], spec["primal"]["settings"]["caution"]) == (9, 1.0)
    assert (spec["dual"]["name"], spec["dual"]["settings"]["C"]) == ("constant-penalty", 200.0)
    spec = rf.learn(problem, "model-search", "counting", episodes=2, seed=1).spec
    assert (spec["dual"]["name"], spec["primal"]["settings"]["planning"]) == ("counting", 100)


def test_a_long_episode_of_choices_is_charged_what_it_can_earn() -> None:
    problem = rf.from_gym("gym:CartPole-v1", horizon=300)
    spec = rf.learn(problem, "model-search", episodes=1, seed=1).spec
    assert (spec["primal"]["settings"]["planning"], spec["dual"]["settings"]["C"]) == (300, 300.0)
