"""What a run has learned, put to use: `Policy` (predict, evaluate, export), remade from a run file or a plain file."""

from resetfree.use.evaluating import Evaluation, continuing_return, evaluate
from resetfree.use.policy import Policy, read_policy

__all__ = ["Evaluation", "Policy", "continuing_return", "evaluate", "read_policy"]
