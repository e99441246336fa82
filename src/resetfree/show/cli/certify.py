"""`resetfree check` and `resetfree certify`: the assumptions of a problem, and every claim about a run file."""

from collections.abc import Sequence
from types import SimpleNamespace

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import resetfree as rf
from resetfree.core.certificate import COMPARED, Certificate, failure_probability
from resetfree.core.errors import RunError
from resetfree.core.readable import counted, number
from resetfree.problems.continuum import Continuum
from resetfree.problems.registry import parse_options, resolve_model
from resetfree.runs.file.ledger import write_certificates
from resetfree.runs.resuming import whole_run
from resetfree.show.cli import common


@common.command(
    ("a problem on which the assumptions hold, with the theorems", "resetfree check grid-v0 --theorems"),
    ("one on which they fail, and where", "resetfree check footnote-v0"),
)
@common.problem_argument
@click.option("--theorems", is_flag=True, help="Also check every theorem about the problem itself.")
@click.option("--strict", is_flag=True, help="Exit with status 1 if anything fails.")
def check(problem: str, options: Sequence[str], as_json: bool, theorems: bool, strict: bool) -> None:
    """Check the paper's assumptions on a problem.

    Each assumption that fails is shown with a state on which it does.
    """
    mdp = resolve_model(problem, parse_options(options))
    if theorems or not isinstance(mdp, Continuum):
        mdp = common.finite(mdp, problem, "have theorems that can be checked" if theorems else "can be checked")
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

    common.emit(data, as_json, show)
    if strict and not holds:
        raise click.exceptions.Exit(1)


STYLES = {"holds": "green", "fails": "bold red", "not met": "yellow", "stated": "", "n.a.": "dim"}
# Kinds of claims that are compared, and how loud one is that does not hold: a tuned claim promises nothing.
KINDS = {
    "proved": "a theorem covers them",
    "checked": "the record is whole and consistent",
    "tuned": "no theorem covers them, and they may fail",
    "identity": "checks of the arithmetic",
}
FAILED = {"proved": "bold red", "checked": "bold red", "tuned": "yellow", "identity": "bold red"}


@common.command(
    ("the summary, and what fails", "resetfree certify field.rfrun"),
    (
        "play the run again, compare every number, and list every claim",
        "resetfree certify field.rfrun --replay --all",
    ),
)
@click.argument("runfile", type=common.FILE)
@click.option(
    "--problem", help="The problem of the run, if it is not registered here: a Gymnasium id, or module:factory."
)
@common.settings
@common.player_options
@click.option("--replay", is_flag=True, help="Also play the whole run again, and compare every number.")
@click.option("--strict", is_flag=True, help="Exit with status 1 if a proved claim, a check or an identity fails.")
@click.option("--all", "show_all", is_flag=True, help="Show every claim, not only those that fail.")
@common.as_json
@common.one_argument
def certify(given: SimpleNamespace) -> None:
    """Check every claim about a run, and store the certificates.

    It shows the summary and what fails; --all shows every claim.
    """
    runfile = given.runfile
    run = rf.load(runfile, given.problem, parse_options(given.options), primal=given.primal, dual=given.dual)
    again = whole_run(run) if given.replay else []
    claims = [*again, *run.certificates()]
    why_not = None
    try:
        write_certificates(runfile, claims)
    except RunError as error:  # it is being written, or is read-only: the claims are printed all the same
        why_not = str(error)
    failed = [c for c in claims if c.refuted]
    spec = run.spec
    data = {
        "run_file": str(runfile),
        "problem": spec["problem"],
        "episodes": run.episodes,
        **{role: spec[role]["name"] for role in ("primal", "dual")},
        "rounds": len(run),
        "holds": not failed,
        "counts": _counts(claims),
        "failure_probability": failure_probability(claims),
        "stored": why_not is None,
        "not_stored": why_not,
        "certificates": [c.to_dict() for c in claims],
    }

    def show(console: Console) -> None:
        players = f"{spec['primal']['name']} against {spec['dual']['name']}"
        console.print(Text(f"{spec['problem']}, {players}, {counted(len(run), 'episode')}", style="dim"))
        console.print(Text(verdict(claims), style="bold red" if failed else "bold"))
        console.print(_counts_table(claims))
        console.print(Text(together(claims), style="dim"))
        chosen = [c for c in claims if given.show_all or c in again or (c.applies and not c.holds)]
        if chosen:
            table = Table.grid(padding=(0, 2))
            for claim in sorted(chosen, key=lambda c: not c.refuted):
                table.add_row(*_row(claim))
            console.print()
            console.print(table)
        if len(chosen) < len(claims):
            console.print(Text("\nEvery claim, with both of its sides: --all", style="dim"))
        if why_not is not None:
            console.print(Text(f"The certificates were not stored. {why_not}"))

    common.emit(data, given.as_json, show)
    if given.strict and failed:
        raise click.exceptions.Exit(1)


