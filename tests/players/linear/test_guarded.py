"""Linear players inside what elimination allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.players.elimination.test_elimination_bound import KINDS, small

import resetfree as rf
from resetfree.core.errors import InvalidInput
from resetfree.game.contract import Plan, Round
from resetfree.game.loop import begin, play
from resetfree.players import make_player
from resetfree.players.dual.penalties import ConstantPenalty
from resetfree.players.elimination.elimination_sets import EliminationState
from resetfree.players.linear.guarded import RIDGE, RISK, WIDTH, GuardedLinear, GuardedState
from resetfree.players.linear.ridge import expect
from resetfree.problems.contract import Episode
from resetfree.problems.finite.safety import feasibility, unsafe_pairs
from resetfree.theory.certificates import RATES, certify

TEMPTED = ConstantPenalty(C=0.0)  # without a penalty only the guard holds it back


def took(player: GuardedLinear, state: GuardedState, states: list[int], actions: list[int], *, reset: bool) -> None:
    episode = Episode(np.array(states), np.array(actions), np.zeros(len(actions)), reset, next_start=0)
    player.update(state, Round(1, states[0], 0.0, Plan(None, 0.0, 0.0), episode, float(reset), None))


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

    def learn(self, round: Round) -> bool:
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


def test_danger_is_learned_once_for_all_steps() -> None:
    """Seeds are fixed, so that this either always holds or never does."""
    resets = {
        name: sum(
            int(rf.learn("drifting-v0", name, "constant-penalty", episodes=150, seed=s).realised_resets[-1])
            for s in range(3)
        )
        for name in ("linear-ucb", "guarded-linear")
    }
    assert resets["guarded-linear"] < resets["linear-ucb"]


def test_what_is_too_large_for_tables_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"small enough for tables.*play linear-ucb"):
        GuardedLinear(pooled=True).init(rf.make("pits-v0", n=150).problem(), 10, 0)


def taken_by_the_best(mdp: rf.FiniteMDP, policy: np.ndarray, s1: int) -> list[tuple[int, int, int]]:
    """The triples (h, s, a) that pi* can take from a start, h from 0, where an action moves."""
    found, here, t = [], {s1}, mdp.transition
    for h in range(mdp.n_transitions):
        after: set[int] = set()
        for s in here:
            a = int(policy[h, s])
            found.append((h, s, a))
            pair = ((0 if t.stationary else h) * mdp.n_states + s) * mdp.n_actions + a
            after |= set(t.indices[t.indptr[pair] : t.indptr[pair + 1]].tolist())
        here = after
    return found


@pytest.mark.parametrize("boundary", ["physical", "literal"])
@pytest.mark.parametrize("draw", range(7))
def test_resets_are_at_most_unsafe_pairs_and_the_best_policy_is_never_excluded(draw: int, boundary: str) -> None:
    """With a multiplier that changes all the time; V_c is 0 at every start, whatever was seen."""
    mdp = rf.make("generated-v0", draw=draw).replace(boundary=boundary, phi=None)
    if not feasibility(mdp).holds:
        pytest.skip("some start has no reset-free policy")
    problem, best = mdp.problem(), rf.solve(mdp)
    primal, dual = make_player("primal", "algorithm1-safe"), make_player("dual", "constant-penalty", {"C": 3.0})
    game, falls = begin(problem, primal, dual, episodes=150, seed=draw), 0
    for this in play(problem, primal, dual, game, episodes=150):
        falls += this.episode.reset
        assert this.plan.v_c == 0.0
        assert this.plan.upper >= best.value[this.s1] - 1e-9  # fails with probability 0.05 a problem
        allowed = game.primal.allowed
        for h, s, a in taken_by_the_best(mdp, best.policy, int(game.s1)):
            assert allowed[min(h, len(allowed) - 1), s, a]
    assert falls <= unsafe_pairs(mdp, per_step=primal.keeps_steps_apart(problem))


def test_the_last_action_of_a_literal_episode_is_not_excluded() -> None:
    """It moves nothing, and pi* takes the pair that would fall: the reward is there."""
    P = np.zeros((2, 2, 2))
    P[0] = [[1, 0], [0, 1]]
    reward, reset, first = np.array([[0.0, 1.0], [0, 0]]), np.array([False, True]), np.array([1.0, 0])
    mdp = rf.FiniteMDP(P, reward, reset, 3, start=first, restart=first, boundary="literal")
    run = rf.learn(mdp, "algorithm1-safe", episodes=400, seed=0)
    assert run.realised_resets[-1] == 1
    assert rf.solve(mdp).value[0] == 1.0
    assert run.columns["v_r"][-1] > 0.9
    assert not [c.claim for c in certify(run) if c.status == "proved" and not c.holds]


def test_both_theorems_are_certified_against_a_learning_dual_player() -> None:
    run = rf.learn("grid-v0", "algorithm1-safe", "adagrad-norm", episodes=400, seed=3, feedback="realised")
    found = {c.claim: c for c in certify(run)}
    rates = [found[claim] for claim in RATES]
    assert [c.status for c in rates] == ["proved"] * 3
    assert all(c.holds for c in rates)
    assert rates[2].detail["on_paths"] == 18
    lam = float(run.columns["lam"].max())
    assert lam > 0
    path = next(c for c in found.values() if "unsafe pairs (s, a)" in c.claim)
    assert (path.rhs, path.holds) == (18, True)
    problem, primal = rf.make("grid-v0").problem(), make_player("primal", "algorithm1-safe")
    alone = primal.primal_regret_bound(problem, 400, 400).regret
    assert rates[0].rhs == pytest.approx(alone + lam * rates[2].rhs)
    assert rates[1].rhs < alone  # the model says more of the pairs


def test_certified_regret_is_below_all_that_can_be_earned() -> None:
    """On grid-v0 from 10^5 episodes on: less than K H."""
    mdp, primal, K = rf.make("grid-v0"), make_player("primal", "algorithm1-safe", {"anytime": True}), 10**5
    problem = mdp.problem()
    with_model = primal.regret_with_model(mdp, problem, K, K)
    assert with_model < primal.primal_regret_bound(problem, K, K).regret < 8 * K
    assert with_model < 0.4 * 8 * K
