"""Who performs a reset: the simulator itself, or a person who is asked and waited for.

An operator is anything with `perform(request) -> answer`. It returns when the system stands where it may start again.
`Automatic` is the simulator, `OperatorReset` the person; docs/hardware.md says how they are reached.
"""

from resetfree.problems.operators.person import OperatorReset
from resetfree.problems.operators.request import Answer, Automatic, Operator, Request

__all__ = ["Answer", "Automatic", "Operator", "OperatorReset", "Request"]
