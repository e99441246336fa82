"""`resetfree certify`: every claim that can be checked on a run file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import resetfree as rf
from resetfree.core.certificate import COMPARED, Certificate
from resetfree.core.errors import RunError
from resetfree.problems.resolve import parse_options
from resetfree.runs.ledger import write_certificates
from resetfree.runs.replay_whole import whole_run
from resetfree.show.cli.common import FILE, as_json, emit, player_options, settings

STYLES = {"holds": "green", "fails": "bold red", "stated": "", "n.a.": "dim"}


@click.command()
@click.argument("runfile", type=FILE)
@click.option("--problem", help="The problem of the run, if it is not registered: module:factory.")
@settings
@player_options
@click.option("--replay", is_flag=True, help="Also play the whole run again and compare every number.")
@click.option("--strict", is_flag=True, help="Exit with status 1 if a proved claim or an identity fails.")
@as_json
def certify(
    runfile: Path,
    problem: str | None,
    options: Sequence[str],
    primal: str | None,
    dual: str | None,
    replay: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Check every claim that can be checked on RUNFILE, and keep the certificates in it."""
    run = rf.load(runfile, problem, parse_options(options), primal=primal, dual=dual)
    claims = [*(whole_run(run) if replay else []), *run.certificates()]
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
        "stored": why_not is None,
        "not_stored": why_not,
        "certificates": [c.to_dict() for c in claims],
    }

    def show(console: Console) -> None:
        about = f"{spec['problem']}, {spec['primal']['name']} against {spec['dual']['name']}, {len(run)} rounds\n"
        console.print(Text(about, style="bold"))
        table = Table.grid(padding=(0, 2))
        for claim in claims:
            table.add_row(*_row(claim))
        console.print(table)
        counts = _counts(claims)
        console.print(
            f"\nproved: {counts['proved']} hold, {counts['proved_failed']} fail. tuned, without a theorem: "
            f"{counts['tuned']} hold, {counts['tuned_failed']} fail. identities, checks of arithmetic: "
            f"{counts['identity']} hold, {counts['identity_failed']} fail. stated: {counts['stated']}. "
            f"not applicable: {counts['not_applicable']}.",
            highlight=False,
        )
        if why_not is not None:
            console.print(Text(f"The certificates were not stored. {why_not}"))

    emit(data, as_json, show)
    if strict and failed:
        raise click.exceptions.Exit(1)


def _counts(claims: list[Certificate]) -> dict[str, int]:
    counts = {word.replace(" ", "_"): sum(c.status == word for c in claims) for word in ("stated", "not applicable")}
    for status in COMPARED:
        held = [c.holds for c in claims if c.status == status]
        counts |= {status: sum(held), f"{status}_failed": len(held) - sum(held)}
    return counts


def _row(c: Certificate) -> tuple[Text, str, Text]:
    """Mark, status, and the claim with both sides and why; without markup, since a file is untrusted data."""
    mark = ("holds" if c.holds else "fails") if c.applies else "stated" if c.status == "stated" else "n.a."
    words = Text(c.claim)
    if c.status == "stated":
        words.append(f": from {c.lhs:.6g} to {c.rhs:.6g}")
    if c.applies:
        words.append(f": {c.lhs:.6g} {c.kind} {c.rhs:.6g}")
        if c.witness is not None:
            words.append(f" ({c.witness})", style="dim")
        if c.detail.get("violations"):
            words.append(f", in {c.detail['violations']} of {c.detail['rounds']} rounds not", style="yellow")
        if c.detail.get("vacuous"):
            words.append(f", vacuous: no run can exceed {c.detail['trivial']:.6g}", style="yellow")
    if c.why:
        words.append(f"\n{c.why}", style="dim")
    return Text(mark, style=STYLES[mark]), c.status if c.applies else "", words
