"""One trial of benchmarks/machines.py: a learner on a machine that is started once and reset only after a fall.

Everything that a trial has to show is in its run file, so a trial that was stopped or killed goes on from there. What
the run file does not hold (processor seconds, rounds that were played) is in a small file beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.gym_falls import load_example
from benchmarks.machine_figures import GOALS, NOTHING, Line, Lived, reached

import resetfree as rf
from resetfree.core.errors import one_line
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.machines import arm, cart_load, two_tanks
from resetfree.problems.machines.set_points import SetPointMachine, play
from resetfree.studies.engines import stopping

HORIZON = 100
EPISODES = 1_000_000  # more than any trial has: it ends by its steps
CONTROLLED = 5_000  # steps of the controller that a learner is compared with
SLICE = 0.1  # seconds within which a request to end is acknowledged


@dataclass(frozen=True)
class Cut:
    """Rewards within a range: without it, one that is outside ends a run."""

    low: float
    high: float

    def __call__(self, observation: Any, reward: float, terminated: bool, info: Mapping[str, Any]) -> float:
        """The reward, or the end of the range that it is beyond."""
        return min(max(reward, self.low), self.high)


class Task(NamedTuple):
    """A machine, and after how many steps a trial of ours ends."""

    make: Callable[[], GymProblem]
    steps: int = 30_000
    scale: float = 1.0  # of the range of its rewards
    continuous: bool = True  # whether its actions are a Box
    machine: Callable[[], SetPointMachine] | None = None  # with set points
    controller: Callable[[Any], Any] | None = None


def mujoco(name: str, low: float, high: float, steps: int = 30_000, **options: Any) -> Task:
    """An environment of MuJoCo, its rewards cut at both ends for the learner, but not in what is recorded."""
    between: dict[str, Any] = {"reward": Cut(low, high), "reward_range": (low, high)}
    return Task(lambda: rf.from_gym(f"gym:{name}", horizon=HORIZON, **between, **options), steps, high - low)


def set_points(name: str, machine: Callable[[], SetPointMachine], controller: Callable[[Any], Any]) -> Task:
    """A machine with set points, and its controller; rewards are in [0, 1] already."""
    return Task(lambda: rf.from_gym(machine(), horizon=HORIZON, name=name), machine=machine, controller=controller)


def example(name: str) -> Task:
    """An example of docs/results/gym.md, whose actions are a list."""
    return Task(lambda: load_example(name).problem(), continuous=False)


TASKS = {
    "InvertedPendulum-v5": mujoco("InvertedPendulum-v5", 0.0, 1.0),
    "InvertedDoublePendulum-v5": mujoco("InvertedDoublePendulum-v5", -5.0, 10.0),
    "Hopper-v5": mujoco("Hopper-v5", -3.0, 7.0, 100_000),
    "Walker2d-v5": mujoco("Walker2d-v5", -3.0, 7.0, 100_000),
    "Ant-v5": mujoco("Ant-v5", -5.0, 5.0, 100_000, include_cfrc_ext_in_observation=False),
    "cart-load": set_points("cart-load", cart_load.CartLoad, cart_load.controller),
    "two-tanks": set_points("two-tanks", two_tanks.TwoTanks, two_tanks.controller),
    "arm": set_points("arm", arm.Arm, arm.controller),
    "CartPole-v1": example("cartpole"),
    "upright-pendulum": example("pendulum"),
}
assert list(TASKS) == list(GOALS)
OURS = "ours"
# The player of each learner, and its settings. Rewards come in [0, 1]; these players get them in their own units.
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    OURS: ("auto", {}),
    "sac": ("sac", {}),
    "sac-20": ("sac", {"gradient_steps": 20}),
    "sac-lagrangian": ("sac-lagrangian", {}),
    "mbpo": ("mbpo", {}),
    "ppo": ("ppo", {}),
}


class Trial(NamedTuple):
    """A learner on a task, for at most so many steps, with its run file in a folder."""

    task: str
    learner: str
    seed: int
    limit: int
    folder: Path

    @property
    def key(self) -> tuple[str, str, int]:
        """What names it in a results file."""
        return self.task, self.learner, self.seed

    def __str__(self) -> str:
        return f"{self.task}, {self.learner}, seed {self.seed}"

    @property
    def file(self) -> Path:
        """Its run file."""
        return self.folder / f"{self.task}-{self.learner}-{self.seed}.rfrun"

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `learn`, besides the problem."""
        player, own = LEARNERS[self.learner]
        settings = {} if self.learner == OURS else {"primal": {"reward_scale": TASKS[self.task].scale, **own}}
        return {"primal": player, "settings": settings, "episodes": EPISODES, "seed": self.seed}


