"""`resetfree limit`: resets that every learner has on some problem of a size, beside what elimination promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table

import resetfree as rf
from resetfree.game.capabilities import Eliminates
from resetfree.players import discover
from resetfree.show.cli.common import emit, finite_model, problem_argument
from resetfree.show.cli.help_pages import Documented


@dataclass(frozen=True)
class Shown:
    """The limits of a problem, and the resets of runs of so many episodes."""

    problem: str
    mdp: rf.FiniteMDP
    found: rf.Limit
    episodes: int
    realised: dict[str, int]  # by player that eliminates


@click.command(
    cls=Documented,
    examples=[
        ("how few resets can be promised for all problems of the sizes of the default grid", "resetfree limit grid-v0"),
        ("only the numbers, without running a player", "resetfree limit doors-v0 --no-run"),
    ],
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
    realised = {
        name: int(rf.learn(mdp, name, episodes=episodes, seed=seed).realised_resets[-1]) for name in sorted(players)
    }
    shown = Shown(problem, mdp, found, episodes, realised)
    emit(_data(shown), as_json, lambda console: _show(console, shown))


def _data(shown: Shown) -> dict[str, Any]:
    found, renamed = shown.found, shown.found.renamed
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
        "limit_with_actions_renamed": None if renamed is None else renamed.resets,
        "limit_with_actions_renamed_is_exact": None if renamed is None else renamed.exact,
        "unsafe": found.unsafe,
        "elimination_never_exceeds": found.promised,
        "realised_resets": shown.realised,
    }


def _show(console: Console, shown: Shown) -> None:
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
    if found.renamed is not None:
        early = "" if found.renamed.exact else "; more may be provable, as the search ended early"
        line("", "[bold]No learner stays below[/], over this problem with its actions named anew:")
        line(found.renamed.resets, f"on some path of some of them{early}")
    line("", "[bold]Elimination[/]:")
    if found.promised is None:
        line("-", "promises nothing here: an episode can start where no policy avoids a reset (see `resetfree check`)")
    else:
        line(
            found.resets, "never exceeded on any problem with these sizes: for all of them no learner can promise less"
        )
        line(found.promised, f"never exceeded on this one, where {found.unsafe} {what} are unsafe")
    for name, resets in shown.realised.items():
        line(resets, f"happened to {name} in {episodes}")
    console.print(f"[bold]{shown.problem}[/] {shown.mdp}", highlight=False)
    console.print(table, highlight=False)
