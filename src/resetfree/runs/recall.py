"""From a run to the policy that it has learned: the player is made again, and its state is restored.

A run file suffices: neither the environment nor its packages are needed, and nothing that a file names is imported.
A file is untrusted input. `trusted_options` takes no problem option from it that names code or makes a large problem:
the user gives those again. And `covered = true` is one edit away: both players are made again from their names and
settings (registered ones, or those that are given), and their statements are computed again; those of the file are only
compared with them. That the settings in the file are those that were played is checked by `--replay`.
"""

import dataclasses
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core import InvalidInput, ResetFreeError, RunError, expect, real, shown, words
from resetfree.core import state as states
from resetfree.game.capabilities import DangerMap, Decides, Decision, Exploits, MapsDanger
from resetfree.game.contract import PrimalPlayer, Statement
from resetfree.players import Role, discover, player_class
from resetfree.problems import PROBLEMS, Box, ChoicePolicy, Policy, Problem, State
from resetfree.problems.blueprint import Blueprint, action_array, check_start, describe
from resetfree.problems.finite.tabular_policy import TabularPolicy, table
from resetfree.problems.gym import DOTTED, of_adapter
from resetfree.problems.stepping import playable
from resetfree.runs.data.dataset import read_data, taught
from resetfree.runs.file.recorded import checked
from resetfree.runs.file.runfile import (
    damaged,
    decode_start,
    named,
    read_checkpoint,
    read_played,
    read_problem,
    reading,
    unfit,
)
from resetfree.theory.certificates.record import UNKNOWN, Record
from resetfree.use.exporting import DeployedPolicy
from resetfree.use.predictor import FeatureSource, sensor_from

Spec: TypeAlias = dict[str, Any]
Statements: TypeAlias = dict[str, dict[str, Any]]  # by role: constants, covered, why, most_resets; as in a spec
ROLES: tuple[Role, Role] = ("primal", "dual")
# What code may raise that is given untrusted settings or arrays.
BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, MemoryError, RecursionError)


def classes_of(spec: Spec, given: Mapping[Role, Any], file: Path) -> dict[Role, type]:
    """The classes that a user gives for the players of a run file, by role; raises RunError for those of another."""
    found: dict[Role, type] = {}
    for role, player in given.items():
        if player is None:
            continue
        name = spec[role]["name"]
        found[role] = player if isinstance(player, type) else player_class(role, words(player, f"'{role}' of load"))
        if getattr(found[role], "name", None) != name:
            raise RunError(f"The run file '{file}' is of the {role} player '{name}'. Got {shown(player)} instead.")
    return found


def recomputed(run: Record) -> Statements:
    """The statements of both players. One that cannot be computed is not covered, and its `why` begins with UNKNOWN."""
    try:
        problem = run.problem_again()
    except (ResetFreeError, *BROKEN) as error:
        return unknown(str(error))
    return {role: _plain(_statement(run, role, problem)) for role in ROLES}


def unknown(why: str) -> Statements:
    """The statements of players that cannot be made again: nothing is covered."""
    return {role: _plain(Statement({}, False, UNKNOWN + why)) for role in ROLES}


def _statement(run: Record, role: Role, problem: Problem) -> Statement:
    try:
        said: Statement = run.player_again(role).statement(problem, run.spec["episodes"])
        return said
    except (ResetFreeError, *BROKEN) as error:
        return Statement({}, False, UNKNOWN + str(error))


def _plain(said: Statement) -> dict[str, Any]:
    result: dict[str, Any] = describe(dataclasses.asdict(said))
    return result


LARGEST = 2**28  # `Size.work` of what is made and solved within seconds and a gigabyte
WHOLE = 10**6  # the largest integer among the options of an environment or a factory
WORD = re.compile(r"[\w +-]*")  # text that is safe for foreign code: no module, no path


