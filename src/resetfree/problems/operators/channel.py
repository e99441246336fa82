"""Ways to reach an operator, one per file, found in the folder and by entry points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

from resetfree.core.discovery import Registry, checked_class, classes_in
from resetfree.core.errors import InvalidInput
from resetfree.problems.operators.request import Answer, Request


class Channel(ABC):
    """One way to request resets: `--operator NAME` and `OperatorReset(by="NAME")` open it, NAME:TEXT with the text."""

    name: ClassVar[str] = ""  # "" if it is only for Python
    takes_address: ClassVar[bool] = False  # whether it writes its address to a file

    @classmethod
    def opened(cls, text: str, who: str, address: Path | None) -> Self:
        """The channel for NAME or NAME:TEXT; who: the operator's name for answers without one."""
        try:
            return cls(text) if text else cls()  # type: ignore[call-arg]
        except TypeError as error:
            given = f"'{cls.name}:{text}'" if text else f"'{cls.name}' alone"
            raise InvalidInput(f"The operator '{cls.name}' cannot be reached by {given}: {error}.") from error

    @abstractmethod
    def ask(self, request: Request, deadline: float | None) -> Answer | str | None:
        """Send the request, and return when the reset is performed: an answer, a note, or None.

        Raises OperatorTimeout after the deadline, KeyboardInterrupt if the person stops the run.
        """

    def close(self) -> None:  # noqa: B027 (optional)
        """Release resources."""


CHANNELS: Registry[type[Channel]] = Registry(
    "operator",
    group="resetfree.operators",
    accept=lambda name, found: checked_class(name, found, Channel, settings=False),
    folders=("resetfree.problems.operators",),
    look=lambda module: {cls.name: cls for cls in classes_in(module, Channel) if cls.name},
)
