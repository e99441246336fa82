"""The comparison of methods that bring a system back themselves: one ledger for all, at equal steps.

A trial is one continuing life. Counted are its steps, resets, help that was requested, turns and those that ended
without their goal (time-outs); every so often the forward policy alone is played in fresh environments, for a turn of
the task each (deployed success, the measure of EARL). Lines are JSON, one per trial; what is there is not played again.
"""

import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from resetfree.core import InvalidInput, NotCertifiable, Notice, check_names
from resetfree.game.capabilities import Exploits, Follows, choose
from resetfree.game.contract import RequestsHelp, TakesTurns
from resetfree.game.loop import Game, begin
from resetfree.game.loop import play as game_rounds
from resetfree.players import discover, make_player, partner_of, player_class, settings
from resetfree.players.neural.autonomy import train
from resetfree.problems import Episode, Policy
from resetfree.problems.autonomy import IDS, GoalTask
from resetfree.problems.autonomy.plane import Tabletop
from resetfree.problems.gym import from_gym
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.gym.making import make_environment
from resetfree.runs.stuck import STUCK

Line: TypeAlias = dict[str, Any]
AUTO, SHOWN = "auto", "auto-shown"  # the second is given the demonstrations of the task
EPISODE = 50  # steps of an episode of the game: policies are kept for so long
TESTS = 8  # fresh environments of an evaluation
LAST = 5  # evaluations of which the mean is reported
KEYS = ("method", "task", "seed", "steps", "settings", "engine")
DONE, CUT, REFUSED = "done", "cut", "refused"


class AutonomyTrial(NamedTuple):
    """A method on a task, from one seed."""

    method: str
    task: str
    seed: int
    steps: int
    every: int  # steps between two evaluations
    settings: Mapping[str, Any]  # of the method, beside its defaults
    limit: float | None  # seconds after which it is cut

    @property
    def key(self) -> str:
        """What it is known by in a file of results."""
        return key_of({**self._asdict(), "engine": "alone"})


def key_of(line: Mapping[str, Any]) -> str:
    """What a line is known by."""
    return json.dumps([line[name] for name in KEYS], sort_keys=True)


def contenders() -> dict[str, Any]:
    """The methods by name: those that take turns, and `auto`, which has no class."""
    known = discover("primal")
    return {
        AUTO: None,
        SHOWN: None,
        **{name: cls for name, cls in known.items() if issubclass(cls, TakesTurns) and cls.baseline},
    }


def named(names: Sequence[str] | None, *, together: bool = False) -> list[str]:
    """The methods of these names, or all; a table of another family stands for its form with networks.

    names: module:Class is one of the user's own, which is imported.
    together: only those that the program for many learners knows.
    """
    known = contenders()
    fit = [name for name, cls in known.items() if not together or getattr(cls, "traits", None) is not None]
    if names is None:
        return fit
    primal = discover("primal")
    meant = [primal[name].counterpart or name if name in primal and name not in known else name for name in names]
    own = {name: player_class("primal", name) for name in meant if ":" in name}
    fit += [name for name, cls in own.items() if not together or getattr(cls, "traits", None) is not None]
    check_names(meant, fit, "method of this comparison")
    return meant