def trusted_options(
    spec: Mapping[str, Any], given: Mapping[str, Any] | None = None, path: Path | None = None
) -> dict[str, Any]:
    """The options of a file's problem, overridden by those that are given now.

    Raises InvalidInput if an option that is not given again names code, or makes the problem large.

    >>> trusted_options({"problem": "gym:CartPole-v1", "problem_options": {"horizon": 50, "reset_when": "terminated"}})
    {'horizon': 50, 'reset_when': 'terminated'}
    >>> trusted_options({"problem": "gym:CartPole-v1", "problem_options": {"reset_when": "mine:fell"}})
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The run names code for 'reset_when'. Nothing is run because a file names it:
    give it again with --set reset_when=mine:fell.
    """
    problem, given = spec["problem"], given or {}
    from_file = {key: value for key, value in spec["problem_options"].items() if key not in given}
    for key, value in from_file.items():
        again = f"give it again with --set {key}={shlex.quote(str(value))}."
        if names_code(problem, key, value):
            raise InvalidInput(f"{named(path)} names code for '{key}'. Nothing is run because a file names it: {again}")
        if problem not in PROBLEMS.own and _too_large(value):
            raise InvalidInput(f"{named(path)} requests '{key}' = {value}, which is large: {again}")
    options, known = {**spec["problem_options"], **given}, PROBLEMS.get(problem)
    counts = {key: value for key, value in from_file.items() if key != "seed" and type(value) is not float}
    if known is not None and counts and (work := known.sized(options).work) > LARGEST:
        words = " ".join(f"--set {key}={shlex.quote(str(value))}" for key, value in counts.items())
        raise InvalidInput(
            f"{named(path)} requests a problem of size {work:.2g}, and because a file says so none "
            f"of more than {LARGEST:.2g} is made: name '{problem}' yourself, with {words}."
        )
    if problem.startswith("gym:") and "after_goal" not in spec and not {"goal_when", "reset_when"} & options.keys():
        options["goal_when"] = "never"  # a run from before goals were distinguished: every end was a reset
    return options


def names_code(problem: str, key: str, value: Any) -> bool:
    """Whether an option may cause an import."""
    if isinstance(value, Mapping):
        return any(names_code(problem, key, part) for part in [*value, *value.values()])
    if isinstance(value, list | tuple):
        return any(names_code(problem, key, part) for part in value)
    if not isinstance(value, str):
        return False
    if key == "limits" and problem.startswith("gym:"):
        return ":" in value and "=" not in value  # else intervals, as in "heat=:80"
    group, _, setting = key.partition(".")
    if ":" in value or (group in DOTTED and setting == "function") or key == "new_task":
        return True
    # Our own problems and the adapter import nothing else; what foreign code does with text is unknown.
    own = problem in PROBLEMS.own or of_adapter(key)
    return not own and WORD.fullmatch(value) is None


def _too_large(value: Any) -> bool:
    if isinstance(value, list | tuple | Mapping):
        return len(value) > WHOLE
    return isinstance(value, int) and abs(value) > WHOLE


class TrainedPlayer(NamedTuple):
    """The primal player and its state after the last round."""

    player: PrimalPlayer[Any]
    state: Any


class LearnedRun(Record, Protocol):
    """The record of a run, with the sources of its policy."""

    @property
    def path(self) -> Path | None:
        """Its file."""

    @property
    def problem(self) -> Problem | None:
        """The problem of the run, if available."""

    @property
    def players(self) -> Mapping[Role, type]:
        """The classes that were given for its players."""

    @property
    def learned(self) -> TrainedPlayer | None:
        """The player and its state, if the run was played in this process."""


class Memory(NamedTuple):
    """The state of a run at its newest checkpoint."""

    k: int  # rounds played
    s1: State  # the start of the last round
    lam: float  # the multiplier of the last round
    arrays: dict[str, NDArray[Any]] | None  # of the checkpoint; None if the player's state is available
    seen: NDArray[Any] | None = None  # [n, 16] the numbered observations of the run, if its file has them


