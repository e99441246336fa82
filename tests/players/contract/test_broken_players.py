"""The battery catches what it is there to catch: for each clause a player that breaks it, and no other clause."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import resetfree as rf
from resetfree.players.testing.battery import (
    Check,
    ContractBroken,
    check_dual,
    check_primal,
    dual_checks,
    primal_checks,
    usual,
)
from resetfree.players.testing.trial_problems import corners, played
from resetfree.problems.contract import State


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


class Rows(Good):
    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        plan = super().plan(state, s1, lam)
        return plan._replace(policy=0.9 * plan.policy)


class Ranges(Good):
    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        return super().plan(state, s1, lam)._replace(v_c=-0.1)


class Counts(Good):
    """Counts how often it was asked."""

    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        state.turns += 1
        return super().plan(state, s1, lam)


class Overwrites(Good):
    """Hands out one array again and again: what it said of one multiplier is gone when it is asked about the next."""

    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        plan = super().plan(state, s1, lam)
        state.buffer[...] = plan.policy
        return plan._replace(policy=state.buffer)


class Wavers(Good):
    """What it was asked before, kept in what is not saved, changes what it says now."""

    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        before, state.hidden[0] = state.hidden[0], lam > 10.0  # only the battery asks for that much
        return super().plan(state, s1, lam)._replace(v_r=0.25 if before else 0.5)


class Chance(Good):
    """Every game differs from the last."""

    games: ClassVar["count[int]"] = count(1)

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Means:
        return replace(super().init(problem, episodes, seed), turns=next(self.games))

    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        return super().plan(state, s1, lam)._replace(v_r=1.0 / (1 + state.turns))


class Unsaved(Good):
    """What it learns is in a field that is not saved."""

    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        return super().plan(state, s1, lam)._replace(v_r=1.0 / (1.0 + state.hidden[0]))

    def update(self, state: Means, round: rf.Round) -> Means:
        state.hidden[0] += 1
        return super().update(state, round)


class Impatient(Good):
    """Supposes that each plan is that of the round before."""

    def update(self, state: Means, round: rf.Round) -> Means:
        if round.rests_on < round.k - 1:
            state.paid[0, 0] = math.nan
        return super().update(state, round)


class Objects(Good):
    """Keeps Python objects, which could only be pickled."""

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Means:
        return replace(super().init(problem, episodes, seed), spare=np.array([None]))


class Stubborn(Good):
    """Always the first action."""

    def update(self, state: Means, round: rf.Round) -> Means:
        return state


class Crashes(Good):
    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        if not lam >= 0:
            raise ZeroDivisionError("the multiplier")
        return super().plan(state, s1, lam)


class AnyBound(Good):
    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Means:
        return Good(B=1.0).init(problem, episodes, seed)


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


class Refuses(Good):
    """Refuses a corner without having said so."""

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Means:
        if not problem.stationary:
            raise rf.InvalidInput("The dynamics must not change with the step.")
        return super().init(problem, episodes, seed)


class SaysSo(Refuses):
    """Refuses it and says so: it keeps the contract."""

    refuses: ClassVar[tuple[str, ...]] = ("layered",)


class Pretends(Good):
    """Says that it refuses a corner, and plays it."""

    refuses: ClassVar[tuple[str, ...]] = ("layered",)


class Late(SaysSo):
    """Notices in the middle of a game that it should have refused it."""

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Means:
        return replace(Good.init(self, problem, episodes, seed), turns=int(problem.stationary))

    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        if not state.turns:
            raise rf.InvalidInput("The dynamics must not change with the step.")
        return super().plan(state, s1, lam)


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


class VectorsUnread(OnVectors):
    """Always the first action."""

    def update(self, state: Means, round: rf.Round) -> Means:
        return state


class VectorsWaver(OnVectors):
    """The policy that it handed out follows what it is asked later."""

    def plan(self, state: Means, s1: State, lam: float) -> rf.Plan:
        row = super().plan(state, s1, lam).policy(1, s1)
        state.hidden[0] = lam > 10.0  # only the battery asks for that much
        return rf.Plan(lambda h, s: row[::-1] if state.hidden[0] else row, 0.5, 0.5)


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


class Outside(Pushes):
    """Would leave the box by certain chances, which no game has met so far."""

    def plan(self, state: Pushed, s1: State, lam: float) -> rf.Plan:
        return rf.Plan(Leaving(np.array([0.5]), 0.0), 0.5, 0.5) if state.n < 3 else super().plan(state, s1, lam)


class Leaving(Push):
    def act(self, h: int, s: State, u: Any) -> Any:
        return np.where(np.isin(u, (0.1, 0.9)), 2.0, self.centre)


class Unmoved(Pushes):
    def update(self, state: Pushed, round: rf.Round) -> Pushed:
        return state


class Drifts(Pushes):
    """The policy that it handed out follows what it is asked later."""

    def plan(self, state: Pushed, s1: State, lam: float) -> rf.Plan:
        plan = super().plan(state, s1, lam)
        state.hidden[0] = 0.25 if lam > 10.0 else plan.policy.centre[0]  # only the battery asks for that much
        plan.policy.centre = state.hidden
        return plan


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


class NegativeDual(GoodDual):
    def multiplier(self, state: Weight, s1: State, ask: Callable[[float], rf.Plan]) -> float:
        return -1e-3 if 1.0 < state.theta < 1.5 else state.theta


class CountsDual(GoodDual):
    def multiplier(self, state: Weight, s1: State, ask: Callable[[float], rf.Plan]) -> float:
        state.turns += 1
        return state.theta


class ChanceDual(GoodDual):
    games: ClassVar["count[int]"] = count(1)

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Weight:
        return replace(super().init(problem, episodes, seed), theta=1.0 / next(self.games))


class UnsavedDual(GoodDual):
    def multiplier(self, state: Weight, s1: State, ask: Callable[[float], rf.Plan]) -> float:
        return state.theta + float(state.hidden[0])

    def update(self, state: Weight, round: rf.Round) -> Weight:
        state.hidden[0] += 1
        return super().update(state, round)


class ImpatientDual(GoodDual):
    def update(self, state: Weight, round: rf.Round) -> Weight:
        new = super().update(state, round)
        return replace(new, theta=math.nan) if round.rests_on < round.k - 1 else new


class ObjectsDual(GoodDual):
    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Weight:
        return replace(super().init(problem, episodes, seed), spare=np.array([None]))


class StubbornDual(GoodDual):
    def update(self, state: Weight, round: rf.Round) -> Weight:
        return state


class CrashesDual(GoodDual):
    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Weight:
        return replace(super().init(problem, episodes, seed), theta=0.0 / episodes)


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


def broken(checks: dict[str, Check], player: Any) -> set[str]:
    """The names of the clauses that a player breaks."""
    found = set()
    for name, check in checks.items():
        try:
            check(player)
        except ContractBroken:
            found.add(name)
    return found


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


def label(value: Any) -> str:
    return value if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize(("clause", "player"), PRIMAL, ids=label)
def test_a_broken_primal_player_breaks_its_clause_and_no_other(clause: str, player: Any) -> None:
    assert broken(primal_checks(), player) == {clause}


@pytest.mark.parametrize(("clause", "player"), DUAL, ids=label)
def test_a_broken_dual_player_breaks_its_clause_and_no_other(clause: str, player: Any) -> None:
    assert broken(dual_checks(), player) == {clause}


def test_good_players_break_nothing() -> None:
    check_primal(Good())
    check_primal(SaysSo())
    check_primal(OnVectors())
    check_primal(Pushes())
    check_dual(GoodDual())


def test_who_takes_both_kinds_of_actions_is_tried_on_both() -> None:
    for good in (SaysSo, Pushes):
        assert usual(good()) == ["physical" if good is SaysSo else "box"]
    assert usual(ClaimsBox()) == ["physical", "box"]
    assert usual(GoodDual()) == ["physical"]
    alone = {name for name, check in primal_checks().items() if check.corner not in (None, "physical", "box")}
    assert broken(primal_checks(), ClaimsBox()) == primal_checks().keys() - alone - {"works-physical", "settings"}


def test_who_takes_vectors_only_must_refuse_the_rest() -> None:
    finite = {f"works-{corner}" for corner in corners() if corner not in ("vectors", "box")}
    assert broken(primal_checks(), TakesAll()) == finite | {"learns"}


def test_finite_players_may_refuse_vectors_but_dual_players_may_not() -> None:
    @dataclass(frozen=True)
    class Finite(GoodDual):
        def init(self, problem: rf.Problem, episodes: int, seed: int) -> Weight:
            if problem.n_states is None:
                raise rf.InvalidInput("The states must be finite.")
            return super().init(problem, episodes, seed)

    assert broken(dual_checks(), Finite()) == {"works-vectors", "works-box"}
    with pytest.raises(rf.InvalidInput, match="A policy of 'vectors' must be a function"):
        played(corners()["vectors"], Good(), GoodDual(), 1)


def test_every_clause_has_a_player_that_breaks_it() -> None:
    # Every other check plays 'physical' or 'box' too, so nobody stumbles there alone.
    assert {clause for clause, _ in PRIMAL} == primal_checks().keys() - {"works-physical", "works-box"}
    assert {clause for clause, _ in DUAL} == dual_checks().keys() - {"works-physical"}


def test_a_player_declared_not_to_learn_is_not_asked_to() -> None:
    class Declared(Stubborn):
        learns: ClassVar[bool] = False

    assert broken(primal_checks(), Declared()) == set()


def test_what_is_broken_is_said_in_one_sentence() -> None:
    with pytest.raises(ContractBroken, match=r"^The player 'good' must estimate 0 <= v_r <= H .* Got v_r = 0.5, v_c ="):
        check_primal(Ranges())
    with pytest.raises(AssertionError):  # so that it reads as a failed test where it is used in one
        check_primal(Rows())
    with pytest.raises(rf.ResetFreeError, match=r"Got IndexError \(not here\) instead\."):
        primal_checks()["works-literal"](Stumbles(corner="literal"))


def test_a_state_that_cannot_be_saved_is_named() -> None:
    @dataclass
    class Listed(Means):
        things: set[int] = field(default_factory=set)

    class Keeps(Good):
        def init(self, problem: rf.Problem, episodes: int, seed: int) -> Means:
            return Listed(**vars(super().init(problem, episodes, seed)))

    with pytest.raises(ContractBroken, match=r"must keep a state of arrays and numbers.*set in 'things'"):
        primal_checks()["plain-state"](Keeps())
