"""Commands on finite models: `solve` (the oracle's answer), `limit` and `nonepisodic`.

`limit` shows the resets that no learner can promise to avoid; `nonepisodic` learns in one unbroken life without
episodes, with a bound on resets for every path.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import resetfree as rf
from resetfree.core.errors import AssumptionViolated, InvalidInput
from resetfree.core.readable import counted, number
from resetfree.game.capabilities import Eliminates
from resetfree.players import discover
from resetfree.players.nonepisodic import UnbrokenLife, live, optimal_gain
from resetfree.problems.registry import parse_options, resolve_model
from resetfree.show.cli.common import FILE, command, emit, finite_model, numbers, problem_argument, solution_json
from resetfree.show.report.pictures import draw_solution
from resetfree.theory.assumptions import unsafe_pairs
from resetfree.theory.oracle.dynamic_programming import Solution
from resetfree.theory.oracle.fractions import solve_exactly
from resetfree.theory.oracle.linear_program import best_value, least_multiplier

MULTIPLIER_BUDGET = 2e9  # row entries: about half a minute of Newton passes on one core


@command(
    ("the map of the default grid: safe actions, values, multipliers", "resetfree solve grid-v0"),
    ("a larger one, drawn to a picture", "resetfree solve pits-v0 --set n=7 --picture field.png"),
)
@problem_argument
@click.option(
    "--starts", help="Compute multipliers only for these states, separated by commas; default: every feasible one."
)
@click.option("--exact", is_flag=True, help="Solve in fractions; for small problems.")
@click.option("--verify", is_flag=True, help="Solve in three independent ways and show how much they differ.")
@click.option("--picture", type=FILE, help="Draw the map to this file (PNG, SVG or PDF).")
def solve(
    problem: str,
    options: Sequence[str],
    as_json: bool,
    starts: str | None,
    exact: bool,
    verify: bool,
    picture: Path | None,
) -> None:
    """Solve a problem exactly: safe states, best policy, multipliers."""
    began = time.perf_counter()
    mdp = resolve_model(problem, parse_options(options))
    if not isinstance(mdp, rf.FiniteMDP):
        return _solve_continuum(problem, mdp, as_json)
    solution = rf.solve(mdp, starts=None if starts is None else _states(starts, mdp))
    work = 8.0 * len(solution.starts) * mdp.horizon * mdp.transition.nnz / mdp.transition.n_layers
    multipliers = work <= MULTIPLIER_BUDGET
    data = {"problem": problem, **solution_json(solution, multipliers)}
    if exact:
        data["exact"] = _exact_json(mdp, None if starts is None else solution.starts.tolist())
    if verify:
        data["disagreement"] = _disagreement(solution)
    if picture is not None:
        data["picture"] = str(draw_solution(solution, picture))
    data["seconds"] = time.perf_counter() - began

    def show(console: Console) -> None:
        unsafe = int((~solution.safe.actions(1)[~mdp.reset]).sum())
        console.print(f"[bold]{problem}[/] {mdp}, {mdp.boundary} boundary")
        console.print(
            f"feasible starts {data['n_feasible']} of {mdp.n_states}; unsafe first actions {unsafe}", highlight=False
        )
        console.print(_long_run(data["long_run_gain"], mdp.horizon), highlight=False)
        if has_map(solution) and multipliers:
            console.print(grid_map(solution))
        else:
            console.print(states_table(solution, multipliers))
        if not multipliers:
            console.print("The multipliers of all starts would take long here. Choose starts: --starts 0,1,2.")
        for s, (value, lam) in enumerate(zip(*data["exact"].values(), strict=True)) if exact else ():
            if value is not None:
                console.print(f"  {mdp.state_names[s]:>8}  V* = {value}   λ̂ = {lam}", highlight=False)
        for what, gap in data.get("disagreement", {}).items():
            console.print(f"  {what}: {number(gap, 2)}", highlight=False)
        if picture is not None:
            console.print(f"Picture: {picture}")

    emit(data, as_json, show)


def _long_run(gains: Sequence[float | None], horizon: int) -> str:
    """The best average reward in words.

    >>> _long_run([0.25, None, 1.0], 8), _long_run([None], 8)
    ('in the long run: at best 2 to 8 per episode', 'in the long run: not known')
    """
    found = [gain * horizon for gain in gains if gain is not None]
    if not found:
        return "in the long run: not known"
    few, most = (f"{round(x, 9):.6g}" for x in (min(found), max(found)))
    return f"in the long run: at best {few if few == most else f'{few} to {most}'} per episode"


def _exact_json(mdp: rf.FiniteMDP, starts: Any) -> dict[str, list[str | None]]:
    exact = solve_exactly(mdp, starts)
    pairs = {"value": exact.value, "lambda_hat": exact.lambda_hat}
    return {key: [None if x is None else str(x) for x in column] for key, column in pairs.items()}


def _disagreement(solution: Solution) -> dict[str, float]:
    """Largest relative difference to the linear program and to the fractions, over the requested starts."""
    mdp = solution.mdp
    exact = solve_exactly(mdp, solution.starts.tolist())
    gaps: dict[str, list[float]] = {}

    def note(what: str, value: float, other: Any) -> None:
        gaps.setdefault(what, [0.0]).append(abs(value - float(other)) / max(1.0, abs(value)))

    for s in solution.starts:
        value, lam = float(solution.value[s]), float(solution.lambda_hat[s])
        note("V*, linear program", value, best_value(mdp, np.eye(1, mdp.n_states, int(s))[0]))
        note("λ̂, linear program", lam, least_multiplier(mdp, int(s), value))
        note("V*, fractions", value, exact.value[s])
        note("λ̂, fractions", lam, exact.lambda_hat[s])
    return {what: max(values) for what, values in gaps.items()}


def _solve_continuum(problem: str, mdp: Any, as_json: bool) -> None:
    solution, points = rf.solve(mdp), np.linspace(0, 1, 21)
    states = points if mdp.dimension == 1 else np.repeat(points[:, None], mdp.dimension, axis=1)  # the diagonal
    value, lam = solution.value(states), solution.lambda_hat(states)
    data = {
        "problem": problem,
        "n_states": None,
        "n_actions": mdp.n_actions,
        "horizon": mdp.horizon,
        "states": states.tolist(),
        "value": numbers(value),
        "lambda_hat": numbers(lam),
        "lambda_star": numbers(lam + 1),
    }

    def show(console: Console) -> None:
        table = Table(
            "state" if mdp.dimension == 1 else "every coordinate", "V*", "λ̂", "λ*", box=None, padding=(0, 2, 0, 0)
        )
        where = "states in 0..1" if mdp.dimension == 1 else f"states in \\[0, 1]^{mdp.dimension}"
        for s, v, y in zip(points, value, lam, strict=True):
            table.add_row(f"{s:.2f}", f"{v:.9f}", f"{y:.9f}", f"{y + 1:.9f}")
        console.print(f"[bold]{problem}[/]: {where}, {mdp.n_actions} actions, horizon {mdp.horizon}, quadrature")
        console.print(table)

    emit(data, as_json, show)


def _states(text: str, mdp: rf.FiniteMDP) -> list[int]:
    """States by index or by name."""
    found = []
    for word in text.split(";" if ";" in text else ","):
        if word in mdp.state_names:
            found.append(mdp.state_names.index(word))
        elif word.isdigit() and int(word) < mdp.n_states:
            found.append(int(word))
        else:
            raise InvalidInput(f"The '--starts' must name states of the problem. Got '{word}' instead.")
    return found


@dataclass(frozen=True)
class ShownLimit:
    """The limits of a problem, and the resets of runs of so many episodes."""

    problem: str
    mdp: rf.FiniteMDP
    found: rf.Limit
    episodes: int
    realised: dict[str, int]  # by player that eliminates
    apart: set[str]  # of these, who keeps the steps of an episode apart though they do not differ


@command(
    ("how few resets can be promised for all problems of the sizes of the default grid", "resetfree limit grid-v0"),
    ("only the numbers, without running a player", "resetfree limit doors-v0 --no-run"),
)
@problem_argument
@click.option("--episodes", type=click.IntRange(1), default=1000, show_default=True, help="K, also of the runs.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the runs.")
@click.option("--no-run", is_flag=True, help="Only the limits: no player that eliminates is run.")
def limit(problem: str, options: Sequence[str], as_json: bool, episodes: int, seed: int, no_run: bool) -> None:
    """Show how few resets can be promised for all problems of a size."""
    mdp = finite_model(problem, options, "have a limit")
    found = rf.limit(mdp)
    primal = {} if no_run else discover("primal").own
    # Who needs a bound on multipliers, too, eliminates only beside what else it does.
    players = [name for name, cls in primal.items() if issubclass(cls, Eliminates) and not hasattr(cls, "B")]
    runs = {name: rf.learn(mdp, name, episodes=episodes, seed=seed) for name in sorted(players)}
    realised = {name: int(run.realised_resets[-1]) for name, run in runs.items()}
    apart = {name for name, run in runs.items() if run.player_again("primal").keeps_steps_apart(run.problem_again())}
    shown = ShownLimit(problem, mdp, found, episodes, realised, apart=set() if found.per_step else apart)
    emit(_data(shown), as_json, lambda console: _show(console, shown))


def _data(shown: ShownLimit) -> dict[str, Any]:
    found, permuted = shown.found, shown.found.renamed
    return {
        "problem": shown.problem,
        "n_states": found.n_states,
        "n_actions": found.n_actions,
        "steps": found.steps,
        "per_step": found.per_step,
        "feasible": found.feasible,
        "episodes": shown.episodes,
        "limit": found.resets,
        "limit_after_episodes": found.after(shown.episodes),
        "expected_limit": found.expected,
        "expected_limit_after_episodes": found.expected_after(shown.episodes),
        "limit_with_actions_renamed": None if permuted is None else permuted.resets,
        "limit_with_actions_renamed_is_exact": None if permuted is None else permuted.exact,
        "unsafe": found.unsafe,
        "elimination_never_exceeds": found.promised,
        "realised_resets": shown.realised,
    }


def _show(console: Console, shown: ShownLimit) -> None:
    found, episodes = shown.found, f"{shown.episodes:,} episodes"
    what, changing = ("triples (h, s, a)", ", changing with the step") if found.per_step else ("pairs (s, a)", "")
    sizes = f"{found.n_states} states outside the reset set, {found.n_actions} actions, {found.steps} steps{changing}"
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right")
    table.add_column()

    def line(number: object, words: str) -> None:
        table.add_row(str(number), words)

    line("", f"[bold]No learner stays below[/], over all feasible problems with {sizes}:")
    line(found.resets, "on some path of some problem, after enough episodes")
    line(found.after(shown.episodes), f"likewise, within {episodes}")
    line(f"{found.expected_after(shown.episodes):g}", f"in expectation on some problem, within {episodes}")
    if (permuted := found.renamed) is not None:
        early = "" if permuted.exact else "; more may be provable, as the search ended early"
        line("", "[bold]No learner stays below[/], over this problem with its actions named anew:")
        line(permuted.resets, f"on some path of some of them{early}")
    line("", "[bold]Elimination[/]:")
    if found.promised is None:
        line("-", "promises nothing here: an episode can start where no policy avoids a reset (see `resetfree check`)")
    else:
        line(found.resets, "never exceeded on any problem with these sizes: no learner can promise less for all")
        line(found.promised, f"never exceeded on this one, where {found.unsafe} {what} are unsafe")
    own = f", which keeps steps apart: never more than {unsafe_pairs(shown.mdp, per_step=True)}"
    for name, resets in shown.realised.items():
        line(resets, f"happened to {name} in {episodes}{own if name in shown.apart else ''}")
    console.print(f"[bold]{shown.problem}[/] {shown.mdp}", highlight=False)
    console.print(table, highlight=False)


@command(
    ("20,000 steps on the default grid", "resetfree nonepisodic grid-v0"),
    ("with the width for which the bound is proved", "resetfree nonepisodic grid-v0 --width theory --steps 50000"),
)
@problem_argument
@click.option("--steps", type=int, default=20_000, show_default=True, help="Steps to live.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random numbers.")
@click.option(
    "--width",
    default="tuned",
    show_default=True,
    help="Of the confidence intervals: tuned, or theory (proved, and wider).",
)
@click.option("--scale", type=float, default=0.02, show_default=True, help="Factor on the tuned width.")
def nonepisodic(
    problem: str, options: Sequence[str], as_json: bool, steps: int, seed: int, width: Any, scale: float
) -> None:
    """Learn in one unbroken life, without episodes.

    It is reset only when it enters a reset state, and no path has more resets than the bound that is shown.
    """
    began = time.perf_counter()
    mdp = finite_model(problem, options, "have a life without episodes")
    life = live(mdp, steps, seed=seed, width=width, scale=scale)
    best, why = _best(life)
    reward, average = float(life.rewards.sum()), float(life.rewards.mean())
    data: dict[str, Any] = {"problem": problem, "steps": steps, "seed": seed, "width": width}
    data |= {
        "constants": life.constants,
        "resets": life.resets,
        "most_resets": life.bound,
        "safe_states": int(life.safe.sum()),
    }
    data |= {"reward": reward, "average_reward": average, "best_average_reward": best}
    data |= {"regret": None if best is None else float(life.regret[-1]), "epochs": life.epochs}
    data["seconds"] = time.perf_counter() - began

    def show(console: Console) -> None:
        console.print(f"[bold]{problem}[/] {mdp}, {steps:,} steps without episodes", highlight=False)
        console.print(f"{counted(life.resets, 'reset')}; at most {life.bound:,} on any path", highlight=False)
        console.print(f"average reward {data['average_reward']:.4f}; {why}", highlight=False)
        if best is not None:
            console.print(f"regret {data['regret']:.1f}", highlight=False)

    emit(data, as_json, show)


def _best(life: UnbrokenLife) -> tuple[float | None, str]:
    """g*, or None with the reason."""
    try:
        best = optimal_gain(life.mdp).value
    except AssumptionViolated as error:
        return None, f"the best one is not known: {error}"
    return best, f"the best without resets is {best:.4f}"


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
