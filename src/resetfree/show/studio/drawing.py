"""A grid as the page draws it: options of `drawn-v0`, whether Assumption 1 holds there, and what closing would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from resetfree.core.errors import AssumptionViolated, InvalidInput
from resetfree.core.settings import Fraction, Range, record
from resetfree.problems.finite.composed import Price
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.safety import safe_sets
from resetfree.problems.registry import make
from resetfree.show.studio import limits
from resetfree.theory.assumptions import close, feasibility, largest_closed_set, reachable_starts

DRAWN, BY_HAND = "drawn-v0", "drawn-by-hand-v0"
# Fields to begin with; the second breaks Assumption 1: between two pits, every way out may slip into one.
TEMPLATES = {
    "garden": {"rows": "S......./.XX..X../......../..#X..G./........", "slip": 0.1, "horizon": 12},
    "bridge": {"rows": "S....../.XXXX.G/......./.XXXX.g/S......", "slip": 0.1, "horizon": 12},
    "maze": {"rows": "S.#..X.../..#.#.#../X...#.#X./.##.#.#.#/....X...G", "slip": 0.0, "horizon": 16},
    "cliff": {"rows": "........../........../........../S.XXXXXX.G", "slip": 0.05, "horizon": 16},
    "empty": {"rows": "S......./......../......../......../.......G", "slip": 0.1, "horizon": 12},
}


@dataclass(frozen=True)
class Grid:
    """A grid as the page sends it; missing keys have the defaults of `drawn-v0`."""

    rows: list[str] | str
    slip: Fraction = 0.1
    horizon: Annotated[int, Range(1, limits.HORIZON)] = 12
    stay: bool = False
    closed: bool = False
    help: Price | None = None  # the price of asking for a reset


def options_of(given: Any) -> dict[str, Any]:
    """The options of a drawn grid, checked.

    given: {"rows": [text, ...] or text, "slip": ..., "horizon": ..., "stay": ..., "closed": ..., "help": ...}
    """
    grid = record(Grid, given, "grid")
    rows = grid.rows if isinstance(grid.rows, str) else "/".join(grid.rows)
    lines = rows.split("/")
    if len(rows) > (limits.GRID + 1) ** 2 or max(len(lines), *map(len, lines)) > limits.GRID:
        raise InvalidInput(f"A grid must have at most {limits.GRID} rows and columns. Got a larger one instead.")
    return {name: value for name, value in {**vars(grid), "rows": rows}.items() if (name, value) != ("help", None)}


def check(given: Any) -> dict[str, Any]:
    """Whether every reachable start admits a reset-free policy, and the cells that break this.

    All lists are of cells (row * columns + column): `breaking` break the assumption, `stuck` are where ending an
    episode is a reset once the grid is closed, `hopeless` are those from which no policy avoids resets for certain.

    >>> check({"rows": ["SX", "X."], "slip": 0.1})["breaking"]
    [0]
    """
    options = options_of(given)
    as_drawn = make(DRAWN, **{**options, "closed": False})
    cell = as_drawn.layout.cell
    found = feasibility(as_drawn)
    safe = safe_sets(as_drawn).states(1)
    breaking = reachable_starts(as_drawn).states & ~safe
    result: dict[str, Any] = {
        "holds": bool(found.holds),
        "sentence": found.sentence,
        "closed": options["closed"],
        "breaking": cell[breaking].tolist(),
        "hopeless": cell[~safe & ~as_drawn.reset].tolist(),
        "witness": None if found.witness is None else int(cell[found.witness]),
        "path": [int(cell[s]) for s in found.detail.get("path", [])],
        "states": as_drawn.n_states,
        "pits": int(as_drawn.reset.sum()),
        **{"stuck": [], "closable": False, "why_not": "", "lost_starts": 0},
    }
    if not found.holds:
        result |= _closing(as_drawn)
    if options["closed"] and result["closable"]:
        shut = feasibility(make(DRAWN, **options))
        result |= {"holds": bool(shut.holds), "sentence": shut.sentence, "breaking": [], "witness": None, "path": []}
    return result


def _closing(mdp: FiniteMDP) -> dict[str, Any]:
    """What `close` would change, or why it cannot."""
    assert mdp.layout is not None
    try:
        shut = close(mdp)
    except AssumptionViolated as error:
        words = "every start can be forced into a pit: move a start, take pits away, or let the agent stay in its cell"
        return {"closable": False, "why_not": f"{str(error).rstrip('.')}; {words}."}
    lost = int(np.count_nonzero((mdp.start > 0) & ~largest_closed_set(mdp)))
    return {"closable": True, "stuck": mdp.layout.cell[shut.end_reset & ~mdp.reset].tolist(), "lost_starts": lost}
