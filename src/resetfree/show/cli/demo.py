"""`resetfree demo`: the default problem, drawn, learned, and every claim about both checked."""

from __future__ import annotations

import time
from pathlib import Path

import click
from rich.console import Console

import resetfree as rf
from resetfree.core.errors import InvalidInput
from resetfree.problems.world import find_world
from resetfree.show.cli import run as running
from resetfree.show.cli.common import as_json, emit, solution_json
from resetfree.show.cli.progress import Display
from resetfree.show.report import terminal
from resetfree.show.report.curves import draw_run
from resetfree.show.report.html import write_report
from resetfree.show.report.pictures import draw_solution

EPISODES = 10_000


@click.command()
@click.option("--out", default="resetfree-demo", show_default=True, help="Folder for the run file and the pictures.")
@as_json
def demo(out: str, as_json: bool) -> None:
    """Learn the default problem: its map, a run with its progress, a table, pictures, and the claims that hold."""
    began = time.perf_counter()
    world = find_world("grid-v0")
    mdp = world.mdp
    assert mdp is not None
    solution, report, claims = rf.solve(mdp), rf.check(mdp), rf.certify_problem(mdp)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"The '--out' of demo must be a folder that can be made. Got '{out}': {error}.") from error
    if not as_json:
        console = Console()
        console.print(f"[bold]{mdp.name}[/] {mdp}: an episode starts where the last one ended, unless it was reset")
        console.print(terminal.grid_map(solution))
    # The demo owns its folder: its own run file is replaced, a file of another kind never is.
    file = folder / "grid-v0.rfrun"
    with Display(EPISODES) as progress:
        done = rf.learn(world, episodes=EPISODES, path=file, overwrite=file.exists(), progress=progress)
    claims += done.certificates()
    pictures = [draw_solution(solution, folder / "grid-v0.png"), draw_run(done, folder / "learning.png")]
    page = folder / "report.html"
    write_report([file], page)
    proved = [c for c in claims if c.status == "proved"]
    identities = [c for c in claims if c.status == "identity"]
    seconds = time.perf_counter() - began
    data = {
        **running.summary(done),
        "pictures": [str(p) for p in pictures],
        "report": str(page),
        "assumptions_hold": bool(report),
        "claims": len(proved),
        "claims_hold": not any(c.refuted for c in claims),
        "demo_seconds": seconds,
        "solution": solution_json(solution, True),
    }

    def show(console: Console) -> None:
        running.show(console, data)
        held = sum(c.holds for c in proved)
        console.print(f"\nAssumptions of the paper: {'hold' if report else 'broken'}.  Proved claims: ", end="")
        console.print(f"{held} of {len(proved)} hold on this problem and this run", end="")
        console.print(f" (identities: {sum(c.holds for c in identities)} of {len(identities)}).")
        console.print(f"Pictures: {'  '.join(map(str, pictures))}   ({seconds:.1f} s in all)")
        console.print(f"The whole run on one page: {page}\n")
        console.print(f"Next: make studio · resetfree certify {file} · resetfree list · resetfree run CartPole-v1")

    emit(data, as_json, show)
