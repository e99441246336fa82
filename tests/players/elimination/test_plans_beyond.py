"""Plans beyond the episode: what they earn, that the bound on resets does not depend on them, and that they resume."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.players.elimination.test_elimination_bound import KINDS, small

import resetfree as rf
from resetfree.core import Bools
from resetfree.game.loop import begin, play
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.elimination import GAMMA, EliminationPlayer, EliminationState, LongRun
from resetfree.players.elimination.rule_elimination import RuleElimination
from resetfree.players.elimination.support_elimination import SharedElimination, SupportElimination
from resetfree.players.tabular.count_players import Bonus, CountState
from resetfree.players.tabular.counts import ALL
from resetfree.theory.assumptions import unsafe_pairs

BEYOND = (
    SupportElimination(objective="long-run"),
    SharedElimination(objective="long-run"),
    RuleElimination(objective="long-run"),
)


def leaves_the_sets(player: EliminationPlayer, mdp: rf.FiniteMDP, seed: int) -> tuple[bool, int]:
    """Whether some plan takes an action that is not allowed where one is; and the resets of 60 episodes."""
    problem, resets, left = mdp.problem(), 0, False
    game = begin(problem, player, ConstantPenalty(C=0.0), episodes=60, seed=seed)
    plan = type(player).plan

    def checked(self: Any, state: Any, s1: int, lam: float) -> Any:
        nonlocal left
        made = plan(self, state, s1, lam)
        assert isinstance(state, EliminationState)
        allowed = np.broadcast_to(state.allowed, made.policy.shape)
        bound = allowed.any(axis=2) & (np.arange(mdp.horizon) < mdp.n_transitions)[:, None]
        left = left or bool((made.policy * ~allowed).sum(axis=2)[bound].any())
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(player), "plan", checked)
        for this in play(problem, player, ConstantPenalty(C=0.0), game, episodes=60, feedback="realised"):
            resets += this.episode.reset
    return left, resets


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("player", BEYOND, ids=lambda player: player.name)
def test_the_bound_on_resets_does_not_depend_on_the_plan(kind: str, player: EliminationPlayer) -> None:
    seen = 0
    for seed in range(10):
        mdp = small(kind, 1 + seed % 3, seed)
        left, resets = leaves_the_sets(player, mdp, seed)
        assert not left
        assert resets <= unsafe_pairs(mdp)
        seen += resets
    assert seen > 0


def test_a_plan_that_leaves_the_sets_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant plans inside what is not allowed."""
    values = CountState.values

    def outside(self: CountState, bonus: Bonus, allowed: Bools = ALL, *rest: Any, **more: Any) -> Any:
        return values(self, bonus, ~allowed, *rest, **more)

    monkeypatch.setattr(CountState, "values", outside)
    assert any(leaves_the_sets(BEYOND[0], small("stationary", 2, seed), seed)[0] for seed in range(10))


def test_the_far_gold_of_the_default_problem() -> None:
    """Seeds on which the paper's objective settles on the small gold, for 2.4 an episode."""
    small_gold, far_gold = (
        [
            float(rf.learn("grid-v0", primal, episodes=1500, seed=seed).columns["reward"][-150:].mean())
            for seed in (102, 106, 109)
        ]
        for primal in ("rule-elimination", "auto")
    )
    assert max(small_gold) < 2.5
    assert min(far_gold) == 8.0


def test_contexts_follow_as_often_as_they_did() -> None:
    problem = rf.make("contexts-v0").problem()
    state: Any = BEYOND[0].init(problem, 10, 0)
    (found,) = state.long_run
    m, v = problem.n_contexts, np.arange(float(len(found.after)))
    by_context = v.reshape(m, -1)
    np.testing.assert_array_equal(found._following(v), np.tile(by_context.max(axis=0), m))  # nothing known: the best
    found.links[0, 0], found.links[0, 1] = 1, 3
    np.testing.assert_allclose(found._following(v)[: by_context.shape[1]], (by_context[0] + 3 * by_context[1]) / 4)


def test_what_follows_is_the_fixed_point() -> None:
    """One state that pays 0.4 by its only action, in episodes of two steps: W = gamma (0.8 + W)."""
    mdp = rf.FiniteMDP(np.ones((1, 1, 1)), [[0.4]], [False], horizon=2)
    problem, player = mdp.problem(), SupportElimination(objective="long-run", scale=0.0)
    game = begin(problem, player, ConstantPenalty(C=0.0), episodes=4000, seed=0)
    for this in play(problem, player, ConstantPenalty(C=0.0), game, episodes=4000, feedback="realised"):
        assert np.isnan(this.plan.upper)
        assert this.k == 1 or this.plan.v_r == pytest.approx(0.8)
    (found,) = game.primal.long_run
    assert isinstance(found, LongRun)
    bound = GAMMA * 0.8 / (1.0 - GAMMA)
    assert bound - 1e-9 <= found.after[0] <= found.most  # from above: it stays optimistic


def test_nothing_is_claimed_about_the_regret_of_one_episode() -> None:
    player = SupportElimination(width="theory", objective="long-run")
    problem = rf.make("grid-v0").problem()
    assert not player.statement(problem, 100).covered
    assert player.statement(problem, 100).most_resets == SupportElimination().statement(problem, 100).most_resets
    assert player.primal_regret_bound(problem, 100, 100) is None
    run = rf.learn("grid-v0", player, episodes=100, seed=1)
    assert not [c.claim for c in run.certificates() if c.status == "proved" and not c.holds]
    with pytest.raises(rf.InvalidInput, match="objective='episode'"):
        player.batched_form(problem, 100)


def test_a_run_of_before_goes_on_with_the_objective_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose `auto` chose no objective, as before there was one, is continued with the paper's."""
    asked: Any = {"episodes": 60, "seed": 102, "path": tmp_path / "run.rfrun"}
    suits = RuleElimination.suits.__func__  # type: ignore[attr-defined]

    def as_before(cls: Any, problem: Any, *, bound_known: bool) -> Any:
        return dataclasses.replace(suits(cls, problem, bound_known=bound_known), settings={})

    with monkeypatch.context() as patch:
        patch.setattr(RuleElimination, "suits", classmethod(as_before))
        whole = rf.learn("grid-v0", episodes=60, seed=102)
        rf.learn("grid-v0", max_resets=1, **asked)
    parts = rf.learn("grid-v0", resume=True, **asked)
    np.testing.assert_array_equal(parts.columns["reward"], whole.columns["reward"])
