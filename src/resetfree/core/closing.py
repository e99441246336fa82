"""Objects that a `with` block closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closes(ABC):
    """A context manager that is closed at the end of the block, whatever happens in it."""

    @abstractmethod
    def close(self) -> None:
        """Release resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
