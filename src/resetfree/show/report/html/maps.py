"""Maps of a problem on a grid: what is safe, which way to go, where the runs went, and what a reset cost.

What was learned comes from the players' newest checkpoints, by the names of their arrays. Without such an array the
oracle's answer is shown, and the caption says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.show.report.html.figures import WIDTH, Drawing, plain_text, runs
from resetfree.show.report.html.groups import Group
from resetfree.show.report.html.players import constant_multiplier, last_multipliers
from resetfree.show.report.pictures import draw_arrows, draw_cells, draw_marks
from resetfree.show.report.style import INK, round_number
from resetfree.theory.oracle.dynamic_programming import Solution

TALLEST = 5.0  # inches
LARGEST = 40_000  # cells of a map that is drawn at all


def figures(group: Group) -> list[Drawing]:
    """All maps that can be drawn for the group; none if the problem has no map."""
    mdp, solution = group.mdp, group.solution
    if mdp is None or solution is None or mdp.layout is None or mdp.layout.n_rows * mdp.layout.n_cols > LARGEST:
        return []
    drawn = [policy_map(group, mdp, solution)]
    allowed = found_arrays(group, "allowed", mdp)
    if allowed:
        drawn.append(learned_map(group, mdp, solution, [a[0].sum(axis=1).astype(np.float64) for a in allowed]))
    return [*drawn, visit_map(group, mdp, solution), *multiplier_maps(group, mdp, solution)]


def found_arrays(group: Group, name: str, mdp: FiniteMDP) -> list[NDArray[Any]]:
    """The array [L, S, A] of this name in the primal players' states, one per run; empty if some run has none."""
    result = []
    for arrays in group.arrays:
        named = (array for key, array in arrays.items() if key.startswith("primal.") and key.endswith(f".{name}"))
        shape = (mdp.n_states, mdp.n_actions)
        fits = [array for array in named if array.ndim == 3 and array.shape[1:] == shape and len(array)]
        if len(fits) != 1:
            return []
        result.append(fits[0])
    return result


def policy_map(group: Group, mdp: FiniteMDP, solution: Solution) -> Drawing:
    """Reset states, the safe set and a policy: the last one of the first run where the file has it, else pi*."""
    actions, whose = _policy(group, mdp, solution)
    safe = solution.safe.actions(1).sum(axis=1).astype(np.float64)
    figure, axes = _canvas(mdp)
    unit = f"safe first actions, of {mdp.n_actions}"
    _colour(axes, mdp, safe, where=solution.feasible, cmap="Greens", unit=unit, top=mdp.n_actions)
    axes.set_title("Map: safe actions and policy")
    few = draw_arrows(axes, mdp, solution.feasible, actions)
    arrows = f"Arrows: {whose}; a dot stays." if few else f"Too large for arrows; the data has the {whose}."
    caption = (
        "Red: reset states. Orange: states from which no policy avoids resets for certain. Green: after how many of "
        f"the {mdp.n_actions} actions a reset can still be avoided for certain (oracle, from the support). {arrows}"
    )
    alt = f"Map of {mdp.n_states} states with {int(mdp.reset.sum())} reset states."
    names = [plain_text(mdp.action_names[int(a)]) for a in actions]
    data = {**_states(mdp, solution), "safe_actions": safe.astype(np.int64), "action": names}
    return Drawing(f"{group.name}-map", "The map", caption, alt, data=data, figure=figure)


def learned_map(group: Group, mdp: FiniteMDP, solution: Solution, left: list[Floats]) -> Drawing:
    """What the players have not ruled out, beside what is truly safe."""
    mean = np.mean(left, axis=0)
    figure, axes = _canvas(mdp)
    unit = f"actions not ruled out, of {mdp.n_actions}"
    _colour(axes, mdp, mean, where=~mdp.reset, cmap="Greens", unit=unit, top=mdp.n_actions)
    axes.set_title("Learned: actions not ruled out")
    safe = solution.safe.actions(1).sum(axis=1)
    extra = float(np.mean([(x - safe)[~mdp.reset].clip(0).sum() for x in left]))
    caption = (
        "How many first actions the primal player has not ruled out after its last checkpoint (mean over "
        f"{runs(group.n)}); compare the map: {extra:.3g} first actions that are unsafe are still allowed: not "
        "tried yet, or without a reset so far. Red: reset states (oracle)."
    )
    alt = "Map of the actions that the player has not ruled out."
    data = {**_states(mdp, solution), "not_ruled_out_mean": mean}
    return Drawing(f"{group.name}-learned", "Actions not ruled out", caption, alt, data=data, figure=figure)


def visit_map(group: Group, mdp: FiniteMDP, solution: Solution) -> Drawing:
    """Where the runs were: steps from each state where a player counts them, else starts of episodes."""
    tried = found_arrays(group, "tried", mdp)
    starts = [np.bincount(run.columns["s1"], minlength=mdp.n_states) for run in group.runs]
    visits = [t.sum(axis=(0, 2)) for t in tried] if tried else starts
    what = "steps taken from a state" if tried else "episodes started in a state"
    mean = np.mean(visits, axis=0)
    seen = _known(group, mdp)
    figure, axes = _canvas(mdp)
    _colour_counts(axes, mdp, mean, f"{what}, mean per run")
    draw_marks(axes, mdp, seen > 0)
    axes.set_title("Visits" if tried else "Visits: starts of episodes")
    entered = f" Cross: reset states that some run entered ({int((seen > 0).sum())} of {int(mdp.reset.sum())})."
    found = entered if seen.any() else ""
    lacks = "" if tried else " The player keeps no counts of steps, and the run file holds starts only."
    caption = f"Visits: {what}, mean per run over {runs(group.n)}, colours logarithmic; white: none.{lacks}{found}"
    alt = "Map of visit counts."
    counts = {"visits_mean": mean, "starts_mean": np.mean(starts, axis=0), "runs_that_found": seen}
    data = {**_states(mdp, solution), **counts}
    return Drawing(f"{group.name}-visits", "Where the runs were", caption, alt, data=data, figure=figure)


