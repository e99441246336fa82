"""The contract of every player, as checks to run on players of your own.

    from resetfree.players.testing.battery import check_primal, primal_checks

    check_primal(MyPlayer())                      # raises ContractBroken with one sentence, or returns
    check_primal(MyPlayer(), my_problem)          # on your own problem, without the checks that bring their own

    @pytest.mark.parametrize("check", primal_checks().values(), ids=lambda c: c.name)
    def test_contract(check):
        check(MyPlayer())                         # one test per clause of the contract

A hyperparameter `B` that is None is filled in from the oracle. A player that is not meant to learn (a constant, a
baseline) declares `learns: ClassVar[bool] = False` in its class, and then need not solve the trivial problem.
A player that cannot play some problem names its corner in `refuses`, and must then refuse it with an error of resetfree
in `init`; a primal player may refuse vector states without saying so. One that takes nothing but vector states declares
`vectors_only: ClassVar[bool] = True`: it is tried on those, and must refuse every finite corner. A primal player is
given the actions that its `action_spaces` name (`Choices` by default), and one that takes both kinds is tried on both.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from resetfree.core import InvalidInput, ResetFreeError
from resetfree.core.state import check_arrays, dump
from resetfree.game.contract import Plan, PrimalPlayer, Round, check_actions
from resetfree.game.delayed import HeldPlan
from resetfree.players.testing import trial_problems as trial
from resetfree.players.testing.trial_problems import VECTORS, Scripted, Yielding, corners
from resetfree.problems import Box, Choices, Problem, model_behind
from resetfree.problems.finite.tabular_policy import as_policy

TOLERANCE = 1e-9
MULTIPLIERS = (0.0, 3.0, 0.1, 40.0)  # planned for in between, to see whether a plan leaves a trace
DELAYS = (0, 1, 5)  # rounds by which plans are late where that is tried
LATE = 12  # rounds that are then played
Seats: TypeAlias = Callable[[Any], tuple[Any, Any]]  # which player has which role: (primal, dual)


# Checks of both roles.


def settings(player: Any, problem: Problem) -> str | None:
    """A frozen dataclass, a name, and settings that a run file can hold as JSON."""
    params = getattr(type(player), "__dataclass_params__", None)
    if params is None or not params.frozen:
        return f"{type(player).__name__}, which is not a frozen dataclass"
    if not isinstance(getattr(type(player), "name", None), str):
        return f"{type(player).__name__}, which has no name"
    for f in fields(player):
        try:
            json.dumps(getattr(player, f.name), allow_nan=False)
        except (TypeError, ValueError) as error:
            return f"'{f.name}' ({error})"
    return None


def plain_state(seats: Seats, side: str, player: Any, problem: Problem) -> str | None:
    """A checkpoint holds arrays and numbers; anything else would have to be pickled."""
    game, _ = trial.played(problem, *seats(player), 6)
    try:
        check_arrays(dump(getattr(game, side)))
    except InvalidInput as error:
        return f"one that cannot be saved ({error})"
    return None


def same_seed(seats: Seats, player: Any, problem: Problem) -> str | None:
    """Two games from one seed."""
    (_, one), (_, other) = (trial.played(problem, *seats(player), 30) for _ in range(2))
    return _first_difference(one, other)


def save_and_load(seats: Seats, player: Any, problem: Problem) -> str | None:
    """Games that were stopped in the middle against games that were not, also with plans that come late."""
    for delay in (None, *(DELAYS if _can_wait(seats, player, problem) else ())):
        episodes = 30 if delay is None else LATE
        (whole, one), (parts, other) = trial.saved_and_loaded(problem, *seats(player), episodes, delay=delay)
        wrong = _first_difference(one, other)
        for side in ("primal", "dual"):
            if not wrong and not trial.same(trial.snapshot(getattr(whole, side)), trial.snapshot(getattr(parts, side))):
                wrong = f"another state of the {side} player at the end"
        if wrong:
            return wrong if delay is None else f"{wrong}, with plans that are {delay} rounds old"
    return None


def late_plans(seats: Seats, side: str, player: Any, problem: Problem) -> str | None:
    """Rounds whose plans rest on older rounds leave a sound state, from which it can plan."""
    if not _can_wait(seats, player, problem):
        return None
    for delay in DELAYS:
        game, rounds = trial.played_late(problem, *seats(player), LATE, delay)
        arrays = trial.snapshot(getattr(game, side))
        odd = [name for name, array in arrays.items() if array.dtype.kind == "f" and np.isnan(array).any()]
        if odd:
            return f"'{odd[0]}' that is not a number, with plans that are {delay} rounds old"
        numbers = [(this.lam, this.plan.v_r, this.plan.v_c) for this in rounds]
        if not np.isfinite(numbers).all():
            return f"numbers that are not finite, with plans that are {delay} rounds old"
    return None


def _can_wait(seats: Seats, player: Any, problem: Problem) -> bool:
    """Whether the policies are values: one that holds code cannot be kept for a later round."""
    _, (this,) = trial.played(problem, *seats(player), 1)
    try:
        HeldPlan.of(0, this.lam, this.plan)
    except InvalidInput:
        return False
    return True


def _first_difference(one: list[Round], other: list[Round]) -> str | None:
    for a, b in zip(one, other, strict=True):
        if not trial.same_round(a, b):
            return f"a difference in round {a.k}"
    return None


def works(seats: Seats, corner: str, lenient: bool, player: Any, problem: Problem) -> str | None:
    """A few rounds, or an error of resetfree before the first of them if the player declares that it refuses this.

    lenient: whether it may refuse without declaring it (finite players, vectors).
    """
    says_so = refused(player, corner, problem)
    try:
        if says_so:
            if isinstance(player, PrimalPlayer):
                check_actions(player, problem)  # as a game does before it calls the player
            trial.fill(player, problem).init(problem, 12, 7)
            return "no error from 'init', though it declares that it refuses this"
        trial.played(problem, *seats(player), 12)
    except ResetFreeError:
        if not (says_so or (lenient and not getattr(player, "vectors_only", False))):
            raise
    return None


def refused(player: Any, corner: str, problem: Problem) -> bool:
    """Whether a player declares that it refuses a corner: by name, all finite ones, or by its action space."""
    finite = getattr(player, "vectors_only", False) and problem.n_states is not None
    return corner in getattr(player, "refuses", ()) or finite or not isinstance(problem.actions, spaces(player))


def spaces(player: Any) -> tuple[type, ...]:
    """The kinds of actions that a player takes: any, for a dual player."""
    found: tuple[type, ...] = getattr(player, "action_spaces", (Choices, Box))
    return found


def usual(player: Any) -> list[str]:
    """The corners in which a player is tried where a check does not choose one: one for each kind of actions it takes.

    A dual player sees no actions, and is tried in one.
    """
    chooses = trial.VECTORS if getattr(player, "vectors_only", False) else "physical"
    if not isinstance(player, PrimalPlayer):
        return [chooses]
    return [corner for kind, corner in ((Choices, chooses), (Box, trial.BOX)) if kind in spaces(player)]


def _refuses_bad_bound(player: Any, problem: Problem) -> str | None:
    """A `B` that is no bound must not get as far as the first episode."""
    if not trial.has_bound(player):
        return None
    for bad in (-1.0, float("nan")):
        try:
            replace(player, B=bad).init(problem, 10, 0)
        except ResetFreeError:
            continue
        return f"B = {bad} accepted without an error"
    return None


# Checks of primal players.


def rows(player: Any, problem: Problem) -> str | None:
    """Probabilities, or actions that exist."""
    _, rounds = trial.played(problem, player, trial.Scripted(), 30)
    for this in rounds:
        policy = this.plan.policy
        array = trial.seen_rows(policy, [this]) if trial.is_function(policy) else np.asarray(policy)
        if problem.actions.n is None:
            outside = [row for row in array if not problem.actions.holds(row)]
            if outside:
                return f"{outside[0].tolist()} in round {this.k}, where an action is {problem.actions}"
            continue
        if np.issubdtype(array.dtype, np.integer):
            if array.min() < 0 or array.max() >= problem.n_actions:
                return f"actions {array.min()}..{array.max()} of {problem.n_actions} in round {this.k}"
            continue
        if array.shape[-1] != problem.n_actions:
            return f"rows of {array.shape[-1]} entries for {problem.n_actions} actions"
        off = ~((array >= 0).all(axis=-1) & (np.abs(array.sum(axis=-1) - 1.0) <= TOLERANCE))
        if off.any():
            return f"{array[off][0].tolist()} in round {this.k}"
    return None


def ranges(player: Any, problem: Problem) -> str | None:
    """Estimates within what values can be."""
    _, rounds = trial.played(problem, player, trial.Scripted(), 30)
    for this in rounds:
        v_r, v_c = this.plan.v_r, this.plan.v_c
        if not (-TOLERANCE <= v_r <= problem.horizon + TOLERANCE and -TOLERANCE <= v_c <= 1 + TOLERANCE):
            return f"v_r = {v_r}, v_c = {v_c} with H = {problem.horizon} in round {this.k}"
    return None


def planning(player: Any, problem: Problem) -> str | None:
    """State and plans are the same however often, and for whatever else, it plans."""
    game, rounds = trial.played(problem, player, trial.Scripted(), 8)
    player = trial.fill(player, problem)
    before = trial.snapshot(game.primal)
    first = player.plan(game.primal, game.s1, 0.5)
    kept = _probabilities(first, rounds)
    for lam in MULTIPLIERS:
        player.plan(game.primal, rounds[0].s1, lam)
    if not trial.same(before, trial.snapshot(game.primal)):
        return "a state that planning changed"
    if not trial.equal(kept, _probabilities(first, rounds)):
        return "a policy that a later plan has overwritten"
    again = player.plan(game.primal, game.s1, 0.5)
    if not (trial.equal(first.v_r, again.v_r) and trial.equal(first.v_c, again.v_c)):
        return "other estimates when it plans again"
    return None if trial.equal(kept, _probabilities(again, rounds)) else "another policy when it plans again"


def _probabilities(plan: Plan, rounds: list[Round]) -> Any:
    """A copy of a policy; of a function, its probabilities in the states of some rounds."""
    return trial.seen_rows(plan.policy, rounds) if trial.is_function(plan.policy) else np.array(plan.policy)


def learns_to_earn(player: Any, problem: Problem) -> str | None:
    """Both orders of the two actions, so that a fixed choice does not pass."""
    if not getattr(player, "learns", True):
        return None
    for corner, paying in product(usual(player), (0, 1)):
        small: Problem = trial.bandit(paying)
        if corner != "physical":
            small = trial.vector_bandit(paying, trial.PUSH if corner == trial.BOX else None)
        game, _ = trial.played(small, player, trial.Scripted((0.0,)), 200)
        plan = trial.fill(player, small).plan(game.primal, game.s1, 0.0)
        policy = plan.policy
        if small.actions.n is None:
            if round(float(policy.mode(1, game.s1)[0])) != paying:
                return f"the action {policy.mode(1, game.s1).tolist()} where {paying} pays"
            continue
        row = policy(1, game.s1) if callable(policy) else as_policy(policy, model_behind(small))[0, 0]
        if np.argmax(row) != paying:
            return f"probabilities {np.asarray(row).tolist()} where action {paying} pays"
    return None


def primal_bad_input(player: Any, problem: Problem) -> str | None:
    """Bad multipliers, no episodes, and a bound that is none."""
    game, _ = trial.played(problem, player, trial.Scripted(), 4)
    player = trial.fill(player, problem)
    questions: dict[str, Callable[[], Plan]] = {
        f"lam = {lam}": partial(player.plan, game.primal, game.s1, lam) for lam in (float("nan"), -1.0)
    }
    questions["0 episodes"] = lambda: player.plan(player.init(problem, 0, 0), game.s1, 0.5)
    for what, plan_for in questions.items():
        try:
            plan = plan_for()
        except ResetFreeError:
            continue
        numbers = [plan.v_r, plan.v_c, *([] if trial.is_function(plan.policy) else np.ravel(plan.policy))]
        if not np.isfinite(numbers).all():
            return f"numbers that are not finite for {what}"
    return _refuses_bad_bound(player, problem)


# Checks of dual players.


def _asker(problem: Problem, s1: Any) -> Callable[[float], Plan]:
    """What the game passes to a dual player, with a scripted opponent behind it."""
    opponent: PrimalPlayer[Any] = trial.Yielding()
    state = opponent.init(problem, 10, 0)
    return lambda lam: opponent.plan(state, s1, lam)


def multipliers(player: Any, problem: Problem) -> str | None:
    """Every multiplier of a game against an opponent that yields."""
    _, rounds = trial.played(problem, trial.Yielding(), player, 60)
    for this in rounds:
        if not (np.isfinite(this.lam) and this.lam >= 0):
            return f"{this.lam} in round {this.k}"
    return None


def naming(player: Any, problem: Problem) -> str | None:
    """State and multipliers are the same however often, and for whatever starts, they are computed."""
    game, rounds = trial.played(problem, trial.Yielding(), player, 8)
    player = trial.fill(player, problem)
    before = trial.snapshot(game.dual)
    first = player.multiplier(game.dual, game.s1, _asker(problem, game.s1))
    for this in rounds:
        player.multiplier(game.dual, this.s1, _asker(problem, this.s1))
    if not trial.same(before, trial.snapshot(game.dual)):
        return "a state that changed without an update"
    again = player.multiplier(game.dual, game.s1, _asker(problem, game.s1))
    return None if trial.equal(first, again) else f"{again} after {first} for the same start again"


def learns_to_stop(player: Any, problem: Problem) -> str | None:
    """The last quarter of a game against the best response."""
    if not getattr(player, "learns", True):
        return None
    _, rounds = trial.played(trial.temptation(), trial.Tempted(), player, 200)
    late = sum(this.episode.reset for this in rounds[-50:])
    return f"{late} resets in the last 50 episodes" if late > 10 else None


def dual_bad_input(player: Any, problem: Problem) -> str | None:
    """No episodes, and a bound that is none."""
    filled = trial.fill(player, problem)
    s1 = problem.first_start(0.5)
    try:
        lam = filled.multiplier(filled.init(problem, 0, 0), s1, _asker(problem, s1))
    except ResetFreeError:
        return _refuses_bad_bound(filled, problem)
    if not (np.isfinite(lam) and lam >= 0):
        return f"the multiplier {lam} for 0 episodes"
    return _refuses_bad_bound(filled, problem)


# --------------------------------------------------------------------------------------------------------------------

__all__ = ["Check", "ContractBroken", "check_dual", "check_primal", "dual_checks", "primal_checks"]


class ContractBroken(ResetFreeError, AssertionError):
    """A player breaks the contract; the sentence names what was expected and what came."""


@dataclass(frozen=True)
class Check:
    """One clause of the contract: call it with a player, and a problem of your own if you like."""

    name: str
    demand: str  # "The player 'x' must ..."
    find: Callable[[Any, Problem], str | None]  # what is wrong, as it follows "Got"
    corner: str | None = None  # the problem that the check brings, if it is about that problem

    def __call__(self, player: Any, problem: Problem | None = None) -> None:
        """Raise ContractBroken if the player breaks this clause."""
        names = [self.corner] if self.corner is not None else usual(player)
        for where in [corners()[name] for name in names] if problem is None else [problem]:
            try:
                wrong = self.find(player, where)
            except Exception as error:  # whatever the player raises where it should work is a finding
                raise self._broken(player, f"{type(error).__name__} ({error})") from error
            if wrong is not None:
                raise self._broken(player, wrong)

    def _broken(self, player: Any, wrong: str) -> ContractBroken:
        name = getattr(player, "name", type(player).__name__)
        return ContractBroken(f"The player '{name}' must {self.demand}. Got {wrong} instead.")


def check_primal(player: Any, problem: Problem | None = None) -> None:
    """Every check of a primal player; with a `problem`, those that bring a problem of their own are left out.

    >>> from resetfree.players.tabular.references import Uniform
    >>> check_primal(Uniform())
    """
    _run(primal_checks(), player, problem)


def check_dual(player: Any, problem: Problem | None = None) -> None:
    """Every check of a dual player; with a `problem`, those that bring a problem of their own are left out.

    >>> check_dual(Scripted(multipliers=(0.0, -1.0)))
    Traceback (most recent call last):
    resetfree.players.testing.battery.ContractBroken: The player 'scripted' must name multipliers that are finite and
    not negative. Got -1.0 in round 2 instead.
    """
    _run(dual_checks(), player, problem)


def primal_checks() -> dict[str, Check]:
    """The checks of a primal player by name."""
    own = [
        Check("policy-rows", "play rows that are distributions over the actions", rows),
        Check("value-ranges", "estimate 0 <= v_r <= H and 0 <= v_c <= 1", ranges),
        Check("planning-is-pure", "plan without leaving a trace", planning),
        Check("learns", "find, in 200 episodes, the one of two actions that pays", learns_to_earn, "physical"),
        Check("bad-input", "meet bad input with an error of resetfree or a sound plan", primal_bad_input),
    ]
    return _with_common(own, lambda player: (player, Scripted()), "primal")


def dual_checks() -> dict[str, Check]:
    """The checks of a dual player by name."""
    own = [
        Check("multiplier-range", "name multipliers that are finite and not negative", multipliers),
        Check("multiplier-is-pure", "name a multiplier without leaving a trace", naming),
        Check("learns", "stop, in 200 episodes, an opponent whom resets pay", learns_to_stop, "physical"),
        Check("bad-input", "meet bad input with an error of resetfree or a sound multiplier", dual_bad_input),
    ]
    return _with_common(own, lambda player: (Yielding(), player), "dual")


def _with_common(own: list[Check], seats: Seats, side: str) -> dict[str, Check]:
    """The role's own checks and those that both roles share."""
    shared = [
        Check("settings", "be a frozen dataclass with a name, whose settings JSON can hold", settings),
        Check("plain-state", "keep a state of arrays and numbers", partial(plain_state, seats, side)),
        Check("same-seed", "play the same rounds from the same seed", partial(same_seed, seats)),
        Check("late-plans", "learn from rounds whose plans are old", partial(late_plans, seats, side)),
        Check("save-and-load", "continue bit for bit after a save and a load", partial(save_and_load, seats)),
    ]
    corner_checks = [
        Check(
            f"works-{corner}",
            f"play the problem '{corner}', or refuse it with an error of resetfree if it declares so",
            partial(works, seats, corner, side == "primal" and corner == VECTORS),
            corner,
        )
        for corner in corners()
    ]
    return {check.name: check for check in shared + own + corner_checks}


def _run(checks: dict[str, Check], player: Any, problem: Problem | None) -> None:
    for check in checks.values():
        if problem is None or check.corner is None:
            check(player, problem)
