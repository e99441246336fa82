"""The command line: tables for people, `--json` for programs; bad input is one sentence and status 2."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import resetfree as rf
from resetfree.errors import InvalidInput, ResetFreeError
from resetfree.oracle.dynamic_programming import Solution
from resetfree.oracle.quadrature import ContinuousSolution
from resetfree.report import terminal
from resetfree.resolve import parse_options, resolve

F = TypeVar("F", bound=Callable[..., Any])
MULTIPLIER_BUDGET = 2e9  # row entries: about half a minute of Newton passes on one core
DETAIL_LIMIT = 100_000  # entries of a [H, S, A] array that JSON still carries

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
settings = click.option(
    "--set", "options", multiple=True, metavar="KEY=VALUE", help="An option of the problem; repeat."
)


def problem_argument(function: F) -> F:
    """PROBLEM and its options, as every command takes them."""
    return click.argument("problem")(settings(as_json(function)))


def say(data: dict[str, Any], as_json: bool, show: Callable[[Console], None]) -> None:
    """One JSON object for programs, or `show` for people."""
    if as_json:
        click.echo(json.dumps(data, allow_nan=False))
    else:
        show(Console())


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True)
@click.version_option(rf.__version__, prog_name="resetfree")
def app() -> None:
    """Learn on systems you cannot reset. PROBLEM is a registered id (see `list`) or module:factory."""


@app.command()
@click.option("--out", default="resetfree-demo", show_default=True, help="Folder for the picture.")
@as_json
def demo(out: str, as_json: bool) -> None:
    """Draw the default problem: safe sets, best reset-free policy, multipliers; check the theorems on it."""
    from resetfree.report.pictures import draw_solution

    began = time.perf_counter()
    mdp = rf.make("grid-v0")
    solution, report, claims = rf.solve(mdp), rf.check(mdp), rf.certify_problem(mdp)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"The '--out' of demo must be a folder that can be made. Got '{out}': {error}.") from error
    picture = draw_solution(solution, folder / "grid-v0.png")
    seconds = time.perf_counter() - began
    data = {
        "problem": mdp.name, "picture": str(picture), "assumptions_hold": bool(report), "claims": len(claims),
        "claims_hold": all(c.holds for c in claims), "seconds": seconds, **_solution_json(solution, True),
    }  # fmt: skip

    def show(console: Console) -> None:
        console.print(f"[bold]{mdp.name}[/] {mdp}: two pits, slippery ground, an episode starts where the last ended\n")
        console.print(terminal.grid_map(solution))
        held = sum(c.holds for c in claims)
        console.print(
            f"\nAssumptions of the paper: {'hold' if report else 'broken'}.  Claims checked: {held}/{len(claims)} hold."
        )
        console.print(f"Picture: {picture}   ({seconds:.1f} s)\n")
        console.print("Next: resetfree list problems · resetfree solve grid-v0 --exact · resetfree check footnote-v0")

    say(data, as_json, show)


@app.command("list")
@click.argument("kind", type=click.Choice(["problems"]), default="problems")
@as_json
def list_(kind: str, as_json: bool) -> None:
    """List what is registered, each with a sentence and its sizes."""
    rows = []
    for id, spec in rf.problems().items():
        made = spec.factory()
        n_resets = int(made.reset.sum()) if isinstance(made, rf.FiniteMDP) else 1
        sizes = {"states": made.n_states, "actions": made.n_actions, "horizon": made.horizon, "reset_states": n_resets}
        rows.append({"id": id, "summary": spec.summary, **sizes, "options": spec.options})

    def show(console: Console) -> None:
        table = Table("id", "S", "A", "H", "resets", "what it shows, and its options", box=None, padding=(0, 2, 0, 0))
        for row in rows:
            options = " ".join(f"{k}={v}" for k, v in row["options"].items())
            sizes = (str(row[k] or "∞") if k == "states" else str(row[k]) for k in ("states", "actions", "horizon"))
            text = row["summary"] + (f" [dim]\\[{options}][/]" if options else "")
            table.add_row(f"[bold]{row['id']}[/]", *sizes, str(row["reset_states"]), text)
        console.print(table)

    say({"problems": rows}, as_json, show)


@app.command()
@problem_argument
@click.option("--theorems", is_flag=True, help="Also check every theorem that speaks of a problem alone.")
@click.option("--strict", is_flag=True, help="Exit with status 1 if something does not hold.")
def check(problem: str, options: Sequence[str], as_json: bool, theorems: bool, strict: bool) -> None:
    """Check the paper's assumptions; what fails comes with a witness."""
    mdp = resolve(problem, parse_options(options))
    if not isinstance(mdp, rf.FiniteMDP):
        raise InvalidInput(
            f"Only finite problems can be checked. Got '{problem}', whose states are a continuum, instead."
        )
    report = rf.check(mdp)
    claims = rf.certify_problem(mdp) if theorems else []
    holds = bool(report) and all(c.holds for c in claims)
    data = {"problem": problem, "holds": holds, **report.to_dict(), "certificates": [c.to_dict() for c in claims]}

    def show(console: Console) -> None:
        marks = {True: "[green]holds[/]", False: "[bold red]fails[/]", None: "[yellow]not checked[/]"}
        for finding in report.findings:
            console.print(f"{marks[finding.holds]}  [bold]{finding.assumption}[/]: {finding.sentence}", highlight=False)
        for claim in claims:
            words = str(claim).split(": ", 1)[1].replace("[", "\\[")
            console.print(f"{marks[claim.holds]}  {words}", highlight=False)

    say(data, as_json, show)
    if strict and not holds:
        raise click.exceptions.Exit(1)