def multiplier_maps(group: Group, mdp: FiniteMDP, solution: Solution) -> list[Drawing]:
    """The last multiplier played at each start, and the oracle's, on one scale."""
    states, counts, mean, _, _ = last_multipliers(group)
    played, episodes = np.full(mdp.n_states, np.nan), np.zeros(mdp.n_states, dtype=np.int64)
    played[states], episodes[states] = mean, counts
    hat = np.full(mdp.n_states, np.nan)
    if not isinstance(group.truths, str):
        for known in group.truths:
            hat = np.where(np.isnan(hat), known.solution.lambda_hat, hat)
    top = float(max(np.nanmax(played, initial=0.0), np.nanmax(hat, initial=0.0))) or 1.0
    played_words = (
        f"The last multiplier played at each start, mean over {runs(group.n)}; white: no episode started there."
    )
    hat_words = (
        "λ̂: the least multiplier under which being reset never pays (oracle), for the starts that occurred; white: "
        "none did."
    )
    maps: list[tuple[str, str, str, dict[str, Any]]] = []
    if constant_multiplier(group) is None:  # else one sentence says it
        maps = [("multiplier-map", "Multiplier played", played_words, {"lam_mean": played, "episodes": episodes})]
    if np.isfinite(hat).any():
        maps.append(("multiplier-oracle", "λ̂ of the oracle", hat_words, {"lambda_hat": hat}))
    drawn = []
    for name, title, words, data in maps:
        figure, axes = _canvas(mdp)
        values: Floats = next(iter(data.values()))
        _colour(axes, mdp, values, where=~mdp.reset, cmap="cividis", unit="reward per reset", top=top)
        axes.set_title(title)
        about = (title, f"{words} Unit: reward per reset. Red: reset states.", f"Map: {title}.")
        columns = {**_states(mdp, solution), **data}
        drawn.append(Drawing(f"{group.name}-{name}", *about, data=columns, figure=figure))
    return drawn


def _policy(group: Group, mdp: FiniteMDP, solution: Solution) -> tuple[NDArray[np.int64], str]:
    """First actions [S], and the policy they come from in words."""
    learned = found_arrays(group, "policy", mdp)
    if learned and len(learned[0]) == mdp.horizon:
        seed = group.runs[0].spec["seed"]
        return learned[0][0].argmax(axis=1), f"likeliest first action of the last policy of the run with seed {seed}"
    whose = "first action of π*, the best policy that is never reset (oracle; the run file holds no learned policy)"
    return solution.policy[0].astype(np.int64), whose


def _known(group: Group, mdp: FiniteMDP) -> NDArray[np.int64]:
    """[S] how many runs have entered a reset state, according to their players' arrays."""
    seen = np.zeros(mdp.n_states, dtype=np.int64)
    for arrays in group.arrays:
        for key, array in arrays.items():
            named = key.startswith("primal.") and key.endswith(".known")
            if named and array.shape == seen.shape and array.dtype == bool:
                seen += array
    return seen


def _states(mdp: FiniteMDP, solution: Solution) -> dict[str, Any]:
    assert mdp.layout is not None
    row, column = np.divmod(mdp.layout.cell, mdp.layout.n_cols)
    return {
        "state": np.arange(mdp.n_states),
        "name": [plain_text(n) for n in mdp.state_names],
        "row": row,
        "column": column,
        "reset": mdp.reset.astype(int),
        "feasible": solution.feasible.astype(int),
    }


def _canvas(mdp: FiniteMDP) -> tuple[Any, Any]:
    """Axes in the shape of the map, with room for a scale below."""
    from matplotlib.figure import Figure

    layout = mdp.layout
    assert layout is not None
    height = min(TALLEST, max(0.9, (WIDTH - 0.3) * layout.n_rows / layout.n_cols)) + 1.0
    figure = Figure(figsize=(WIDTH, height))
    return figure, figure.add_axes((0.03, 0.68 / height, 0.94, 1 - 1.0 / height))


def _colour(axes: Any, mdp: FiniteMDP, values: Floats, *, where: Bools, cmap: str, unit: str, top: float) -> None:
    """The cells and their scale, linear from zero to `top`."""
    from matplotlib.colors import Normalize

    _scale(draw_cells(axes, mdp, where, values, cmap, norm=Normalize(0.0, float(top)), size=8.0), unit)


def _colour_counts(axes: Any, mdp: FiniteMDP, counts: Floats, unit: str) -> None:
    """The cells and their scale for counts, logarithmic; no colour for zero."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    some = np.where(counts > 0, counts, np.nan)
    low = min(1.0, float(np.nanmin(some, initial=1.0)))
    norm = LogNorm(low, max(10.0 * low, float(np.nanmax(some, initial=1.0))))
    bar = _scale(draw_cells(axes, mdp, ~mdp.reset, some, "cividis", norm=norm, size=8.0), unit)
    bar.ax.xaxis.set_major_locator(LogLocator(numticks=6))
    bar.ax.xaxis.set_minor_locator(NullLocator())
    bar.ax.xaxis.set_major_formatter(FuncFormatter(round_number))


def _scale(image: Any, unit: str) -> Any:
    """The colour bar below a map."""
    figure = image.axes.figure
    height = figure.get_figheight()
    bar = figure.colorbar(image, cax=figure.add_axes((0.2, 0.42 / height, 0.6, 0.1 / height)), orientation="horizontal")
    bar.set_label(unit, color=INK)
    bar.outline.set_visible(False)
    return bar