def _counts(claims: list[Certificate]) -> dict[str, int]:
    counts = {word.replace(" ", "_"): sum(c.status == word for c in claims) for word in ("stated", "not applicable")}
    for status in COMPARED:
        held = [c.holds for c in claims if c.status == status]
        counts |= {status: sum(held), f"{status}_failed": len(held) - sum(held)}
    return {**counts, "vacuous": _vacuous(claims)}


def _vacuous(claims: Sequence[Certificate]) -> int:
    """How many proved claims say no more than what is true of every run."""
    return sum(c.status == "proved" and bool(c.vacuous) for c in claims)


def together(claims: Sequence[Certificate]) -> str:
    """With which probability an honest run passes everything that must hold, in words: each claim has its own."""
    p = failure_probability(claims)
    if not p:
        return "None of them rests on chance: --strict never fails on an honest run."
    return (
        f"All claims that must hold do so together with probability at least {1 - p:.4f}: "
        f"--strict fails on an honest run with at most {number(p)}."
    )


def verdict(claims: Sequence[Certificate]) -> str:
    """The result in one sentence: what is proved, and whether it holds; tuned claims promise nothing."""
    proved = [c for c in claims if c.status == "proved"]
    refuted = sum(c.refuted for c in claims)
    if refuted:
        return f"{refuted} of {len(claims)} claims must hold on this run, and {'does' if refuted == 1 else 'do'} not."
    if not proved:
        return "Nothing is proved about this run, and nothing is contradicted."
    return f"All {len(proved)} proved claims hold." if len(proved) > 1 else "The one proved claim holds."


def _counts_table(claims: list[Certificate]) -> Table:
    """How many claims of each kind hold."""
    counts = _counts(claims)
    table = Table.grid(padding=(0, 2))
    for status, about in KINDS.items():
        held, missed = counts[status], counts[f"{status}_failed"]
        if held or missed:
            result = f"{held} of {held + missed} hold" if missed else "1 holds" if held == 1 else f"all {held} hold"
            if status == "proved" and counts["vacuous"]:
                result += f", {counts['vacuous']} vacuous"
            table.add_row(status, Text(result, style=FAILED[status] if missed else "green"), Text(about, style="dim"))
    if counts["stated"]:
        table.add_row("stated", str(counts["stated"]), Text("intervals for what cannot be computed here", style="dim"))
    if counts["not_applicable"]:
        table.add_row("not applicable", str(counts["not_applicable"]), Text("what they need is missing", style="dim"))
    return table


def _row(c: Certificate) -> tuple[Text, str, Text]:
    """Mark, status, and the claim with both sides and why; without markup, since a file is untrusted data."""
    mark = "stated" if c.status == "stated" else "n.a."
    if c.applies:
        mark = "holds" if c.holds else "fails" if c.refuted else "not met"
    words = Text(c.claim)
    if c.status == "stated":
        words.append(f": from {number(c.lhs, 6)} to {number(c.rhs, 6)}")
    if c.applies:
        words.append(f": {number(c.lhs, 6)} {c.kind} {number(c.rhs, 6)}")
        if c.witness is not None:
            words.append(f" ({c.witness})", style="dim")
        if c.detail.get("violations"):
            words.append(f", broken in {c.detail['violations']} of {c.detail['rounds']} rounds", style="yellow")
    if c.vacuous:
        words.append(f", {c.vacuous}", style="yellow")
    if c.why:
        words.append(f"\n{c.why}", style="dim")
    return Text(mark, style=STYLES[mark]), c.status if c.applies else "", words
