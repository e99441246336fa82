"""Import a function or class that is written as module:name."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from resetfree.core.errors import InvalidInput


def imported(text: str, what: str) -> Any:
    """The object that module:name names; raises InvalidInput, with `what` as its first sentence, if it does not import.

    >>> imported("math:sqrt", "The 'reward' of a problem must be a function or module:function.")
    <built-in function sqrt>
    """
    module, _, name = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # a user's own module is in the folder where the command is run
    try:
        return getattr(importlib.import_module(module), name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code may raise anything, and call exit
        why = str(error) if isinstance(error, ImportError | AttributeError | ValueError) else one_line(error)
        raise InvalidInput(f"{what} Got '{text}', which does not import: {why}.") from error


def one_line(error: BaseException) -> str:
    """Type and message of an exception on one line: "ValueError: too small"."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
