"""What is known beforehand, on five machines: reward beside the controller's own, and resets; one JSON line per run.

    python benchmarks/known.py FILE.jsonl --seeds 2                     # goes on where it ended
    python benchmarks/known.py FILE.jsonl --machines lane --known controller,log --seeds 0:3
    python benchmarks/known.py FILE.jsonl --table

Known: nothing; limits of the sensors beyond which it is reset; a log of 2,000 steps of the controller, whose commands
were varied a little; the controller itself; five episodes of it as demonstrations. `sac` is the SAC of
Stable-Baselines3, which it needs, with the same log in its buffer and reset only where the machine must be. `alone` is
the controller alone, in the same episodes.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.core.arrays import Floats
from resetfree.problems.machines import cart_load, lane, quadrotor, reactor, two_tanks
from resetfree.problems.machines.set_points import SetPointMachine

HORIZON, EPISODES = 25, 300
LOG, VARIED, DEMONSTRATED = 2000, 0.1, 5  # steps; deviation of commands, as a share of their range; episodes
EARLY, LATE = 0.2, 0.2  # parts of a run whose mean reward is shown
ENOUGH = 1.05  # of the controller's reward: what is aimed at in the end


@dataclass(frozen=True)
class Machine:
    """A machine, its controller, and the limits of its sensors that its docstring states."""

    make: Callable[[], SetPointMachine]
    controller: Callable[[Floats], Floats]
    limits: dict[int, tuple[float, float]]


MACHINES = {
    "crane": Machine(cart_load.CartLoad, cart_load.controller, {0: (-2.0, 2.0), 2: (-0.4, 0.4)}),
    "tanks": Machine(two_tanks.TwoTanks, two_tanks.controller, {0: (0.05, 0.6), 1: (0.05, 0.6)}),
    "reactor": Machine(reactor.Reactor, reactor.controller, {2: (reactor.OUT, reactor.AWAY)}),
    "quadrotor": Machine(
        quadrotor.Quadrotor,
        quadrotor.controller,
        {0: (-2.0, 2.0), 1: (-1.5, 1.5), 2: (-quadrotor.LEAN, quadrotor.LEAN)},
    ),
    "lane": Machine(lane.Lane, lane.controller, {0: (-lane.EDGE, lane.EDGE), 1: (-lane.TURNED, lane.TURNED)}),
}
KNOWN = ("alone", "controller", "log", "demonstrations", "nothing", "limits", "sac")


@dataclass(frozen=True)
class Recorded:
    """What a recorder writes down: n steps, and the resets among them."""

    observations: Floats  # [n + 1, D]
    actions: Floats  # [n, A]
    rewards: Floats  # [n]
    terminated: list[bool]


def record(machine: Machine, steps: int, seed: int, varied: float = VARIED) -> Iterator[Recorded]:
    """Stretches of a log of the controller, each up to a reset."""
    env, rng, left = machine.make(), np.random.default_rng([seed, 7]), steps
    space: Any = env.action_space
    seen = env.reset(seed=10_000 + seed)[0]
    while left:
        observations, actions, rewards, fell = [seen], [], [], False
        while left and not fell:
            noise = varied * (space.high - space.low) * rng.normal(size=space.shape)
            actions.append(np.clip(machine.controller(seen) + noise, space.low, space.high))
            seen, reward, fell, _, _ = env.step(actions[-1])
            observations.append(seen)
            rewards.append(float(reward))
            left -= 1
        ended = [False] * (len(actions) - 1) + [fell]
        yield Recorded(np.array(observations), np.array(actions), np.array(rewards), ended)
        seen = env.reset()[0] if fell else seen


def as_data(parts: Iterator[Recorded]) -> list[dict[str, Any]]:
    """As `data` and `demonstrations` take them."""
    return [vars(part) for part in parts]


def play(machine: Machine, known: str, seed: int, episodes: int) -> dict[str, Any]:
    """One run: reward per step of each episode, and resets."""
    options: dict[str, Any] = {"limits": machine.limits} if known == "limits" else {}
    problem = rf.from_gym(
        machine.make(), horizon=HORIZON, reward_range=(0.0, 1.0), reset_when="terminated", name="machine", **options
    )
    given: dict[str, Any] = {}
    if known == "log":
        given["data"] = as_data(record(machine, LOG, seed))
    elif known == "demonstrations":
        given["demonstrations"] = as_data(record(machine, DEMONSTRATED * HORIZON, seed, VARIED / 2))
    elif known in ("controller", "alone"):
        given |= {"controller": machine.controller, "explore": 0 if known == "alone" else 3}
    run = rf.learn(problem, "model-search", episodes=episodes, seed=seed, **given)
    return {
        "reward": (run.columns["reward"] / HORIZON).round(5).tolist(),
        "reset": np.flatnonzero(run.columns["reset"]).tolist(),
        "decisions": [[one.k, one.what] for one in run.decisions],
    }


def play_sac(machine: Machine, seed: int, episodes: int) -> dict[str, Any]:
    """SAC with the log in its buffer, and its default settings."""
    from stable_baselines3 import SAC

    env = machine.make()
    model = SAC("MlpPolicy", env, seed=seed, learning_starts=0, verbose=0)
    model._setup_learn(episodes * HORIZON)
    space, buffer = model.action_space, model.replay_buffer
    assert buffer is not None
    for part in record(machine, LOG, seed):
        for i, action in enumerate(part.actions):
            unit = model.policy.scale_action(action[None])
            before, after = part.observations[i : i + 1], part.observations[i + 1 : i + 2]
            buffer.add(before, after, unit, part.rewards[i : i + 1], np.array([part.terminated[i]]), [{}])
    model.train(LOG, model.batch_size)
    seen, rewards, resets = env.reset(seed=seed)[0], [], []
    for i in range(episodes * HORIZON):
        action = model.predict(seen, deterministic=False)[0]
        after, reward, fell, _, _ = env.step(np.clip(action, space.low, space.high))
        unit = model.policy.scale_action(action[None])
        buffer.add(seen[None], after[None], unit, np.array([reward]), np.array([fell]), [{}])
        model.train(1, model.batch_size)
        rewards.append(reward)
        resets += [i // HORIZON] if fell else []
        seen = env.reset()[0] if fell else after
    return {"reward": np.reshape(rewards, (-1, HORIZON)).mean(axis=1).round(5).tolist(), "reset": resets}


def read(file: Path) -> list[dict[str, Any]]:
    """The lines so far; one that was cut short is none."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def table(lines: list[dict[str, Any]]) -> str:
    """Reward per step of the controller alone, that of others relative to it with the same seed, and resets."""
    kept = {(one["machine"], one["known"], one["seed"]): one for one in lines}
    rows = [
        "| machine | known | seeds | reward | first fifth | last fifth | resets |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for machine in MACHINES:
        for known in KNOWN:
            mine = [one for (m, k, _), one in sorted(kept.items()) if (m, k) == (machine, known)]
            if not mine:
                continue
            parts = []
            for one in mine:
                own = np.array(one["reward"])
                beside = np.array(kept.get((machine, "alone", one["seed"]), one)["reward"])
                n = len(own)
                cuts = (slice(0, n), slice(0, int(EARLY * n)), slice(n - int(LATE * n), n))
                parts.append([own[cut].mean() / beside[cut].mean() for cut in cuts] + [own.mean()])
            whole, first, last, reward = np.mean(parts, axis=0)
            cells = [
                f"{reward:.3f}" if known == "alone" else f"{whole - 1:+.1%}",
                f"{first - 1:+.1%}",
                f"{last - 1:+.1%}",
            ]
            if known == "alone":
                cells[1:] = ["", ""]
            resets = ", ".join(str(len(one["reset"])) for one in mine)
            rows.append(f"| {machine} | {known} | {len(mine)} | {' | '.join(cells)} | {resets} |")
    return "\n".join(rows)


def main() -> None:
    """Play what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--known", default=",".join(KNOWN[:-1]))
    parser.add_argument("--seeds", default="2", help="how many, or FIRST:END")
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print(table(read(given.file)))
        return
    first, _, end = given.seeds.rpartition(":")
    done = {(one["machine"], one["known"], one["seed"], len(one["reward"])) for one in read(given.file)}
    for seed in range(int(first or 0), int(end)):
        for known in given.known.split(","):
            for name in given.machines.split(","):
                if (name, known, seed, given.episodes) in done:
                    continue
                began, machine = time.monotonic(), MACHINES[name]
                sac = known == "sac"
                one = play_sac(machine, seed, given.episodes) if sac else play(machine, known, seed, given.episodes)
                line = {
                    "machine": name,
                    "known": known,
                    "seed": seed,
                    "seconds": round(time.monotonic() - began),
                    **one,
                }
                with given.file.open("a") as out:
                    out.write(json.dumps(line) + "\n")
                print(
                    name, known, seed, f"{np.mean(one['reward']):.3f}", len(one["reset"]), line["seconds"], flush=True
                )


if __name__ == "__main__":
    main()
