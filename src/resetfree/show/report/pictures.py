"""Maps of a problem on a grid, one coloured cell per state, and a solved grid as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import InvalidInput
from resetfree.problems.finite.composed import MOVES
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.show.report.style import EDGE, PIT, UNSAFE, WALL, round_number, save
from resetfree.theory.oracle.dynamic_programming import Solution

FEW = 150  # cells of a map in which numbers can still be read
SOME = 900  # cells in which arrows can
ARROW: dict[str, Any] = {
    "width": 0.055,
    "head_width": 0.2,
    "head_length": 0.17,
    "length_includes_head": True,
    "zorder": 3,
}
ARROW |= {"facecolor": "white", "edgecolor": "black", "lw": 0.8}


def draw_solution(solution: Solution, path: Path) -> Path:
    """Write the picture (PNG, SVG or PDF by the name's ending) and return its path."""
    from matplotlib.figure import Figure  # half a second to import: only when a picture is wanted

    layout, mdp = solution.mdp.layout, solution.mdp
    if layout is None:
        raise InvalidInput(f"Only problems with a map can be drawn. Got '{mdp.name}', which has none, instead.")
    panels = (
        ("Safe first actions", solution.safe.actions(1).sum(axis=1).astype(float), "Greens", f"of {mdp.n_actions}"),
        ("V*: best value with no reset", solution.value, "cividis", f"reward in {mdp.horizon} steps"),
        ("λ̂: smallest optimal multiplier", solution.lambda_hat, "magma_r", "reward per reset"),
    )
    width = 1.0 + 0.95 * layout.n_cols
    figure = Figure(figsize=(3 * width, 1.5 + 0.95 * layout.n_rows), layout="constrained")
    for axes, (title, values, cmap, unit) in zip(figure.subplots(1, 3), panels, strict=True):
        image = draw_cells(axes, mdp, solution.feasible, values, cmap)
        axes.set_title(title, fontsize=11)
        bar = figure.colorbar(image, ax=axes, shrink=0.8)
        bar.set_label(unit, fontsize=9)
        bar.ax.tick_params(labelsize=8)
    draw_arrows(figure.axes[1], mdp, solution.feasible, solution.policy[0])
    figure.suptitle(
        f"{mdp.name}: {mdp.n_states} states, {mdp.n_actions} actions, H = {mdp.horizon}, exact oracle", fontsize=12
    )
    return save(figure, path)


def draw_cells(
    axes: Any, mdp: FiniteMDP, feasible: Bools, values: Floats, cmap: str, norm: Any = None, size: float = 9.0
) -> Any:
    """One map: a colour and a number per feasible cell; pits, unsafe cells and walls in flat colours.

    feasible: [S].  values: [S], nan for none.  norm: scale of the colours (default: from 0 to the largest value).
    size: font size of the numbers, in points.
    """
    from matplotlib.colors import to_rgba

    layout = mdp.layout
    assert layout is not None
    cells = np.full(layout.n_rows * layout.n_cols, np.nan)
    cells[layout.cell[feasible]] = values[feasible]
    scale = {"vmin": 0.0} if norm is None else {"norm": norm}
    image = axes.imshow(cells.reshape(layout.n_rows, layout.n_cols), cmap=cmap, interpolation="none", **scale)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_facecolor(WALL)
    axes.spines[:].set_visible(False)
    flat = np.zeros((cells.size, 4))  # one picture, not a patch per cell: maps can be large
    for colour, here in ((PIT, mdp.reset), (UNSAFE, ~feasible & ~mdp.reset), ("white", feasible & np.isnan(values))):
        flat[layout.cell[here]] = to_rgba(colour)
    axes.imshow(flat.reshape(layout.n_rows, layout.n_cols, 4), interpolation="none")
    if layout.n_cols * layout.n_rows > FEW:
        return image
    axes.vlines(np.arange(1, layout.n_cols) - 0.5, -0.5, layout.n_rows - 0.5, color=EDGE, lw=0.8)
    axes.hlines(np.arange(1, layout.n_rows) - 0.5, -0.5, layout.n_cols - 0.5, color=EDGE, lw=0.8)
    for s, cell in enumerate(layout.cell):
        r, c = divmod(int(cell), layout.n_cols)
        if not feasible[s]:
            word, ink = ("reset", "white") if mdp.reset[s] else ("unsafe", "black")
            axes.text(c, r, word, ha="center", va="center", fontsize=size - 1, color=ink)
        elif not np.isnan(values[s]):
            red, green, blue, _ = image.cmap(image.norm(values[s]))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            word = f"{values[s]:.3g}" if abs(values[s]) < 1000 else round_number(values[s])
            axes.text(c, r + 0.3, word, ha="center", va="center", fontsize=size, color="w" if dark else "k")
    return image


def draw_arrows(axes: Any, mdp: FiniteMDP, where: Bools, actions: ArrayLike) -> bool:
    """Draw the action [S] of every state in `where`: an arrow, or a dot for staying. False if the map is too large."""
    layout, chosen = mdp.layout, np.asarray(actions)
    assert layout is not None
    if layout.n_cols * layout.n_rows > SOME:
        return False
    for s in np.flatnonzero(where):
        r, c = divmod(int(layout.cell[s]), layout.n_cols)
        dr, dc = MOVES.get(mdp.action_names[int(chosen[s])], (0, 0))
        if (dr, dc) == (0, 0):
            axes.plot(c, r - 0.12, "o", ms=7, mfc="white", mec="black")
        else:  # an edge, so that it shows on any colour
            axes.arrow(c - 0.24 * dc, r - 0.12 - 0.2 * dr, 0.48 * dc, 0.4 * dr, **ARROW)
    return True


def draw_marks(axes: Any, mdp: FiniteMDP, where: NDArray[np.bool_]) -> None:
    """A cross in the corner of every state in `where`."""
    layout = mdp.layout
    assert layout is not None
    r, c = np.divmod(layout.cell[where], layout.n_cols)
    axes.plot(c - 0.33, r - 0.33, "X", ms=7, mfc="white", mec="black", ls="")
