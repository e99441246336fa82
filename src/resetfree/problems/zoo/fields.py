"""Grid worlds: the default problem `grid-v0`, fields drawn as text, large fields of pits, and changing goals.

Walls block, pits are reset states, slipping moves sideways; exact as fractions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from resetfree.core import Bools, Count, Floats, Fraction, Range, expect
from resetfree.problems.contract import ChoicePolicy, Episode, intervene
from resetfree.problems.finite.composed import with_contexts
from resetfree.problems.finite.mdp import FiniteMDP, FiniteProblem, GridLayout
from resetfree.problems.finite.safety import close
from resetfree.problems.finite.transitions import LONGEST, Horizon, simplest_fraction
from resetfree.problems.operators import Automatic, Operator, Request
from resetfree.problems.registry import STEP, Size, register

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1), "stay": (0, 0)}
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


def grid_transitions(free: Bools, pits: Bools, slip: float, actions: Sequence[str]) -> tuple[Any, GridLayout]:
    """Sparse [S*A, S] of moves on the cells of `free` [R, C] (pits included), one state per cell, row by row.

    A move has its direction with probability 1 - slip and goes to each side with slip/2; "stay" never slips; a blocked
    move stays. Weights are added as integers over one denominator: each entry is a correctly rounded fraction.
    """
    good = 0 <= slip <= 1 and (slip == 0 or slip / 2 > 0)  # half of a positive slip must not underflow
    expect(good, "'slip' of a grid", "lie in [0, 1]", slip)
    n_rows, n_cols = free.shape
    cell = np.flatnonzero(free)
    state = np.full(free.size, -1, dtype=np.int64)
    state[cell] = np.arange(len(cell))
    acting = np.flatnonzero(~pits.ravel()[cell])  # rows of pits stay empty: an episode ends there
    r, c = np.divmod(cell[acting], n_cols)

    def target(move: tuple[int, int]) -> NDArray[np.int64]:
        rr, cc = np.clip(r + move[0], 0, n_rows - 1), np.clip(c + move[1], 0, n_cols - 1)
        to = state[rr * n_cols + cc]
        return np.where(to < 0, acting, to)

    fraction = simplest_fraction(float(slip))
    denominator = 2 * fraction.denominator
    exact = denominator < 2**62  # otherwise two weights overflow, and rounded ones are used
    rows, cols, weights = [], [], []
    for a, name in enumerate(actions):
        dr, dc = MOVES[name]
        ways = [((dr, dc), denominator)]
        if name != "stay" and slip > 0:
            side = fraction.numerator
            ways = [((dr, dc), denominator - 2 * side), ((dc, dr), side), ((-dc, -dr), side)]
        for move, weight in ways:
            if weight:
                rows.append(acting * len(actions) + a)
                cols.append(target(move))
                weights.append(np.full(len(acting), weight if exact else weight / denominator))
    shape = (len(cell) * len(actions), len(cell))
    counts = sparse.coo_array(
        (np.concatenate(weights), (np.concatenate(rows), np.concatenate(cols))), shape=shape
    ).tocsr()
    counts.sum_duplicates()
    data = counts.data / denominator if exact else counts.data
    probability = sparse.csr_array((data, counts.indices, counts.indptr), shape=shape)
    return probability, GridLayout(n_rows, n_cols, cell)


def cell_names(layout: GridLayout) -> list[str]:
    """The names "row,column" of the states, counted from 0."""
    return [f"{i // layout.n_cols},{i % layout.n_cols}" for i in layout.cell]


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


@register(
    "grid-v0",
    "Twelve cells with two pits: the large reward is reached only along their edge, on slippery ground.",
    lambda slip, horizon: (60 + STEP) * horizon,
)
def grid(slip: Fraction = 0.2, horizon: Horizon = 8) -> FiniteMDP:
    """Rows `S..G / .XX. / g..S`: X reset, G pays 1 and g pays 0.3 for acting there, start and restart uniform on S."""
    return drawn_mdp("grid-v0", "S..G/.XX./g..S", slip, horizon, stay=True)


GOALS = ("0,3", "2,3", "0,0", "2,1", "0,2", "1,0", "1,3", "0,1", "2,2", "2,0")  # the first is the goal of `grid-v0`


@register(
    "contexts-v0",
    "The grid of grid-v0 with a goal that changes with the context, in a cycle or at random.",
    lambda m, order: 1000 * m * m,
)
def contexts(m: Annotated[int, Range(1, len(GOALS))] = 3, order: Literal["cycle", "random"] = "cycle") -> FiniteMDP:
    """In context c acting in the c-th goal cell pays 1 (and the small reward of 0.3 stays where it is in `grid-v0`).

    order: "cycle" (the next episode has the next context) or "random" (any context, each equally likely).
    """
    base = grid()
    tasks = [base.replace(reward=_move_goal(base, goal)) for goal in GOALS[:m]]
    chain = np.roll(np.eye(m), 1, axis=1) if order == "cycle" else np.full((m, m), 1.0 / m)
    assert base.layout is not None
    return with_contexts(tasks, chain).replace(name="contexts-v0", layout=_side_by_side(base.layout, m))


def _move_goal(base: FiniteMDP, goal: str) -> Floats:
    reward = np.where(base.reward[0] == 1.0, 0.0, base.reward[0])
    reward[base.state_names.index(goal)] = 1.0
    return reward


def _side_by_side(layout: GridLayout, m: int) -> GridLayout:
    """One map per context, from left to right, with an empty column between two of them."""
    row, column = np.divmod(layout.cell, layout.n_cols)
    n_cols = m * (layout.n_cols + 1) - 1
    cells = [row * n_cols + column + c * (layout.n_cols + 1) for c in range(m)]
    return GridLayout(layout.n_rows, n_cols, np.concatenate(cells))


ACTIONS = ("up", "down", "left", "right")
PITS_OF_5 = ((1, 1), (1, 3), (2, 2), (3, 1), (3, 3))
USUAL_DENSITY = 0.15
NAMED = 100  # cells of larger fields have numbers as names


@register(
    "pits-v0",
    "An n x n field with pits: walk from the first corner to the last, which pays 1 per step.",
    lambda n, slip, horizon, **_: Size(4 * n * n * (3 if slip else 1), 4 * n * n * (horizon or 2 * n) + STEP * horizon),
)
def pits(
    n: Annotated[int, Range(2)] = 5,
    slip: Fraction = 0.0,
    horizon: Annotated[int, Range(0, LONGEST)] = 0,
    density: Annotated[float, Range(most=1)] = -1.0,
    seed: Count = 0,
) -> FiniteMDP:
    """Four moves, start in the first corner, acting in the last corner pays 1, a reset puts the agent on any live cell.

    Cells from which a reset cannot be avoided are not live: ending an episode there is a reset (`assumptions.close`).
    Random fields have no pits on their two outer rings (one if n < 7): pushing against the wall is safe there, so
    the outermost ring is live for every slip, and the second ring makes it passable.

    horizon: 0 means 2 n.
    density: the probability of a pit on each cell inside the free rings, drawn with `seed`. Negative means the usual
    field: five fixed pits for n = 5, else density 0.15.
    """
    holes = _holes(n, density, seed)
    transition, layout = grid_transitions(np.ones_like(holes), holes, slip, ACTIONS)
    reward = np.zeros((n * n, len(ACTIONS)))
    reward[-1] = 1.0
    field = FiniteMDP(
        transition,
        reward,
        holes.ravel(),
        horizon or 2 * n,
        start=0,
        restart=~holes.ravel() / np.count_nonzero(~holes),
        name="pits-v0",
        state_names=cell_names(layout) if n <= NAMED else None,
        action_names=ACTIONS,
        layout=layout,
    )
    return close(field)


def _holes(n: int, density: float, seed: int) -> Bools:
    """[n, n] the cells that are pits."""
    holes = np.zeros((n, n), dtype=np.bool_)
    if density < 0 and n == 5:
        holes[tuple(zip(*PITS_OF_5, strict=True))] = True
    else:
        ring = 2 if n >= 7 else 1
        inner = holes[ring:-ring, ring:-ring]
        inner[:] = np.random.default_rng(seed).random(inner.shape) < (USUAL_DENSITY if density < 0 else density)
    return holes
