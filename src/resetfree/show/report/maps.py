"""Maps: what was learned, visited and paid for on a grid, and what a player believes about danger, action by action."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import ResetFreeError
from resetfree.core.readable import number
from resetfree.game.capabilities import DangerMap
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.knowledge import has_factors
from resetfree.runs.recall import danger_of
from resetfree.show.report.figures import WIDTH, Drawing, plain_text, runs
from resetfree.show.report.groups import Group
from resetfree.show.report.pictures import draw_arrows, draw_cells, draw_marks
from resetfree.show.report.players import constant_multiplier, last_multipliers
from resetfree.show.report.style import INK, WALL, round_number
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
        f"{runs(group.n)}); compare the map: {number(extra)} first actions that are unsafe are still allowed: not "
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


ACTIONS = 8  # that are drawn


def danger_figures(group: Group) -> list[Drawing]:
    """The beliefs of the first run; none where a player has none, or states have no two ordered coordinates."""
    try:
        found = danger_of(group.runs[0])
    except ResetFreeError:  # no checkpoint, or one that does not fit: the tables say so
        return []
    axes = [] if found is None else coordinates(found)
    return [_danger_drawing(group, found, axes[0], axes[1])] if found is not None and len(axes) == 2 else []


def coordinates(found: DangerMap) -> list[int]:
    """The first two ordered factors that differ between states, where there is room to draw them."""
    values = found.factors.values[has_factors(found.factors.values)]
    axes = [i for i, part in enumerate(found.factors.parts) if part.ordered and len(np.unique(values[:, i])) > 1][:2]
    cells = np.prod([int(values[:, i].max()) + 1 for i in axes], dtype=np.float64)
    return axes if len(axes) == 2 and cells <= LARGEST else []


def by_place(found: DangerMap, row: int, column: int) -> NDArray[np.float64]:
    """[A, rows, columns] the mean belief over the states of each place, nan where there are none.

    >>> from resetfree.problems.knowledge import Factor, Factors
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


def _danger_drawing(group: Group, found: DangerMap, row: int, column: int) -> Drawing:
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
