"""How an operator is reached, one way per file, found by looking into the folder and at entry points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

from resetfree.core.discovery import Registry, checked_class, classes_in
from resetfree.core.errors import InvalidInput
from resetfree.problems.operators.request import Answer, Request


class Channel(ABC):
    """Asks for resets in one way. `--operator NAME` and `OperatorReset(by="NAME")` make it without arguments,
    NAME:TEXT with the text.
    """

    name: ClassVar[str] = ""  # "" for one that is given in Python only
    takes_address: ClassVar[bool] = False  # whether it leaves a file that says where to answer

    @classmethod
    def opened(cls, text: str, who: str, address: Path | None) -> Self:
        """The channel that NAME or NAME:TEXT means; who: for answers that do not say who performed the reset."""
        try:
            return cls(text) if text else cls()  # type: ignore[call-arg]
        except TypeError as error:
            given = f"'{cls.name}:{text}'" if text else f"'{cls.name}' alone"
            raise InvalidInput(f"The operator '{cls.name}' cannot be reached by {given}: {error}.") from error

    @abstractmethod
    def ask(self, request: Request, deadline: float | None) -> Answer | str | None:
        """Return when the reset is performed: an answer, a note, or nothing to add.

        Raises OperatorTimeout if nobody came in time, KeyboardInterrupt if the person wants to stop the run.
        """

    def close(self) -> None:  # noqa: B027 (nothing to let go of, as a rule)
        """Let go of what asking took."""


CHANNELS: Registry[type[Channel]] = Registry(
    "operator",
    group="resetfree.operators",
    accept=lambda name, found: checked_class(name, found, Channel, settings=False),
    folders=("resetfree.problems.operators",),
    look=lambda module: {cls.name: cls for cls in classes_in(module, Channel) if cls.name},
)
