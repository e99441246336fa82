"""Many learners at once on one accelerator, by `vmap`: the engine of `neural-search` on MuJoCo's machines that fall.

    python benchmarks/walkers_gpu.py --env Hopper-v5 --seeds 0-9 --steps 100000
    python benchmarks/walkers_gpu.py --env Hopper-v5 --seeds 0-4 --variant name:cap=3,price=2 --variant plain:

Each learner has a machine of its own, which is started once and reset only after a fall. A line per 1,000 steps, and at
the end per learner: falls, and at which step it had earned `--target` a step for `--long` steps without a fall.
A variant changes fields of `players.neural.schedule.Schedule`. Needs the extras `neural` and `mujoco`, and JAX for the
accelerator; machines are stepped by processes on the CPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.players.neural.actor_critic import Objective, PlanSizes, Work, fresh_learner, learn_from
from resetfree.players.neural.experience import ScaledRows, bounded, found_scales, is_refit
from resetfree.players.neural.planning import plan_from
from resetfree.players.neural.schedule import (
    EARLY,
    ROUNDS,
    LearningProgress,
    Schedule,
    aimed,
    first_noise,
    gradient_steps,
    progressed,
    smooth_noise,
)
from resetfree.players.neural.world_model import Normaliser, StepRows, rescaled
from resetfree.problems.action_spaces import Box
from resetfree.problems.contract import Episode

HORIZON = 100  # steps of an episode


def machines(env: str, seeds: Sequence[int], pipe: Connection) -> None:
    """A process that steps some machines: it receives their actions, and sends what they led to."""
    import gymnasium

    made = [gymnasium.make(env).unwrapped for _ in seeds]
    pipe.send([one.reset(seed=1000 + seed)[0] for one, seed in zip(made, seeds, strict=True)])
    while (actions := pipe.recv()) is not None:
        found = []
        for one, action in zip(made, actions, strict=True):
            state, reward, fell, _, _ = one.step(action)
            found.append((state, float(reward), bool(fell), one.reset()[0] if fell else state))
        pipe.send(found)


@dataclass
class Learner:
    """One learner's data and progress; its networks lie with those of the others on the accelerator."""

    seed: int
    name: str
    schedule: Schedule
    box: Box
    buffer: ReplayBuffer
    stored: ScaledRows = field(default_factory=ScaledRows)
    progress: LearningProgress = field(default_factory=LearningProgress)
    states: list[Any] = field(default_factory=list)
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    earned: list[float] = field(default_factory=list)
    falls: list[int] = field(default_factory=list)
    reached: tuple[int, int] | None = None

    def keep(self, fell: bool, here: Any) -> None:
        """The steps since the last time as an episode."""
        if self.actions:
            parts = np.array(self.states), np.array(self.actions), np.array(self.rewards)
            self.buffer.add(Episode(*parts, fell, None if fell else parts[0][-1]))
        self.states, self.actions, self.rewards = [here], [], []

    def step(self, action: Any, found: tuple[Any, float, bool, Any], target: float, long: int) -> None:
        """One step of the machine."""
        state, reward, fell, here = found
        for kept, one in ((self.actions, action), (self.states, state), (self.rewards, reward), (self.earned, reward)):
            kept.append(one)
        n = len(self.earned)
        if fell:
            self.falls.append(n)
            self.keep(True, here)
        life = n - (self.falls[-1] if self.falls else 0)
        if self.reached is None and life >= long and np.mean(self.earned[-long:]) >= target:
            self.reached = (len(self.falls), n)


