"""Using a learned policy: `DeployedPolicy` (predict, evaluate, export), read from a run file or a policy file."""

from resetfree.use.evaluating import Evaluation, continuing_return, evaluate
from resetfree.use.exporting import DeployedPolicy, read_policy

__all__ = ["DeployedPolicy", "Evaluation", "continuing_return", "evaluate", "read_policy"]