def play(trial: AutonomyTrial) -> Line:
    """Play a trial; a task that the method refuses has a line, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        return _play(trial)


def fresh(task: str) -> GoalTask:
    """An environment of its own, for evaluations."""
    env = make_environment(task, {}).unwrapped
    assert isinstance(env, GoalTask)
    return env


def deployed(policy: Policy, env: GoalTask, seed: int) -> float:
    """The share of fresh environments in which the goal is reached within a turn, each goal in its turn.

    Where rewards are not all or nothing, the mean reward of a step.
    """
    scores = []
    for i in range(TESTS):
        env.reset(seed=seed + i)
        env.goal, env._left = env.goals[i % len(env.goals)], env.hold + 1
        s, best, total = env.observation(), 0.0, 0.0
        for _ in range(env.hold):
            s, reward, stuck, _, _ = env.step(policy.mode(1, s))
            best, total = max(best, reward), total + reward
            if stuck or (env.sparse and best >= 1.0):
                break
        scores.append(float(best >= 1.0) if env.sparse else total / env.hold)
    return float(np.mean(scores))


def players_of(trial: AutonomyTrial, problem: GymProblem, turn: int) -> tuple[Any, Any, str]:
    """The players of a trial and their feedback."""
    if trial.method in (AUTO, SHOWN):
        found = choose(problem, discover("primal").own, bound_known=False)
        own = {**found.settings.get("primal", {}), **trial.settings}
        _check_shield(trial, discover("primal")[found.primal])
        dual = make_player("dual", found.dual, found.settings.get("dual", {}))
        return make_player("primal", found.primal, own), dual, found.feedback
    method = player_class("primal", trial.method)
    _check_shield(trial, method)
    taken = {"turn": turn} if "turn" in settings(method) else {}
    partner = partner_of(method)
    primal = make_player("primal", method, {**taken, **trial.settings})
    return primal, make_player("dual", partner.dual, partner.settings), partner.feedback


def _check_shield(trial: AutonomyTrial, method: Any) -> None:
    """Refuse a method without a shield if one is requested; the others are played."""
    if "shield" in trial.settings and "shield" not in settings(method):
        raise NotCertifiable(f"The method '{trial.method}' has no shield: play it without '--shield'.")


def _play(trial: AutonomyTrial) -> Line:
    began, env = time.monotonic(), fresh(trial.task)
    problem = from_gym(f"gym:{trial.task}", horizon=EPISODE, reward_range=(0.0, 1.0))
    line: Line = {
        **{name: getattr(trial, name) for name in KEYS[:4]},
        "settings": dict(trial.settings),
        "every": trial.every,
    }
    line |= {"engine": "alone", "status": DONE, "interventions": 0, "requested": 0, "deployed": [], "rewards": []}
    try:
        primal, dual, feedback = players_of(trial, problem, env.hold)
        game = begin(problem, primal, dual, episodes=10**9, seed=trial.seed)
    except NotCertifiable as error:
        return {**line, "status": REFUSED, "why": str(error)}
    if trial.method == SHOWN and not show(problem, primal, game, trial.seed):
        why = f"'{primal.name}', which auto takes, learns from no demonstration, or the task has none"
        return {**line, "status": REFUSED, "why": why}
    taken, earned = 0, 0.0
    for this in play_rounds(problem, primal, dual, game, feedback):
        before, taken = taken, taken + len(this.episode.actions)
        earned += this.episode.total_reward
        line["interventions"] += this.episode.reset
        line["requested"] += game.s1 is None and game.why == STUCK  # counted when it is due: the last is not performed
        if isinstance(primal, TakesTurns):
            line["turns"], line["timeouts"] = primal.turns(game.primal)
        late = trial.limit is not None and time.monotonic() - began > trial.limit
        if taken // trial.every > before // trial.every or late:
            policy = _deployed_policy(primal, game)
            line["deployed"].append([taken, deployed(policy, env, 10_000 * (trial.seed + 1))])
            line["rewards"].append(round(earned / taken, 6))
        if late or taken >= trial.steps:
            line["status"] = CUT if taken < trial.steps else DONE
            break
    problem.close()
    return {**line, "taken": taken, "seconds": round(time.monotonic() - began, 1)}


def show(problem: GymProblem, primal: Any, game: Game, seed: int) -> bool:
    """Give the player the demonstrations of the task, both ways; whether it learns from any."""
    if problem.guidance is None or not isinstance(primal, Follows):
        return False
    found = [one for back in (False, True) for one in problem.guidance.demonstrations(seed, back)]
    for one in found:
        shown = Episode(one.states, one.actions, one.rewards, reset=False, next_start=None)
        game.primal = primal.follow(game.primal, shown)
    return bool(found)


def play_rounds(problem: GymProblem, primal: Any, dual: Any, game: Game, feedback: str) -> Iterator[Any]:
    """The rounds of a game, with the help that its player requests."""
    for this in _rounds(problem, primal, dual, game, feedback):
        if game.s1 is not None and isinstance(primal, RequestsHelp) and primal.needs_help(game.primal, game.s1):
            game.s1, game.why = None, STUCK
        yield this


def _rounds(problem: GymProblem, primal: Any, dual: Any, game: Game, feedback: str) -> Iterator[Any]:
    return game_rounds(problem, primal, dual, game, episodes=10**9, feedback=feedback)


def _deployed_policy(primal: Any, game: Game) -> Policy:
    if isinstance(primal, Exploits):
        found: Policy = primal.greedy(game.primal, 0.0)
        return found
    start = game.s1 if game.s1 is not None else np.zeros(1)
    planned: Policy = primal.plan(game.primal, start, 0.0).policy
    return planned


def play_together(names: Sequence[str], task: str, seeds: Sequence[int], trial: AutonomyTrial) -> Iterator[list[Line]]:
    """All methods and seeds in one program; yields the lines so far, cut until the last."""
    env, began = fresh(task), time.monotonic()
    if not isinstance(env, Tabletop) or trial.settings.get("shield"):
        got = f"'{task}'" if not isinstance(env, Tabletop) else "one"
        raise InvalidInput(
            f"A task of '--together' must be a tabletop, without a shield. Got {got} instead: leave '--together' out."
        )
    players = {
        name: make_player("primal", player_class("primal", name), {"turn": env.hold, **trial.settings})
        for name in names
    }
    pairs = [(name, seed) for name in names for seed in seeds]
    lines: list[Line] = []
    for name, seed in pairs:
        one = trial._replace(method=name, task=task, seed=seed)
        line: Line = {
            **{key: getattr(one, key) for key in KEYS[:4]},
            "settings": dict(trial.settings),
            "every": trial.every,
        }
        lines.append({**line, "engine": "together", "status": CUT, "requested": 0, "deployed": [], "rewards": []})
    for taken, success, counts in train([(players[name], seed) for name, seed in pairs], env, trial.steps, trial.every):
        for line, found, (resets, turns, timeouts, paid, helped) in zip(lines, success, counts.tolist(), strict=True):
            line |= {"interventions": int(resets), "turns": int(turns), "timeouts": int(timeouts), "taken": taken}
            line["requested"] = int(helped)
            line["deployed"].append([taken, float(found)])
            line["rewards"].append(round(paid / taken, 6))
            line |= {"seconds": round(time.monotonic() - began, 1), "status": DONE if taken >= trial.steps else CUT}
        yield lines
        if trial.limit is not None and time.monotonic() - began > trial.limit:
            return


def read(file: Path) -> list[Line]:
    """The lines of a file of results, none if there is none; raises InvalidInput for a line that is no trial."""
    if not file.exists():
        return []
    lines = []
    for number, text in enumerate(file.read_text().splitlines(), 1):
        try:
            line = json.loads(text)
            key_of(line)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(
                f"Line {number} of '{file}' must be a trial of this comparison. Got '{text[:40]}' instead: remove it."
            ) from error
        lines.append(line)
    return lines


def newest(lines: Iterable[Line]) -> dict[str, Line]:
    """The last line of each trial by its key; a whole trial is never replaced by one that was cut."""
    found: dict[str, Line] = {}
    for line in lines:
        if line["status"] != CUT or found.get(key_of(line), line)["status"] == CUT:
            found[key_of(line)] = line
    return found


def keep(file: Path, line: Line) -> None:
    """Append a line; an interrupt cannot leave half of one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "ab", buffering=0) as out:
        out.write(json.dumps(line).encode() + b"\n")
        os.fsync(out.fileno())


def published(method: str) -> Mapping[str, float]:
    """The deployed success by task that was published for a method."""
    found: Mapping[str, float] = getattr(contenders().get(method), "published", {})
    return found


def tasks() -> list[str]:
    """The tasks by their ids."""
    return list(IDS)
