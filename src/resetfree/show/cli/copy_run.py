"""`resetfree copy`: a copy of a run file of one moment, also while the run is being written."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from resetfree.runs.file.ledger import read
from resetfree.runs.file.newfile import copy_run
from resetfree.show.cli.common import FILE, as_json, emit
from resetfree.show.cli.help_pages import Documented


@click.command(
    name="copy",
    cls=Documented,
    examples=[
        ("keep a copy while it is written", "resetfree copy field.rfrun backup.rfrun"),
        ("say how much was copied, for a script", "resetfree copy field.rfrun backup.rfrun --json"),
    ],
)
@click.argument("runfile", type=FILE)
@click.argument("copy", type=FILE)
@as_json
def copy(runfile: Path, copy: Path, as_json: bool) -> None:
    """Copy a run file, also while the run is being written.

    The copy is one file with all that was saved at one moment; it can be resumed. An existing file is not replaced.
    """
    copy_run(runfile, copy)
    episodes = read(copy).k
    data = {"run_file": str(runfile), "copy": str(copy), "episodes": episodes, "bytes": copy.stat().st_size}

    def show(console: Console) -> None:
        console.print(Text(f"{copy}: {episodes:,} episodes of '{runfile}', {data['bytes']:,} bytes"), soft_wrap=True)

    emit(data, as_json, show)
