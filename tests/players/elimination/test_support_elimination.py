"""The learned shield: its bound on resets holds on every path, whatever is chosen among the allowed actions."""

from typing import Any

import numpy as np
import pytest
from tests.property.random_mdps import closed_mdp

import resetfree as rf
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.elimination import EliminationState
from resetfree.players.elimination.support_elimination import SupportElimination
from resetfree.problems.finite.safety import safe_sets
from resetfree.theory.assumptions import largest_closed_set, unsafe_pairs


def adversarial_plan(state: EliminationState, horizon: int, rng: np.random.Generator) -> rf.Plan:
    """Any allowed action, chosen at random but with a taste for pairs that were never tried: where resets are found."""
    _, n_states, n_actions = state.allowed.shape
    policy = np.zeros((horizon, n_states, n_actions))
    for h in range(horizon):
        allowed = state.allowed[min(h, len(state.allowed) - 1)]
        tried = state.data.tried[min(h, len(state.data.tried) - 1)]
        for s in range(n_states):
            bound = h < state.data.n_transitions and allowed[s].any()  # an action that leads nowhere is free
            may = allowed[s] if bound else np.ones(n_actions, dtype=np.bool_)
            fresh = may & (tried[s] == 0)
            choice = np.flatnonzero(fresh if fresh.any() and rng.random() < 0.8 else may)
            policy[h, s, rng.choice(choice)] = 1.0
    return rf.Plan(policy, 0.0, 0.0)


def resets_of(mdp: rf.FiniteMDP, episodes: int, seed: int, player: SupportElimination | None = None) -> tuple[int, int]:
    """Realised resets under adversarial choices among allowed actions, and the bound."""
    player, problem = player or SupportElimination(), mdp.problem()
    state: Any = player.init(problem, episodes, seed)
    rng = np.random.default_rng(seed)
    s1, resets = problem.first_start(rng.random()), 0
    plan = adversarial_plan(state, mdp.horizon, rng)
    for k in range(episodes):
        if k % 7 == 0:
            plan = adversarial_plan(state, mdp.horizon, rng)
        episode = problem.rollout(plan.policy, s1, rng.random(problem.n_uniforms))
        allowed_before = state.allowed.copy()
        state = player.update(state, rf.Round(k + 1, s1, 0.0, plan, episode, 0.0, None))
        if not np.array_equal(allowed_before, state.allowed):
            plan = adversarial_plan(state, mdp.horizon, rng)
        resets += episode.reset
        s1 = episode.next_start
    return resets, unsafe_pairs(mdp, per_step=player.pooled is False)


def test_resets_never_exceed_the_unsafe_pairs_on_any_path() -> None:
    """Sixty random problems (stationary, layered, contexts, both boundaries, ends that reset), 400 episodes each."""
    tight = 0
    for seed in range(60):
        resets, bound = resets_of(closed_mdp(seed), 400, seed)
        assert resets <= bound, seed
        tight += resets == bound > 0
    assert tight > 0  # the bound is attained: the test is not about nothing


@pytest.mark.slow
def test_resets_never_exceed_the_unsafe_pairs_on_300_problems() -> None:
    for seed in range(300):
        resets, bound = resets_of(closed_mdp(1000 + seed), 3000, seed)
        assert resets <= bound, seed


def test_what_is_safe_is_never_lost() -> None:
    """On every path the true safe sets lie inside the learned ones."""
    for seed in range(40):
        mdp = closed_mdp(seed)
        player, problem = SupportElimination(), mdp.problem()
        state: Any = player.init(problem, 200, seed)
        rng = np.random.default_rng(seed)
        s1 = problem.first_start(rng.random())
        for k in range(200):
            plan = adversarial_plan(state, mdp.horizon, rng)
            episode = problem.rollout(plan.policy, s1, rng.random(problem.n_uniforms))
            state = player.update(state, rf.Round(k + 1, s1, 0.0, plan, episode, 0.0, None))
            s1 = episode.next_start
        if state.endless:
            assert (state.allowed[0].any(axis=1) | ~largest_closed_set(mdp)).all()
        else:
            safe = safe_sets(mdp)
            for h in range(1, mdp.horizon + 1):
                assert (state.allowed[h - 1] | ~safe.actions(h)).all()


