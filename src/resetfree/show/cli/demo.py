"""`resetfree demo`: the default problem, drawn, learned, and every claim about both checked."""

import shlex
import time
from pathlib import Path

import click
from rich.console import Console

import resetfree as rf
from resetfree.core.errors import InvalidInput
from resetfree.problems.registry import find_world
from resetfree.show.cli import run_summary
from resetfree.show.cli.common import Documented, as_json, emit, show_next, solution_json
from resetfree.show.cli.progress import Display
from resetfree.show.report.html import write_report
from resetfree.show.report.pictures import draw_run, draw_solution, grid_map

EPISODES = 10_000


@click.command(
    cls=Documented,
    examples=[
        ("learn the default grid; the files go to the folder resetfree-demo", "resetfree demo"),
        ("keep the files in another folder", "resetfree demo --out first-look"),
    ],
)
@click.option("--out", default="resetfree-demo", show_default=True, help="Folder for the run file and the pictures.")
@as_json
def demo(out: str, as_json: bool) -> None:
    """Learn the default grid, and check every claim about it.

    It draws the map, shows the run as it learns, and writes pictures and a report.
    """
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
        console.print(f"[bold]{mdp.name}[/] {mdp}: each episode begins where the previous one ended")
        console.print(grid_map(solution))
    # The demo owns its folder: its own run file is replaced, a file of another kind never is.
    file = folder / "grid-v0.rfrun"
    with Display(EPISODES) as progress:
        done = rf.learn(world, episodes=EPISODES, path=file, overwrite=file.exists(), progress=progress)
    claims += done.certificates()
    pictures = [draw_solution(solution, folder / "grid-v0.png"), draw_run(done, folder / "learning.png")]
    page = folder / "report.html"
    write_report([file], page)
    proved = [c for c in claims if c.status == "proved"]
    checks, identities = ([c for c in claims if c.status == status] for status in ("checked", "identity"))
    seconds = time.perf_counter() - began
    data = {
        **run_summary.summary(done),
        "pictures": [str(p) for p in pictures],
        "report": str(page),
        "assumptions_hold": bool(report),
        "claims": len(proved),
        "checks": len(checks),
        "vacuous": sum(bool(c.vacuous) for c in proved),
        "claims_hold": not any(c.refuted for c in claims),
        "demo_seconds": seconds,
        "solution": solution_json(solution, True),
    }

    def show(console: Console) -> None:
        run_summary.show_brief(console, done, data)
        held, fit, identical = (f"{sum(c.holds for c in some)} of {len(some)}" for some in (proved, checks, identities))
        vacuous = f" ({data['vacuous']} vacuous)" if data["vacuous"] else ""
        found = f"{held} proved claims hold{vacuous}, {fit} checks of the record, {identical} identities"
        console.print(f"\nThe paper's assumptions {'hold' if report else 'are broken'}. {found}.", highlight=False)
        console.print(f"Pictures: {'  '.join(map(str, pictures))}", highlight=False)
        console.print(f"The whole run on one page: {page}", highlight=False)
        show_next(
            console,
            [
                ("resetfree studio", "draw a grid and watch"),
                ("resetfree run CartPole-v1", "learn to balance a pole"),
                (f"resetfree certify {shlex.quote(str(file))}", "the claims, one by one"),
                ("resetfree list", "all problems"),
            ],
        )

    emit(data, as_json, show)
