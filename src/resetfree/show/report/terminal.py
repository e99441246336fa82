"""A solved problem in a terminal: as a map, or as a table of states."""

from __future__ import annotations

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from resetfree.theory.oracle.dynamic_programming import Solution

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
        return Text(f"unsafe\nP(reset)\n≥ {solution.cost[s]:.3g}", style="black on yellow")
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
            table.add_row(mdp.state_names[s], f"no: P(reset) >= {solution.cost[s]:.4g}", *[""] * 5, style="yellow")
            continue
        names = [mdp.action_names[a] for a in np.flatnonzero(safe[s])]
        lam = solution.lambda_hat[s] if with_multipliers else np.nan
        first = mdp.action_names[int(solution.policy[0, s])]
        safe_names = "all" if len(names) == mdp.n_actions else " ".join(names)
        numbers = [f"{solution.value[s]:.6g}", first, safe_names, _number(lam), _number(lam + 1)]
        table.add_row(mdp.state_names[s], "yes", *numbers)
    if mdp.n_states > limit:
        table.caption = f"{mdp.n_states - limit} more states; --json has them all"
    return table


def _number(x: float, digits: int = 7) -> str:
    return "–" if np.isnan(x) else f"{x:.{digits}g}"
