"""`resetfree machine`: a machine that runs in real time in a program of its own, to learn on over a wire."""

import math
import os
import sys
import time
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import click
from rich.console import Console

from resetfree.core.settings import Range, check
from resetfree.problems.machines import MACHINES, switch_on
from resetfree.problems.remote import Serving, Station
from resetfree.problems.remote.faults import Faults
from resetfree.problems.remote.wires import BAUD, LeverKey, UdpPort, open_line
from resetfree.show.cli.common import FILE, as_json, command, emit, one_argument

SHARE, MILLISECONDS = click.FloatRange(0, 1), click.FloatRange(0, 60_000)
YEAR = 366 * 86_400.0  # seconds
RATE = click.FloatRange(0.01, 2_000)


@command(
    ("a pole on a cart, on any free port", "resetfree machine cartpole"),
    ("with a poor network, for one minute", "resetfree machine cartpole --loss 0.05 --delay-ms 20 --seconds 60"),
)
@click.argument("name", metavar="MACHINE", type=click.Choice(list(MACHINES)))
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port on loopback; default: any free one.")
@click.option("--serial", "device", metavar="DEVICE", help="Use this serial line instead of a port (extra serial).")
@click.option(
    "--baud", type=click.IntRange(1, 10**8), default=BAUD, show_default=True, help="Speed of the serial line."
)
@click.option("--rate", type=RATE, metavar="HZ", help="Sensor packets per second; default: 50, 20 and 0.5.")
@click.option(
    "--seed", type=click.IntRange(0, 2**32), default=0, show_default=True, help="Seed of the machine and its faults."
)
@click.option("--watchdog-ms", type=MILLISECONDS, help="After this long without a command, take the neutral action.")
@click.option("--key", type=FILE, help="Write the lever's key to this file, for --operator lever:FILE.")
@click.option("--lockstep", is_flag=True, help="Time passes only with commands; for tests.")
@click.option("--seconds", type=float, help="Switch it off after this long; default: at Ctrl-C.")
@click.option("--loss", type=SHARE, default=0.0, help="Share of packets that are lost.")
@click.option("--delay-ms", type=MILLISECONDS, default=0.0, help="How late every packet is.")
@click.option("--duplicate", type=SHARE, default=0.0, help="Share of packets that arrive twice.")
@click.option("--reorder", type=SHARE, default=0.0, help="Share of packets that are overtaken by later ones.")
@click.option("--freeze", type=SHARE, default=0.0, help="Chance per tick that it neither sends nor reads for a while.")
@click.option("--freeze-ms", type=MILLISECONDS, default=200.0, show_default=True, help="How long a freeze lasts.")
@as_json
@one_argument
def machine(given: SimpleNamespace) -> None:
    """Start a simulated machine, in real time, to learn on.

    It speaks a small protocol over UDP or a serial line (docs/connect_your_machine.md). It falls when no program
    controls it, and stays down until its operator pulls the lever: with Enter at this terminal, or with the key.
    Ctrl-C switches it off and prints what happened.
    """
    device, seconds, seed, key = given.device, given.seconds, given.seed, given.key
    faults = Faults(**{one.name: getattr(given, one.name) for one in fields(Faults)})
    if seconds is not None:
        check(seconds, Annotated[float, Range(0, YEAR)], "'--seconds'")
    physics, statement = switch_on(given.name, rate=given.rate, lockstep=given.lockstep, watchdog_ms=given.watchdog_ms)
    with UdpPort(given.port) if device is None else open_line(device, given.baud) as opened:
        lever = LeverKey(opened.url)
        serving = Serving(Station(physics, statement, lever.token, seed), opened, faults, seed)
        begun, end = time.monotonic(), math.inf if seconds is None else seconds
        try:
            if key is not None:
                lever.write(key)
            _announce(opened.url, lever, key, err=given.as_json)
            serving.serve(lambda: time.monotonic() - begun >= end, terminal=_terminal())
        except KeyboardInterrupt:  # the way to end it
            pass
        finally:
            if key is not None:
                lever.remove(key)
        lasted = time.monotonic() - begun
    happened = {**serving.station.counts.plain, "freezes": serving.freezes.begun}
    data: dict[str, Any] = {
        "machine": given.name,
        "url": opened.url,
        "rate": statement.rate,
        "lockstep": given.lockstep,
    }
    data |= {"seed": seed, "seconds": lasted, **happened}
    emit(data, given.as_json, lambda console: _show(console, lasted, happened))


def _announce(url: str, lever: LeverKey, key: Path | None, *, err: bool) -> None:
    """Say where the machine is and how its lever is pulled."""
    by = f"--operator lever:{key}" if key is not None else "--operator terminal"
    how = f"learn on it: resetfree run {url} {by}"
    if url.startswith("serial:"):  # the line carries one program at each end: no operator besides
        how = f"learn on it from the other end: resetfree run serial:///dev/NAME?{url.rpartition('?')[2]}"
    click.echo(f"The machine is at {url}   ({how})", err=err)
    click.echo(f"The token of its lever is {lever.token.hex()}", err=err)
    if _terminal() is not None:
        click.echo("Enter pulls the lever, Ctrl-C switches it off.", err=err)
    sys.stdout.flush()


def _terminal() -> int | None:
    """Standard input if it is a terminal that this program may read."""
    try:
        source = sys.stdin.fileno()
        return source if os.isatty(source) and os.tcgetpgrp(source) == os.getpgrp() else None
    except (AttributeError, OSError, ValueError):  # none, closed, or not ours
        return None


def _show(console: Console, seconds: float, happened: dict[str, int]) -> None:
    console.print(f"Switched off after {seconds:.1f} s.", highlight=False)
    for what, times in happened.items():
        if times:
            console.print(f"{what.replace('_', ' '):<16}{times}", highlight=False)
