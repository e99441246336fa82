"""Who performs a reset: the simulator itself, or a person who is asked and waited for.

An operator is anything with `perform(request) -> answer`. It returns when the system stands where it may start again.
`Automatic` is the simulator, `OperatorReset` the person, a `Channel` how the person is reached (docs/hardware.md).
"""

from resetfree.problems.operators.channel import CHANNELS, Channel
from resetfree.problems.operators.person import OperatorReset
from resetfree.problems.operators.request import Answer, Automatic, Operator, Request

__all__ = ["CHANNELS", "Answer", "Automatic", "Channel", "Operator", "OperatorReset", "Request"]
