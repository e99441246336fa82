"""A solved grid as a figure: safe sets, best reset-free policy with its value, and the multiplier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from resetfree.errors import InvalidInput
from resetfree.grids import MOVES
from resetfree.oracle.dynamic_programming import Solution
from resetfree.transitions import Floats

PIT, UNSAFE, WALL = "#b2182b", "#f4a582", "#4d4d4d"


def draw_solution(solution: Solution, path: Path) -> Path:
    """Write the picture (PNG, SVG or PDF by the name's ending) and return its path."""
    from matplotlib.figure import Figure  # half a second to import: only when a picture is wanted

    layout, mdp = solution.mdp.layout, solution.mdp
    if layout is None:
        raise InvalidInput(f"Only problems on a map can be drawn. Got '{mdp.name}', which has none, instead.")
    panels = (
        ("Safe first actions", solution.safe.actions(1).sum(axis=1).astype(float), "Greens", f"of {mdp.n_actions}"),
        ("V*: best value with no reset", solution.value, "cividis", f"reward in {mdp.horizon} steps"),
        ("λ̂: smallest optimal multiplier", solution.lambda_hat, "magma_r", "reward per reset"),
    )
    width = 1.0 + 0.95 * layout.n_cols
    figure = Figure(figsize=(3 * width, 1.5 + 0.95 * layout.n_rows), layout="constrained")
    for axes, (title, values, cmap, unit) in zip(figure.subplots(1, 3), panels, strict=True):
        image = _panel(axes, solution, values, cmap)
        axes.set_title(title, fontsize=11)
        bar = figure.colorbar(image, ax=axes, shrink=0.8)
        bar.set_label(unit, fontsize=9)
        bar.ax.tick_params(labelsize=8)
    _arrows(figure.axes[1], solution)
    figure.suptitle(
        f"{mdp.name}: {mdp.n_states} states, {mdp.n_actions} actions, H = {mdp.horizon}, exact oracle", fontsize=12
    )
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"The picture must go to a file that can be written. Got '{path}': {error}.") from error
    return path


def _panel(axes: Any, solution: Solution, values: Floats, cmap: str) -> Any:
    """One map: a colour and a number per feasible cell; pits, unsafe cells and walls in flat colours."""
    from matplotlib.patches import Rectangle

    layout, mdp = solution.mdp.layout, solution.mdp
    assert layout is not None
    cells = np.full(layout.n_rows * layout.n_cols, np.nan)
    cells[layout.cell[solution.feasible]] = values[solution.feasible]
    image = axes.imshow(cells.reshape(layout.n_rows, layout.n_cols), cmap=cmap, vmin=0)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_facecolor(WALL)
    few = layout.n_cols * layout.n_rows <= 150  # beyond that numbers would not be readable
    for s, cell in enumerate(layout.cell):
        r, c = divmod(int(cell), layout.n_cols)
        if not solution.feasible[s]:
            axes.add_patch(Rectangle((c - 0.5, r - 0.5), 1, 1, color=PIT if mdp.reset[s] else UNSAFE))
            if few:
                axes.text(
                    c, r, "reset" if mdp.reset[s] else "unsafe", ha="center", va="center", fontsize=8, color="white"
                )
        elif few and not np.isnan(values[s]):
            red, green, blue, _ = image.cmap(image.norm(values[s]))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            axes.text(c, r + 0.3, f"{values[s]:.3g}", ha="center", va="center", fontsize=9, color="w" if dark else "k")
    return image


def _arrows(axes: Any, solution: Solution) -> None:
    """The first action of pi* in every feasible cell."""
    layout, mdp = solution.mdp.layout, solution.mdp
    assert layout is not None
    if layout.n_cols * layout.n_rows > 900:
        return
    for s in np.flatnonzero(solution.feasible):
        r, c = divmod(int(layout.cell[s]), layout.n_cols)
        dr, dc = MOVES.get(mdp.action_names[int(solution.policy[0, s])], (0, 0))
        halo = {"arrowstyle": "-|>", "color": "white", "lw": 2.4, "shrinkA": 0, "shrinkB": 0}
        if (dr, dc) == (0, 0):
            axes.plot(c, r - 0.12, "o", ms=7, mfc="white", mec="black")
        else:
            tail, head = (c - 0.24 * dc, r - 0.12 - 0.24 * dr), (c + 0.24 * dc, r - 0.12 + 0.24 * dr)
            axes.annotate("", xy=head, xytext=tail, arrowprops={**halo, "color": "black", "lw": 3.6})
            axes.annotate("", xy=head, xytext=tail, arrowprops=halo)
