"""Honest runs that between them print every claim: all kinds of players, feedback and problems, also without oracle."""

import dataclasses
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.runs.resuming import whole_run
from resetfree.theory.assumptions.linearity import nearest_linear
from resetfree.theory.certificates import certify
from resetfree.theory.regret import exact_rounds
from resetfree.theory.theorems import reduction

Made = Callable[[], rf.Run]
THEORY: dict[str, Any] = {"primal": {"width": "theory"}}
PROVED: dict[str, Any] = {"primal": {"width": "proved"}}


def learn(primal: Any, dual: Any = "projected-gradient", problem: Any = "grid-v0", **asked: Any) -> rf.Run:
    """A short run with everything said."""
    return rf.learn(problem, primal, dual, **{"episodes": 200, "seed": 1, "feedback": "optimistic", **asked})


def without_oracle(run: rf.Run) -> rf.Run:
    """The same run as if nobody knew the model."""
    blank = {name: np.full(len(run), np.nan) for name in ("v_r", "v_c")}
    return dataclasses.replace(run, mdp=None, columns={**run.columns, **blank})


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()  # goes with the process


def saved(name: str = "run") -> Path:
    """A fresh run in a file."""
    path = Path(_folder().name) / f"{name}.rfrun"
    learn("linear-ucb", episodes=60, path=path, overwrite=path.exists())
    return path


def one_hot() -> rf.FiniteMDP:
    """The grid with a multiplier for each start."""
    mdp: rf.FiniteMDP = rf.make("grid-v0").replace(xi=np.eye(12), name="one-hot")
    return mdp


def small() -> rf.Run:
    """A run so long, on a problem so small, that its rate is below half of its rounds."""
    return learn("linear-ucb", problem=rf.make("ledge-v0", fall=0.8), settings=PROVED, episodes=6000)


def features() -> rf.FiniteMDP:
    """A small problem that is linear in features."""
    mdp: rf.FiniteMDP = rf.make("random-linear-v0", n_states=5, n_actions=3, d=3, horizon=2)
    return mdp


def nearly_linear() -> tuple[rf.FiniteMDP, dict[str, Any]]:
    """A small problem that is far from linear in its features, and Algorithm 1's settings for as much."""
    mdp: rf.FiniteMDP = rf.make("random-linear-v0", n_states=5, n_actions=3, d=3, horizon=2, epsilon=0.9)
    far = nearest_linear(mdp)
    return mdp, {"width": "proved", "epsilon_p": far.transition, "epsilon_r": far.reward}


def widened() -> rf.Run:
    """Algorithm 1 on it, so long that widths without epsilon would be wrong."""
    mdp, settings = nearly_linear()
    return learn("linear-ucb", problem=mdp, settings={"primal": settings}, episodes=3000)


def plane() -> Any:
    """A linear problem on a continuum of two dimensions."""
    return rf.make("continuous-linear-v0", dimension=2, horizon=2)


def on_plane(primal: str = "linear-ucb", dual: str = "projected-gradient", **asked: Any) -> rf.Run:
    """A run there, with exact values by quadrature."""
    return learn(primal, dual, plane(), **{"episodes": 60, "settings": PROVED, **asked})


def dry() -> rf.FiniteMDP:
    """The grid without slips: what falls always falls."""
    mdp: rf.FiniteMDP = rf.make("grid-v0", slip=0.0)
    return mdp


def with_data() -> rf.Run:
    """A run that began with what another one saw of the same problem."""
    path = Path(_folder().name) / "data.rfrun"
    before = learn("uniform", feedback="realised", episodes=5, path=path, overwrite=path.exists())
    return learn("support-elimination", feedback="realised", data=before)


def gym(name: str, **asked: Any) -> rf.Run:
    """A run on an environment that keeps its own state."""
    problem = rf.from_gym(name, horizon=4)
    return learn("uniform", "constant-penalty", problem, episodes=40, settings={"dual": {"C": 1.0}}, **asked)


def small_gains() -> rf.FiniteMDP:
    """A reset that pays by so little that only the multiplier shows it."""
    transition = np.zeros((2, 2, 2))
    transition[0, 0, 0] = transition[0, 1, 1] = transition[1, :, 1] = 1
    return rf.FiniteMDP(transition, np.array([[0.5, 0.5 + 1e-9], [0, 0]]), [False, True], 1)


def nowhere() -> rf.FiniteMDP:
    """A problem without a safe start."""
    return rf.FiniteMDP(np.array([[[0, 1.0]], [[0, 1.0]]]), np.zeros((2, 1)), [False, True], 1)


