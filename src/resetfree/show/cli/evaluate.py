"""What a run has learned and holds: `resetfree evaluate`, `export`, `transitions` and `copy`."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import resetfree as rf
from resetfree.core.arguments import is_special
from resetfree.core.errors import InvalidInput
from resetfree.core.readable import SMALLEST, counted, number
from resetfree.problems.contract import Problem
from resetfree.problems.registry import find_world, full_name, parse_options
from resetfree.runs.data.transition_files import write_transitions
from resetfree.runs.display import pushed
from resetfree.runs.file.ledger import read
from resetfree.runs.file.newfile import copy_run
from resetfree.runs.recall import recall, trusted_options
from resetfree.runs.result import Run
from resetfree.show.cli import common
from resetfree.use import DeployedPolicy, Evaluation, continuing_return, read_policy
from resetfree.use.exporting import describe_file

ZIP = b"PK"  # how a policy file begins


@common.command(
    ("a run that was recorded before", "resetfree evaluate field.rfrun --episodes 200"),
    ("an exported policy, on a problem of your choice", "resetfree evaluate policy.npz CartPole-v1"),
)
@click.argument("file", metavar="RUNFILE", type=common.FILE)
@click.argument("problem", required=False)
@click.option("--episodes", type=click.IntRange(min=1), help="Episodes to play; default: 100.")
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="Play whole episodes until this many steps were taken, instead of --episodes.",
)
@click.option(
    "--starts",
    type=click.Choice(["fresh", "continuing", "both"]),
    default="both",
    show_default=True,
    help="fresh: every episode from a new start; continuing: one life, reset only when it must be.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Confidence of every interval.")
@click.option(
    "--stochastic", is_flag=True, help="Draw actions at random as learned, instead of always the most probable one."
)
@common.settings
@common.player_options
@common.as_json
@common.one_argument
def evaluate(given: SimpleNamespace) -> None:
    """Play what was learned, from fresh starts and in one life.

    RUNFILE is a run or an exported policy. It is played on its own problem, or on PROBLEM.
    """
    file, seed, deterministic = given.file, given.seed, not given.stochastic
    chosen: Any = ("fresh", "continuing") if given.starts == "both" else (given.starts,)
    with ExitStack() as opened:
        players = {"primal": given.primal, "dual": given.dual}
        policy, world, run, same = _found(file, given.problem, parse_options(given.options), players, opened)
        how: Any = {"episodes": given.episodes, "steps": given.steps, "seed": seed, "confidence": given.confidence}
        found = {start: policy.evaluate(world, starts=start, deterministic=deterministic, **how) for start in chosen}
    lived = None if run is None or not len(run) else float(continuing_return(run)[-1])
    data = {
        "run_file": str(file),
        "problem": world.name,
        "same_problem": same,
        "policy": policy.about,
        "seed": seed,
        "deterministic": deterministic,
        "training_reward_per_step": lived,
        **{start: found[start].to_dict() if start in found else None for start in ("fresh", "continuing")},
    }

    def show(console: Console) -> None:
        about = policy.about
        learned = f"{about.get('primal')} after {about.get('episodes')} episodes of {about.get('problem')}"
        console.print(Text(f"{world.name}: {learned}", style="bold"))
        if same is False:
            console.print(Text("Note: it was learned on another problem than this."))
        for one in found.values():
            console.print(_table(one))
        if lived is not None:
            console.print(f"while it was learning: {number(lived, 4)} reward per step", highlight=False)

    common.emit(data, given.as_json, show)


def _found(
    file: Path, problem: str | None, options: dict[str, Any], players: dict[str, str | None], opened: ExitStack
) -> tuple[DeployedPolicy, Problem, Run | None, bool | None]:
    """The policy, where to play it, its run if it comes from one, and whether that was of the same problem."""
    if _is_policy(file):
        if problem is None:
            raise InvalidInput(
                f"A policy file holds no problem. Name one to play '{file}' on: a registered id, or an id of Gymnasium."
            )
        policy = read_policy(file)
        return policy, opened.enter_context(find_world(problem, options)).problem, None, None
    run = rf.load(file, primal=players["primal"], dual=players["dual"])
    if problem is None:
        if options:
            raise InvalidInput("The option '--set' needs a PROBLEM. Got '--set' alone instead.")
        if run.problem is None:
            if ":" not in run.spec["problem"]:
                trusted_options(run.spec, None, file)  # raises if an option is too large
            raise InvalidInput(
                f"The run in '{file}' is of '{run.spec['problem']}', and a file never makes code run: "
                f"name it yourself: resetfree evaluate {file} {run.spec['problem']}."
            )
        return run.policy, run.problem, run, True
    same_name = full_name(problem) == run.spec["problem"]
    given = trusted_options(run.spec, options, file) if same_name else options
    world = opened.enter_context(find_world(problem, given))
    same = world.fingerprint == run.spec["fingerprint"]
    return recall(run, world.problem if same else None), world.problem, run, same


def _is_policy(file: Path) -> bool:
    try:
        if is_special(file):
            return False
        with file.open("rb") as opened:
            return opened.read(len(ZIP)) == ZIP
    except OSError:  # `load` raises the error
        return False


def _table(one: Evaluation) -> Table:
    level = f"{100 * one.confidence:g} %"
    table = Table.grid(padding=(0, 2))
    head = "fresh starts" if one.starts == "fresh" else "one life"
    table.add_row(Text(head, style="bold"), Text(f"{counted(one.episodes, 'episode')}, {counted(one.steps, 'step')}"))
    table.add_row(f"reward per {one.unit}", _ends(one.mean, one.interval, level), Text(one.how, style="dim"))
    if one.original_mean != one.mean:
        approximate = Text("approximate (Student's t)", style="dim")
        table.add_row("  in its own rewards", _ends(one.original_mean, one.original_interval, level), approximate)
    per = "resets per episode" if one.starts == "fresh" else "resets per 1000 steps"
    table.add_row(per, _ends(one.reset_rate, one.reset_interval, level), Text(one.reset_how, style="dim"))
    between = number(one.steps_between_resets, 4) if one.resets else "no reset"
    table.add_row("steps between resets", between)
    if one.goals:
        table.add_row("goals", f"{one.goals}")
    table.add_row("resets performed", f"{one.performed}", Text("by the evaluation, its starts included", style="dim"))
    return table


def _ends(mean: float, ends: tuple[float, float], level: str) -> str:
    return f"{number(mean, 4)}  {level}: {number(_floor(ends[0]), 4)} to {number(ends[1], 4)}"


def _floor(end: float) -> float:
    """A lower end; one that is next to nothing is 0, which is only wider."""
    return 0.0 if 0 < end < SMALLEST else end


@common.command(
    ("a policy for a controller without Python", "resetfree export field.rfrun -o policy.c"),
    ("for a run of your own environment", "resetfree export pump.rfrun plant:Pump"),
)
@click.argument("runfile", type=common.FILE)
@click.argument("problem", required=False)
@common.out_option("policy.npz", "The file; an older policy")
@common.settings
@common.player_options
@common.as_json
def export(
    runfile: Path,
    problem: str | None,
    out: Path,
    options: Sequence[str],
    primal: str | None,
    dual: str | None,
    as_json: bool,
) -> None:
    """Write a learned policy to one file: .npz, .onnx or .c.

    The ending says which; .npz runs with NumPy alone. PROBLEM is needed only if RUNFILE alone is not enough.
    """
    policy = rf.load(runfile, problem, parse_options(options), primal=primal, dual=dual).policy
    path = policy.export(out)
    kind, arrays = describe_file(policy)
    data = {"run_file": str(runfile), "policy_file": str(path), "kind": kind, "arrays": arrays, "policy": policy.about}

    def show(console: Console) -> None:
        sizes = ", ".join(f"{name} {tuple(shape)}" for name, shape in arrays.items())
        console.print(Text(f"{path}: {kind}, {sizes}"), soft_wrap=True)

    common.emit(data, as_json, show)


@common.command(
    ("for NumPy", "resetfree transitions field.rfrun -o steps.npz"),
    ("for pandas, Polars or DuckDB", "resetfree transitions field.rfrun -o steps.parquet"),
    name="transitions",
)
@click.argument("runfile", type=common.FILE)
@common.out_option("data.npz", "The file, .npz, .parquet (extra sweep) or .minari; an older file of transitions")
@common.as_json
def export_transitions(runfile: Path, out: Path, as_json: bool) -> None:
    """Write every step of a run to one file, for other programs.

    The columns are round, step, state, action, reward, reset and next state.
    """
    columns = write_transitions(runfile, out)
    notes = read(runfile).notes
    episodes, resets = len(set(columns["round"].tolist())), int(columns["reset"].sum())
    data = {
        "run_file": str(runfile),
        "data_file": str(out),
        "transitions": len(columns["round"]),
        "episodes": episodes,
        "resets": resets,
        "pushed_steps": sum(one.pushed for one in notes),
        "columns": {name: [str(column.dtype), *column.shape[1:]] for name, column in columns.items()},
    }

    def show(console: Console) -> None:
        words = f"{out}: {data['transitions']:,} transitions of {episodes:,} episodes, {resets:,} of them reset"
        console.print(Text(words), soft_wrap=True)
        if hand := pushed(notes):
            console.print(Text(f"The machine was {hand}: leave these episodes out to learn how it moves by itself."))

    common.emit(data, as_json, show)


@common.command(
    ("keep a copy while it is written", "resetfree copy field.rfrun backup.rfrun"),
    ("say how much was copied, for a script", "resetfree copy field.rfrun backup.rfrun --json"),
    name="copy",
)
@click.argument("runfile", type=common.FILE)
@click.argument("copy", type=common.FILE)
@common.as_json
def copy(runfile: Path, copy: Path, as_json: bool) -> None:
    """Copy a run file, also while the run is being written.

    The copy is one file with all that was saved at one moment; it can be resumed. An existing file is not replaced.
    """
    copy_run(runfile, copy)
    episodes = read(copy).k
    data = {"run_file": str(runfile), "copy": str(copy), "episodes": episodes, "bytes": copy.stat().st_size}

    def show(console: Console) -> None:
        console.print(Text(f"{copy}: {episodes:,} episodes of '{runfile}', {data['bytes']:,} bytes"), soft_wrap=True)

    common.emit(data, as_json, show)
