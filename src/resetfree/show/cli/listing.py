"""`resetfree list`: problems, players and everything else that is discovered."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import resetfree as rf
from resetfree.core.discovery import Registry
from resetfree.players import BASES, PLAYERS, discover, settings
from resetfree.problems import features
from resetfree.problems.fingerprint import describe
from resetfree.problems.operators import CHANNELS
from resetfree.problems.registry import PROBLEMS
from resetfree.problems.resolve import FAMILIES
from resetfree.show.cli.common import as_json, emit
from resetfree.studies.suites.methods import METHODS, methods
from resetfree.studies.suites.suite import SUITES

SIZES = ("states", "actions", "horizon", "reset_states")
KINDS = ["problems", "players", "features", "operators", "families", "methods", "suites"]
GRID: Any = {"box": None, "padding": (0, 2, 0, 0)}  # how tables look


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS), default="problems")
@as_json
def list_(kind: str, as_json: bool) -> None:
    """List problems, players and feature maps with their options, operators, families of environments, methods and
    suites of the comparison; also those of other packages, and those that cannot be used, with the reason.
    """
    rows = ROWS[kind]()
    unavailable = _unavailable(kind)

    def show(console: Console) -> None:
        if kind == "problems":
            table = Table("id", *"SAH", "resets", "what it shows, and its options", **GRID)
            for row in rows:
                known = row["horizon"] is not None
                sizes = [("∞" if known else "") if row[size] is None else str(row[size]) for size in SIZES]
                table.add_row(f"[bold]{row['id']}[/]", *sizes, _with_options(row["summary"], row["options"]))
        elif kind == "methods":
            table = Table("method", "kind", "pools", "theorem", "what it is, and its widths", **GRID)
            for row in rows:
                marks = ("yes" if row[key] else "no" for key in ("pools", "guaranteed"))
                text = _with_options(row["summary"], {"width": row["widths"]} if row["widths"] else {})
                table.add_row(f"[bold]{escape(row['name'])}[/]", row["kind"], *marks, text)
        elif kind == "suites":
            table = Table("suite", "seeds", "problem and its episodes", **GRID)
            for row in rows:
                cases = " · ".join(f"{case['label']} {case['episodes']:,}" for case in row["cases"])
                table.add_row(f"[bold]{row['name']}[/]", str(row["seeds"]), f"{row['summary']} [dim]{cases}[/]")
        elif kind == "features":
            table = Table("features", "what they are, and their settings", **GRID)
            for row in rows:
                table.add_row(f"[bold]{row['name']}[/]", _with_options(row["summary"], row["settings"]))
        elif kind in ("operators", "families"):
            table = Table(kind, "what they are", **GRID)
            for row in rows:
                table.add_row(f"[bold]{escape(row['name'])}[/]", escape(row["summary"]))
        else:
            table = Table("role", "name", "what it does, and its settings", **GRID)
            for row in rows:
                table.add_row(row["role"], f"[bold]{row['name']}[/]", _with_options(row["summary"], row["settings"]))
        console.print(table)
        for row in unavailable:
            console.print(f"{row['kind']} '{row['name']}' is not available: it {row['why']}.", markup=False)

    emit({kind: rows, "unavailable": unavailable}, as_json, show)


def _problems() -> list[dict[str, Any]]:
    rows = []
    for id, spec in rf.problems().items():
        if id not in PROBLEMS.own:  # making one of another package may be slow
            rows.append({"id": id, "summary": spec.summary, **dict.fromkeys(SIZES), "options": spec.options})
            continue
        made = spec.factory()
        n_resets = int(made.reset.sum()) if isinstance(made, rf.FiniteMDP) else 1
        sizes = {"states": made.n_states, "actions": made.n_actions, "horizon": made.horizon, "reset_states": n_resets}
        rows.append({"id": id, "summary": spec.summary, **sizes, "options": spec.options})
    return rows


def _players() -> list[dict[str, Any]]:
    rows = []
    for role in BASES:
        for name, cls in discover(role).items():
            rows.append({"role": role, "name": name, "summary": summary_line(cls), "settings": describe(settings(cls))})
    return rows


def _features() -> list[dict[str, Any]]:
    return [
        {"name": name, "summary": summary_line(cls), "settings": describe(features.settings(cls))}
        for name, cls in features.discover().items()
    ]


def _operators() -> list[dict[str, Any]]:
    return [{"name": name, "summary": summary_line(cls)} for name, cls in CHANNELS.items()]


def _families() -> list[dict[str, Any]]:
    gym = {"name": "gym", "summary": "Environments that are registered with Gymnasium, as gym:CartPole-v1."}
    return [gym, *({"name": name, "summary": summary_line(function)} for name, function in FAMILIES.items())]


def _unavailable(kind: str) -> list[dict[str, Any]]:
    """Names that cannot be used, with the reason; a player of unknown role is listed once."""
    registries: dict[str, list[Registry[Any]]] = {
        "problems": [PROBLEMS],
        "players": list(PLAYERS.values()),
        "features": [features.MAPS],
        "operators": [CHANNELS],
        "families": [FAMILIES],
        "methods": [METHODS],
    }
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for registry in registries.get(kind, []):
        for name, why in registry.unavailable.items():
            if (name, why) in found:
                found[name, why]["kind"] = "player"
            else:
                found[name, why] = {"kind": registry.kind, "name": name, "why": why}
    return list(found.values())


def summary_line(cls: Any) -> str:
    """The first line of the docstring of the module, or of the class."""
    return (sys.modules[cls.__module__].__doc__ or cls.__doc__ or "").strip().split("\n")[0]


def _methods() -> list[dict[str, Any]]:
    names = ("name", "kind", "summary", "pools", "guaranteed")
    return [
        {**{name: getattr(method, name) for name in names}, "widths": list(method.widths)}
        for method in methods().values()
    ]


def _suites() -> list[dict[str, Any]]:
    return [
        {
            "name": suite.name,
            "summary": suite.summary,
            "seeds": suite.seeds,
            "trial_limit_s": suite.limit,
            "cases": [
                {
                    "label": case.label,
                    "episodes": case.episodes,
                    "reported": list(map(str, case.reported)),
                    "tuning": list(map(str, case.tuning[: suite.tuning_instances])),
                }
                for case in suite.cases
            ],
        }
        for suite in SUITES.values()
    ]


def _with_options(summary: str, options: dict[str, Any]) -> str:
    text = " ".join(f"{key}={value}" for key, value in options.items())
    return escape(summary) + (f" [dim]\\[{escape(text)}][/]" if text else "")


ROWS = dict(zip(KINDS, (_problems, _players, _features, _operators, _families, _methods, _suites), strict=True))