def test_the_sets_equal_a_plain_transcription() -> None:
    """Greatest fixpoint by brute force on the observed edges, after a short game."""
    mdp = rf.make("grid-v0")
    player, problem = SupportElimination(), mdp.problem()
    state: Any = player.init(problem, 60, 0)
    rng = np.random.default_rng(0)
    s1 = problem.first_start(rng.random())
    edges: set[tuple[int, int, int]] = set()
    bad: set[int] = set()
    for k in range(60):
        plan = player.plan(state, s1, 0.0)
        episode = problem.rollout(plan.policy, s1, rng.random(problem.n_uniforms))
        edges |= {(int(episode.states[h]), int(a), int(episode.states[h + 1])) for h, a in enumerate(episode.actions)}
        bad |= {int(episode.states[-1])} if episode.reset else set()
        state = player.update(state, rf.Round(k + 1, s1, 0.0, plan, episode, 0.0, None))
        s1 = episode.next_start
        within = set(range(12)) - bad
        while True:
            keep = {
                s for s in within if any(all(t in within for (x, y, t) in edges if (x, y) == (s, a)) for a in range(5))
            }
            if keep == within:
                break
            within = keep
        assert set(np.flatnonzero(state.allowed[0].any(axis=1))) == within
        for s in within:
            expected = [all(t in within for (x, y, t) in edges if (x, y) == (s, a)) for a in range(5)]
            assert state.allowed[0, s].tolist() == expected


def test_the_proved_width_is_optimistic() -> None:
    """With the proved width the plan's value is above V* in every round (fails with probability below 0.05 per run)."""
    mdp = rf.make("grid-v0")
    for seed in range(3):
        run = rf.learn(
            mdp, "support-elimination", ConstantPenalty(C=0.0), episodes=300, seed=seed,
            settings={"primal": {"width": "theory"}},
        )  # fmt: skip
        value = rf.solve(mdp, starts=[]).value[run.columns["s1"]]
        assert (run.columns["upper"] >= value - 1e-9).all()


def test_statements_and_bad_settings() -> None:
    said = SupportElimination().statement(rf.make("grid-v0").problem(), 100)
    assert not said.covered
    assert said.most_resets == 60
    assert "tuned" in said.why
    assert "tuned" not in SupportElimination(width="theory").statement(rf.make("grid-v0").problem(), 100).why
    with pytest.raises(rf.InvalidInput, match="'pooled'"):
        SupportElimination(pooled=True).init(rf.make("doors-v0").problem(), 10, 0)


def test_the_bound_is_certified_on_a_run() -> None:
    pairs, triples = "unsafe pairs (s, a)", "unsafe triples (h, s, a)"
    for id, what in (("grid-v0", pairs), ("doors-v0", triples), ("contexts-v0", triples)):
        run = rf.learn(id, "support-elimination", ConstantPenalty(C=0.0), episodes=300)
        found = [c for c in run.certificates() if "than there are unsafe" in c.claim]
        assert len(found) == 1
        assert what in found[0].claim
        assert found[0].holds
        assert found[0].status == "proved"
        assert not [c.claim for c in run.certificates() if c.status == "proved" and not c.holds]


def test_resets_do_not_grow_with_the_multiplier() -> None:
    """The chain of m coins has B = 2^m + 1; what elimination pays is a few resets, whatever m is."""
    for m in (3, 8):
        for seed in range(3):
            run = rf.learn(
                rf.make("coin-chain-v0", m=m), "support-elimination", ConstantPenalty(C=0.0), episodes=2000, seed=seed
            )
            assert run.realised_resets[-1] <= 4


def test_a_danger_that_lies_far_ahead_is_learned() -> None:
    """The door whose pit comes three steps later: resets stop, and were no more than the unsafe (h, s, a)."""
    run = rf.learn("doors-v0", "support-elimination", ConstantPenalty(C=0.0), episodes=1000)
    assert run.realised_resets[-1] == run.realised_resets[200] <= unsafe_pairs(rf.make("doors-v0"))
    assert abs(run.regret[-1] - run.regret[300]) < 1e-9
