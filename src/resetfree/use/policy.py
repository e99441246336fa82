"""A learned policy with everything that is done with it: predict, evaluate, export, read."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from resetfree.core.errors import InvalidInput
from resetfree.use.evaluating import Evaluation, evaluate
from resetfree.use.exporting import read_predictor, write_policy
from resetfree.use.predictor import Predictor


@dataclass(frozen=True, eq=False)
class DeployedPolicy(Predictor):
    """A learned policy: `predict` with the interface of Stable-Baselines3, `evaluate`, `export`."""

    def evaluate(self, problem: Any = None, **options: Any) -> Evaluation:
        """Play it; see `resetfree.use.evaluate`.  problem: default, the one that it was learned on."""
        if problem is None:
            problem = self.problem
        if problem is None:
            raise InvalidInput("A policy from a file is evaluated in a problem. Got none: pass evaluate(problem).")
        return evaluate(self, problem, **options)

    def export(self, path: str | Path) -> Path:
        """Write it to one file: .npz for `read_policy` or NumPy alone, .onnx, or .c without dependencies."""
        return write_policy(self, path)


def read_policy(path: str | Path) -> DeployedPolicy:
    """A policy from the file that `DeployedPolicy.export` wrote: the same predictions, bit for bit.

    >>> import tempfile, resetfree as rf
    >>> run = rf.learn("grid-v0", episodes=50, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = read_policy(run.policy.export(f"{folder}/policy.npz"))
    >>> bool((again.rule.probabilities == run.policy.rule.probabilities).all())
    True
    """
    found = read_predictor(path)
    return DeployedPolicy(**{one.name: getattr(found, one.name) for one in fields(found)})
