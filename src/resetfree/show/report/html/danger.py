"""What a player believes about danger, action by action, over two coordinates of the states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import ResetFreeError
from resetfree.game.capabilities import DangerMap
from resetfree.problems.factors import has_factors
from resetfree.runs.recall import danger_of
from resetfree.show.report.html.figures import WIDTH, Drawing, plain_text
from resetfree.show.report.html.groups import Group
from resetfree.show.report.style import WALL

LARGEST = 40_000  # cells that are drawn
ACTIONS = 8  # that are drawn


def figures(group: Group) -> list[Drawing]:
    """The beliefs of the first run; none where a player has none, or states have no two ordered coordinates."""
    try:
        found = danger_of(group.runs[0])
    except ResetFreeError:  # no checkpoint, or one that does not fit: the tables say so
        return []
    axes = [] if found is None else coordinates(found)
    return [_drawing(group, found, axes[0], axes[1])] if found is not None and len(axes) == 2 else []


def coordinates(found: DangerMap) -> list[int]:
    """The first two ordered factors that differ between states, where there is room to draw them."""
    values = found.factors.values[has_factors(found.factors.values)]
    axes = [i for i, part in enumerate(found.factors.parts) if part.ordered and len(np.unique(values[:, i])) > 1][:2]
    cells = np.prod([int(values[:, i].max()) + 1 for i in axes], dtype=np.float64)
    return axes if len(axes) == 2 and cells <= LARGEST else []


def by_place(found: DangerMap, row: int, column: int) -> NDArray[np.float64]:
    """[A, rows, columns] the mean belief over the states of each place, nan where there are none.

    >>> from resetfree.problems.factors import Factor, Factors
    >>> factors = Factors((Factor("row"), Factor("column")), np.array([[0, 0], [0, 1], [-1, -1]]))
    >>> by_place(DangerMap(np.array([[0.25], [1.0], [0.5]]), factors), 0, 1).tolist()
    [[[0.25, 1.0]]]
    """
    placed = has_factors(found.factors.values)
    r, c = found.factors.values[placed][:, [row, column]].T
    shape = (int(r.max()) + 1, int(c.max()) + 1)
    place, n = r * shape[1] + c, shape[0] * shape[1]
    times = np.bincount(place, minlength=n)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(place, weights=one, minlength=n) / times for one in found.belief[placed].T]
    return np.array(means).reshape(-1, *shape)


def _ticks(n: int) -> list[int]:
    """At most six numbers of rows or columns."""
    return list(range(0, n, -(-n // 6)))


def _drawing(group: Group, found: DangerMap, row: int, column: int) -> Drawing:
    from matplotlib.figure import Figure

    beliefs = by_place(found, row, column)
    n_actions, n_rows, n_columns = beliefs.shape
    shown = min(n_actions, ACTIONS)
    across = 1 if n_columns > 4 * n_rows else 2
    rows = -(-shown // across)
    tall = min(max(0.9 * WIDTH / across * n_rows / n_columns, 0.5), 2.4)
    height = 0.7 + rows * (tall + 0.45)
    figure = Figure(figsize=(WIDTH, height))
    panels = figure.subplots(rows, across, squeeze=False)
    figure.subplots_adjust(0.11, 0.5 / height, 0.85, 1 - 0.35 / height, wspace=0.25, hspace=0.45 / tall)
    parts = found.factors.parts
    for axes in panels.flat[shown:]:
        axes.set_visible(False)
    for a, axes in zip(range(shown), panels.flat, strict=False):
        axes.set_facecolor(WALL)
        image = axes.imshow(beliefs[a], cmap="OrRd", vmin=0.0, vmax=1.0, interpolation="none", aspect="auto")
        axes.set_title(plain_text(found.factors.action(a), 24), fontsize=9)
        axes.tick_params(labelsize=7)
        axes.set_yticks(_ticks(n_rows))
        axes.set_xticks(_ticks(n_columns))
        if a % across == 0:
            axes.set_ylabel(plain_text(parts[row].name, 16), fontsize=8)
        if a + across >= shown:
            axes.set_xlabel(plain_text(parts[column].name, 16), fontsize=8)
    bar = figure.colorbar(image, cax=figure.add_axes((0.88, 0.25, 0.025, 0.5)))
    bar.ax.tick_params(labelsize=7)
    bar.set_label("belief that it is fatal", fontsize=8)
    r, c = np.divmod(np.arange(n_rows * n_columns), n_columns)
    data: dict[str, Any] = {"action": [], "row": [], "column": [], "belief": []}
    for a in range(n_actions):
        data["action"] += [plain_text(found.factors.action(a))] * len(r)
        data["row"] += r.tolist()
        data["column"] += c.tolist()
        data["belief"] += beliefs[a].ravel().tolist()
    others = [part.name for i, part in enumerate(parts) if i not in (row, column)]
    mean = f" Mean over {', '.join(plain_text(name, 24) for name in others)}." if others else ""
    more = f" The first {shown} of {n_actions} actions; the data has all." if shown < n_actions else ""
    caption = (
        f"How likely each action can lead to a reset, by what seed {group.runs[0].spec['seed']} had seen at its newest "
        f"checkpoint (n = 1); 1 where it was ruled out. What is above {found.limit:g} is held back."
        f"{mean}{more} Grey: none."
    )
    if words := "; ".join(plain_text(one.what, 200) for one in group.runs[0].decisions[:ACTIONS]):
        caption = f"Learned: {words}. {caption}"
    alt = f"Beliefs about danger of {shown} actions on {n_rows} by {n_columns} places."
    return Drawing(f"{group.name}-danger", "Beliefs about danger", caption, alt, data=data, figure=figure)
