"""Guarded linear: what its features call dangerous, by hand; the bound on every path; fewer resets than without it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.players.elimination.test_elimination_bound import KINDS, small

import resetfree as rf
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.elimination import EliminationState
from resetfree.players.linear.guarded import RIDGE, RISK, WIDTH, GuardedLinear, GuardedState
from resetfree.players.linear.ridge import expect
from resetfree.theory.assumptions import unsafe_pairs

TEMPTED = ConstantPenalty(C=0.0)  # without a penalty only the guard holds it back


def took(player: GuardedLinear, state: GuardedState, states: list[int], actions: list[int], *, reset: bool) -> None:
    episode = rf.Episode(np.array(states), np.array(actions), np.zeros(len(actions)), reset, next_start=0)
    player.update(state, rf.Round(1, states[0], 0.0, rf.Plan(None, 0.0, 0.0), episode, float(reset), None))


def test_danger_by_hand() -> None:
    """Two features: the first falls. After one fall and n survivals of the other, sums of squares say the bounds."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = transition[0, 1, 2] = transition[1, 0, 0] = transition[1, 1, 2] = 1.0
    phi = np.zeros((3, 2, 2))
    phi[:2, 0, 1] = phi[0, 1, 0] = 1.0
    phi[1, 1] = 0.6, 0.8
    mdp = rf.FiniteMDP(transition, np.zeros((3, 2)), [False, False, True], 2, phi=phi, start=[0.5, 0.5, 0.0])
    player = GuardedLinear(pooled=True)
    state = player.init(mdp.problem(), 10, 0)
    assert state.may().all()
    took(player, state, [0, 2], [1], reset=True)
    for n in range(3):
        fell, lives = 1.0 / (1.0 + RIDGE), 1.0 / (n + RIDGE)  # of the first feature; the inverse of the second
        mean, square = 0.6 * fell, 0.36 * fell + 0.64 * lives
        assert state.dangerous()[0].tolist() == [False, True]
        assert state.dangerous()[1, 1] == (mean - WIDTH * np.sqrt(square) > RISK) == (n > 0)
        took(player, state, [0, 0, 0][:2], [0], reset=False)
    assert state.may()[0, 1].tolist() == [True, False]  # though the pair itself was never tried


def naive_plan(state: GuardedState, scale: float, lam: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The plan by its definition, from the samples' normal equations: policy [H, S], and V [S] at step 1."""
    data, may = state.data, state.may()
    horizon, n_states, n_actions = data.shape
    policy, v = np.zeros((horizon, n_states), dtype=np.int64), np.zeros(n_states)
    zeros = np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        ends = data.known | (data.known_last & (h == data.n_transitions - 1))
        v = np.where(ends, -lam, v)
        q, unused = np.empty((2, n_states * n_actions))
        expect(data.regression, data.phi, data.layer_of_step[h], v, zeros, q, unused)
        width = np.sqrt(data.regression.width2[data.layer_of_step[h]])
        q = np.clip(q + scale * horizon * width, -lam, horizon - h).reshape(n_states, n_actions)
        sets = may[h if len(may) > 1 else 0]
        q = np.where(sets | ~sets.any(axis=1, keepdims=True), q, -np.inf)
        v = q.max(axis=1)
        tied = np.where(q >= v[:, None] - 1e-9, width.reshape(q.shape), -1.0)
        policy[h] = tied.argmax(axis=1)
    return policy, v


@pytest.mark.parametrize("name", ["random-linear-v0", "drifting-v0"])
def test_plans_are_those_of_the_definition(name: str) -> None:
    mdp = rf.make(name, n_states=8, n_actions=3, d=4, horizon=4)
    player = GuardedLinear(pooled=mdp.stationary)
    state, rng, held = player.init(mdp.problem(), 50, 0), np.random.default_rng(0), 0
    for k in range(40):
        plan, lam = player.plan(state, 0, 2.0), 2.0
        policy, v = naive_plan(state, player.scale, lam)
        np.testing.assert_array_equal(plan.policy, policy)
        assert plan.v_r == pytest.approx(np.clip(v[0], 0, 4))
        held += int((~state.may()).sum())
        states, actions = [int(rng.integers(7))], list[int]()
        while len(actions) < 4 and states[-1] != 7:
            actions.append(int(rng.integers(3)))
            rows, chances = mdp.transition.row(0 if mdp.stationary else len(actions) - 1, states[-1], actions[-1])
            states.append(int(rng.choice(rows, p=chances)))
        took(player, state, states, actions, reset=states[-1] == 7)
        assert state.data.k == k + 1
    assert held > 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_path_exceeds_the_bound(kind: str) -> None:
    fallen = 0
    for seed in range(8):
        mdp = small(kind, 3, seed)
        rng = np.random.default_rng(seed)
        wrong = rng.dirichlet(np.ones(3), size=(mdp.n_states, mdp.n_actions))  # danger is not linear in these
        run = rf.learn(mdp.replace(phi=wrong), GuardedLinear(pooled=mdp.stationary), TEMPTED, episodes=60, seed=seed)
        assert run.realised_resets[-1] <= unsafe_pairs(mdp)
        assert not [c.claim for c in run.certificates() if c.status == "proved" and not c.holds]
        fallen += int(run.realised_resets[-1])
    assert fallen > 0


@dataclass
class Forgetful(EliminationState):
    """A mutant that rules nothing out."""

    def learn(self, round: rf.Round) -> bool:
        """Count only."""
        self.data.learn(round)
        return False


def test_a_guard_that_forgets_breaks_the_bound() -> None:
    mdp = rf.make("grid-v0")  # without features: elimination alone guards
    player = GuardedLinear(pooled=True)

    class Mutant(GuardedLinear):
        def init(self, problem: Any, episodes: int, seed: int) -> GuardedState:
            state = super().init(problem, episodes, seed)
            state.sets = Forgetful(state.sets.data, state.sets.allowed, state.sets.endless)
            return state

    resets = [
        int(rf.learn(mdp, one, TEMPTED, episodes=150, seed=1).realised_resets[-1])
        for one in (player, Mutant(pooled=True))
    ]
    assert resets[0] <= unsafe_pairs(mdp) < resets[1]


def test_what_is_too_large_for_tables_is_refused() -> None:
    with pytest.raises(rf.InvalidInput, match=r"small enough for tables.*play linear-ucb"):
        GuardedLinear(pooled=True).init(rf.make("pits-v0", n=150).problem(), 10, 0)
