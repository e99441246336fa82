"""Greedy least squares inside what elimination allows and features do not call dangerous.

Legend: phi features of pairs [S, A, d]; danger of a pair: the chance that it is reset, which is linear in phi where
dynamics are, at every step; Lam = reg I + sum phi phi^T over the steps taken, whatever their place in an episode;
lam the charge for a reset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import Positive
from resetfree.game.capabilities import Partner, Suited
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players import make_player
from resetfree.players.elimination.elimination_sets import EliminationState, LargeEliminationState
from resetfree.players.linear.regression import Samples, add, no_samples
from resetfree.players.linear.ridge import plan_among
from resetfree.players.requirements import TakesEpisodes, features_words
from resetfree.players.tabular.count_players import whole_size
from resetfree.players.tabular.sparse_counts import SMALL
from resetfree.problems.contract import Problem, State

RIDGE = 0.01
WIDTH = 0.1  # of the lower bound on danger
RISK = 0.02  # a pair with a larger lower bound is held back


@dataclass
class GuardedState:
    """The regression of values, what elimination allows, and the regression of danger, one for all steps."""

    data: Samples
    sets: EliminationState
    precision: Floats  # [d, d] Lam
    fell: Floats  # [d] sum of phi over the steps that were reset
    phi: Floats = field(metadata={"saved": False})  # [S, A, d]

    def dangerous(self) -> Bools:
        """[S, A] pairs whose danger is above RISK even by its lower bound."""
        inverse = np.linalg.inv(self.precision)
        width = np.sqrt(np.maximum(((self.phi @ inverse) * self.phi).sum(axis=2), 0.0))
        return np.asarray(self.phi @ (inverse @ self.fell) - WIDTH * width > RISK)

    def may(self) -> Bools:
        """[1 or H, S, A] what is allowed and not dangerous; where nothing is, what is allowed."""
        allowed = self.sets.allowed
        if not self.fell.any():
            return allowed
        fine = allowed & ~self.dangerous()
        return np.asarray(np.where(fine.any(axis=2, keepdims=True), fine, allowed))


@dataclass(frozen=True)
class GuardedLinear(TakesEpisodes, PrimalPlayer[GuardedState]):
    """Greedy LSVI-UCB that plans only with actions which can still be safe and do not look dangerous.

    Danger is learned once for all steps, by ridge regression of resets on features: few resets, of the order of d, show
    where it lies, where each step's own regression needs as many at every step. What elimination has ruled out is
    never played either, so on every path resets never exceed the number of unsafe pairs (s, a), or triples (h, s, a)
    where steps differ: which of the allowed actions is taken plays no part in that proof.

    Q = clip(w.phi + scale H width, -lam, H-h+1) with w the regression of r + V(s'), and V = -lam after a reset; ties go
    to the action of largest width, which was tried least.

    Where danger is not linear in the features, something safe may be held back for good; the bound holds all the same.

    scale: of the bonus; the ridge is its square, so that the bonus of an untried pair just reaches H.
    pooled: one regression of values for all steps, and one set of counts; only for stationary problems.

    >>> import resetfree as rf
    >>> run = rf.learn("drifting-v0", "guarded-linear", episodes=300)
    >>> int(run.realised_resets[-1]) <= 6
    True
    """

    name: ClassVar[str] = "guarded-linear"
    prediction: ClassVar[Prediction] = "none"
    scale: Positive = 0.05
    pooled: bool = False

    @cached_property
    def elimination(self) -> Any:
        """The player whose sets guard the plans."""
        return make_player("primal", "support-elimination", {"pooled": self.pooled})

    def init(self, problem: Problem, episodes: int, seed: int) -> GuardedState:
        """No data yet; without features of pairs only elimination guards. Refuses what is too large for tables."""
        sets = self.elimination.init(problem, episodes, seed)
        if isinstance(sets, LargeEliminationState):
            raise InvalidInput(
                f"The player '{self.name}' needs a problem that is small enough for tables of all pairs. Got "
                f"'{problem.name}' with {problem.n_states} states instead: play linear-ucb or support-elimination."
            )
        shape = (len(sets.data.known), problem.n_actions, 0)
        phi = np.zeros(shape) if problem.phi is None else np.asarray(problem.phi, dtype=np.float64)
        d = phi.shape[2]
        data = no_samples(problem, self.name, pooled=self.pooled, reg=self.scale**2)
        return GuardedState(data, sets, RIDGE * np.eye(d), np.zeros(d), phi)

    def plan(self, state: GuardedState, s1: State, lam: float) -> Plan:
        """One backward pass inside what may be played; its value holds no promise, and v_c = 0 neither."""
        lam, data = check_multiplier(lam), state.data
        horizon, n_states, _ = data.shape
        policy, v = np.empty((horizon, n_states), dtype=np.int16), np.empty(n_states)
        plan_among(*data.fitted, self.scale * horizon, lam, data.known, data.known_last, state.may(), policy, v)
        return Plan(policy, min(max(float(v[s1]), 0.0), float(horizon)), 0.0)

    def update(self, state: GuardedState, round: Round) -> GuardedState:
        """All three learn from the episode."""
        episode = round.episode
        add(state.data, episode)
        state.sets.learn(round)
        n = min(len(episode.actions), len(episode.states) - 1)
        if n:
            seen = state.phi[episode.states[:n], episode.actions[:n]]
            state.precision += seen.T @ seen
            state.fell += seen[-1] * bool(episode.reset)
        return state

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Given features of pairs and a bound B, on problems that are small enough for tables."""
        if problem.n_states is None or problem.phi is None or problem.actions.n is None or not bound_known:
            return None
        rows = (1 if problem.stationary else problem.horizon, problem.n_states, problem.n_actions)
        if whole_size(problem, rows) > SMALL:
            return None
        why = (
            f"{features_words(problem.phi.shape[2], problem.stationary)}; a reset is charged B, danger is "
            "learned once for all steps, and what was seen to lead to a reset is never done again"
        )
        partner = Partner("constant-penalty", "realised", {"factor": 1.0})
        return Suited(2.5, why, partner, {"pooled": problem.stationary})

    @classmethod
    def named(cls, problem: Problem) -> Suited | None:
        """As `auto` plays it."""
        return cls.suits(problem, bound_known=True)

    def keeps_steps_apart(self, problem: Problem) -> bool:
        """Whether what is unsafe at one step may be safe at another."""
        return bool(self.elimination.keeps_steps_apart(problem))

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The bound on resets holds with any constants; nothing is claimed about regret."""
        guard = self.elimination.statement(problem, episodes)
        constants: dict[str, Any] = {"scale": self.scale, "reg": self.scale**2, "pooled": self.pooled}
        constants |= {"eliminates": guard.constants["eliminates"]}
        return Statement(constants, False, guard.why, guard.most_resets)
