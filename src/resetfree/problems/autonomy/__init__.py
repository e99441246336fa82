"""Tasks of reset-free reinforcement learning: a mug, a peg, a door, robots in their workspace.

Each task has its physics, its environment, a scripted expert, and its `Guidance` for methods that bring the
system back themselves. Importing this package registers the environments with Gymnasium under their own names, so that
`resetfree run tabletop-v0` finds them. `docs/autonomy.md` compares methods on them.
"""

from gymnasium.envs.registration import register

_HERE = "resetfree.problems.autonomy"
IDS: dict[str, tuple[str, dict[str, object]]] = {
    "tabletop-v0": (f"{_HERE}.plane:Tabletop", {}),
    "tabletop-edge-v0": (f"{_HERE}.plane:Tabletop", {"walls": False}),
    "tabletop-small-v0": (f"{_HERE}.plane:Tabletop", {"size": 0.4, "hold": 100}),
    "tabletop-small-edge-v0": (f"{_HERE}.plane:Tabletop", {"walls": False, "size": 0.4, "hold": 100}),
    "peg-edge-v0": (f"{_HERE}.plane:Peg", {}),
    "workspace-v0": (f"{_HERE}.plane:Workspace", {}),
    "flip-cheetah-v0": (f"{_HERE}.simulated:FlipCheetah", {}),
    "kitchen-v0": (f"{_HERE}.simulated:Kitchen", {}),
    "quadruped-v0": (f"{_HERE}.simulated:Quadruped", {}),
    "sawyer-door-v0": (f"{_HERE}.simulated:Sawyer", {"task": "door-close-v3"}),
    "sawyer-peg-v0": (f"{_HERE}.simulated:Sawyer", {"task": "peg-insert-side-v3"}),
}
for _id, (_class, _options) in IDS.items():
    register(_id, entry_point=_class, kwargs=_options)