@app.command()
@problem_argument
@click.option("--starts", help="States (comma-separated) whose multipliers are wanted; default: every feasible one.")
@click.option("--exact", is_flag=True, help="Solve in fractions (small problems).")
@click.option("--verify", is_flag=True, help="Solve in three independent ways and show how far they differ.")
@click.option("--picture", type=click.Path(path_type=Path), help="Draw the map to this file (PNG, SVG or PDF).")
def solve(
    problem: str,
    options: Sequence[str],
    as_json: bool,
    starts: str | None,
    exact: bool,
    verify: bool,
    picture: Path | None,
) -> None:
    """The oracle's answer: safe sets, best reset-free value and policy, multipliers."""
    began = time.perf_counter()
    mdp = resolve(problem, parse_options(options))
    if not isinstance(mdp, rf.FiniteMDP):
        return _solve_continuum(problem, mdp, as_json)
    solution = rf.solve(mdp, starts=None if starts is None else _states(starts, mdp))
    work = 8.0 * len(solution.starts) * mdp.horizon * mdp.transition.nnz / mdp.transition.n_layers
    multipliers = work <= MULTIPLIER_BUDGET
    data = {"problem": problem, **_solution_json(solution, multipliers)}
    if exact:
        data["exact"] = _exact_json(mdp, None if starts is None else solution.starts.tolist())
    if verify:
        data["disagreement"] = _disagreement(solution)
    if picture is not None:
        from resetfree.report.pictures import draw_solution

        data["picture"] = str(draw_solution(solution, picture))
    data["seconds"] = time.perf_counter() - began

    def show(console: Console) -> None:
        unsafe = int((~solution.safe.actions(1)[~mdp.reset]).sum())
        console.print(f"[bold]{problem}[/] {mdp}, {mdp.boundary} boundary")
        console.print(
            f"feasible starts {data['n_feasible']} of {mdp.n_states}; unsafe first actions {unsafe}", highlight=False
        )
        if terminal.has_map(solution) and multipliers:
            console.print(terminal.grid_map(solution))
        else:
            console.print(terminal.states_table(solution, multipliers))
        if not multipliers:
            console.print(
                "Multipliers of every start would take long here: name the starts you want with --starts 0,1,2."
            )
        for s, (value, lam) in enumerate(zip(*data["exact"].values(), strict=True)) if exact else ():
            if value is not None:
                console.print(f"  {mdp.state_names[s]:>8}  V* = {value}   λ̂ = {lam}", highlight=False)
        for what, gap in data.get("disagreement", {}).items():
            console.print(f"  {what}: {gap:.2g}", highlight=False)
        if picture is not None:
            console.print(f"Picture: {picture}")

    say(data, as_json, show)


