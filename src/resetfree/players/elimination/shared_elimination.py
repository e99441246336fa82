"""Support elimination where steps or tasks differ: what fell at one of them is held back at the others.

Legend: see `shared_risk`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from resetfree.game.capabilities import Partner, Suited
from resetfree.players.elimination.elimination_players import EliminationPlayer
from resetfree.players.elimination.elimination_sets import EliminationState, LargeEliminationState
from resetfree.players.elimination.shared_risk import SharedState
from resetfree.players.requirements import TakesEpisodes
from resetfree.problems.contract import Problem


@dataclass(frozen=True)
class SharedElimination(TakesEpisodes, EliminationPlayer):
    """Elimination that learns danger once for all steps and tasks, as long as the data agree.

    Where dynamics change with the step, or tasks with the episode, support elimination must see each unsafe triple
    (h, s, a) fall. Here a pair whose twin fell, at another step or at the same place in another task, is held back, and
    so is what leads where only such pairs are left. What is held back is tested if nothing else is left to gain: the
    last 4^(1 + m) episodes tried no pair for the first time, m being the tests that fell less those that refuted
    something, and the optimistic value with it is larger than without.

    It plays inside what support elimination allows, so on every path resets never exceed the number of unsafe triples
    if twins differ: which of the allowed actions is taken plays no part in the proof. Without twins (one task, pooled
    counts), and on problems that are too large for tables, it is support elimination.

    scale, width, pooled, ties, noise, p: see `support-elimination`.

    >>> import resetfree as rf
    >>> [int(rf.learn("doors-v0", player, episodes=200).realised_resets[-1])
    ...     for player in ("support-elimination", "shared-elimination")]
    [28, 5]
    """

    name: ClassVar[str] = "shared-elimination"

    def init(self, problem: Problem, episodes: int, seed: int) -> EliminationState | LargeEliminationState:
        """No data yet: every action can be safe, and nothing is held back."""
        plain = super().init(problem, episodes, seed)
        if isinstance(plain, LargeEliminationState) or (len(plain.data.tried) == 1 and problem.n_contexts == 1):
            return plain
        return SharedState(
            plain.data,
            plain.allowed,
            plain.endless,
            preferred=plain.allowed.copy(),
            idle=0,
            confirmed=0,
            n_places=plain.allowed.shape[1] // problem.n_contexts,
        )

    @classmethod
    def partner(cls) -> Partner:
        """None is needed: no penalty."""
        return Partner("constant-penalty", "realised", {"C": 0.0})

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Finitely many states without features, whose steps or tasks differ."""
        if problem.actions.n is None or problem.n_states is None or problem.phi is not None:
            return None
        if problem.stationary and problem.n_contexts == 1:
            return None
        twins = "steps" if problem.n_contexts == 1 else "tasks"
        why = (
            "the states are finite and no features are given: what was seen to lead to a reset is never done again, so "
            f"resets are bounded on every path, and what fell is held back at other {twins} until a test refutes it"
        )
        return Suited(1.5, why, cls.partner())
