"""First contacts: what a newcomer types for ten well-known environments, what happens, and whether that is solved.

    python benchmarks/first_contacts.py                            # seeds 0 to 4; stop it with Ctrl-C and go on later
    python benchmarks/first_contacts.py --only Taxi --seeds 100:102 --file tuning.jsonl
    python benchmarks/first_contacts.py --page                     # write what is in the file into the page

The lines of each contact are executed as they stand on the page, with another seed in place of `seed=0`. One JSON line
per contact and seed is added to the file; what is there already, with the same lines, is not played again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym

import resetfree as rf

ROOT = Path(__file__).parents[1]
FILE, PAGE = ROOT / "benchmarks" / "first_contacts.jsonl", ROOT / "docs" / "results" / "first_contacts.md"
BEGIN, END = "<!-- made by benchmarks/first_contacts.py -->", "<!-- end -->"
TRIES, FIRST_TRY = 100, 10_000  # fresh starts by which a policy is judged, and the seed of the first
LATE = 10  # the last tenth of all episodes


@dataclass(frozen=True)
class Contact:
    """One environment: the lines that are typed, and when it counts as solved."""

    name: str
    lines: str
    measure: Callable[[rf.Run], float]
    least: float  # the measure from which on it is solved
    solved: str  # the same in words

    @property
    def digest(self) -> str:
        """Of the lines and the criterion: results of others do not count."""
        return hashlib.sha256(f"{self.lines}\n{self.solved}".encode()).hexdigest()[:12]


def fresh_tries(id: str) -> Callable[[rf.Run], float]:
    """The mean return of the learned policy from fresh starts, as the environment's own threshold has it."""

    def measure(run: rf.Run) -> float:
        env, policy, total = gym.make(id), run.policy, 0.0
        for seed in range(FIRST_TRY, FIRST_TRY + TRIES):
            observation, _ = env.reset(seed=seed)
            over = False
            while not over:
                observation, reward, terminated, truncated, _ = env.step(policy.predict(observation)[0])
                total, over = total + float(reward), terminated or truncated
        env.close()
        return total / TRIES

    return measure


