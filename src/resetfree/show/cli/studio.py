"""`resetfree studio`: the live page, on this machine only unless another host is given."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import threading
import webbrowser
from pathlib import Path

import click

from resetfree.core.errors import InvalidInput
from resetfree.core.web_guard import LOOPBACK
from resetfree.show.cli.common import FOLDER, Documented


@click.command(
    cls=Documented,
    examples=[
        ("open the page in a browser", "resetfree studio"),
        ("on a machine without a screen", "resetfree studio --no-browser --port 8000"),
    ],
)
@click.option(
    "--folder",
    type=FOLDER,
    default=Path("runs"),
    show_default=True,
    help="The folder of run files; the page reads no others.",
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8765, show_default=True, help="Port of the page; 0: any free one."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Beyond loopback a token is required, which is sent unencrypted: everyone who can reach "
    "the address and has it can start runs and read all run files of the folder.",
)
@click.option(
    "--token", default="", help="Token that the page must send; generated if one is needed and none is given."
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def studio(folder: Path, port: int, host: str, token: str, no_browser: bool) -> None:
    """Draw a grid, choose players and watch them learn, in a browser.

    Ctrl-C saves every run and ends.
    """
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise InvalidInput(f"The studio needs {' and '.join(missing)}: install resetfree with its extra 'studio'.")
    from resetfree.show.studio.server import serve  # other commands need not load a web server

    def ready(address: str) -> None:
        click.echo(f"The studio is at {address}   (runs are in '{folder}'; Ctrl-C saves them and ends)")
        if host not in LOOPBACK:
            click.echo(
                f"Warning: everyone who can reach {host} and has the token, which is sent unencrypted, can start runs "
                f"here and read all run files in '{folder}'.",
                err=True,
            )
        if not no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    atexit.register(gc.freeze)  # else Python spends a second on garbage collection at exit
    serve(folder, host, port, token=token, ready=ready, late=lambda sentence: click.echo(sentence, err=True))
    click.echo("Ended; every run is saved.")
