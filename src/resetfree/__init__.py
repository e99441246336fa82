"""Learn on systems you cannot reset: exact reset-free problems, oracles and theorems of the no-regret reduction."""

from resetfree.errors import AssumptionViolated, InvalidInput, NotCertifiable, ResetFreeError, UnknownName
from resetfree.oracle.dynamic_programming import evaluate, solve
from resetfree.problem import Episode, FiniteMDP, Problem, simulate
from resetfree.registry import make, problems

__version__ = "0.1.0"
__all__ = [
    "AssumptionViolated",
    "Episode",
    "FiniteMDP",
    "InvalidInput",
    "NotCertifiable",
    "Problem",
    "ResetFreeError",
    "UnknownName",
    "evaluate",
    "make",
    "problems",
    "simulate",
    "solve",
]
