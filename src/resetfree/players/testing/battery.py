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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from resetfree.core.errors import ResetFreeError
from resetfree.players.testing import clauses
from resetfree.players.testing.trial_problems import VECTORS, Scripted, Yielding, corners
from resetfree.problems.contract import Problem

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
        names = [self.corner] if self.corner is not None else clauses.usual(player)
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
        Check("policy-rows", "play rows that are distributions over the actions", clauses.rows),
        Check("value-ranges", "estimate 0 <= v_r <= H and 0 <= v_c <= 1", clauses.ranges),
        Check("planning-is-pure", "plan without leaving a trace", clauses.planning),
        Check("learns", "find, in 200 episodes, the one of two actions that pays", clauses.learns_to_earn, "physical"),
        Check("bad-input", "meet bad input with an error of resetfree or a sound plan", clauses.primal_bad_input),
    ]
    return _with_common(own, lambda player: (player, Scripted()), "primal")


def dual_checks() -> dict[str, Check]:
    """The checks of a dual player by name."""
    own = [
        Check("multiplier-range", "name multipliers that are finite and not negative", clauses.multipliers),
        Check("multiplier-is-pure", "name a multiplier without leaving a trace", clauses.naming),
        Check("learns", "stop, in 200 episodes, an opponent whom resets pay", clauses.learns_to_stop, "physical"),
        Check("bad-input", "meet bad input with an error of resetfree or a sound multiplier", clauses.dual_bad_input),
    ]
    return _with_common(own, lambda player: (Yielding(), player), "dual")


def _with_common(own: list[Check], seats: clauses.Seats, side: str) -> dict[str, Check]:
    """The role's own checks and those that both roles share."""
    shared = [
        Check("settings", "be a frozen dataclass with a name, whose settings JSON can hold", clauses.settings),
        Check("plain-state", "keep a state of arrays and numbers", partial(clauses.plain_state, seats, side)),
        Check("same-seed", "play the same rounds from the same seed", partial(clauses.same_seed, seats)),
        Check("late-plans", "learn from rounds whose plans are old", partial(clauses.late_plans, seats, side)),
        Check("save-and-load", "continue bit for bit after a save and a load", partial(clauses.save_and_load, seats)),
    ]
    works = [
        Check(
            f"works-{corner}",
            f"play the problem '{corner}', or refuse it with an error of resetfree if it declares so",
            partial(clauses.works, seats, corner, side == "primal" and corner == VECTORS),
            corner,
        )
        for corner in corners()
    ]
    return {check.name: check for check in shared + own + works}


def _run(checks: dict[str, Check], player: Any, problem: Problem | None) -> None:
    for check in checks.values():
        if problem is None or check.corner is None:
            check(player, problem)
