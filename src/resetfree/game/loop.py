"""The two-player game of the reduction, on one screen: read this first.

In episode k the dual player chooses a multiplier for the start s_1^k, the primal player a policy for both, the policy
is rolled out, and both players learn from the same record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from resetfree.core.errors import NotCertifiable, OperatorTimeout
from resetfree.core.settings import PositiveInt, check
from resetfree.game.contract import DualPlayer, Plan, PrimalPlayer, Round, check_actions
from resetfree.game.pauses import Pauses
from resetfree.problems.contract import Episode, Problem, State
from resetfree.problems.operators.request import Operator

P = TypeVar("P")
D = TypeVar("D")


def _exact_cost(plan: Plan, episode: Episode, exact: tuple[float, float] | None) -> float:
    if exact is None:
        raise NotCertifiable("The feedback 'exact' needs an oracle, which this problem or this policy does not have.")
    return exact[1]


FEEDBACK: dict[str, Callable[[Plan, Episode, tuple[float, float] | None], float]] = {
    "optimistic": lambda plan, episode, exact: plan.v_c,  # the paper: the primal player's own estimate
    "realised": lambda plan, episode, exact: float(episode.reset),  # unbiased for V_c
    "exact": _exact_cost,  # V_c itself, for experiments
}


@dataclass(slots=True)
class Game:
    """The state of a game between two rounds: all that a checkpoint must hold, and the pauses of this process."""

    k: int  # rounds played
    s1: State  # start of the next episode; None if a reset must be performed first
    primal: Any
    dual: Any
    rng: np.random.Generator  # the only source of randomness
    why: str = "start"  # the reason for that reset: see `Problem.perform_reset`
    pauses: Pauses = field(default_factory=Pauses)
    stuck: str = ""  # since when the run stands still, and where; "" while it does not


def begin(problem: Problem, primal: PrimalPlayer[P], dual: DualPlayer[D], *, episodes: int, seed: int) -> Game:
    """A game before its first round; everything random in it comes from `seed`."""
    check(episodes, PositiveInt, "'episodes' of a game")
    check_actions(primal, problem)
    rng = np.random.default_rng(seed)
    s1 = None if problem.persistent else problem.first_start(rng.random())
    return Game(0, s1, primal.init(problem, episodes, seed), dual.init(problem, episodes, seed), rng)


def reset_if_due(problem: Problem, game: Game, operator: Operator | None = None) -> None:
    """Have a reset performed if the next episode needs one; `operator` None is the problem's own."""
    if game.s1 is None:
        given, before = () if operator is None else (operator,), game.rng.bit_generator.state
        try:
            game.s1 = problem.perform_reset(game.rng.random(), game.why, *given)
        except (OperatorTimeout, KeyboardInterrupt):  # it is requested again, with the same random number
            game.rng.bit_generator.state = before
            raise


def make_plan(primal: PrimalPlayer[P], dual: DualPlayer[D], game: Game, start: State) -> tuple[float, Plan]:
    """The multiplier and the plan of the players' present states for an episode from `start`."""
    with game.pauses:
        lam = dual.multiplier(game.dual, start, lambda y: primal.plan(game.primal, start, y))
        return lam, primal.plan(game.primal, start, lam)


def learn_round(primal: PrimalPlayer[P], dual: DualPlayer[D], game: Game, this: Round) -> None:
    """Have both players learn from a round: the game is then between two rounds."""
    with game.pauses:
        game.dual, game.primal = dual.update(game.dual, this), primal.update(game.primal, this)
    game.k, game.s1, game.why = this.k, this.episode.next_start, "reset"


def play(
    problem: Problem,
    primal: PrimalPlayer[P],
    dual: DualPlayer[D],
    game: Game,
    *,
    episodes: int,
    feedback: str = "optimistic",
    oracle: Callable[[Any, State], tuple[float, float] | None] | None = None,
) -> Iterator[Round]:
    """Play until `episodes` rounds are played; `game` is updated before each round is yielded.

    Paper: two-player game.

    oracle: (policy, s1) -> exact V_r and V_c, or None for a policy without them, if the model is known.
    """
    signal, n_uniforms = FEEDBACK[feedback], problem.n_uniforms
    while game.k < episodes:
        reset_if_due(problem, game)
        s1 = game.s1
        lam, plan = make_plan(primal, dual, game, s1)
        episode = problem.rollout(plan.policy, s1, game.rng.random(n_uniforms))
        exact = None if oracle is None else oracle(plan.policy, s1)
        cost = signal(plan, episode, exact)
        this = Round(game.k + 1, s1, lam, plan, episode=episode, cost_signal=cost, exact=exact)
        learn_round(primal, dual, game, this)
        yield this