class Learners:
    """All learners, and their compiled programs."""

    def __init__(self, learners: list[Learner], size: int, options: argparse.Namespace) -> None:
        import jax

        self.jax, self.learners, self.options = jax, learners, options
        self.sizes = PlanSizes(256, options.starts, options.ahead, options.members, options.samples, options.rounds)
        n_actions = learners[0].box.size
        theta = np.zeros((n_actions, size + 1))
        trees = [
            fresh_learner(theta, options.hidden, 5, options.units, np.random.default_rng([one.seed, 1]))
            for one in learners
        ]
        self.tree = self.stacked(trees)
        room, many = options.steps + 200, len(learners)
        shapes = (size,), (n_actions,), (size,), (), ()
        self.rows = StepRows(*(jax.numpy.zeros((many, room, *shape), np.float32) for shape in shapes))
        self.act = jax.jit(jax.vmap(partial(plan_from, sizes=self.sizes)))
        each = Work(0, None, None, None)
        self.learn = jax.jit(jax.vmap(partial(learn_from, sizes=self.sizes), in_axes=(0, 0, None, 0, each)))
        self.put = jax.jit(self._put, donate_argnums=0)
        self.at, self.rounds, self.host_scales = 0, 0, Normaliser(*self.tree["scales"])

    def stacked(self, parts: list[Any]) -> Any:
        """Trees as one, along a first axis."""
        return self.jax.tree.map(lambda *leaves: np.stack(leaves), *parts)

    def _put(self, rows: StepRows, new: StepRows, at: Any) -> StepRows:
        begin = [(0, at, *(0,) * (one.ndim - 2)) for one in rows]
        put = self.jax.lax.dynamic_update_slice
        return StepRows(*(put(a, b, at) for a, b, at in zip(rows, new, begin, strict=True)))

    def aims(self, lam: float) -> Objective:
        """What each strives for."""
        return Objective(*self.stacked([aimed(one.progress, one.buffer, lam, one.schedule) for one in self.learners]))

    def train(self, n: int, lam: float) -> None:
        """Learn from all steps so far."""
        refit, found = is_refit(self.at, n), []
        scales = Normaliser(*(np.asarray(part) for part in self.tree["scales"]))
        new = []
        for i, one in enumerate(self.learners):
            before = one.stored.seen
            one.keep(False, one.states[-1])
            old = Normaliser(*(part[i] for part in scales))
            own = found_scales(one.buffer, one.buffer.n, old) if refit else old
            own = bounded(one.buffer, one.buffer.n, own)
            one.progress = progressed(one.progress, one.buffer, before, one.schedule, refit=refit)
            at = one.stored.add(one.buffer, one.buffer.n, own, one.box)
            found.append(StepRows(*(part[at] for part in one.stored.rows)))
            new.append(own)
        if refit:
            host = self.jax.tree.map(np.asarray, self.tree)
            trees = [self.jax.tree.map(lambda part, i=i: part[i], host) for i in range(len(new))]
            self.tree = self.stacked([rescaled(tree, scales) for tree, scales in zip(trees, new, strict=True)])
        else:
            self.tree = {**self.tree, "scales": self.stacked(new)}
        self.rows = self.put(self.rows, self.stacked(found), 0 if refit else self.at)
        seeds = np.array([one.seed for one in self.learners], np.uint32)
        o = self.options
        counts = [gradient_steps(rate, self.at, n) for rate in (o.model_rate, o.actor_rate)]
        for _ in range(1 if self.at else ROUNDS):
            work = Work(seeds, np.uint32(self.rounds), *(np.int32(count) for count in counts))
            self.tree = self.learn(self.tree, self.rows, np.int32(n), self.aims(lam), work)
            self.rounds += max(counts)
        self.at = n
        self.host_scales = Normaliser(*(np.asarray(part) for part in self.tree["scales"]))


class Fleet:
    """All machines, in processes that step some each."""

    def __init__(self, env: str, seeds: Sequence[int], processes: int) -> None:
        parts = np.array_split(np.arange(len(seeds)), min(processes, len(seeds)))
        self.pipes: list[tuple[Any, list[int]]] = []
        for part in parts:
            ours, theirs = mp.Pipe()
            own = [seeds[i] for i in part]
            mp.get_context("fork").Process(target=machines, args=(env, own, theirs), daemon=True).start()
            self.pipes.append((ours, part.tolist()))

    def received(self) -> list[Any]:
        """What every machine sent, in their order."""
        return [one for pipe, _ in self.pipes for one in pipe.recv()]

    def step(self, actions: Any) -> list[Any]:
        """The next state, the reward, whether it fell and where it is then, of every machine."""
        for pipe, part in self.pipes:
            pipe.send(actions[part])
        return self.received()

    def close(self) -> None:
        """End the processes."""
        for pipe, _ in self.pipes:
            pipe.send(None)


def fresh_learners(options: argparse.Namespace) -> tuple[list[Learner], int]:
    """A learner for each variant and seed, and the numbers in a state."""
    import gymnasium

    made: Any = gymnasium.make(options.env).unwrapped
    size, space = int(made.observation_space.shape[0]), made.action_space
    box, learners = Box(space.low.astype(np.float64), space.high.astype(np.float64)), []
    for name, _, text in (one.partition(":") for one in options.variant or ["plain:"]):
        changes = dict(pair.split("=") for pair in text.split(",") if pair)
        kinds = {key: type(getattr(Schedule(), key)) for key in changes}
        schedule = replace(Schedule(), **{key: kinds[key](float(given)) for key, given in changes.items()})
        for seed in seeds_of(options.seeds):
            arrays = np.zeros((256, size)), np.zeros((256, box.size)), np.zeros(256), np.zeros(256, np.bool_)
            learners.append(Learner(seed, name, schedule, box, ReplayBuffer(0, *arrays)))
    return learners, size


