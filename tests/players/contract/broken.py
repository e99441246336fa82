"""Players that keep the contract (`Good`, `OnVectors`, `Pushes`, `GoodDual`), and one that breaks each clause."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import resetfree as rf
from resetfree.players.testing.trial_problems import corners
from resetfree.problems import State


@dataclass
class Means:
    """Mean rewards, and a few fields in which the broken ones hide what they do."""

    paid: NDArray[np.float64]  # [S, A]
    tries: NDArray[np.float64]  # [S, A]
    spare: NDArray[Any]
    turns: int
    horizon: int
    hidden: NDArray[np.int64] = field(metadata={"saved": False})
    buffer: NDArray[np.float64] = field(metadata={"saved": False})


@dataclass(frozen=True)
class Good(rf.PrimalPlayer[Means]):
    """Mostly the action with the largest mean reward so far; it keeps the contract."""

    name: ClassVar[str] = "good"
    B: float | None = None

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Means:
        if self.B is None or not self.B >= 0:
            raise rf.InvalidInput(f"The 'B' of good must not be negative. Got {self.B} instead.")
        shape = (problem.n_states or 0, problem.n_actions)
        hidden, buffer = np.zeros(1, dtype=np.int64), np.zeros((problem.horizon, *shape))
        return Means(np.zeros(shape), np.zeros(shape), np.zeros(1), 0, problem.horizon, hidden, buffer)

    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        means = np.where(state.tries > 0, state.paid / np.maximum(state.tries, 1.0), 1.0)
        chance = 0.2 if lam > 2.0 else 0.1
        rows = np.full(means.shape, chance / means.shape[1])
        rows[np.arange(len(rows)), means.argmax(axis=1)] += 1.0 - chance
        return rf.Plan(np.tile(rows, (state.horizon, 1, 1)), 0.5, 0.5)

    def update(self, state: Means, round: rf.Round) -> Means:
        episode = round.episode
        for s, a, r in zip(episode.states, episode.actions, episode.rewards, strict=False):
            state.tries[s, a] += 1.0
            state.paid[s, a] += r
        return state


def but(name: str, base: Any = Good, **changed: Callable[..., Any]) -> Any:
    """A player like another, but for these methods: each is given what the other one does, to call or not to.

    init(do, problem, episodes), plan(do, state, lam), update(do, state, round), multiplier(do, state)
    """
    methods: dict[str, Any] = {
        "init": lambda self, problem, episodes, seed: changed["init"](
            lambda: base.init(self, problem, episodes, seed), problem, episodes
        ),
        "plan": lambda self, state, s1, lam: changed["plan"](lambda: base.plan(self, state, s1, lam), state, lam),
        "update": lambda self, state, round: changed["update"](lambda: base.update(self, state, round), state, round),
        "multiplier": lambda self, state, s1, ask: changed["multiplier"](
            lambda: base.multiplier(self, state, s1, ask), state
        ),
    }
    return type(name, (base,), {key: methods[key] for key in changed})


def overwrites(do: Any, state: Means, lam: float) -> Any:
    """Hands out one array again and again: what it said of one multiplier is gone when it is asked about the next."""
    plan = do()
    state.buffer[...] = plan.policy
    return plan._replace(policy=state.buffer)


def wavers(do: Any, state: Means, lam: float) -> Any:
    """What it was asked before, kept in what is not saved, changes what it says now."""
    before, state.hidden[0] = state.hidden[0], lam > 10.0  # only the battery asks for that much
    return do()._replace(v_r=0.25 if before else 0.5)


def counts(do: Any, state: Any, lam: float = 0.0) -> Any:
    """Counts how often it was asked."""
    state.turns += 1
    return do()


def hides(do: Any, state: Any, round: rf.Round) -> Any:
    """What it learns is in a field that is not saved."""
    state.hidden[0] += 1
    return do()


def impatient(do: Any, state: Means, round: rf.Round) -> Any:
    """Supposes that each plan is that of the round before."""
    state.paid[0, 0] += math.nan if round.rests_on < round.k - 1 else 0.0
    return do()


def stays(do: Any, state: Any, round: rf.Round) -> Any:
    """Learns nothing."""
    return state


def crashes(do: Any, state: Means, lam: float) -> Any:
    if not lam >= 0:
        raise ZeroDivisionError("the multiplier")
    return do()


def refuses(do: Any, problem: rf.Problem, episodes: int) -> Any:
    """Refuses a corner."""
    if not problem.stationary:
        raise rf.InvalidInput("The dynamics must not change with the step.")
    return do()


def late(do: Any, state: Means, lam: float) -> Any:
    """Notices in the middle of a game that it should have refused it."""
    if not state.turns:
        raise rf.InvalidInput("The dynamics must not change with the step.")
    return do()


def pickled(do: Any, problem: rf.Problem, episodes: int) -> Any:
    """Keeps Python objects, which could only be pickled."""
    return replace(do(), spare=np.array([None]))


GAMES = count(1)  # every game differs from the last
Rows = but("Rows", plan=lambda do, state, lam: (plan := do())._replace(policy=0.9 * plan.policy))
Ranges = but("Ranges", plan=lambda do, state, lam: do()._replace(v_c=-0.1))
Counts, Overwrites, Wavers = but("Counts", plan=counts), but("Overwrites", plan=overwrites), but("Wavers", plan=wavers)
Chance = but(
    "Chance", init=lambda do, problem, episodes: replace(do(), turns=next(GAMES)),
    plan=lambda do, state, lam: do()._replace(v_r=1.0 / (1 + state.turns)),
)  # fmt: skip
Unsaved = but("Unsaved", update=hides, plan=lambda do, state, lam: do()._replace(v_r=1.0 / (1.0 + state.hidden[0])))
Impatient, Objects = but("Impatient", update=impatient), but("Objects", init=pickled)
Stubborn, Crashes = but("Stubborn", update=stays), but("Crashes", plan=crashes)
AnyBound = but("AnyBound", init=lambda do, problem, episodes: Good(B=1.0).init(problem, episodes, 0))
Refuses = but("Refuses", init=refuses)  # without having said so


@dataclass(frozen=True)
class Unwritable(Good):
    labels: frozenset[str] = frozenset({"JSON has no sets"})


@dataclass
class Thawed(rf.PrimalPlayer[Means]):
    """Good, but its settings can be changed."""

    name: ClassVar[str] = "thawed"
    B: float | None = None
    init = Good.init
    plan = Good.plan
    update = Good.update


@dataclass(frozen=True)
class Stumbles(Good):
    """Fails on one of the corners."""

    corner: str = ""

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Means:
        if problem.name == self.corner:
            raise IndexError("not here")
        return super().init(problem, episodes, seed)


class Pretends(Good):
    """Says that it refuses a corner, and plays it."""

    refuses: ClassVar[tuple[str, ...]] = ("layered",)


SaysSo = type("SaysSo", (Pretends,), {"init": Refuses.init})  # it refuses what it says: it keeps the contract
Late = but("Late", Pretends, init=lambda do, problem, episodes: replace(do(), turns=int(problem.stationary)), plan=late)


@dataclass(frozen=True)
class OnVectors(Good):
    """The action of largest mean reward, for vector states only; it keeps the contract."""

    vectors_only: ClassVar[bool] = True

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Means:
        if problem.n_states is not None:
            raise rf.InvalidInput("The states must be vectors.")
        state = super().init(problem, episodes, seed)
        return replace(state, paid=np.zeros((1, problem.n_actions)), tries=np.zeros((1, problem.n_actions)))

    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        row = super().plan(state, s1, lam).policy[0, 0]
        return rf.Plan(lambda h, s: row, 0.5, 0.5)

    def update(self, state: Means, round: rf.Round) -> Means:
        for a, r in zip(round.episode.actions, round.episode.rewards, strict=True):
            state.tries[0, a] += 1.0
            state.paid[0, a] += r
        return state


def vectors_waver(do: Any, state: Means, lam: float) -> Any:
    """The policy that it handed out follows what it is asked later."""
    row = do().policy(1, None)
    state.hidden[0] = lam > 10.0  # only the battery asks for that much
    return rf.Plan(lambda h, s: row[::-1] if state.hidden[0] else row, 0.5, 0.5)


VectorsUnread, VectorsWaver = (
    but("VectorsUnread", OnVectors, update=stays),
    but("VectorsWaver", OnVectors, plan=vectors_waver),
)


class TakesAll(OnVectors):
    """Says that it takes vectors only, and takes the rest as well."""

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Means:
        return Good.init(self, problem, episodes, seed)

    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        return rf.Plan(lambda h, s: np.full(state.paid.shape[1], 1.0 / state.paid.shape[1]), 0.5, 0.5)

    def update(self, state: Means, round: rf.Round) -> Means:
        return state


@dataclass
class Push(rf.Policy):
    """Around one action of a box."""

    centre: NDArray[np.float64]  # [A]
    width: float

    def act(self, h: int, s: State, u: Any) -> Any:
        return np.clip(self.centre + self.width * (u - 0.5), 0.0, 1.0)


@dataclass
class Pushed:
    """Sums of actions and of what they paid."""

    sums: NDArray[np.float64]  # [3] of actions, rewards, and their products
    n: int
    hidden: NDArray[np.float64] = field(metadata={"saved": False})


@dataclass(frozen=True)
class Pushes(rf.PrimalPlayer[Pushed]):
    """Pushes all the way where pushing has paid; it keeps the contract, and takes nothing but boxes."""

    name: ClassVar[str] = "pushes"
    action_spaces: ClassVar[tuple[type, ...]] = (rf.Box,)

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Pushed:
        return Pushed(np.zeros(3), 0, np.zeros(1))

    def plan(self, state: Pushed, s1: State, lam: float) -> rf.Plan:
        n = max(state.n, 1)
        slope = state.sums[2] / n - state.sums[0] * state.sums[1] / n**2
        centre = 0.5 if state.n < 50 else float(slope > 0)
        return rf.Plan(Push(np.array([centre]), 1.0), 0.5, 0.5)

    def update(self, state: Pushed, round: rf.Round) -> Pushed:
        a, r = round.episode.actions[:, 0], round.episode.rewards
        state.sums += [a.sum(), r.sum(), (a * r).sum()]
        state.n += len(r)
        return state


@dataclass(frozen=True)
class ClaimsBox(Good):
    """Says that it takes boxes, and counts actions."""

    action_spaces: ClassVar[tuple[type, ...]] = (rf.Choices, rf.Box)


class Leaving(Push):
    """Would leave the box by certain chances, which no game has met so far."""

    def act(self, h: int, s: State, u: Any) -> Any:
        return np.where(np.isin(u, (0.1, 0.9)), 2.0, self.centre)


def outside(do: Any, state: Pushed, lam: float) -> Any:
    return rf.Plan(Leaving(np.array([0.5]), 0.0), 0.5, 0.5) if state.n < 3 else do()


def drifts(do: Any, state: Pushed, lam: float) -> Any:
    """The policy that it handed out follows what it is asked later."""
    plan = do()
    state.hidden[0] = 0.25 if lam > 10.0 else plan.policy.centre[0]  # only the battery asks for that much
    plan.policy.centre = state.hidden
    return plan


Outside, Drifts = but("Outside", Pushes, plan=outside), but("Drifts", Pushes, plan=drifts)
Unmoved = but("Unmoved", Pushes, update=stays)


@dataclass
class Weight:
    theta: float
    turns: int
    spare: NDArray[Any]
    hidden: NDArray[np.int64] = field(metadata={"saved": False})


@dataclass(frozen=True)
class GoodDual(rf.DualPlayer[Weight]):
    """Gradient steps of size 1 / sqrt(k); it keeps the contract."""

    name: ClassVar[str] = "good-dual"

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Weight:
        return Weight(0.0, 0, np.zeros(1), np.zeros(1, dtype=np.int64))

    def multiplier(self, state: Weight, s1: State, ask: Callable[[float], rf.Plan]) -> float:
        return state.theta

    def update(self, state: Weight, round: rf.Round) -> Weight:
        state.theta += round.cost_signal / math.sqrt(round.k)
        return state


def impatient_dual(do: Any, state: Weight, round: rf.Round) -> Weight:
    new: Weight = do()
    return replace(new, theta=math.nan) if round.rests_on < round.k - 1 else new


NegativeDual = but("NegativeDual", GoodDual, multiplier=lambda do, state: -1e-3 if 1.0 < state.theta < 1.5 else do())
CountsDual, ObjectsDual = but("CountsDual", GoodDual, multiplier=counts), but("ObjectsDual", GoodDual, init=pickled)
ChanceDual = but("ChanceDual", GoodDual, init=lambda do, problem, episodes: replace(do(), theta=1.0 / next(GAMES)))
UnsavedDual = but(
    "UnsavedDual", GoodDual, update=hides, multiplier=lambda do, state: state.theta + float(state.hidden[0])
)
ImpatientDual, StubbornDual = (
    but("ImpatientDual", GoodDual, update=impatient_dual),
    but("StubbornDual", GoodDual, update=stays),
)
CrashesDual = but("CrashesDual", GoodDual, init=lambda do, problem, episodes: replace(do(), theta=0.0 / episodes))


@dataclass(frozen=True)
class UnwritableDual(GoodDual):
    scale: float = float("nan")


@dataclass(frozen=True)
class StumblesDual(GoodDual):
    corner: str = ""

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Weight:
        if problem.name == self.corner:
            raise IndexError("not here")
        return super().init(problem, episodes, seed)


PRIMAL: list[tuple[str, Any]] = [
    ("policy-rows", Rows()), ("value-ranges", Ranges()), ("planning-is-pure", Counts()),
    ("planning-is-pure", Overwrites()), ("planning-is-pure", Wavers()), ("same-seed", Chance()),
    ("save-and-load", Unsaved()), ("late-plans", Impatient()),
    ("plain-state", Objects()), ("learns", Stubborn()), ("bad-input", Crashes()), ("bad-input", AnyBound()),
    ("settings", Unwritable()), ("settings", Thawed()),
    *((f"works-{corner}", Stumbles(corner=corner)) for corner in corners() if corner not in ("physical", "box")),
    ("policy-rows", Outside()), ("learns", Unmoved()), ("planning-is-pure", Drifts()),
    ("works-layered", Refuses(B=1.0)), ("works-layered", Pretends()), ("works-layered", Late()),
    ("learns", VectorsUnread()), ("planning-is-pure", VectorsWaver()),
]  # fmt: skip
DUAL: list[tuple[str, Any]] = [
    ("multiplier-range", NegativeDual()), ("multiplier-is-pure", CountsDual()), ("same-seed", ChanceDual()),
    ("save-and-load", UnsavedDual()), ("plain-state", ObjectsDual()), ("learns", StubbornDual()),
    ("late-plans", ImpatientDual()), ("bad-input", CrashesDual()), ("settings", UnwritableDual()),
    *((f"works-{corner}", StumblesDual(corner=corner)) for corner in corners() if corner != "physical"),
]  # fmt: skip
