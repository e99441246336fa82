"""Machines to learn on: continuous actions, set points that move on their own, a reset only at a limit.

Each module has the equations of a machine, its environment, and a simple `controller(observation)` to compare with.
Importing this package registers the environments with Gymnasium, so that any learner can have them:
`gymnasium.make("resetfree.problems.machines:resetfree/CartLoad-v0")`, here `gym:resetfree/CartLoad-v0`.

`MACHINES` are those that `resetfree machine` serves, with their statements.
"""

import math
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from gymnasium import spaces
from gymnasium.envs.registration import register

from resetfree.core import Positive, Range, check
from resetfree.problems.machines.cart_pole import CartPole
from resetfree.problems.machines.set_points import SetPointMachine
from resetfree.problems.machines.two_tanks import TwoTanks
from resetfree.problems.machines.upright_pendulum import UprightPendulum
from resetfree.problems.remote.packets import MachineStatement, Signal

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


@dataclass(frozen=True)
class BuiltIn:
    """A machine's physics, and the words for its statement."""

    physics: type[SetPointMachine]
    actions: tuple[str, ...]  # their names
    sensors: tuple[str, ...]
    fall: str


MACHINES = {
    "cartpole": BuiltIn(
        CartPole,
        ("force",),
        ("position", "speed", "angle", "angular speed"),
        "the cart is more than 2.4 m from the middle, or the pole leans more than 12 degrees",
    ),
    "pendulum": BuiltIn(
        UprightPendulum, ("torque",), ("angle", "angular speed"), "the pendulum leans more than 60 degrees"
    ),
    "tanks": BuiltIn(
        TwoTanks,
        ("pump 1", "pump 2"),
        ("level 1", "level 2", "lacking 1", "lacking 2"),
        "a level is below 0.05 m or above 0.6 m",
    ),
}
Milliseconds: TypeAlias = Annotated[float, Range(0, 1e9)]
SILENT = 5  # ticks without a command, and at least SILENT_MS, after which the watchdog takes over
SILENT_MS = 100.0


def switch_on(
    name: str, *, rate: float | None = None, lockstep: bool = False, watchdog_ms: float | None = None
) -> tuple[SetPointMachine, MachineStatement]:
    """A machine and its statement.

    rate: ticks per second, each of which is that much of its time; default: 50, 20 and 0.5.

    >>> machine, says = switch_on("tanks")
    >>> machine.dt, says.rate, [one.name for one in says.actions], says.neutral
    (2.0, 0.5, ['pump 1', 'pump 2'], (0.0, 0.0))
    """
    check(watchdog_ms, Milliseconds | None, "'watchdog_ms' of a machine")
    known = MACHINES[name]
    machine = known.physics()
    if rate is not None:
        check(rate, Positive, "'rate' of a machine")
        machine.dt = 1.0 / rate
    rate = 1.0 / machine.dt if rate is None else float(rate)
    actions, sensors = _signals(machine.action_space, known.actions), _signals(machine.observation_space, known.sensors)
    neutral = tuple(min(max(0.0, one.low), one.high) for one in actions)
    default = max(SILENT_MS, math.ceil(1000.0 * SILENT / rate))
    return machine, MachineStatement(
        name=name,
        rate=rate,
        lockstep=lockstep,
        watchdog_ms=default if watchdog_ms is None else watchdog_ms,
        actions=actions,
        neutral=neutral,
        sensors=sensors,
        reward=(0.0, 1.0),
        fall=known.fall,
    )


def _signals(space: object, names: tuple[str, ...]) -> tuple[Signal, ...]:
    assert isinstance(space, spaces.Box)
    ends = zip(names, space.low.tolist(), space.high.tolist(), strict=True)
    return tuple(Signal(name, low, high) for name, low, high in ends)
