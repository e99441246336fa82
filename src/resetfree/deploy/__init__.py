"""What a run has learned, put to use: `Policy` (predict, evaluate, export), remade from a run file or a plain file."""

from resetfree.deploy.evaluating import Evaluation, continuing_return, evaluate
from resetfree.deploy.exporting import read_policy
from resetfree.deploy.policy import Policy
from resetfree.deploy.recalling import recall

__all__ = ["Evaluation", "Policy", "continuing_return", "evaluate", "read_policy", "recall"]
