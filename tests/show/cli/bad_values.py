"""What is handed to everything that takes an argument."""

import inspect
from typing import Any

import resetfree as rf

VALUES = ["None", "True", "5", "-1", "0", "1.5", "float('nan')", "float('inf')", "10**8", "10**30", "-10**30", "'x'"]
VALUES += ["''", r"'\0'", r"'\ud800'", "'x' * 300", "'a\\nb'", "b'x'", "object()", "[]", "{}", "()", "[[1], [1, 2]]"]
VALUES += ["{'x': 5}", "{5: 5}", "['x']", "np.zeros(3, dtype=complex)", "np.array(['x'])", "np.full((2, 2), np.nan)"]
VALUES += ["np.array(None)", "lambda *_: 1 / 0", "1j", "Path('.')", "range(10**9)"]
MDP = "rf.make('grid-v0')"
# How each public function is called in order; the argument under test replaces or joins what is written here.
CALLS = {
    "certify_problem": {"mdp": MDP},
    "check": {"mdp": MDP},
    "close": {"mdp": MDP},
    "evaluate": {"mdp": MDP, "policy": "np.zeros(12, dtype=int)"},
    "from_gym": {"env": "'gym:FrozenLake-v1'"},
    "from_machine": {"address": "'udp://127.0.0.1:9'"},  # where no program listens
    "learn": {"problem": "'grid-v0'", "primal": "'uniform'", "episodes": "50", "max_resets": "1"},
    "learn_fleet": {"machines": "'grid-v0'", "primal": "'uniform'", "n": "2", "episodes": "10"},
    "limit": {"mdp": MDP},
    "load": {"path": "'none.rfrun'"},
    "make": {"id": "'grid-v0'"},
    "problems": {},
    "simulate": {"problem": f"{MDP}.problem()", "policy": "np.zeros(12, dtype=int)", "episodes": "2"},
    "solve": {"mdp": MDP},
    "transitions": {"run": "'none.rfrun'"},
    "with_help": {"problem": MDP, "price": "0.5"},
    "FiniteMDP": {
        "transition": "[[[1, 0], [0, 1]], [[0, 0], [0, 0]]]",
        "reward": "[[0, 1], [0, 0]]",
        "reset": "[0, 1]",
        "horizon": "2",
    },
    "OperatorReset": {},
}


def calls() -> dict[str, str]:
    """`name(parameter)`: source with a place for the value, for each parameter of each public function."""
    result = {}
    for name, given in CALLS.items():
        for parameter in parameters(getattr(rf, name)):
            words = {**given, parameter: "{}"}
            source = f"rf.{name}({', '.join(f'{key}={value}' for key, value in words.items())})"
            result[f"{name}({parameter})"] = f"next({source}, 0)" if name == "simulate" else source
    return result


def parameters(function: Any) -> list[str]:
    """Those that are given by name."""
    taken = inspect.signature(function).parameters.values()
    return [p.name for p in taken if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
