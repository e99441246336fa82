"""The operator that pulls the lever of a machine over the wire, as lever:FILE.

The file is that of `resetfree machine --key FILE`.
"""

from pathlib import Path

from resetfree.core.errors import OperatorTimeout
from resetfree.problems.operators.channel import Answer, Channel, Request, clean
from resetfree.problems.remote.wires import PATIENCE, LeverKey, open_wire, pull


class LeverChannel(Channel):
    """Pulls the lever for every request: an automatic operator, for machines that stand up by themselves."""

    name = "lever"

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def ask(self, request: Request, deadline: float | None) -> Answer:
        """Pull the lever, and return when the machine has confirmed it."""
        key = LeverKey.read(self._file)  # anew: a machine that is switched on again has another
        with open_wire(key.url) as wire:
            life = pull(wire, key.token, PATIENCE if deadline is None else deadline)
        if life is None:
            raise OperatorTimeout(
                f"No machine at {key.url} confirmed the reset of '{clean(request.problem)}': is it switched on, and is "
                f"'{self._file}' its key?"
            )
        return Answer("lever", f"life {life}")
