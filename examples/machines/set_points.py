"""A machine learns to follow its set points, beside a simple controller that was written by hand.

Run: python examples/machines/set_points.py MACHINE [--seed 0] [--episodes 30] [--picture FILE.png]
         # cart-load, two-tanks, arm, reactor, quadrotor or lane
     python examples/machines/set_points.py by-hand    # the controllers of all machines, nothing and random actions
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.machines import arm, cart_load, lane, quadrotor, reactor, two_tanks
from resetfree.problems.machines.set_points import SetPointMachine, Trajectory, play
from resetfree.show.report.style import BLUE, GREY, INK, ORANGE, look, save

EPISODES, HORIZON = 30, 100
LONG, SHOWN = 5_000, 600  # steps in which what was learned is compared, and those in the picture
BY_HAND = "by-hand"
SEEDS, LONGER = 5, 20_000  # of the comparison without a learner
PLAYERS: dict[str, Any] = {}  # those that `auto` chooses
Floats = NDArray[np.float64]


class Example(NamedTuple):
    """A machine, its controller, and what to draw of a life: what it did, and the set point of that."""

    make: Callable[[], SetPointMachine]
    controller: Callable[[Floats], Floats]
    shown: dict[str, Callable[[Floats], tuple[Floats, Floats]]]  # observations [n, D] -> done [n], set point [n]


def crane_load(seen: Floats) -> tuple[Floats, Floats]:
    """Where the load is, and its set point."""
    load = seen[:, 0] + cart_load.ROPE * np.sin(seen[:, 2])
    return load, load + seen[:, 4]


EXAMPLES = {
    "cart-load": Example(
        cart_load.CartLoad,
        cart_load.controller,
        {"load, m": crane_load},
    ),
    "two-tanks": Example(
        two_tanks.TwoTanks,
        two_tanks.controller,
        {
            "first level, m": lambda seen: (seen[:, 0], seen[:, 0] + seen[:, 2]),
            "second level, m": lambda seen: (seen[:, 1], seen[:, 1] + seen[:, 3]),
        },
    ),
    "arm": Example(
        arm.Arm,
        arm.controller,
        {"hand to set point, m": lambda seen: (np.hypot(seen[:, -2], seen[:, -1]), np.zeros(len(seen)))},
    ),
    "reactor": Example(
        reactor.Reactor,
        reactor.controller,
        {
            "concentration, mol/l": lambda seen: (seen[:, 0], seen[:, 0] + seen[:, 1]),
            "temperature, K": lambda seen: (seen[:, 2], seen[:, 2] + seen[:, 3]),
        },
    ),
    "quadrotor": Example(
        quadrotor.Quadrotor,
        quadrotor.controller,
        {
            "sideways, m": lambda seen: (seen[:, 0], seen[:, 0] + seen[:, 6]),
            "upwards, m": lambda seen: (seen[:, 1], seen[:, 1] + seen[:, 7]),
        },
    ),
    "lane": Example(
        lane.Lane,
        lane.controller,
        {"to the left of the middle, m": lambda seen: (seen[:, 0], np.zeros(len(seen)))},
    ),
}


def problem(name: str) -> GymProblem:
    """The machine as it is: continuous actions, rewards in [0, 1], a reset where it says `terminated`."""
    return rf.from_gym(EXAMPLES[name].make(), horizon=HORIZON, name=name)


def draw(name: str, run: rf.Run, lives: dict[str, Trajectory], file: Path) -> None:
    """Above: the reward while it learned. Below: what was learned and the controller, on the same set points."""
    example = EXAMPLES[name]
    with look():
        figure = Figure(figsize=(7.0, 2.8 + 1.8 * len(example.shown)), layout="constrained")
        above, *rest = figure.subplots(1 + len(example.shown), 1)
        steps, resets = run.columns["steps"], run.columns["reset"] == 1
        ends = np.cumsum(steps)
        earned = run.columns["reward"] / steps
        above.stairs(earned, [0, *ends], baseline=None, color=BLUE, lw=1.6, label="while it learned")
        above.plot(ends[resets], np.full(resets.sum(), 0.03), "x", color=ORANGE, label="reset")
        above.axhline(lives["controller"].rewards.mean(), color=INK, ls=(0, (5, 1.5)), label="controller")
        above.axhline(lives["nothing"].rewards.mean(), color=GREY, ls=(0, (1.5, 1.2)), label="doing nothing")
        above.set(ylim=(0, 1), ylabel="reward per step", xlabel="steps", title=f"{name}, seed {run.spec['seed']}")
        figure.legend(ncols=4, loc="outside upper right")
        for axes, (what, values) in zip(rest, example.shown.items(), strict=True):
            for who, colour in (("controller", INK), ("learned", BLUE)):
                done, goal = values(lives[who].observations[:SHOWN])
                axes.plot(done, color=colour, label=who, lw=1.2)
            axes.plot(goal, color=ORANGE, ls=(0, (1.5, 1.2)), label="set point")
            axes.set(ylabel=what)
        rest[-1].set_xlabel("steps after the learning", loc="left")
        rest[-1].legend(ncols=3, loc="upper right", bbox_to_anchor=(1.0, -0.12))
        save(figure, file)


def others(name: str, seed: int) -> dict[str, Callable[[Floats], Any]]:
    """What a learner is compared with."""
    space = EXAMPLES[name].make().action_space
    space.seed(seed)
    still = np.zeros(space.shape or ())
    return {
        "controller": EXAMPLES[name].controller,
        "nothing": lambda observation: still,
        "random": lambda observation: space.sample(),
    }


def by_hand() -> None:
    """Reward and resets of the controllers, of doing nothing and at random, over SEEDS lives of LONGER steps."""
    for name, example in EXAMPLES.items():
        for who in others(name, 0):
            lives = [play(example.make(), others(name, seed)[who], LONGER, seed) for seed in range(SEEDS)]
            reward = np.mean([life.rewards.mean() for life in lives])
            resets = 1000 * np.mean([life.resets.mean() for life in lives])
            print(f"{name}, {who}: {reward:.3f} reward per step, {resets:.2g} resets in 1000 steps")


def learn(name: str, seed: int = 0, episodes: int = EPISODES, picture: Path | None = None) -> None:
    """Learn, and compare what was learned with the controller and with doing nothing, for the same set points."""
    example = EXAMPLES[name]
    run = rf.learn(problem(name), **PLAYERS, episodes=episodes, seed=seed)
    policy = run.policy
    acts = {"learned": lambda observation: policy.predict(observation)[0], **others(name, seed)}
    lives = {who: play(example.make(), act, LONG, seed) for who, act in acts.items()}
    steps, last = np.cumsum(run.columns["steps"]), max(1, episodes // 10)
    earned = run.columns["reward"][-last:].sum() / run.columns["steps"][-last:].sum()
    share = earned / lives["controller"].rewards.mean()
    fell = steps[run.columns["reset"] == 1].tolist()
    player = run.spec["primal"]["name"]
    print(f"{name}, seed {seed}, {player}: {len(fell)} resets in {steps[-1]} steps, at steps {fell}")
    print(f"last tenth: {earned:.3f} reward per step, {100 * share:.0f} % of the controller's")
    for who, life in lives.items():
        print(f"{who}, for {LONG} steps: {life.summary}")
    if picture is not None:
        draw(name, run, lives, picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*EXAMPLES, BY_HAND])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    if arguments.name == BY_HAND:
        by_hand()
    else:
        learn(**vars(arguments))
