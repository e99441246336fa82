"""`resetfree list`: problems, players and everything else that is discovered."""

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
from resetfree.problems.blueprint import describe
from resetfree.problems.operators import CHANNELS
from resetfree.problems.registry import FAMILIES, PROBLEMS
from resetfree.show.cli.common import as_json, command, emit
from resetfree.studies.suites import METHODS, SUITES, methods

SIZES = ("states", "actions", "horizon", "reset_states")
HEADINGS = {
    "problems": ("id", *"SAH", "resets", "what it shows, and its options"),
    "players": ("role", "name", "what it does, and its settings"),
    "features": ("features", "what they are, and their settings"),
    "operators": ("operators", "what they are"),
    "families": ("families", "what they are"),
    "methods": ("method", "kind", "pools", "theorem", "what it is, and its widths"),
    "suites": ("suite", "seeds", "problem and its episodes"),
}


@command(
    ("all problems, with their options", "resetfree list problems"),
    ("all players, with their settings", "resetfree list players"),
    name="list",
)
@click.argument("kind", metavar="[KIND]", type=click.Choice(list(HEADINGS)), default="problems")
@as_json
def list_(kind: str, as_json: bool) -> None:
    """List problems, players and everything else, with their options.

    KIND is problems (the default), players, features, operators, families, methods or suites. Other packages may add to
    each. Whatever cannot be used here is listed with the reason.
    """
    rows = ROWS[kind]()
    unavailable = _unavailable(kind)

    def show(console: Console) -> None:
        table = Table(*HEADINGS[kind], box=None, padding=(0, 2, 0, 0))
        for row in rows:
            table.add_row(*_cells(kind, row))
        console.print(table)
        for row in unavailable:
            console.print(f"{row['kind']} '{row['name']}' is not available: it {row['why']}.", markup=False)

    emit({kind: rows, "unavailable": unavailable}, as_json, show)


def _cells(kind: str, row: dict[str, Any]) -> list[str]:
    """A row of the table, under `HEADINGS`."""
    name = f"[bold]{escape(row.get('name') or row['id'])}[/]"
    if kind == "suites":
        cases = " · ".join(f"{case['label']} {case['episodes']:,}" for case in row["cases"])
        return [name, str(row["seeds"]), f"{row['summary']} [dim]{cases}[/]"]
    options = row.get("options") or row.get("settings") or ({"width": row["widths"]} if row.get("widths") else {})
    text = " ".join(f"{key}={value}" for key, value in options.items())
    about = escape(row["summary"]) + (f" [dim]\\[{escape(text)}][/]" if text else "")
    if kind == "problems":
        known = row["horizon"] is not None
        return [name, *(("∞" if known else "") if row[size] is None else str(row[size]) for size in SIZES), about]
    if kind == "methods":
        return [name, row["kind"], *("yes" if row[key] else "no" for key in ("pools", "guaranteed")), about]
    return [row["role"], name, about] if kind == "players" else [name, about]


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
    gym = {
        "name": "gym",
        "summary": "Environments that are registered with Gymnasium, as CartPole-v1 or gym:CartPole-v1.",
    }
    udp = {"name": "udp", "summary": "Machines over UDP, as udp://127.0.0.1:9000 (docs/connect_your_machine.md)."}
    serial = {"name": "serial", "summary": "Machines over a serial line, as serial:///dev/ttyUSB0?baud=115200."}
    return [
        gym,
        udp,
        serial,
        *({"name": name, "summary": summary_line(function)} for name, function in FAMILIES.items()),
    ]


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
    """The first line of the docstring of the module, or of the class where a module has several of its kind."""
    module = sys.modules[cls.__module__]
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == cls.__module__]
    several = sum(isinstance(vars(one).get("name"), str) for one in own) > 1
    text = cls.__doc__ if several else module.__doc__ or cls.__doc__
    return (text or "").strip().split("\n")[0]


def _methods() -> list[dict[str, Any]]:
    names = ("name", "kind", "summary", "pools", "guaranteed")
    return [
        {**{name: getattr(method, name) for name in names}, "widths": list(method.widths)}
        for method in methods().values()
    ]


def _suites() -> list[dict[str, Any]]:
    rows = []
    for suite in SUITES.values():
        cases = [
            {"label": case.label, "episodes": case.episodes, "reported": [*map(str, case.reported)]}
            | {"tuning": [*map(str, case.tuning[: suite.tuning_instances])]}
            for case in suite.cases
        ]
        about = {"name": suite.name, "summary": suite.summary, "seeds": suite.seeds, "trial_limit_s": suite.limit}
        rows.append({**about, "cases": cases})
    return rows


ROWS = dict(zip(HEADINGS, (_problems, _players, _features, _operators, _families, _methods, _suites), strict=True))
