"""A solved grid and a run, as figures and on a terminal; maps of a problem on a grid, one coloured cell per state."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich import box
from rich.table import Table
from rich.text import Text

from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import InvalidInput
from resetfree.core.readable import number
from resetfree.problems.finite.composed import MOVES
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.runs.result import Run
from resetfree.show.report.style import BLUE, EDGE, GREEN, GREY, ORANGE, PIT, UNSAFE, WALL, round_number, save
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
            word = number(values[s]) if abs(values[s]) < 1000 else round_number(values[s])
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


POINTS = 2000  # enough for a curve; a million rounds would only make the file large


def draw_run(run: Run, path: Path) -> Path:
    """Write the picture (PNG, SVG or PDF by the name's ending) and return its path."""
    from matplotlib.figure import Figure  # half a second to import: only when a picture is wanted

    if len(run) == 0:
        raise InvalidInput("A run must have rounds to be drawn. Got none instead.")
    k = np.unique(np.geomspace(1, len(run), min(len(run), POINTS)).astype(int)) - 1  # as dense as the log axis shows
    episodes = k + 1
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    regret_axes, resets_axes, multiplier_axes = figure.subplots(1, 3)
    if run.mdp is not None:
        regret_axes.plot(episodes, run.regret[k], color=BLUE, label="exact")
        regret_axes.axhline(0, color=GREY, lw=0.8)
        resets_axes.plot(episodes, run.resets[k], color=BLUE, label="expected (exact)")
    else:
        regret_axes.text(0.5, 0.5, "no oracle", ha="center", transform=regret_axes.transAxes, color=GREY)
    resets_axes.step(episodes, run.realised_resets[k], where="post", color=ORANGE, label="realised")
    resets_axes.legend(frameon=False)
    multiplier_axes.plot(episodes, run.columns["lam"][k], ".", ms=2, color=GREEN)
    _label(regret_axes, "Regret against the best policy that never resets", "reward")
    _label(resets_axes, "Resets", "resets")
    multiplier_axes.set_ylim(0, max(1.0, 1.1 * float(run.columns["lam"].max())))
    _label(multiplier_axes, "Multiplier played at the start of the episode", "reward per reset")
    figure.suptitle(
        f"{run.spec['problem']}: {run.spec['primal']['name']} against {run.spec['dual']['name']}, "
        f"{run.spec['feedback']} feedback, seed {run.spec['seed']}, n = 1 run"
    )
    return save(figure, path)


def _label(axes: Any, title: str, unit: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xscale("log")  # most happens early
    axes.set_xlabel("episode")
    axes.set_ylabel(unit)
    axes.spines[["top", "right"]].set_visible(False)


ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→", "stay": "•"}
MAX_MAP = 12  # rows or columns of a map that still fit a terminal


def has_map(solution: Solution) -> bool:
    """Whether the problem is a grid small enough to be drawn in a terminal."""
    layout = solution.mdp.layout
    return layout is not None and max(layout.n_rows, layout.n_cols) <= MAX_MAP


def grid_map(solution: Solution) -> Table:
    """One cell per state: best reset-free action, V*, lambda_hat; pits and states that cannot be saved are marked."""
    mdp, layout = solution.mdp, solution.mdp.layout
    assert layout is not None  # callers check has_map first
    table = Table(box=box.SQUARE, show_header=False, show_lines=True, padding=(0, 1))
    for _ in range(layout.n_cols):
        table.add_column(justify="center", min_width=8)
    state_of = {int(cell): s for s, cell in enumerate(layout.cell)}
    for row in range(layout.n_rows):
        cells = [state_of.get(row * layout.n_cols + col) for col in range(layout.n_cols)]
        table.add_row(*(Text("█", style="dim") if s is None else _cell(solution, s) for s in cells))
    table.caption = f"action at step 1 of {mdp.horizon}, V* = best reset-free value, λ̂ = smallest optimal multiplier"
    return table


def _cell(solution: Solution, s: int) -> Text:
    mdp = solution.mdp
    if mdp.reset[s]:
        return Text("reset\n✗\n", style="bold white on red")
    if not solution.feasible[s]:
        return Text(f"unsafe\nP(reset)\n≥ {number(solution.cost[s])}", style="black on yellow")
    name = mdp.action_names[int(solution.policy[0, s])]
    safe = int(solution.safe.actions(1)[s].sum())
    style = "bold green" if safe == mdp.n_actions else "green"
    return Text.assemble(
        (f"{ARROWS.get(name, name)}  ", style),
        (f"{safe}/{mdp.n_actions} safe\n", "dim"),
        f"V* {solution.value[s]:.3f}\n",
        (f"λ̂ {_number(solution.lambda_hat[s], 5)}", "cyan"),
    )


def states_table(solution: Solution, with_multipliers: bool, limit: int = 40) -> Table:
    """Every state (up to `limit`): feasible or not, V*, first action, safe actions, multipliers."""
    mdp, safe = solution.mdp, solution.safe.actions(1)
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("state", "feasible", "V*", "first action", "safe first actions", "λ̂", "λ*"):
        table.add_column(title, justify="right" if title in ("V*", "λ̂", "λ*") else "left")
    for s in range(min(limit, mdp.n_states)):
        if mdp.reset[s]:
            table.add_row(mdp.state_names[s], "reset state", *[""] * 5, style="red")
            continue
        if not solution.feasible[s]:
            least = f"no: P(reset) >= {number(solution.cost[s], 4)}"
            table.add_row(mdp.state_names[s], least, *[""] * 5, style="yellow")
            continue
        names = [mdp.action_names[a] for a in np.flatnonzero(safe[s])]
        lam = solution.lambda_hat[s] if with_multipliers else np.nan
        first = mdp.action_names[int(solution.policy[0, s])]
        safe_names = "all" if len(names) == mdp.n_actions else " ".join(names)
        numbers = [number(solution.value[s], 6), first, safe_names, _number(lam), _number(lam + 1)]
        table.add_row(mdp.state_names[s], "yes", *numbers)
    if mdp.n_states > limit:
        table.caption = f"{mdp.n_states - limit} more states; --json has them all"
    return table


def _number(x: float, digits: int = 7) -> str:
    return "–" if np.isnan(x) else f"{x:.{digits}g}"
