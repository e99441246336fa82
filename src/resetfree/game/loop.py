"""The two-player game of the reduction, on one screen: read this first.

In episode k the dual player chooses a multiplier for the start s_1^k, the primal player a policy for both, the policy
is rolled out, and both players learn from the same record.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from resetfree.core.errors import NotCertifiable, OperatorTimeout
from resetfree.core.settings import PositiveInt, check
from resetfree.game.contract import DualPlayer, Pauses, Plan, PrimalPlayer, Round, check_actions
from resetfree.problems.contract import Episode, Problem, State
from resetfree.problems.operators.channel import Operator

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
    stuck: str = ""  # since when the run is stuck, and where; "" while it is not

    def saved(self) -> bytes:
        """What a checkpoint must hold besides the players: nothing, where every plan is new."""
        return b""


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


class Direct:
    """The schedule of the paper: each round is played with a plan that rests on all rounds before it.

    Other schedules change what their game needs: which plan a round is played with, by what clock, and who learns.
    """

    def before(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> None:
        """Before the next round, and before the reset that it may need."""

    def plan(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> tuple[int, float, Plan] | None:
        """The newest round that the plan of the next one rests on, its multiplier, and the plan; None ends the game."""
        return (-1, *make_plan(primal, dual, game, game.s1))

    def episode(self, problem: Problem, policy: Any, game: Game) -> Episode:
        """Roll the policy out."""
        return problem.rollout(policy, game.s1, game.rng.random(problem.n_uniforms))

    def learn(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game, this: Round) -> None:
        """Have the players learn from the round: the game is then between two rounds."""
        learn_round(primal, dual, game, this)


DIRECT = Direct()


def play(
    problem: Problem,
    primal: PrimalPlayer[P],
    dual: DualPlayer[D],
    game: Game,
    *,
    episodes: int,
    feedback: str = "optimistic",
    oracle: Callable[[Any, State], tuple[float, float] | None] | None = None,
    schedule: Direct = DIRECT,
) -> Iterator[Round]:
    """Play until `episodes` rounds are played; `game` is updated before each round is yielded.

    Paper: two-player game.

    oracle: (policy, s1) -> exact V_r and V_c, or None for a policy without them, if the model is known.
    schedule: which plan each round is played with: `Direct`, with a delay (`game.delayed`), or in real time
      (`runs.live.acting`).
    """
    signal = FEEDBACK[feedback]
    while game.k < episodes:
        schedule.before(primal, dual, game)
        reset_if_due(problem, game)
        found, s1 = schedule.plan(primal, dual, game), game.s1
        if found is None:
            return
        based_on, lam, plan = found
        episode = schedule.episode(problem, plan.policy, game)
        exact = None if oracle is None else oracle(plan.policy, s1)
        cost = signal(plan, episode, exact)
        this = Round(game.k + 1, s1, lam, plan, episode=episode, cost_signal=cost, exact=exact, based_on=based_on)
        schedule.learn(primal, dual, game, this)
        yield this
