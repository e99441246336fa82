"""The two-player game of the paper, on one screen: read this first.

Each round k is one episode. The dual player chooses the multiplier lam, the price of a reset, for the start s_1^k; the
primal player chooses a policy that trades reward against lam times the probability of a reset; the policy is rolled
out; and both players learn from the same `Round`. The next episode starts where this one ended, or after a reset.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from resetfree.core import NotCertifiable, OperatorTimeout, PositiveInt, check
from resetfree.game.contract import DualPlayer, Pauses, Plan, PrimalPlayer, Round, check_actions
from resetfree.problems import Episode, Problem, State
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
    """Have a reset performed if the next episode needs one.

    operator: who performs it; None for the problem's own.
    """
    if game.s1 is None:
        given, before = () if operator is None else (operator,), game.rng.bit_generator.state
        try:
            game.s1 = problem.perform_reset(game.rng.random(), game.why, *given)
        except (OperatorTimeout, KeyboardInterrupt):  # it is requested again, with the same random number
            game.rng.bit_generator.state = before
            raise


def make_plan(primal: PrimalPlayer[P], dual: DualPlayer[D], game: Game, start: State) -> tuple[float, Plan]:
    """The multiplier, and the primal player's plan for it, of an episode from `start`; neither changes a state."""
    with game.pauses:
        lam = dual.multiplier(game.dual, start, lambda y: primal.plan(game.primal, start, y))
        return lam, primal.plan(game.primal, start, lam)


def learn_round(primal: PrimalPlayer[P], dual: DualPlayer[D], game: Game, this: Round) -> None:
    """Update both players with a finished round, and move the game to the next start."""
    with game.pauses:
        game.dual, game.primal = dual.update(game.dual, this), primal.update(game.primal, this)
    game.k, game.s1, game.why = this.k, this.episode.next_start, "reset"


class Direct:
    """The schedule of the paper: each round is played with a plan that was made from all rounds before it.

    Other schedules override its methods: plans that are some rounds old (`game.delayed`), several machines
    (`game.fleet`), or learning in another process (`runs.live.acting`).
    """

    def before(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> None:
        """Called before each round, and before the reset that it may need."""

    def plan(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> tuple[int, float, Plan] | None:
        """The next round's plan: (newest round that it was made from, multiplier, plan); None ends the game."""
        return (-1, *make_plan(primal, dual, game, game.s1))

    def episode(self, problem: Problem, policy: Any, game: Game) -> Episode:
        """Play one episode with the policy."""
        return problem.rollout(policy, game.s1, game.rng.random(problem.n_uniforms))

    def learn(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game, this: Round) -> None:
        """Update the players with the finished round."""
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
    """Play rounds one by one until `episodes` are played; `game` is up to date when a round is yielded.

    Paper: two-player game.

    game: the state to go on from, made by `begin` or restored from a checkpoint; it is changed in place.
    episodes: the number of the last round.
    feedback: which cost signal the dual player gets, a key of `FEEDBACK`.
    oracle: (policy, s1) -> exact V_r and V_c, if the model is known; None for a policy that it cannot evaluate.
    schedule: which plan each round is played with, and who learns; see `Direct`.
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