def late(run: rf.Run) -> slice:
    """The last tenth of all episodes."""
    return slice(-max(1, len(run) // LATE), None)


def goals_per_step(run: rf.Run) -> float:
    """In the last tenth."""
    return float(run.columns["goals"][late(run)].sum() / run.columns["steps"][late(run)].sum())


def episodes_with_goal(run: rf.Run) -> float:
    """The part of the last tenth of the episodes in which a goal was reached."""
    return float((run.columns["goals"][late(run)] > 0).mean())


def tries_that_end_well(run: rf.Run) -> float:
    """Goals among all goals and falls, in the last tenth."""
    goals, falls = (float(run.columns[name][late(run)].sum()) for name in ("goals", "reset"))
    return goals / max(1.0, goals + falls)


def without_resets(measure: Callable[[rf.Run], float]) -> Callable[[rf.Run], float]:
    """The same, and 0 if there was a reset in the last tenth."""
    return lambda run: 0.0 if run.columns["reset"][late(run)].any() else measure(run)


def own_reward(run: rf.Run) -> float:
    """The environment's own reward per step in the last tenth."""
    earned = run.columns["original_return"][late(run)]
    earned = run.columns["reward"][late(run)] if (earned != earned).all() else earned
    return float(earned.sum() / run.columns["steps"][late(run)].sum())


OWN = "{} in the mean of 100 fresh tries by the learned policy, the environment's own threshold"
LIVED = "{} % of the tries in the last tenth of the run end at the goal, the environment's own threshold"
CONTACTS = (
    Contact(
        "MountainCar",
        """import resetfree as rf

run = rf.learn("MountainCar-v0", episodes=150, seed=0)
print(run)""",
        fresh_tries("MountainCar-v0"),
        -110.0,
        OWN.format("-110"),
    ),
    Contact(
        "Acrobot",
        """import resetfree as rf

run = rf.learn("Acrobot-v1", episodes=60, seed=0)
print(run)""",
        fresh_tries("Acrobot-v1"),
        -100.0,
        OWN.format("-100"),
    ),
    Contact(
        "LunarLander",
        """import resetfree as rf

run = rf.learn("LunarLander-v3", episodes=100, seed=0)
print(run)""",
        fresh_tries("LunarLander-v3"),
        200.0,
        OWN.format("200"),
    ),
    Contact(
        "Taxi",
        """import resetfree as rf

taxi = rf.from_gym("gym:Taxi-v4", horizon=30, after_goal="restart for free")
run = rf.learn(taxi, episodes=4000, seed=0)
print(run)""",
        fresh_tries("Taxi-v4"),
        8.0,
        OWN.format("8"),
    ),
    Contact(
        "FrozenLake",
        """import resetfree as rf

price = {"dual": {"C": 1.0}, "primal": {"pooled": True, "scale": 0.01}}
run = rf.learn("FrozenLake-v1", "ucbvi", "constant-penalty", settings=price, episodes=600, seed=0)
print(run)""",
        tries_that_end_well,
        0.70,
        LIVED.format("70"),
    ),
    Contact(
        "FrozenLake 8x8",
        """import resetfree as rf

run = rf.learn("FrozenLake8x8-v1", episodes=300, seed=0)
print(run)""",
        tries_that_end_well,
        0.85,
        LIVED.format("85"),
    ),
    Contact(
        "MiniGrid",
        """import resetfree as rf

grid = rf.from_gym("gym:MiniGrid-Empty-5x5-v0", states=100, horizon=20)
run = rf.learn(grid, episodes=300, seed=0)
print(run)""",
        goals_per_step,
        0.9 / 5,
        "a goal in at most 5 / 0.9 steps in the last tenth of the run, where 5 are the fewest possible",
    ),
    Contact(
        "Pendulum swing-up",
        """import numpy as np, resetfree as rf

angle = lambda seen: np.round([4 * np.arctan2(seen[1], seen[0]), 1.25 * seen[2]])
arm = rf.from_gym("gym:Pendulum-v1", actions=5, observe=angle, states=700, reward_range=(-17, 0))
run = rf.learn(arm, episodes=400, seed=0)
print(run)""",
        own_reward,
        -1.0,
        "a reward of at least -1 a step (-200 in its 200 steps) in the last tenth of the run; it has no threshold",
    ),
    Contact(
        "FetchReach",
        """import resetfree as rf

way = lambda seen: seen["desired_goal"] - seen["achieved_goal"]
arm = rf.from_gym("gym:FetchReachDense-v4", horizon=50, observe=way, reward_range=(-0.5, 0))
run = rf.learn(arm, episodes=40, seed=0)
print(run)""",
        episodes_with_goal,
        0.95,
        "the target is reached in 95 % of the episodes of 50 steps, its own limit, in the last tenth of the run",
    ),
    Contact(
        "sticky maze",
        """import resetfree as rf
from sticky_maze import StickyMaze  # examples/gym

again = {"reset_when": "never", "goal_when": "terminated", "after_goal": "restart for free"}
maze = rf.from_gym(StickyMaze(), horizon=25, **again)
run = rf.learn(maze, episodes=300, seed=0, ask="when-stuck")""",
        goals_per_step,
        0.9 / 8,
        "a goal in at most 8 / 0.9 steps in the last tenth of the run, where 8 are the fewest possible",
    ),
    Contact(
        "warehouse with a battery",
        """import resetfree as rf
from warehouse import Warehouse  # examples/gym

events = {"reset_when": "terminated", "goal_when": "info.delivered"}
cart = rf.from_gym(Warehouse(), horizon=40, states=200, **events)
run = rf.learn(cart, episodes=400, seed=0)""",
        without_resets(goals_per_step),
        0.9 * 0.1275,
        "at least 90 % of the 0.1275 parcels a step of the best cart, without a reset, in the last tenth of the run",
    ),
)


def played(contact: Contact, seed: int) -> dict[str, Any]:
    """Execute the lines with a seed; what came of it."""
    names: dict[str, Any] = {"print": lambda run: None}
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes are part of the run, and counted
        exec(contact.lines.replace("seed=0", f"seed={seed}"), names)
        run: rf.Run = names["run"]
        score = contact.measure(run)
    return {
        "contact": contact.name,
        "digest": contact.digest,
        "seed": seed,
        "player": run.spec["primal"]["name"],
        "episodes": len(run),
        "steps": int(run.columns["steps"].sum()),
        "resets": int(run.realised_resets[-1]),
        "asked": len(run.requested_resets),
        "goals": int(run.goals[-1]),
        "reward": own_reward(run),
        "score": score,
        "solved": score >= contact.least,
        "seconds": round(time.process_time() - began, 1),
    }


def known(file: Path) -> list[dict[str, Any]]:
    """The results in a file; a line that was being written when the machine stopped is left out."""
    lines = file.read_text().splitlines() if file.exists() else []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def add(file: Path, result: str) -> None:
    """A line at the end of a file, also after one that was cut off."""
    cut_off = file.exists() and not file.read_text().endswith("\n") and file.stat().st_size > 0
    with file.open("a") as lines:
        lines.write("\n" * cut_off + result + "\n")


def current(results: Iterable[dict[str, Any]], contact: Contact) -> list[dict[str, Any]]:
    """Those of a contact as it is now, by seed."""
    mine = {one["seed"]: one for one in results if (one["contact"], one["digest"]) == (contact.name, contact.digest)}
    return [mine[seed] for seed in sorted(mine)]


def both(values: list[float], form: str, worst: Callable[[list[float]], float]) -> str:
    """Median and worst."""
    middle, end = format(median(values), form), format(worst(values), form)
    return middle if middle == end else f"{middle} / {end}"


def table(results: list[dict[str, Any]]) -> str:
    """The table of the page."""
    rows = [
        "| environment | player | steps | resets | requested | goals | reward a step, late | score | needed | solved |",
        "|" + "---|" * 10,
    ]
    for contact in CONTACTS:
        ones = current(results, contact)
        if not ones:
            continue

        def column(key: str, ones: list[dict[str, Any]] = ones) -> list[float]:
            return [float(one[key]) for one in ones]

        wins = sum(one["solved"] for one in ones)
        mark = "yes" if wins == len(ones) else "no" if not wins else "partly"
        rows.append(
            f"| [{contact.name}](#{contact.name.lower().replace(' ', '-')}) | `{ones[0]['player']}` "
            f"| {median(column('steps')):,.0f} | {both(column('resets'), '.0f', max)} "
            f"| {both(column('asked'), '.0f', max)} | {both(column('goals'), '.0f', min)} "
            f"| {both(column('reward'), '.3g', min)} | {both(column('score'), '.3g', min)} | {contact.least:.3g} "
            f"| {mark}, {wins} of {len(ones)} |"
        )
    always = [one.name for one in CONTACTS if (ones := current(results, one)) and all(own["solved"] for own in ones)]
    return "\n".join([*rows, "", f"Solved on every seed that was played: {', '.join(always) or 'none'}."])


def write_page(results: list[dict[str, Any]], page: Path) -> None:
    """Replace what stands between the two marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:5", help="first:end")
    parser.add_argument("--only", default="", help="parts of the names of contacts, with commas")
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--page", action="store_true", help="write the page from the file, and play nothing")
    options = parser.parse_args()
    if options.page:
        write_page(known(options.file), PAGE)
        return
    if not re.fullmatch(r"\d+:\d+", options.seeds):
        parser.error(f"--seeds must be first:end, such as 0:5. Got {options.seeds} instead.")
    sys.path.insert(0, str(ROOT / "examples" / "gym"))
    first, end = map(int, options.seeds.split(":"))
    wanted = [one for one in CONTACTS if any(part in one.name.lower() for part in options.only.lower().split(","))]
    if not wanted:
        parser.error(f"--only must name some of {', '.join(one.name for one in CONTACTS)}. Got {options.only} instead.")
    for seed in range(first, end):  # every contact once, then all again
        for contact in wanted:
            if any(one["seed"] == seed for one in current(known(options.file), contact)):
                continue
            result = json.dumps(played(contact, seed))
            print(result, flush=True)
            add(options.file, result)


if __name__ == "__main__":
    main()
