"""Bad calls in Python: everything that `resetfree` exports, called rightly but for one or two arguments."""

import inspect
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.arrays import spoil
from tests.fuzz.nasty import value

MOST = 5  # items taken of what is given one by one
WORK = ("episodes",)  # a large number of these is a long run and no mistake


def base() -> dict[str, dict[str, Any]]:
    """Arguments that make each function succeed, quickly."""
    import resetfree as rf

    mdp = rf.make("grid-v0")
    run = rf.learn("grid-v0", primal="uniform", episodes=3)
    transition = np.full((3, 2, 3), 1 / 3)
    model = {"transition": transition, "reward": np.full((3, 2), 0.5), "reset": np.array([False, False, True])}
    states = np.zeros(3, dtype=np.int64)
    episode = rf.Episode(states, states[:2], np.zeros(2), False, 0)
    plan = rf.Plan(np.zeros((8, 12), dtype=np.int64), 0.0, 0.0)
    return {
        "FiniteMDP": {**model, "horizon": 3, "start": 0, "restart": 1, "phi": None, "xi": None, "noise": 0.0,
                      "end_reset": None, "contexts": None, "name": "mine", "state_names": ["a", "b", "c"]},
        "OperatorReset": {"by": lambda request: None, "deadline": 1.0, "who": "me"},
        "Box": {"low": np.array([-1.0, 0.0]), "high": np.array([1.0, 2.0])},
        "Choices": {"n": 3, "values": [1.0, 2.0, 3.0]},
        "Deadlines": {"rate": 50.0, "most_missed": 3, "fallback": None, "safe": None},
        "RayLearner": {"address": None, "cpus": 1.0, "gpus": 0.0, "memory": 0.0, "priority": "lowest"},
        "Certificate": {"claim": "a claim", "lhs": 0.0, "rhs": 1.0},
        "Episode": {"states": states, "actions": states, "rewards": np.zeros(3), "reset": False, "next_start": 0},
        "Plan": {"policy": None, "v_r": 0.0, "v_c": 0.0},
        "Round": {"k": 1, "s1": 0, "lam": 0.0, "plan": plan, "episode": episode, "cost_signal": 0.0, "exact": None},
        "certify_problem": {"mdp": mdp, "starts": None, "seed": 0},
        "check": {"mdp": mdp, "phi": None, "xi": None, "starts": None},
        "close": {"mdp": mdp},
        "evaluate": {"mdp": mdp, "policy": np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64)},
        "from_gym": {"env": "CartPole-v1", "horizon": 5, "bounds": None, "reward_range": (0.0, 1.0), "name": "mine"},
        "from_machine": {"address": "udp://127.0.0.1:9", "timeout": 1.0, "operator": None, "name": "mine"},
        "learn": {"problem": "grid-v0", "primal": "uniform", "dual": "auto", "episodes": 2, "seed": 0, "path": None,
                  "settings": None, "checkpoint_every": 2.0, "progress": None, "max_resets": None, "operator": None,
                  "feedback": "auto", "B": None, "resume": False, "overwrite": False, "callbacks": (), "steps": None,
                  "seconds": None, "data": None, "start_from": None, "from_what": None, "ask": None},
        "learn_fleet": {"machines": "grid-v0", "primal": "uniform", "dual": "auto", "n": 2, "operators": 1,
                        "reset_time": 0.0, "risk": 1.0, "where": "auto", "episodes": 4},
        "EvaluateEvery": {"n": 5, "episodes": 2, "starts": "fresh", "seed": 0, "stop_at": None},
        "LogEvery": {"n": 5, "to": print},
        "StopWhen": {"column": "reward", "at_least": 1.0, "at_most": None, "over": 5},
        "ToMlflow": {"where": "mlflow", "experiment": "mine"},
        "ToTensorBoard": {"folder": "events"},
        "ToWandb": {"folder": "wandb"},
        "limit": {"mdp": mdp},
        "load": {"path": "auto.rfrun", "problem": None},
        "make": {"id": "grid-v0", "slip": 0.1, "horizon": 3},
        "problems": {},
        "simulate": {"problem": mdp.problem(), "policy": np.zeros((mdp.horizon, mdp.n_states), dtype=np.int64),
                     "episodes": 2, "seed": 0, "starts": "adaptive"},
        "solve": {"mdp": mdp, "starts": None},
        "transitions": {"run": "auto.rfrun"},
        "with_help": {"problem": mdp, "price": 0.5},
        "policy.predict": {"observation": 0, "state": None, "episode_start": None, "deterministic": True},
        "policy.probabilities": {"observation": 0, "h": 1},
        "policy.evaluate": {"problem": None, "episodes": 2, "seed": 0, "confidence": 0.95, "starts": "fresh"},
        "policy.export": {"path": "made.npz"},
        "policy.set_random_seed": {"seed": 0},
        "mdp.problem": {},
        "read_policy": {"path": "auto.npz"},
        "recall": {"run": run, "problem": None},
        "make_features": {"name": "random-fourier", "options": {"d": 8}},
    }  # fmt: skip


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """What is called: all that the package exports and that is no exception and no base class, and a few methods."""
    import resetfree as rf
    from resetfree.problems.features import make_features
    from resetfree.runs.recall import recall
    from resetfree.use import read_policy

    found: dict[str, Callable[..., Any]] = {}
    for name in rf.__all__:
        one = getattr(rf, name)
        if inspect.isabstract(one) or (isinstance(one, type) and issubclass(one, Exception)):
            continue
        if one in (
            rf.DualPlayer,
            rf.Limit,
            rf.PrimalPlayer,
            rf.Problem,
            rf.Run,
            rf.Session,
            rf.Solution,
        ):  # made by others, or to be derived from
            continue
        found[name] = one
    mdp, run = rf.make("grid-v0"), rf.learn("grid-v0", episodes=3)
    policy = run.policy
    for name in ("predict", "probabilities", "evaluate", "export", "set_random_seed"):
        found[f"policy.{name}"] = getattr(policy, name)
    return {
        **found,
        "mdp.problem": mdp.problem,
        "read_policy": read_policy,
        "recall": recall,
        "make_features": make_features,
    }


def call(rng: random.Random, corpus: Path) -> tuple[list[str], Callable[[], object]]:
    """A call with one or two bad arguments, and words for it."""
    name = rng.choices(
        list(functions()), [3.0 if one in ("learn", "FiniteMDP", "from_gym") else 1.0 for one in functions()]
    )[0]
    function, arguments = functions()[name], base()[name]
    words = []
    for key in rng.sample(list(arguments), min(len(arguments), rng.choice((1, 1, 2)))):
        old = arguments[key]
        if isinstance(old, np.ndarray) and rng.random() < 0.6:
            arguments[key], said = spoil(old, rng)
            said = f"the array {said}"
        else:
            said, arguments[key] = value(rng)
            if key in WORK and isinstance(arguments[key], int) and 3 < arguments[key] < 2**63:
                said, arguments[key] = "-3", -3
        words.append(f"{key}: {said}")

    def act() -> None:
        result = function(**arguments)
        if inspect.isgenerator(result) or hasattr(result, "__next__"):
            for _, _ in zip(range(MOST), result, strict=False):
                pass
        repr(result)

    return [f"{name}({', '.join(words)})"], act