def recall(
    run: LearnedRun,
    problem: Problem | None = None,
    *,
    player: PrimalPlayer[Any] | None = None,
    lam: float | None = None,
) -> DeployedPolicy:
    """The policy that a run had learned by its newest checkpoint.

    problem: where it was learned, for what a file cannot hold: a user's functions, features of pairs.
    player: the primal player, if it is not registered.
    lam: the multiplier to plan with (default: that of the last round); a larger one avoids resets more.

    Raises RunError if the run has no checkpoint, or does not fit the problem or the player.
    """
    expect(isinstance(getattr(run, "spec", None), dict), "'run' of recall", "be a Run", run)
    if run.fit is not None and not run.fit.whole:
        raise unfit(run.path, run.fit)
    problem = run.problem if problem is None else problem
    memory = _memory(run)
    if lam is not None:
        memory = memory._replace(lam=real(lam, "multiplier"))
    try:
        world = Blueprint(run.spec["problem"], run.spec.get("blueprint")) if problem is None else problem
        check_start(world, memory.s1)
        made, state = _player_of(run, world, player, memory)
        with np.errstate(all="ignore"):  # untrusted numbers may overflow: the resulting policy is checked
            if isinstance(made, Exploits):
                rule = made.greedy(state, memory.lam)
            else:
                rule = made.plan(state, memory.s1, memory.lam).policy
        return _policy(run, world, problem, rule, memory)
    except RunError:
        raise
    except (ResetFreeError, *BROKEN) as error:
        why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        if problem is None:
            raise RunError(
                f"{named(run.path)} gives no policy without its problem: {why}. "
                "Give it: rf.load(file, problem), or PROBLEM on the command line."
            ) from error
        raise RunError(f"{named(run.path)} does not fit this problem or its player: {why}.") from error


def decisions_of(run: LearnedRun) -> list[Decision]:
    """What the primal player of a run decided by its newest checkpoint; none of a player that does not record any.

    Raises RunError if the run has no checkpoint, or does not fit its problem.
    """
    found = _again(run, Decides)
    if found is None:
        return []
    player, state = found
    k = _memory(run).k  # a player that was given data may count its episodes, too
    return [one._replace(k=min(one.k, k)) for one in player.decisions(state)]


def danger_of(run: LearnedRun) -> DangerMap | None:
    """What the primal player of a run believes about danger; None of a player without such beliefs. Raises likewise."""
    found = _again(run, MapsDanger)
    return None if found is None else found[0].danger(found[1])


def _again(run: LearnedRun, capability: type[Any]) -> tuple[Any, Any] | None:
    """A primal player with this capability, and its state at the newest checkpoint; None of one without it."""
    player = run.learned.player if run.learned else discover("primal").get(run.spec["primal"]["name"])
    if "controller" not in run.spec and not isinstance(run.players.get("primal", player), capability):
        return None
    memory = _memory(run)
    world = Blueprint(run.spec["problem"], run.spec.get("blueprint")) if run.problem is None else run.problem
    try:
        found = _player_of(run, world, None, memory)
        return found if isinstance(found[0], capability) else None
    except RunError:
        raise
    except (ResetFreeError, *BROKEN) as error:
        raise RunError(f"{named(run.path)} does not fit its player: {' '.join(str(error).split())}") from error


def _player_of(run: LearnedRun, world: Problem, player: PrimalPlayer[Any] | None, memory: Memory) -> tuple[Any, Any]:
    """The primal player, and its state at the checkpoint."""
    if memory.arrays is None:
        assert run.learned is not None
        return run.learned
    if player is None:
        name = run.spec["primal"]["name"]
        if name not in discover("primal") and "primal" not in run.players:
            raise RunError(
                f"The player '{name}' of {named(run.path)[0].lower()}{named(run.path)[1:]} is not registered, and "
                "nothing that a file names is imported: give its class, rf.load(file, primal=...), or "
                "--primal module:Class on the command line."
            )
        player = run.player_again("primal")
    state = player.init(world, run.spec["episodes"], run.spec["seed"])
    if run.path is not None and "data" in run.spec:
        with reading(run.path) as connection:
            state = taught(player, state, world, read_data(connection, run.spec, run.path))
    if run.path is not None and states.is_replayed(state):
        with reading(run.path) as connection:
            played = checked(world, read_played(connection, run.path, 1, memory.k))
            states.replay(state, (one.episode for one in played))
    return player, states.load(state, memory.arrays, "primal.")


