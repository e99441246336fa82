"""`resetfree check`: the assumptions of the paper on one problem."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.console import Console

import resetfree as rf
from resetfree.problems.continuum import Continuum
from resetfree.problems.world import parse_options, resolve_model
from resetfree.show.cli.common import emit, finite, problem_argument
from resetfree.show.cli.help_pages import Documented


@click.command(
    cls=Documented,
    examples=[
        ("a problem on which the assumptions hold, with the theorems", "resetfree check grid-v0 --theorems"),
        ("one on which they fail, and where", "resetfree check footnote-v0"),
    ],
)
@problem_argument
@click.option("--theorems", is_flag=True, help="Also check every theorem about the problem itself.")
@click.option("--strict", is_flag=True, help="Exit with status 1 if anything fails.")
def check(problem: str, options: Sequence[str], as_json: bool, theorems: bool, strict: bool) -> None:
    """Check the paper's assumptions on a problem.

    Each assumption that fails is shown with a state on which it does.
    """
    mdp = resolve_model(problem, parse_options(options))
    if theorems or not isinstance(mdp, Continuum):
        mdp = finite(mdp, problem, "have theorems that can be checked" if theorems else "can be checked")
    report = rf.check(mdp)
    claims = rf.certify_problem(mdp) if theorems else []
    holds = bool(report) and all(c.holds for c in claims if c.applies)
    data = {"problem": problem, "holds": holds, **report.to_dict(), "certificates": [c.to_dict() for c in claims]}

    def show(console: Console) -> None:
        marks = {True: "[green]holds[/]", False: "[bold red]fails[/]", None: "[yellow]not checked[/]"}
        for finding in report.findings:
            console.print(f"{marks[finding.holds]}  [bold]{finding.assumption}[/]: {finding.sentence}", highlight=False)
        for claim in claims:
            words = str(claim).split(": ", 1)[1].replace("[", "\\[")
            console.print(f"{marks[claim.holds if claim.applies else None]}  {words}", highlight=False)

    emit(data, as_json, show)
    if strict and not holds:
        raise click.exceptions.Exit(1)
