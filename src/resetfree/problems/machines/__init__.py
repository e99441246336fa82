"""Machines to learn on: continuous actions, set points that move on their own, a reset only at a limit.

Each module has the equations of a machine, its environment, and a simple `controller(observation)` to compare with.
Importing this package registers the environments with Gymnasium, so that any learner can have them:
`gymnasium.make("resetfree.problems.machines:resetfree/CartLoad-v0")`, here `gym:resetfree/CartLoad-v0`.
"""

from gymnasium.envs.registration import register

IDS = {
    "resetfree/CartLoad-v0": "resetfree.problems.machines.cart_load:CartLoad",
    "resetfree/TwoTanks-v0": "resetfree.problems.machines.two_tanks:TwoTanks",
    "resetfree/Arm-v0": "resetfree.problems.machines.arm:Arm",
    "resetfree/Reactor-v0": "resetfree.problems.machines.reactor:Reactor",
    "resetfree/Quadrotor-v0": "resetfree.problems.machines.quadrotor:Quadrotor",
    "resetfree/Lane-v0": "resetfree.problems.machines.lane:Lane",
}
for _id, _class in IDS.items():
    register(_id, entry_point=_class)