# Of these `certify_problem` is asked.
PROBLEMS: dict[str, Callable[[], rf.FiniteMDP]] = {
    **{name: partial(rf.make, name) for name in ("grid-v0", "doors-v0", "random-linear-v0")},
    "small gains": small_gains, "nowhere": nowhere,
}  # fmt: skip
RUNS: dict[str, Made] = {
    "algorithm 1, proved width": lambda: learn("linear-ucb", settings=THEORY),
    "algorithm 1, intervals": small,
    "algorithm 1, determinants": lambda: learn("linear-ucb", problem=features(), settings=PROVED),
    "algorithm 1, nearly linear": widened,
    "algorithm 1, realised costs": lambda: learn("linear-ucb", feedback="realised", settings=THEORY),
    "algorithm 1, tuned, exact costs": lambda: learn("linear-ucb", problem="random-linear-v0", feedback="exact"),
    "algorithm 1, without oracle": lambda: without_oracle(learn("linear-ucb", settings=THEORY, feedback="realised")),
    "best response": lambda: learn("best-response", problem="random-linear-v0"),
    "best response, penalty": lambda: learn("best-response", "constant-penalty", feedback="exact"),
    "ucbvi": lambda: learn("ucbvi", settings=THEORY),
    "support elimination": lambda: learn("support-elimination", feedback="realised"),
    "support elimination, without oracle": lambda: without_oracle(learn("support-elimination", feedback="realised")),
    "support elimination, with data": with_data,
    "rule elimination": lambda: learn("rule-elimination", problem=dry(), feedback="realised"),
    "rule elimination, relative moves": lambda: learn(
        "rule-elimination", problem=dry(), feedback="realised", settings={"primal": {"moves": "relative"}}
    ),
    "politex": lambda: learn(
        "politex", problem="politex-trap-v0", settings={"primal": {"model": "exact", "copies": True}}
    ),
    "uniform, constant step": lambda: learn("uniform", "constant-step", feedback="realised"),
    "uniform, adagrad": lambda: learn("uniform", "adagrad-norm", feedback="realised"),
    "uniform, optimistic gradient": lambda: learn("uniform", "optimistic-gradient", feedback="realised"),
    "uniform, coin betting": lambda: learn("uniform", "coin-betting", feedback="realised"),
    "uniform, counting": lambda: learn("uniform", "counting", feedback="realised"),
    "best response, doubling": lambda: learn("best-response", "doubling", "random-linear-v0", feedback="realised"),
    "uniform, B a little too small": lambda: learn("uniform", feedback="realised", settings={"dual": {"B": 38.5}}),
    "uniform, one-hot": lambda: learn("uniform", problem=one_hot(), feedback="realised"),
    "algorithm 1, search": lambda: learn("linear-ucb", "search", settings=THEORY),
    "continuum": lambda: learn("uniform", "constant-penalty", "continuous-linear-v0", settings={"dual": {"C": 1.0}}),
    "algorithm 1 on a continuum": on_plane,
    "algorithm 1 on a continuum, realised costs": lambda: on_plane(feedback="realised", settings=THEORY),
    "greedy on a continuum": lambda: on_plane("greedy-composite", feedback="realised"),
    "falling on a continuum": lambda: on_plane(dual="constant-penalty", settings={"dual": {"C": 0.0}}),
    "environment": lambda: gym("gym:CartPole-v1"),
    "environment with a table": lambda: gym("gym:FrozenLake-v1"),
    "old plans": lambda: learn("uniform", problem=one_hot(), feedback="exact", delay=5),
    "old plans, one multiplier": lambda: learn("uniform", feedback="exact", delay=5),
    "old plans, proved width": lambda: learn("linear-ucb", settings=THEORY, feedback="realised", delay=5),
    "a fleet": lambda: rf.learn_fleet(
        "grid-v0", "support-elimination", n=4, episodes=200, seed=1, feedback="realised", operators=2, reset_time=9
    ),
    "old plans, support elimination": lambda: learn("support-elimination", feedback="realised", delay=5),
}  # fmt: skip


@cache
def run(name: str) -> rf.Run:
    """An honest run by name."""
    return RUNS[name]()


@cache
def certified() -> dict[str, list[rf.Certificate]]:
    """Every claim of every honest run, of a file that is played again, and of some problems."""
    file = rf.load(saved("honest"))
    found = {name: certify(run(name)) for name in RUNS}
    found |= {"file, played again": [*whole_run(file), *certify(file)]}
    found |= {f"problem {name}": rf.certify_problem(made()) for name, made in PROBLEMS.items()}
    grid = rf.make("grid-v0")
    return found | {"no rounds": reduction(exact_rounds(grid, [], [], []), rf.solve(grid))}
