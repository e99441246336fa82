"""Operators perform resets: the simulator itself, or a person who gets a request and is waited for.

An operator is any object with `perform(request) -> answer`. It returns when the system is ready for the next episode.
`Automatic` is the simulator, `OperatorReset` the person, a `Channel` the way to the person (docs/hardware.md).
"""

from resetfree.problems.operators.channel import CHANNELS, Answer, Automatic, Channel, Operator, Request
from resetfree.problems.operators.person import OperatorReset

__all__ = ["CHANNELS", "Answer", "Automatic", "Channel", "Operator", "OperatorReset", "Request"]
