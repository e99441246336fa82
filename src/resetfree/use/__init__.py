"""What a run has learned, put to use: `DeployedPolicy` (predict, evaluate, export), from a run file or a plain file."""

from resetfree.use.evaluating import Evaluation, continuing_return, evaluate
from resetfree.use.policy import DeployedPolicy, read_policy

__all__ = ["DeployedPolicy", "Evaluation", "continuing_return", "evaluate", "read_policy"]
