"""`drawn-v0`: a grid from a drawing, row by row; `drawn-by-hand-v0`: the same where an operator performs resets."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core.arrays import Floats
from resetfree.core.settings import Fraction, expect
from resetfree.problems.contract import ChoicePolicy, Episode, intervene
from resetfree.problems.finite.checks import Horizon
from resetfree.problems.finite.grids import MOVES, cell_names, grid_transitions
from resetfree.problems.finite.mdp import FiniteMDP, FiniteProblem
from resetfree.problems.finite.safety import close
from resetfree.problems.operators import Automatic, Operator, Request
from resetfree.problems.registry import STEP, register

SYMBOLS = {".": "free", "#": "wall", "X": "pit", "G": "goal", "g": "small goal", "S": "start", "R": "restart"}
PAYS = {"G": 1.0, "g": 0.3}
ROWS = "S......./.XX..X../......../..#X..G./........"
LARGEST = 200  # rows, and columns


def _size(rows: str, horizon: int, **_: object) -> int:
    return 5 * len(rows) * (horizon + 16) + STEP * horizon


WHY = {
    "start": "put the agent on a start cell",
    "resume": "the position of the agent is unknown",
    "stuck": "it is stuck",
}


@register("drawn-v0", "A grid that you draw: walls, pits, goals, starts and restarts.", _size)
def drawn(
    rows: str = ROWS, slip: Fraction = 0.1, horizon: Horizon = 12, stay: bool = False, closed: bool = False
) -> FiniteMDP:
    """Rows from the top, one character per cell, with "/" between them.

    "." free, "#" wall, "X" pit (a reset state), "G" pays 1 and "g" pays 0.3 for acting there, "S" start, "R" restart
    after a reset. Without "R" the restarts are the starts, and vice versa.

    stay: whether the agent may stay where it is, which never slips.
    closed: whether ending an episode where a reset cannot be avoided is a reset (`assumptions.close`).
    """
    return drawn_mdp("drawn-v0", rows, slip, horizon, stay=stay, closed=closed)


@register("drawn-by-hand-v0", "A grid that you draw, on which an operator performs each reset.", _size)
def drawn_by_hand(
    rows: str = ROWS, slip: Fraction = 0.1, horizon: Horizon = 12, stay: bool = False, closed: bool = False
) -> ByHand:
    """As `drawn`; only the operator performs resets (docs/hardware.md)."""
    return ByHand(drawn_mdp("drawn-by-hand-v0", rows, slip, horizon, stay=stay, closed=closed))


class ByHand(FiniteProblem):
    """A finite problem that does not reset itself: an operator does."""

    persistent = True

    def __init__(self, mdp: FiniteMDP) -> None:
        super().__init__(mdp)
        self._event = ""

    def rollout(self, policy: ArrayLike | ChoicePolicy, start: int, u: Floats) -> Episode:
        """An episode; after a reset the next start is None."""
        episode = super().rollout(policy, start, u)
        if not episode.reset:
            return episode
        self._event = f"it entered {self._mdp.state_names[int(episode.states[-1])]}"
        return dataclasses.replace(episode, next_start=None)

    def perform_reset(self, u: float, why: str, operator: Operator | None = None) -> int:
        """Wait for the operator (default: none), then draw a restart cell (at first a start cell) by `u`."""
        request = Request(self.name, why, WHY.get(why, self._event or "a reset is due"))
        self._performed.append(intervene(operator or Automatic(), request))
        return self.first_start(u) if why == "start" else self._next_start(0, True, u, 0.0)


def drawn_mdp(name: str, rows: str, slip: float, horizon: int, *, stay: bool, closed: bool = False) -> FiniteMDP:
    """The grid of a drawing, see `drawn`."""
    lines = rows.split("/")
    what, even = f"option 'rows' of problem '{name}'", len({len(line) for line in lines}) == 1 and len(lines[0]) > 0
    expect(even, what, "have rows of one length, with '/' between them", rows)
    fits = max(len(lines), len(lines[0])) <= LARGEST
    expect(fits, what, f"have at most {LARGEST} rows and columns", f"{len(lines)} x {len(lines[0])}")
    unknown = sorted({*rows} - {*SYMBOLS, "/"})
    expect(not unknown, what, f"be made of {' '.join(SYMBOLS)}", "".join(unknown)[:8])
    cells = np.array([list(line) for line in lines])
    expect(np.isin(cells, ("S", "R")).any(), what, "have a start S or a restart R", rows)
    free, pits = cells != "#", cells == "X"
    actions = tuple(move for move in MOVES if stay or move != "stay")
    transition, layout = grid_transitions(free, pits, slip, actions)
    flat = cells.ravel()[layout.cell]
    pay = np.array([PAYS.get(str(symbol), 0.0) for symbol in flat])
    homes = {letter: flat == letter for letter in ("S", "R")}
    start, restart = (homes[a] if homes[a].any() else homes[b] for a, b in (("S", "R"), ("R", "S")))
    mdp = FiniteMDP(
        transition,
        np.repeat(pay[:, None], len(actions), axis=1),
        pits.ravel()[layout.cell],
        horizon,
        start=start / start.sum(),
        restart=restart / restart.sum(),
        name=name,
        state_names=cell_names(layout),
        action_names=actions,
        layout=layout,
    )
    return close(mdp) if closed else mdp