def actions_of(every: Learners, here: Any, before: Any, n: int, aims: Objective, noise: Any) -> tuple[Any, Any]:
    """[R, A] the actions of step n on [-1, 1], and the plans that they begin."""
    learners, jax = every.learners, every.jax
    if not every.at:
        deviation = [float(first_noise(one.schedule, bool(one.falls), n, 1)[0]) for one in learners]
        return np.clip(np.array(deviation)[:, None] * noise, -1.0, 1.0), before
    scales = every.host_scales
    z = np.clip((here - scales.centre) / scales.scale, -1e6, 1e6).astype(np.float32)
    keys = jax.random.split(jax.random.key(n), len(learners))
    found, plans = every.act(every.tree, z, before, keys, aims)
    deviation = [one.schedule.played_noise(one.progress) for one in learners]
    return np.clip(np.asarray(found) + np.array(deviation)[:, None] * noise, -1.0, 1.0), plans


def main() -> None:
    """Learn, and print."""
    options = arguments()
    learners, size = fresh_learners(options)
    fleet, began, n = Fleet(options.env, [one.seed for one in learners], options.processes), time.time(), 0
    here = np.array(fleet.received(), np.float64)
    for one, s in zip(learners, here, strict=True):
        one.states = [s]
    every, box, many = Learners(learners, size, options), learners[0].box, len(learners)
    (low, high), aims = box.ends, every.aims(options.price)
    before, noise = np.zeros((many, options.ahead, box.size), np.float32), np.zeros((many, HORIZON, box.size))
    for n in range(1, options.steps + 1):
        h = (n - 1) % HORIZON
        if h == 0:
            noise = np.array([smooth_noise([one.seed, n], (HORIZON, box.size)) for one in learners])
        a, plans = actions_of(every, here, before, n, aims, noise[:, h])
        acted = low + (a.astype(np.float64) + 1.0) / 2.0 * (high - low)
        found = fleet.step(acted)
        for one, action, result in zip(learners, acted, found, strict=True):
            one.step(action, result, options.target, options.long)
        here = np.array([one[3] for one in found])
        before = np.asarray(plans) * (1.0 - np.array([one[2] for one in found], np.float32))[:, None, None]
        if n >= learners[0].schedule.begin and n % (HORIZON // 2 if n <= EARLY else HORIZON) == 0:
            every.train(n, options.price)
            aims = every.aims(options.price)
        if n % options.every == 0:
            report(learners, n, time.time() - began, options)
        if time.time() - began > options.seconds:
            break
    report(learners, n, time.time() - began, options)
    for one in learners:
        print(json.dumps({"variant": one.name, "seed": one.seed, "falls": len(one.falls), "reached": one.reached}))
    fleet.close()


def report(learners: list[Learner], n: int, seconds: float, options: argparse.Namespace) -> None:
    """A line per variant, and the whole record as a file."""
    for name in dict.fromkeys(one.name for one in learners):
        own = [one for one in learners if one.name == name]
        falls = " ".join(str(len(one.falls)) for one in own)
        late = " ".join(str(sum(at > n - 5000 for at in one.falls)) for one in own)
        rate = " ".join(f"{np.mean(one.earned[-1000:]):.2f}" for one in own)
        bold = " ".join(f"{one.progress.boldness:.1f}" for one in own)
        units = " ".join(f"{one.progress.base:.1f}+{one.progress.unit:.1f}" for one in own)
        done = " ".join("-" if one.reached is None else f"{one.reached[0]}@{one.reached[1]}" for one in own)
        print(
            f"{n:6d} {seconds:5.0f}s {name:8s} falls {falls} | last 5,000 {late} | reward {rate} | bold {bold} "
            f"| units {units} | {done}",
            flush=True,
        )
    if options.out:
        rows = [
            {
                "variant": one.name,
                "seed": one.seed,
                "falls": one.falls,
                "reached": one.reached,
                "rate": [round(float(np.mean(one.earned[i : i + 1000])), 3) for i in range(0, n, 1000)],
            }
            for one in learners
        ]
        Path(options.out).write_text(json.dumps({"options": vars(options), "n": n, "learners": rows}))


def seeds_of(text: str) -> list[int]:
    """`0-4,7` as a list."""
    parts = [part.partition("-") for part in text.split(",")]
    return [i for a, dash, b in parts for i in range(int(a), (int(b) if dash else int(a)) + 1)]


def arguments() -> argparse.Namespace:
    """What was typed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="Hopper-v5")
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--variant", action="append", help="name:field=value,...")
    parser.add_argument("--out", help="a JSON file")
    whole = {"steps": 40_000, "every": 1000, "long": 5000, "processes": 14, "hidden": 200, "units": 128, "members": 5}
    whole |= {"starts": 128, "ahead": 16, "samples": 128, "rounds": 2}
    part = {"seconds": 540.0, "target": 2.0, "price": 200.0, "model_rate": 0.6, "actor_rate": 0.25}
    for name, value in (whole | part).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    return parser.parse_args()


if __name__ == "__main__":
    main()
