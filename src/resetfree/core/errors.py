"""The exceptions of resetfree: each message is one sentence with what was expected and what was given."""

import importlib
import os
import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

VERSION = re.compile(r"-v\d+$")
NEAR = 0.7  # of two names that count as near, so much is the same at least


class ResetFreeError(Exception):
    """The base class: catch it to catch everything that resetfree raises on purpose."""

    def __str__(self) -> str:
        """The message on one line, whatever it quotes."""
        return " ".join(super().__str__().split())


class InvalidInput(ResetFreeError, ValueError):
    """An argument, option or file has a wrong value; the message says which values are accepted."""


class UnknownName(ResetFreeError, LookupError):
    """A name that is not registered; near names are suggested.

    >>> str(UnknownName("problem", "grid-v1", ["grid-v0", "pits-v0"]))
    "There is no problem 'grid-v1'. Did you mean 'grid-v0'?"
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = list(known)
        near = near_name(name, known)
        hint = f"Did you mean '{near}'?" if near else f"Known: {', '.join(known) or 'none'}."
        super().__init__(f"There is no {kind} '{name}'. {hint}")


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is written nearly like this one, whatever the case and the version of both.

    >>> near_name("cartpole-v7", ["CartPole-v0", "CartPole-v1", "parking-v0"])
    'CartPole-v1'
    >>> near_name("Nothing-v0", ["CartPole-v0", "CartPole-v1", "parking-v0"])
    """
    versions: dict[str, list[str]] = {}
    for one in known:
        versions.setdefault(_stem(one), []).append(one)
    stems = get_close_matches(_stem(name[:100]), versions, 1, NEAR)  # the time it takes grows with the length
    return get_close_matches(name[:100], versions[stems[0]], 1, 0.0)[0] if stems else None


def _stem(name: str) -> str:
    return VERSION.sub("", name).lower()


class Notice(UserWarning):
    """What a run noticed about its problem: one sentence that names the argument to type."""


class AssumptionViolated(ResetFreeError):
    """A broken assumption of the paper, with the state that breaks it."""

    def __init__(self, sentence: str, *, assumption: str, witness: object) -> None:
        super().__init__(sentence)
        self.assumption = assumption
        self.witness = witness


class NotCertifiable(ResetFreeError):
    """The claim needs something (an oracle, a finite problem, a feature map) that this problem or run does not have."""


class EnvironmentFailed(ResetFreeError):
    """The environment raised or gave an impossible observation during an episode; the rounds before are complete."""


class OperatorTimeout(ResetFreeError):
    """No operator performed a reset in time; the episodes before are saved and can be resumed."""


class RunError(ResetFreeError):
    """A run file cannot be written, read or continued; its content stays as it is."""


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