def _solution_json(solution: Solution, multipliers: bool) -> dict[str, Any]:
    """What `solve --json` says of a finite problem; null stands for "infeasible" or "not computed"."""
    mdp = solution.mdp
    small = mdp.horizon * mdp.n_states * mdp.n_actions <= DETAIL_LIMIT
    empty = np.full(mdp.n_states, np.nan)
    return {
        "n_states": mdp.n_states, "n_actions": mdp.n_actions, "horizon": mdp.horizon, "boundary": mdp.boundary,
        "n_feasible": int(solution.feasible.sum()),
        "state_names": list(mdp.state_names),
        "feasible": solution.feasible.tolist(),
        "value": _numbers(solution.value),
        "lambda_hat": _numbers(solution.lambda_hat if multipliers else empty),
        "lambda_star": _numbers(solution.lambda_star if multipliers else empty),
        "least_reset_probability": _numbers(solution.cost),
        "policy": solution.policy.tolist() if small else None,
        "safe_actions": solution.safe_actions.tolist() if small else None,
    }  # fmt: skip


def _exact_json(mdp: rf.FiniteMDP, starts: Any) -> dict[str, list[str | None]]:
    from resetfree.oracle.fractions import solve_exactly

    exact = solve_exactly(mdp, starts)
    pairs = {"value": exact.value, "lambda_hat": exact.lambda_hat}
    return {key: [None if x is None else str(x) for x in column] for key, column in pairs.items()}


def _disagreement(solution: Solution) -> dict[str, float]:
    """Largest relative difference to the linear program and to the fractions, over the starts asked for."""
    from resetfree.oracle.fractions import solve_exactly
    from resetfree.oracle.linear_program import best_value, least_multiplier

    mdp = solution.mdp
    exact = solve_exactly(mdp, solution.starts.tolist())
    gaps: dict[str, list[float]] = {}

    def note(what: str, ours: float, theirs: Any) -> None:
        gaps.setdefault(what, [0.0]).append(abs(ours - float(theirs)) / max(1.0, abs(ours)))

    for s in solution.starts:
        value, lam = float(solution.value[s]), float(solution.lambda_hat[s])
        note("V*, linear program", value, best_value(mdp, np.eye(1, mdp.n_states, int(s))[0]))
        note("λ̂, linear program", lam, least_multiplier(mdp, int(s), value))
        note("V*, fractions", value, exact.value[s])
        note("λ̂, fractions", lam, exact.lambda_hat[s])
    return {what: max(values) for what, values in gaps.items()}


def _solve_continuum(problem: str, mdp: Any, as_json: bool) -> None:
    from resetfree.oracle import quadrature

    solution: ContinuousSolution = quadrature.solve(mdp)
    points = np.linspace(0, 1, 21)
    value, lam = solution.value(points), solution.lambda_hat(points)
    data = {
        "problem": problem, "n_states": None, "n_actions": mdp.n_actions, "horizon": mdp.horizon,
        "states": points.tolist(), "value": _numbers(value), "lambda_hat": _numbers(lam),
        "lambda_star": _numbers(lam + 1),
    }  # fmt: skip

    def show(console: Console) -> None:
        table = Table("state", "V*", "λ̂", "λ*", box=None, padding=(0, 2, 0, 0))
        for s, v, y in zip(points, value, lam, strict=True):
            table.add_row(f"{s:.2f}", f"{v:.9f}", f"{y:.9f}", f"{y + 1:.9f}")
        console.print(f"[bold]{problem}[/]: states in 0..1, {mdp.n_actions} actions, horizon {mdp.horizon}, quadrature")
        console.print(table)

    say(data, as_json, show)


def _numbers(values: Any) -> list[float | None]:
    return [float(x) if np.isfinite(x) else None for x in values]


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 done, 1 a claim failed under --strict, 2 bad input, 130 stopped."""
    try:
        status = app.main(args=arguments, prog_name="resetfree", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except (ResetFreeError, click.ClickException) as error:
        sentence = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print(" ".join(sentence.split()), file=sys.stderr)
        return 2
    except (click.Abort, KeyboardInterrupt):
        print("Stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away: not our failure
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