class Notes:
    """What the run file does not hold, in a file beside it: seconds in all sessions, and what the controller earns.

    cpu: of the processor.  wall: by the clock.  gpu: by the clock, while JAX had a GPU.
    rounds: that were played.  lost: those that a killed process had not committed, in all sessions.
    """

    def __init__(self, trial: Trial) -> None:
        self._file = trial.file.with_suffix(".json")
        self.values: dict[str, Any] = {"cpu": 0.0, "wall": 0.0, "gpu": 0.0, "controller": None, "rounds": 0, "lost": 0}
        with contextlib.suppress(FileNotFoundError):
            self.values |= json.loads(self._file.read_text())
        self._before = dict(self.values)
        self._cpu, self._wall = time.process_time(), time.monotonic()

    def played(self, rounds: int) -> None:
        """Write down what was played so far, and what this process has spent."""
        wall = time.monotonic() - self._wall
        gained = {"cpu": time.process_time() - self._cpu, "wall": wall, "gpu": wall if on_gpu() else 0.0}
        self.write({"rounds": rounds} | {name: round(self._before[name] + one, 1) for name, one in gained.items()})

    def found(self, rounds: int) -> dict[str, Any]:
        """The values when the run file holds so many rounds: those that are missing there are lost."""
        return {**self.values, "rounds": rounds, "lost": self.values["lost"] + max(self.values["rounds"] - rounds, 0)}

    def write(self, values: dict[str, Any]) -> None:
        """Replace some values, all at once: this process may be killed at any time."""
        self.values |= values
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps(self.values))
        os.replace(draft, self._file)


def on_gpu() -> bool:
    """Whether JAX is in use here, and has a GPU."""
    jax = sys.modules.get("jax")
    return jax is not None and jax.devices()[0].platform == "gpu"


class Enough(Exception):
    """The trial is over, or has to stop."""


@contextlib.contextmanager
def heeding() -> Iterator[threading.Event]:
    """Acknowledge a request to end at once, also within a long round, which may then be finished and saved."""
    requested, over = threading.Event(), threading.Event()

    def watch() -> None:
        while not over.wait(SLICE):
            if stopping():
                requested.set()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield requested
    finally:
        over.set()
        watcher.join()


def work(trial: Trial) -> Line | str:
    """Play a trial to its end in a process of its own; its line, or what went wrong in one sentence."""
    try:
        return run(trial)
    except Exception as error:  # a trial that fails must not stop the others
        return f"{trial}: {one_line(error)}"


def run(trial: Trial) -> Line:
    """Play a trial to its end, or until this process has to stop; go on where its run file ends."""
    trial.folder.mkdir(parents=True, exist_ok=True)
    task, resume = TASKS[trial.task], trial.file.exists()
    notes = Notes(trial)
    if task.machine is not None and task.controller is not None and notes.values["controller"] is None:
        life = play(task.machine(), task.controller, CONTROLLED, trial.seed)
        notes.write({"controller": float(life.rewards.mean())})
        notes = Notes(trial)  # the controller's seconds are not the learner's
    lived = recorded(rf.load(trial.file))[0].broken() if resume else NOTHING
    notes.write(notes.found(len(lived.lengths)))

    def look(game: Any, this: rf.Round) -> None:
        nonlocal lived
        episode = this.episode
        own = float(np.add.reduce(episode.rewards)) if np.isnan(episode.original_return) else episode.original_return
        lived = lived.then(len(episode.actions), float(own), fell=episode.reset)
        notes.played(len(lived.lengths))
        if ended(trial, lived) or requested.is_set():
            raise Enough

    if not ended(trial, lived):
        with heeding() as requested, contextlib.suppress(Enough):
            rf.learn(task.make(), **trial.arguments, path=trial.file, resume=resume, progress=look)
        notes.played(len(lived.lengths))
    return line_of(trial)


def ended(trial: Trial, lived: Lived) -> str:
    """How a trial has ended, "" if it goes on: other learners are always played to their limit."""
    goals = GOALS[trial.task] if trial.learner == OURS else ()
    if goals and all(reached(lived, goal).step is not None for goal in goals):
        return "reached"
    return "limit" if lived.steps >= trial.limit else ""


def recorded(run: rf.Run) -> tuple[Lived, list[float]]:
    """The episodes of a run, and how likely the player held a fall in each."""
    columns = run.columns
    lengths = columns["steps"].astype(np.int64)
    ends = np.cumsum(lengths)
    own = columns["original_return"].astype(np.float64)
    returns = np.where(np.isnan(own), columns["reward"], own)
    starts = np.concatenate([[0], ends])
    breaks = [int(starts[min(one.k, len(ends))]) for one in run.interventions if one.why == "resume"]
    lived = Lived(lengths, returns, ends[columns["reset"] == 1], np.array(breaks, dtype=np.int64))
    return lived, np.nan_to_num(columns["v_c_hat"].astype(np.float64)).tolist()


def line_of(trial: Trial) -> Line:
    """What a trial has to show so far, by its run file."""
    played = rf.load(trial.file)
    lived, predicted = recorded(played)
    return {
        **{name: getattr(trial, name) for name in ("task", "learner", "seed", "limit")},
        "status": ended(trial, lived) or "cut",
        "player": played.spec["primal"],
        "steps": lived.steps,
        "falls": lived.falls.tolist(),
        "breaks": lived.breaks.tolist(),
        "lengths": lived.lengths.tolist(),
        "returns": [float(f"{one:.9g}") for one in lived.returns],
        "predicted": [round(one, 3) for one in predicted],
        **Notes(trial).found(len(lived.lengths)),
    }
