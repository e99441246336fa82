"""Every claim that can be printed fails under some mutant, no honest run fails any, and none escapes the battery."""

import ast
import sys
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from tests.mutants import battery, honest, late_plans, narrow_widths, on_a_continuum, sharp_bounds

import resetfree
from resetfree.theory.certificates.record import DIGEST

SRC = Path(resetfree.__file__).parent
FILES = [
    *sorted((SRC / "theory" / "certificates").glob("*.py")),
    SRC / "theory" / "theorems.py",
]  # where claims are made
KINDS = ("Certificate", "over_rounds", "in_every_round")


@cache
def traced() -> tuple[dict[str, set[int]], dict[str, set[str]]]:
    """The lines of FILES that are run while honest runs and mutants are certified; the kills."""
    seen: dict[str, set[int]] = {str(path): set() for path in FILES}

    def lines(frame: FrameType, event: str, argument: Any) -> Any:
        seen[frame.f_code.co_filename].add(frame.f_lineno)
        return lines

    def calls(frame: FrameType, event: str, argument: Any) -> Any:
        return lines if frame.f_code.co_filename in seen else None

    honest.certified.cache_clear()
    before = sys.gettrace()
    sys.settrace(calls)
    try:
        honest.certified()
        return seen, battery.kills()
    finally:
        sys.settrace(before)


def test_no_honest_run_fails_anything() -> None:
    found = [f"{name}: {c}" for name, each in honest.certified().items() for c in each if c.refuted]
    assert not found


def test_every_claim_has_a_mutant_that_kills_it() -> None:
    _, kills = traced()
    found = battery.claims()
    print("\n" + battery.table(found, kills))
    alive = [claim for claim in found if not any(claim in hit for hit in kills.values())]
    assert not alive, "add a mutant to tests/mutants/battery.py for each of these"


def test_every_proved_claim_on_a_continuum_has_a_mutant_there() -> None:
    """Its claims have the words of the finite ones, so that a kill elsewhere would hide that none is made here."""
    kills, here = traced()[1], on_a_continuum.__name__
    killed = set().union(*(kills[name] for name, broken in battery.MUTANTS.items() if broken.__module__ == here))
    runs = (on_a_continuum.SOFT, on_a_continuum.SEEN, on_a_continuum.GREEDY)
    found = {c.claim for name in runs for c in honest.certified()[name] if c.status in ("proved", "checked")}
    assert len(found) > 20
    assert not sorted(found - killed - {DIGEST})  # which is about files, whatever they are of


def test_every_mutant_kills_something() -> None:
    modules = {broken.__module__ for broken in battery.MUTANTS.values()}
    assert {late_plans.__name__, narrow_widths.__name__, on_a_continuum.__name__, sharp_bounds.__name__} <= modules
    _, kills = traced()
    assert not [name for name, hit in kills.items() if not hit & set(battery.claims())]
    assert set().union(*kills.values()) <= set(battery.claims())  # what only a mutant prints has no honest run


def test_no_claim_is_made_where_the_battery_never_comes() -> None:
    """Wherever a certificate with a verdict is made, the battery has been: a new claim cannot be left out."""
    missed = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        makers = {*KINDS, *(f.name for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and takes_claim(f))}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and makes_claim(node, makers):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                if not traced()[0][str(path)].intersection(lines):
                    missed.append(f"{path.relative_to(SRC)}:{node.lineno}: {ast.unparse(node)[:100]}")
    assert not missed, "let a run of tests/mutants/honest.py print these claims"


def takes_claim(function: ast.FunctionDef) -> bool:
    return any(argument.arg == "claim" for argument in function.args.args)


def makes_claim(call: ast.Call, makers: set[str]) -> bool:
    """A certificate, a helper that is handed a claim, or one more entry of a list of claims."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr == "append" and getattr(call.func.value, "id", "") == "claims"
    return getattr(call.func, "id", "") in makers
