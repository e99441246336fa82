"""`auto`: which players suit a problem, from what a learner may know about it, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from resetfree.core.errors import InvalidInput
from resetfree.problems.contract import LIST_THEM, Problem


@dataclass(frozen=True)
class Choice:
    """Two players, what the dual is told, and one sentence that says why."""

    primal: str
    dual: str
    feedback: str
    why: str
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)


AHEAD = 200  # steps that are planned ahead where states are vectors: danger may come slowly
SEARCHABLE = 16  # numbers in a state up to which a policy is searched for in a fitted model


def _for_vectors(problem: Problem) -> Choice:
    if problem.low is None:
        raise InvalidInput(
            f"'auto' chooses players for states that are counted or vectors. Got '{problem.name}' instead."
        )
    size, ahead = len(problem.low), max(AHEAD, problem.horizon)
    settings: dict[str, dict[str, Any]] = {"primal": {"planning": ahead}, "dual": {"C": float(ahead)}}
    why = f"states are vectors of {size}, and a reset is charged {ahead}, the most that {ahead} steps can earn"
    if size <= SEARCHABLE and problem.stationary:
        return Choice(
            "model-search", "constant-penalty", "realised",
            f"{why}; the dynamics are fitted to all steps and a policy is searched for in the fit, {ahead} steps ahead",
            settings,
        )  # fmt: skip
    return Choice(
        "stored-linear", "constant-penalty", "realised",
        f"{why}; values are fitted to all steps in features of the state, {ahead} steps ahead", settings,
    )  # fmt: skip


def choose(problem: Problem, *, bound_known: bool) -> Choice:
    """The players of `auto`.

    bound_known: whether a bound B on the multipliers is given or can be told by an oracle.

    >>> import resetfree as rf
    >>> choose(rf.make("grid-v0").problem(), bound_known=True).primal
    'support-elimination'
    >>> choose(rf.make("random-linear-v0").problem(), bound_known=True).primal
    'linear-ucb'
    """
    if problem.actions.n is None:
        raise InvalidInput(
            f"'auto' chooses players for actions that are listed. Got '{problem.name}', whose actions are "
            f"{problem.actions}, instead. {LIST_THEM} Or name a player that takes them as they are."
        )
    if problem.n_states is None:
        return _for_vectors(problem)
    if problem.phi is None:
        return Choice(
            "support-elimination", "constant-penalty", "realised",
            "the states are finite and no features are given: what was seen to lead to a reset is never done again, so "
            "resets are bounded on every path, and no bound on multipliers is needed",
            {"dual": {"C": 0.0}},
        )  # fmt: skip
    # Chosen on random-linear-v0 and drifting-v0 with seeds 101..105, none of which is reported: pooled data afford a
    # larger penalty (1.5 resets in place of 2.7, at a regret of 20 in place of 13), data per step do not.
    settings: dict[str, dict[str, Any]] = {"primal": {"pooled": problem.stationary}}
    data = "pooled over the steps, as the dynamics are stationary" if problem.stationary else "one regression per step"
    why = f"features of dimension {problem.phi.shape[2]} are given, so one pair speaks of others; {data}"
    if not bound_known:
        return Choice(
            "greedy-composite", "counting", "realised", f"{why}; no bound B is known: resets are counted", settings
        )
    factor = 4.0 if problem.stationary else 1.0
    settings["dual"] = {"factor": factor}
    return Choice("linear-ucb", "constant-penalty", "realised", f"{why}; a reset is charged {factor:g} B", settings)
