"""Learn on systems you cannot reset: exact reset-free problems, oracles and theorems of the no-regret reduction.

The tour: `problem` (what an episode is), `finite` (the model behind it), `oracle` (its exact answer), `assumptions`
(what must hold), `regret` and `theorems` (what is proved, with both sides computed); `game` (two players, one screen),
`players`, `runs` (learning that loses nothing) and `certify` (what can be checked on a run); `experiments`.
"""

from resetfree.assumptions import check, close
from resetfree.certificate import Certificate
from resetfree.errors import AssumptionViolated, InvalidInput, NotCertifiable, ResetFreeError, RunError, UnknownName
from resetfree.finite import FiniteMDP
from resetfree.game import DualPlayer, Plan, PrimalPlayer, Round
from resetfree.gym import from_gym
from resetfree.operators import OperatorReset
from resetfree.oracle import solve
from resetfree.oracle.dynamic_programming import Solution, evaluate
from resetfree.problem import Episode, Problem, simulate
from resetfree.registry import make, problems
from resetfree.runs.learning import Stopped, learn, load
from resetfree.runs.run import Run
from resetfree.theorems import certify_problem

__version__ = "0.1.0"
__all__ = [
    "AssumptionViolated",
    "Certificate",
    "DualPlayer",
    "Episode",
    "FiniteMDP",
    "InvalidInput",
    "NotCertifiable",
    "OperatorReset",
    "Plan",
    "PrimalPlayer",
    "Problem",
    "ResetFreeError",
    "Round",
    "Run",
    "RunError",
    "Solution",
    "Stopped",
    "UnknownName",
    "certify_problem",
    "check",
    "close",
    "evaluate",
    "from_gym",
    "learn",
    "load",
    "make",
    "problems",
    "simulate",
    "solve",
]
