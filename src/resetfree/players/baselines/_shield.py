"""What players behind a shield share: optimistic planning on counts, among the actions that the shield lets through."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.game.contract import Plan, PrimalPlayer, Round, Statement
from resetfree.players.baselines.shielded_kernel import one_step_actions, shielded_plan
from resetfree.players.shared.counts import Counted
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.mdp import FiniteMDP, model_behind
from resetfree.problems.finite.safe_sets import safe_sets
from resetfree.problems.finite.safety import reachable_starts
from resetfree.problems.finite.transitions import Bools


@dataclass
class ShieldState:
    """Counts, and the shield."""

    seen: Counted
    allowed: Bools = field(metadata={"saved": False})  # [n, S, A]
    layer_of_step: NDArray[np.int64] = field(metadata={"saved": False})  # [H] which of them each step uses


class ShieldPlayer(PrimalPlayer[ShieldState]):
    """A player with the settings `scale`, of the bonus scale H / sqrt(n), and `pooled`."""

    scale: float
    pooled: bool

    def plan(self, state: ShieldState, s1: State, lam: float) -> Plan:
        """One backward pass; v_c = 0 is what a shield is for, and no estimate."""
        horizon, n_states = len(state.layer_of_step), state.allowed.shape[1]
        policy, v_r = np.empty((horizon, n_states), dtype=np.int16), np.empty(n_states)
        counted = (state.seen.counts, state.seen.n_transitions, self.scale * horizon)
        shielded_plan(*counted, state.allowed, state.layer_of_step, policy, v_r)
        return Plan(policy, float(v_r[s1]), 0.0)

    def update(self, state: ShieldState, round: Round) -> ShieldState:
        """Count the steps of the episode."""
        state.seen.learn(round.episode)
        return state


def one_step_safe(mdp: FiniteMDP) -> Bools:
    """[H, S, A] the actions that cannot be reset at the very next step, from the support of the exact model."""
    allowed = np.empty((mdp.horizon, mdp.n_states, mdp.n_actions), dtype=np.bool_)
    one_step_actions(mdp.model, allowed)
    return allowed


def never_reset(problem: Problem, constants: dict[str, Any], given: str) -> Statement:
    """Of a player that keeps to Abar: no resets on any path, if every start that can occur has a reset-free policy."""
    mdp = model_behind(problem)
    if (reachable_starts(mdp).states & ~safe_sets(mdp).states(1)).any():
        return Statement(constants, False, "some start that can occur has no reset-free policy")
    return Statement(constants, True, f"only actions of Abar are played, so no path has a reset (given {given})")
