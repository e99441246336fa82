"""Every bound agrees with a second derivation, and no bound is so slightly wrong that this would not be noticed.

Mutants are generated (`slight`): a number times 0.9, a term left out, all of it times 0.9. What must have them is found
by looking: functions that compute numbers in the modules of bounds, and what the protocols of bounds are in players.
"""

import ast
import inspect
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.mutants.formulas_of_players import zero
from tests.mutants.formulas_of_visits import FORMULAS, Pairs
from tests.mutants.slight import in_place, mutants, plain

from resetfree.game import capabilities
from resetfree.players import discover
from resetfree.players.linear import intervals
from resetfree.players.linear import regression as proved_linear
from resetfree.players.linear.greedy_composite import composite_beta
from resetfree.players.tabular import counts
from resetfree.theory import delay, proved_widths, reset_limits, theorems, visit_sums, widths
from resetfree.theory.certificates import anytime, claims_dual, claims_paths, claims_rates

MODULES = (widths, proved_widths, delay, reset_limits, anytime, visit_sums)
NUMBERS = (  # what such functions return
    "float", "int", "Floats", "Ints", "Width", "Over", "Limit", "tuple[", "list[float]", "Iterator[tuple", "Distance",
    "Cell", "UnsafeEdges",
)  # fmt: skip
BOUNDS = [  # protocols with a bound
    capabilities.BoundsOnlineRegret, capabilities.MovesBySteps, capabilities.StatesOtherBounds,
    capabilities.CapsMultiplier, capabilities.RaisesMultiplier, capabilities.BoundsPrimalRegret,
    capabilities.BoundsDelayedRegret, capabilities.LearnsRules, capabilities.CountsFalls, capabilities.SharperWithModel,
]  # fmt: skip
OWN = ("betas", "log_term", "_log_term", "temperature", "eta", "_regret", "_regret_bound")  # parts of these in players
NO_BOUND = {anytime._counts, anytime.resets_bound, reset_limits.check_episodes}  # they pass on what others check
EQUIVALENT = {  # a mutant that is as true, by function and words
    "falls_of_fleet": ("line 25: k + 1",),  # rounds are whole numbers: below k + 0.9 is below k + 1
    "farther": ("line 14: 2.0", "line 18: 1 - 10", "line 18: 10"),  # a bracket for halving; less than halving errs by
    "falls_while_light": ("line 14: 2.0",),  # a bracket for halving
    "anytime_regret": ("line 25",),  # what rounding may do
    "likely": ("all of it",),  # it returns words
    "_edges": ("all of it",),  # it returns nothing, it yields
    "kl_upper": ("line 18",),  # first points of Newton's method, which ends at the same place from any of them
    "saddle_gap": ("line 14", "line 16: best - multiplier"),  # an equality for any multiplier, as V_c of pi* is 0
}


def agree(compare: Callable[[], Pairs]) -> None:
    for found, expected in compare():
        a, b = (np.asarray(side, dtype=np.float64) for side in (found, expected))
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def name(function: Any) -> str:
    honest = plain(function)
    return f"{honest.__module__.removeprefix('resetfree.')}.{honest.__qualname__}"


def bounds() -> set[Any]:
    """Every function and method that computes a bound."""
    found: set[Any] = {composite_beta, counts.union_bound, proved_linear.summed_widths}
    found |= {claims_rates.solved_for_resets, claims_rates._with_chance, theorems.reduction, theorems.saddle_gap}
    found |= {claims_rates.unknown_bound, claims_rates.rates, claims_paths.by_falls, claims_paths.anytime_regret}
    found |= {claims_dual.farther, claims_dual.replay, claims_dual.nearly_in_class, intervals._both_sides}
    kinds = (*_classes(proved_linear), *_classes(intervals))
    found |= {vars(cls)[one] for cls in kinds for one in ("regret", "regret_with_model", "falls") if one in vars(cls)}
    for module in MODULES:
        for one in [one for owner in (module, *_classes(module)) for one in vars(owner).values()]:
            honest = plain(one)
            own = inspect.isfunction(honest) and honest.__module__ == module.__name__ and _in_source(honest)
            if own and str(honest.__annotations__.get("return", "")).startswith(NUMBERS):
                found.add(one)
    names = {method for protocol in BOUNDS for method in vars(protocol) if not method.startswith("_")} - {"each_round"}
    for role in ("primal", "dual"):
        for cls in discover(role).values():
            for owner in cls.__mro__:
                if owner.__module__.startswith("resetfree.players"):
                    found |= {vars(owner)[one] for one in (*names, *OWN) if inspect.isfunction(vars(owner).get(one))}
    return found - NO_BOUND


def _classes(module: ModuleType) -> list[type]:
    return [cls for cls in vars(module).values() if inspect.isclass(cls) and cls.__module__ == module.__name__]


def _in_source(function: Any) -> bool:
    """Whether it was written, and not generated for a dataclass or a named tuple."""
    try:
        return isinstance(ast.parse(inspect.cleandoc("\n" + inspect.getsource(function))).body[0], ast.FunctionDef)
    except (OSError, SyntaxError, TypeError):
        return False


def test_every_bound_has_a_second_derivation() -> None:
    missing = sorted(name(one) for one in bounds() - set(FORMULAS))
    assert not missing, "write their formulas again in tests/mutants/formulas.py"


@pytest.mark.parametrize("compare", dict.fromkeys(one for several in FORMULAS.values() for one in several))
def test_it_agrees(compare: Callable[[], Pairs]) -> None:
    agree(compare)


@pytest.mark.filterwarnings("ignore")  # a mutant may divide by zero
@pytest.mark.parametrize("function", FORMULAS, ids=name)
def test_no_slight_mutant_survives(function: Any) -> None:
    compared, survivors, tried = FORMULAS[function], [], 0
    for words, code in mutants(function).items():
        tried += 1
        with in_place(function, code):
            if not any(_fails(partial(agree, one)) for one in compared):
                survivors.append(words)
    excused = EQUIVALENT.get(plain(function).__name__, ())
    survivors = [one for one in survivors if not one.startswith(excused or "nothing")]
    assert tried
    if compared == [zero]:
        assert survivors == ["all of it times 0.9"]  # it is 0
    else:
        assert not survivors


def _fails(check: Callable[[], object]) -> bool:
    try:
        check()
    except Exception:
        return True
    return False
