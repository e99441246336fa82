"""About fifty recorded runs: whoever rearranges the code sees here whether a result has changed.

Counts must be the same; floats the same to 1e-9 of their sum, and bit for bit on a machine like the one that recorded
them (the order in which a BLAS adds depends on the processor). The record comes from
`python -m tests.golden.test_recorded_runs`, which writes the file anew: a change of it needs a reason.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_name

import resetfree as rf
from resetfree.players import discover, make_player
from resetfree.studies.engines.batched import play_batch

FILE = Path(__file__).parent / "recorded_runs.json"
COUNTS = ("s1", "reset", "steps", "next_start")
FLOATS = ("lam", "v_r_hat", "v_c_hat", "upper", "cost_signal", "reward", "v_r", "v_c")
VECTORS = ("model-search", "stored-linear")  # play on an environment with vector states
# Written to be read, in plain NumPy: its last bits were seen to differ between machines of one kind of processor.
UP_TO_ROUNDING = ("algorithm1 on grid-v0",)
Columns = dict[str, Any]


def learned(problem: str, primal: str = "auto", dual: str | None = None, **options: Any) -> Columns:
    episodes = options.pop("episodes", 120)
    if dual is not None:
        options["dual"] = dual
    return dict(rf.learn(problem, primal, episodes=episodes, seed=3, **options).columns)


def on_gym(id: str, primal: str, **options: Any) -> Columns:
    dual, feedback = ("auto", "auto") if primal == "auto" else ("projected-gradient", "optimistic")
    problem = rf.from_gym(id, **options)
    return dict(rf.learn(problem, primal, dual, feedback=feedback, episodes=15, seed=3, B=20.0).columns)


def batch(problem: str, primal: str, dual: str) -> Columns:
    mdp, pair = rf.make(problem), (make_player("primal", primal), make_player("dual", dual))
    played = play_batch(mdp, *pair, episodes=60, seeds=[1, 2], feedback="realised", evaluate=True)
    return {name: played.columns[name].ravel() for name in (*COUNTS, *FLOATS)}


def resumed(problem: str) -> Columns:
    """Stopped after two resets and continued, twice."""
    with TemporaryDirectory() as folder:
        asked: dict[str, Any] = {"episodes": 120, "seed": 3, "path": Path(folder) / "run.rfrun"}
        for most in (2, 4):
            rf.learn(problem, max_resets=most, resume=most > 2, **asked)
        return dict(rf.learn(problem, resume=True, **asked).columns)


def cases() -> dict[str, Callable[[], Columns]]:
    found: dict[str, Callable[[], Columns]] = {}
    for name, cls in discover("primal").items():
        if rf.Choices not in cls.action_spaces:
            continue  # networks: float32 on whatever device there is; their tests resume them on one machine
        if name in VECTORS:
            found[f"{name} on CartPole"] = lambda name=name: on_gym("gym:CartPole-v1", name, horizon=30)  # type: ignore[misc]
        else:
            found[f"{name} on grid-v0"] = lambda name=name: learned("grid-v0", name)  # type: ignore[misc]
    for name in discover("dual"):
        found[f"linear-ucb against {name}"] = lambda name=name: learned("random-linear-v0", "linear-ucb", name)  # type: ignore[misc]
    for id in ("pits-v0", "doors-v0", "drifting-v0", "contexts-v0", "coin-chain-v0", "random-linear-v0", "drawn-v0"):
        found[f"auto on {id}"] = lambda id=id: learned(id)  # type: ignore[misc]
    for name in ("linear-ucb", "greedy-composite", "support-elimination", "ucbvi"):
        found[f"{name} pooled on pits-v0"] = lambda name=name: learned(  # type: ignore[misc]
            "pits-v0", name, settings={"primal": {"pooled": True}}, feedback="realised"
        )
    found["linear-ucb lagged"] = lambda: learned("grid-v0", "linear-ucb", settings={"primal": {"lagged": True}})
    found["stored-linear on continuous-linear-v0"] = lambda: learned(
        "continuous-linear-v0", "stored-linear", feedback="realised", B=5.0, episodes=60
    )
    found["stored-linear on Pendulum"] = lambda: on_gym(
        "gym:Pendulum-v1", "stored-linear", horizon=20, actions=3, reward_range=(-17, 0), reset_when="reward<=-12"
    )
    found["FrozenLake"] = lambda: on_gym("gym:FrozenLake-v1", "auto", horizon=20, goal_when="never")
    found["a batch of linear-ucb"] = lambda: batch("grid-v0", "linear-ucb", "projected-gradient")
    found["a batch of support-elimination"] = lambda: batch("grid-v0", "support-elimination", "projected-gradient")
    found["resumed on grid-v0"] = lambda: resumed("grid-v0")
    return found


def machine() -> str:
    """What the last bit of a sum may depend on: a BLAS and a compiler have code of their own for each processor."""
    config: Any = np.show_config(mode="dicts")
    blas, extensions = config["Build Dependencies"]["blas"]["version"], config["SIMD Extensions"]["found"]
    depends = (np.__version__, blas, extensions, get_host_cpu_name())
    return hashlib.sha256(repr(depends).encode()).hexdigest()[:16]


def summary(columns: Columns) -> dict[str, Any]:
    bits, counts = hashlib.sha256(), hashlib.sha256()
    for name in COUNTS:
        for cell in columns[name]:
            where = counts if np.ndim(cell) == 0 else bits  # a vector start is made of floats
            where.update(np.asarray(np.nan if cell is None else cell, dtype=np.float64).tobytes())
    sums = {}
    for name in FLOATS:
        column = np.asarray(columns[name], dtype=np.float64)
        bits.update(column.tobytes())
        sums[name] = None if np.isnan(column).any() else float(column @ np.linspace(1.0, 2.0, len(column)))
    return {"rounds": len(columns["lam"]), "counts": counts.hexdigest(), "sums": sums, "bits": bits.hexdigest()}


@pytest.mark.parametrize("name", cases())
def test_the_recorded_run_is_played_again(name: str) -> None:
    recorded = json.loads(FILE.read_text())
    then, now = recorded["runs"][name], summary(cases()[name]())
    for same in ("rounds", "counts"):
        assert now[same] == then[same], same
    for column, total in then["sums"].items():  # None where a player or problem has no such number
        assert now["sums"][column] == (total and pytest.approx(total, rel=1e-9, abs=1e-9)), column
    if recorded["machine"] == machine() and name not in UP_TO_ROUNDING:
        assert now["bits"] == then["bits"]


def test_every_recorded_run_is_one_of_these() -> None:
    assert set(json.loads(FILE.read_text())["runs"]) == set(cases())


if __name__ == "__main__":
    runs = {name: summary(play()) for name, play in cases().items()}
    FILE.write_text(json.dumps({"machine": machine(), "runs": runs}, indent=1) + "\n")
