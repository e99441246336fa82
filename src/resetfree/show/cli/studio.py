"""`resetfree studio`: the live page, on this machine only unless a token is set."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import threading
import webbrowser
from pathlib import Path

import click

from resetfree.core.errors import InvalidInput


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs"),
    show_default=True,
    help="Where run files are; the page sees nothing else.",
)
@click.option("--port", type=click.IntRange(0, 65_535), default=8765, show_default=True, help="0: any that is free.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Beyond loopback a token is needed; anybody who reaches the address and has it, and the network carries it "
    "unencrypted, can start runs and read all run files of the folder.",
)
@click.option("--token", default="", help="What the page must know; made up where it is needed and not given.")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
def studio(folder: Path, port: int, host: str, token: str, no_browser: bool) -> None:
    """See the game: draw a grid, choose players, watch them learn. Ctrl-C saves every run and ends."""
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise InvalidInput(f"The studio needs {' and '.join(missing)}: install resetfree with its extra 'studio'.")
    from resetfree.show.studio.security import is_loopback
    from resetfree.show.studio.server import serve  # a web server is nothing that other commands should load

    def ready(address: str) -> None:
        click.echo(f"The studio is at {address}   (runs are in '{folder}'; Ctrl-C saves them and ends)")
        if not is_loopback(host):
            click.echo(
                f"Warning: anybody who reaches {host} and has the token, which the network carries unencrypted, can "
                f"start runs here and read all run files in '{folder}'.",
                err=True,
            )
        if not no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    atexit.register(gc.freeze)  # Python would search all that was ever loaded for garbage, and take a second for it
    serve(folder, host, port, token=token, ready=ready, late=lambda sentence: click.echo(sentence, err=True))
    click.echo("Ended; every run is saved.")