def _policy(run: LearnedRun, world: Problem, problem: Problem | None, rule: Any, memory: Memory) -> DeployedPolicy:
    """The rule of a plan, with the sensor and the actions of the environment."""
    rule = getattr(rule, "learned", rule)  # beside a controller, which is code
    if hasattr(rule, "greedy"):
        rule = rule.greedy()
    rule = _value(rule, world)
    plain = run.spec.get("blueprint") or {}
    if problem is None:
        if plain.get("actions") is None:
            raise InvalidInput("a file cannot hold its actions")
        form, function = plain.get("observation"), None
    else:
        description = problem.description(memory.s1)
        form, function = description.observation, description.function
    found = action_array(world.actions)
    actions: Any = found
    if isinstance(world.actions, Box) or found is None:
        actions = world.actions if isinstance(world.actions, Box) else list(world.actions)
    seen = _seen(problem, memory)
    sensor = sensor_from(form, seen, function)
    if isinstance(rule, TabularPolicy) and sensor.count > rule.probabilities.shape[1]:
        raise InvalidInput(f"it counts {sensor.count} observations for {rule.probabilities.shape[1]} states")
    about = {"problem": run.spec["problem"], "primal": run.spec["primal"]["name"]}
    about |= {"episodes": memory.k, "lam": memory.lam}
    features = None
    if world.features is not None and world.low is not None and world.high is not None:
        features = FeatureSource(world.features, world.low, world.high)
    return DeployedPolicy(rule, sensor, actions, world.horizon, about=about, features=features, problem=problem)


def _value(rule: Any, world: Problem) -> Policy:
    """The rule as a policy value; a table if states and actions are finite."""
    if isinstance(rule, Policy) or callable(rule) or world.n_states is None:
        policy = rule = playable(rule, world)
        if world.n_states is None or not isinstance(policy, ChoicePolicy):
            return policy
    return table(rule, world.horizon, world.n_states, world.n_actions)


def _seen(problem: Problem | None, memory: Memory) -> NDArray[Any] | None:
    """[n, 16] the numbered observations of the run, None if it numbered none."""
    if memory.arrays is not None:
        return memory.seen
    return None if problem is None else problem.saved().get("seen")


def _memory(run: LearnedRun) -> Memory:
    if run.learned is not None:
        if not len(run):
            raise RunError(f"{named(run.path)} has learned nothing yet: no episode was played.")
        return Memory(len(run), run.columns["s1"][-1], float(run.columns["lam"][-1]), None)
    if run.path is None:
        raise RunError("This run was not played in this process and has no file: its policy is unknown.")
    return _newest(run.path)


def _newest(path: Path) -> Memory:
    """The newest checkpoint and the round before it, from one snapshot; also while the file is written."""
    with reading(path) as connection:
        connection.execute("BEGIN")
        checkpoint = read_checkpoint(connection, path)
        k = 0 if checkpoint is None else checkpoint.k
        row = connection.execute("SELECT s1, lam FROM rounds WHERE k = ?", (k,)).fetchone()
        seen = read_problem(connection, path).get("seen")
    if checkpoint is None or k == 0 or row is None:
        raise RunError(f"{named(path)} has learned nothing yet: it holds no checkpoint after an episode.")
    try:
        s1 = decode_start(row[0]) if isinstance(row[0], str) else row[0]
        return Memory(k, s1, real(row[1], "multiplier"), checkpoint.arrays, seen)
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(path, error) from error
