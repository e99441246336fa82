"""The game with delay: while an episode is played, its plan rests on what was known some rounds before.

S_j are the players' states after rounds 1 .. j. The plan of j is made from S_j alone: the multiplier of the dual player
and the policy of the primal player for one start, which is where round j ended (see `start_for_plan`). Round k is
played with the plan of some j < k, and both players learn all rounds, in order. The reduction holds for any sequence of
policies and multipliers, so that it holds here; delay 0 is the game of `loop`.

Chance comes per round, from (seed, k), so that it does not depend on who draws first. The rounds are played by
`loop.play`, as those of every game: a delay is a schedule.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from resetfree.core import Floats, InvalidInput
from resetfree.core.plain_tree import by_name, decode, encode, plan_digest
from resetfree.game.contract import DualPlayer, Plan, PrimalPlayer, Round
from resetfree.game.loop import Direct, Game, begin, learn_round, make_plan, play
from resetfree.problems import Episode, Policy, Problem, State
from resetfree.problems.features import Features
from resetfree.problems.features.scaling import Scaling

__all__ = [
    "Delay",
    "Delayed",
    "DelayedGame",
    "HeldPlan",
    "RecordedDelays",
    "begin_delayed",
    "make_plan",
    "play_delayed",
]

STARTS = ("fell", "life", "ahead")  # what is kept of a `DelayedGame` besides the plans
P = TypeVar("P")
D = TypeVar("D")


class HeldPlan(NamedTuple):
    """A plan that is in use, or that a later round will rest on: what its bytes say, as another process would read it.

    So a player that goes on learning cannot change it.
    """

    based_on: int  # j: the newest round that was known when it was made
    lam: float
    plan: Plan
    data: bytes

    @classmethod
    def of(cls, based_on: int, lam: float, plan: Plan) -> HeldPlan:
        """Encode a plan; raises InvalidInput for a policy that holds code."""
        numbers = {"lam": lam, "v_r": plan.v_r, "v_c": plan.v_c, "upper": plan.upper}
        tree = {name: float(value) for name, value in numbers.items()}
        data = encode({"based_on": based_on, **tree, "policy": plan.policy})
        return cls.read(data, _classes(cast(Hashable, type(plan.policy))))

    @classmethod
    def read(
        cls, data: bytes | memoryview, classes: Mapping[str, type] | None = None, *, kept: bool = True
    ) -> HeldPlan:
        """Decode a plan; raises InvalidInput for any other bytes.

        classes: default, all policies that are known.  kept: whether its bytes are needed besides.
        """
        tree = decode(data, policy_classes() if classes is None else classes)
        kinds = {"based_on": int, **dict.fromkeys(("lam", "v_r", "v_c", "upper"), float)}
        good = isinstance(tree, dict) and tree.keys() == {*kinds, "policy"}
        if not good or any(type(tree[name]) is not kind for name, kind in kinds.items()):
            raise InvalidInput("The bytes of a plan must hold a policy, its multiplier and its estimates.")
        plan = Plan(tree["policy"], tree["v_r"], tree["v_c"], tree["upper"])
        return cls(tree["based_on"], tree["lam"], plan, bytes(data) if kept else b"")

    @property
    def digest(self) -> int:
        """What the record says of the plan: 48 bits of a hash."""
        return plan_digest(self.data)


def policy_classes() -> dict[str, type]:
    """Every class that a policy may be made of, as far as its module is imported, for `plain_tree.decode`."""
    return by_name(Policy, Features, Scaling)


@cache
def _classes(kind: Hashable) -> Mapping[str, type]:
    """The policies that are known when one of this kind is met for the first time."""
    return policy_classes()


class Delayed(Direct):
    """A schedule whose plans may be older than the round before. Chance comes per round, from (seed, k).

    A plan is made once, while the states that it rests on are there: after its newest round was yielded. While a round
    is yielded, its plan is held.
    """

    def is_needed(self, j: int) -> bool:
        """Whether a plan must be made after round j: a later one rests on it, unless a reset comes in between."""
        return True

    @abstractmethod
    def based_on(self, k: int, fell: int) -> int:
        """The round that the plan of round k rests on.  fell: the newest round before k that ended in a reset, or 0."""

    def before(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> None:
        """Make the plan of the present states."""
        assert isinstance(game, DelayedGame)
        if game.k > 0 and self.is_needed(game.k):
            game.hold(primal, dual, game.ahead)

    def plan(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> tuple[int, float, Plan] | None:
        """The plan of the round that this one rests on."""
        assert isinstance(game, DelayedGame)
        k, s1 = game.k + 1, game.s1
        if k == 1:
            game.hold(primal, dual, s1)
        if k == 1 or game.fell == k - 1:
            game.life = s1
        j = self.based_on(k, game.fell)
        game.drop_before(j)
        return game.plans[j][:3]

    def episode(self, problem: Problem, policy: Any, game: Game) -> Episode:
        """Roll the policy out, with the random numbers of this round."""
        assert isinstance(game, DelayedGame)
        return problem.rollout(policy, game.s1, game.chance(problem.n_uniforms))

    def learn(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game, this: Round) -> None:
        """Have the players learn, and note what later plans are made for."""
        assert isinstance(game, DelayedGame)
        learn_round(primal, dual, game, this)
        game.rng, game.fell = reset_chance(game.seed, this.k + 1), this.k if this.episode.reset else game.fell
        game.ahead = start_for_plan(this.episode.next_start, game.life)


@dataclass(frozen=True)
class Delay(Delayed):
    """The plan of round k rests on round k - 1 - D, or on the newest reset if that came later.

    >>> [Delay(2).based_on(k, fell=4 if k > 4 else 0) for k in range(1, 9)]
    [0, 0, 0, 1, 4, 4, 4, 5]
    """

    rounds: int  # D

    def based_on(self, k: int, fell: int) -> int:
        """Max(k - 1 - D, the newest reset, 0)."""
        return max(k - 1 - self.rounds, fell, 0)


class RecordedDelays(Delayed):
    """The plans of a run that was played before: only those that were used are made again."""

    def __init__(self, based_on: Iterable[int]) -> None:
        self._based_on = [int(j) for j in based_on]
        self._needed = frozenset(self._based_on)
        check_delays(self._based_on)

    def is_needed(self, j: int) -> bool:
        """Whether some round was played with the plan of j."""
        return j in self._needed

    def based_on(self, k: int, fell: int) -> int:
        """As it is recorded; raises InvalidInput for a plan from before a reset."""
        j = self._based_on[k - 1]
        if j < fell:
            raise InvalidInput(f"The plan of round {k} must rest on the reset in round {fell}. Got round {j} instead.")
        return j


def check_delays(based_on: Sequence[int]) -> None:
    """Refuse what no game has: 0 <= based_on < k, and a plan is never replaced by an older one."""
    newest = 0
    for k, j in enumerate(based_on, 1):
        if not newest <= j < k:
            raise InvalidInput(f"The plan of round {k} must rest on one of {newest} .. {k - 1}. Got {j} instead.")
        newest = j


@dataclass(slots=True)
class DelayedGame(Game):
    """The state of a game with delay between two rounds; `rng` has the number for a reset before the next one."""

    seed: int = 0
    life: State = None  # the start of the newest life: of round 1, or of the newest round after a reset
    ahead: State = None  # the start that the plan of the present states is made for, once a round was played
    fell: int = 0  # the newest round that ended in a reset, 0 if none
    plans: dict[int, HeldPlan] = field(default_factory=dict)  # by based_on: the newest that was used, and later ones

    def chance(self, n: int) -> Floats:
        """The random numbers of the next round."""
        return np.random.default_rng([self.seed, self.k + 1]).random(n)

    def hold(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], start: State) -> None:
        """Make the plan of the present states, unless it is there already."""
        if self.k in self.plans:
            return
        self.plans[self.k] = HeldPlan.of(self.k, *make_plan(primal, dual, self, start))

    def saved(self) -> bytes:
        """The plans that later rounds may rest on, and the starts that they are made for."""
        plans = [np.frombuffer(held.data, dtype=np.uint8) for held in self.plans.values()]
        return encode({**{name: getattr(self, name) for name in STARTS}, "plans": plans})

    def drop_before(self, j: int) -> None:
        """Forget the plans that no later round can rest on."""
        for old in [held for held in self.plans if held < j]:
            del self.plans[old]


def reset_chance(seed: int, k: int) -> np.random.Generator:
    """Where the number for the reset before round k comes from."""
    return np.random.default_rng([seed, k, 1])


def start_for_plan(next_start: State, life: State) -> State:
    """The start that the plan of j is made for: where round j ended.

    next_start: of round j; None if a reset must be performed first: then its result is not known while the plan is
      made, and `life`, the start of the newest life, stands for it.
    """
    return life if next_start is None else next_start


def begin_delayed(
    problem: Problem, primal: PrimalPlayer[P], dual: DualPlayer[D], *, episodes: int, seed: int
) -> DelayedGame:
    """A game with delay before its first round."""
    return with_delay(begin(problem, primal, dual, episodes=episodes, seed=seed), problem, seed)


def with_delay(game: Game, problem: Problem, seed: int) -> DelayedGame:
    """A fresh game, with chance per round."""
    s1 = None if problem.persistent else problem.first_start(reset_chance(seed, 1).random())
    return DelayedGame(0, s1, game.primal, game.dual, reset_chance(seed, 1), pauses=game.pauses, seed=seed)


def play_delayed(
    problem: Problem,
    primal: PrimalPlayer[P],
    dual: DualPlayer[D],
    game: DelayedGame,
    *,
    episodes: int,
    schedule: Delayed,
) -> Iterator[Round]:
    """As `loop.play`, with a plan for each round as the schedule says."""
    return play(problem, primal, dual, game, episodes=episodes, schedule=schedule)
