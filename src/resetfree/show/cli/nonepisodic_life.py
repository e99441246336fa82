"""`resetfree nonepisodic`: one unbroken life without episodes, with a bound on resets for every path."""

import time
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console

from resetfree.core.errors import AssumptionViolated
from resetfree.core.readable import counted
from resetfree.players.nonepisodic import UnbrokenLife, live, optimal_gain
from resetfree.show.cli.common import Documented, emit, finite_model, problem_argument


@click.command(
    cls=Documented,
    examples=[
        ("20,000 steps on the default grid", "resetfree nonepisodic grid-v0"),
        ("with the width for which the bound is proved", "resetfree nonepisodic grid-v0 --width theory --steps 50000"),
    ],
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
