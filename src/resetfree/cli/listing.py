"""`resetfree list`: what is registered."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import resetfree as rf
from resetfree.cli.common import as_json, say
from resetfree.players import BASES, discover, settings
from resetfree.runs.fingerprint import describe


@click.command("list")
@click.argument("kind", type=click.Choice(["problems", "players"]), default="problems")
@as_json
def list_(kind: str, as_json: bool) -> None:
    """List what is registered: problems with their sizes and options, players with their settings."""
    rows = _problems() if kind == "problems" else _players()

    def show(console: Console) -> None:
        if kind == "problems":
            table = Table(
                "id", "S", "A", "H", "resets", "what it shows, and its options", box=None, padding=(0, 2, 0, 0)
            )
            for row in rows:
                sizes = (str(row[k] or "∞") if k == "states" else str(row[k]) for k in ("states", "actions", "horizon"))
                text = _with_options(row["summary"], row["options"])
                table.add_row(f"[bold]{row['id']}[/]", *sizes, str(row["reset_states"]), text)
        else:
            table = Table("role", "name", "what it does, and its settings", box=None, padding=(0, 2, 0, 0))
            for row in rows:
                table.add_row(row["role"], f"[bold]{row['name']}[/]", _with_options(row["summary"], row["settings"]))
        console.print(table)

    say({kind: rows}, as_json, show)


def _problems() -> list[dict[str, Any]]:
    rows = []
    for id, spec in rf.problems().items():
        made = spec.factory()
        n_resets = int(made.reset.sum()) if isinstance(made, rf.FiniteMDP) else 1
        sizes = {"states": made.n_states, "actions": made.n_actions, "horizon": made.horizon, "reset_states": n_resets}
        rows.append({"id": id, "summary": spec.summary, **sizes, "options": spec.options})
    return rows


def _players() -> list[dict[str, Any]]:
    rows = []
    for role in BASES:
        for name, cls in discover(role).items():
            told = sys.modules[cls.__module__].__doc__ or cls.__doc__ or ""  # one player per file: its file tells it
            summary = told.strip().split("\n")[0]
            rows.append({"role": role, "name": name, "summary": summary, "settings": describe(settings(cls))})
    return rows


def _with_options(summary: str, options: dict[str, Any]) -> str:
    text = " ".join(f"{key}={value}" for key, value in options.items())
    return escape(summary) + (f" [dim]\\[{escape(text)}][/]" if text else "")
