"""Learn on systems you cannot reset: exact reset-free problems, oracles and theorems of the no-regret reduction.

The packages, each importing only those before it: `core` (errors, arguments, saved state), `problems` (environments and
finite models), `game` (two players in one loop), `theory` (oracle, regret, theorems, certificates), `players`, `use`
(a learned policy), `runs` (learning and run files), `studies` (sweeps and suites) and `show` (command line and studio).
"""

from resetfree.core import AssumptionViolated, InvalidInput, NotCertifiable, ResetFreeError, RunError, UnknownName
from resetfree.core.certificate import Certificate
from resetfree.game.contract import DualPlayer, Plan, PrimalPlayer, Round
from resetfree.problems import Box, Choices, Episode, FiniteMDP, Policy, Problem
from resetfree.problems.contract import simulate
from resetfree.problems.finite.composed import with_help
from resetfree.problems.gym import from_gym
from resetfree.problems.operators import OperatorReset
from resetfree.problems.paced import Deadlines
from resetfree.problems.registry import make, problems
from resetfree.problems.remote.remote_machine import from_machine
from resetfree.runs.data.all_transitions import transitions
from resetfree.runs.learn import Stopped, learn, learn_fleet, load
from resetfree.runs.live.learner_location import RayLearner
from resetfree.runs.result import Run
from resetfree.runs.session import EvaluateEvery, LogEvery, Session, StopWhen
from resetfree.runs.tracking import ToMlflow, ToTensorBoard, ToWandb
from resetfree.theory.assumptions import check, close
from resetfree.theory.oracle import solve
from resetfree.theory.oracle.dynamic_programming import Solution, evaluate
from resetfree.theory.reset_limits import Limit, limit
from resetfree.theory.theorems import certify_problem

__version__ = "0.2.0"
__all__ = [
    "AssumptionViolated",
    "Box",
    "Certificate",
    "Choices",
    "Deadlines",
    "DualPlayer",
    "Episode",
    "EvaluateEvery",
    "FiniteMDP",
    "InvalidInput",
    "Limit",
    "LogEvery",
    "NotCertifiable",
    "OperatorReset",
    "Plan",
    "Policy",
    "PrimalPlayer",
    "Problem",
    "RayLearner",
    "ResetFreeError",
    "Round",
    "Run",
    "RunError",
    "Session",
    "Solution",
    "StopWhen",
    "Stopped",
    "ToMlflow",
    "ToTensorBoard",
    "ToWandb",
    "UnknownName",
    "certify_problem",
    "check",
    "close",
    "evaluate",
    "from_gym",
    "from_machine",
    "learn",
    "learn_fleet",
    "limit",
    "load",
    "make",
    "problems",
    "simulate",
    "solve",
    "transitions",
    "with_help",
]
