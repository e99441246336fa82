"""Data from before the first round: run files, files of transitions, rollouts of Gymnasium and datasets of Minari.

They become episodes of the problem in its own units, which are part of the run file: so a run resumes and replays
without what they came from. Resets in them are known dangers, and no resets of the run. Everything is checked as
untrusted input, and nothing that a file names is executed. Before the first round the primal player learns from them,
and may begin with the policy of an old run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import arguments, state
from resetfree.core.arguments import shown
from resetfree.core.errors import InvalidInput, RunError
from resetfree.core.settings import expect
from resetfree.game.capabilities import StartsFromPolicy
from resetfree.players import discover
from resetfree.problems.action_spaces import Box
from resetfree.problems.contract import Episode, Note, Problem
from resetfree.problems.gym.rewards import AS_THEY_ARE, learned, scaled, usual
from resetfree.runs.data.all_transitions import episodes_for
from resetfree.runs.data.dataset import GivenData, check_fit, taught
from resetfree.runs.data.transition_files import READERS, read_transitions
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.request import FromWhat
from resetfree.runs.result import Run
from resetfree.runs.setup import Setup

MOST_STEPS = 10**8
# What a rollout may call its arrays, ours first.
KEYS = {
    "observations": ("observations", "observation", "obs"),
    "actions": ("actions", "action"),
    "rewards": ("rewards", "reward"),
    "terminated": ("terminated", "terminations", "terminals"),
}
ROLLOUT = "a list of (observation, action, reward, terminated, truncated, next_observation), or arrays by name"
SOURCE = f"a file, a run, {ROLLOUT}"


def gather(data: Any, problem: Problem, *more: Run) -> GivenData:
    """The data for a run on a problem: one source, or a list of them; raises InvalidInput.

    Rewards that have no known range are learned to be in the range of the data.  more: runs whose data come after.
    """
    sources = [*_sources(data), *more]
    if not sources:
        raise InvalidInput(f"The 'data' of learn must be {SOURCE}, or a list of those. Got an empty list instead.")
    found = [one for source in sources for one in _episodes(source, problem)]
    if sum(len(one.actions) for one in found) > MOST_STEPS:
        raise InvalidInput(f"The 'data' of learn must have at most {MOST_STEPS:,} steps.")
    if not found:
        raise InvalidInput("The 'data' of learn hold no transitions.")
    units, known = problem.units, problem.units is not None
    if units is None:
        ends = [usual(one.rewards, one.reset) for one in found]
        units = learned(min(low for low, _ in ends), max(high for _, high in ends), final=False)
        problem.restore({**problem.saved(), "units": np.array(units)})
        if units != AS_THEY_ARE:
            words = f"Rewards from {units[0]:g} to {units[1]:g} are scaled to [0, 1], as the data suggest."
            problem.noted.append(Note(0, words))
    kept = []
    for one in found:
        rewards = one.rewards if units == AS_THEY_ARE else np.array([scaled(r, units) for r in one.rewards.tolist()])
        kept += list(_cut(replace(one, rewards=rewards), problem))
    check_fit(kept, problem)
    numbering = {name: part for name, part in problem.saved().items() if name != "units"} if _numbers(problem) else None
    return GivenData(kept, [_named(source) for source in sources], units=None if known else units, numbering=numbering)


def starting(old: Run, what: str | None, player: Any, fresh: Any) -> Mapping[str, NDArray[Any]] | None:
    """The policy of an old run for a player to begin with, None if only its data are wanted, or it does not fit.

    what: "data", "policy", "both", or None for both if it fits.  fresh: a fresh state of the player.
    """
    if what == "data":
        return None
    try:
        if not isinstance(player, StartsFromPolicy):
            able = [name for name, one in discover("primal").items() if isinstance(one, StartsFromPolicy)]
            raise InvalidInput(
                f"The player '{player.name}' cannot begin with a policy. Players that can: {', '.join(able)}."
            )
        rule = old.policy.rule
        lam = np.array(float(old.columns["lam"][-1]) if len(old) else 0.0)
        policy = {**state.dump(rule), "kind": np.array(getattr(rule, "kind", "")), "lam": lam}
        player.adopt(fresh, policy)
    except (InvalidInput, RunError):
        if what is None:
            return None
        raise
    return policy


def data_of(
    data: Any, old: Run | None, what: str | None, problem: Problem, *, player: Any, fresh: Any
) -> GivenData | None:
    """All that a run begins with: `data`, and the data or the policy of an old run; None if there is nothing.

    fresh: a fresh state of the player, which is not used again.
    """
    if data is None and old is None:
        return None
    more = [] if old is None or what == "policy" else [old]
    given = GivenData([], []) if data is None and not more else gather(data, problem, *more)
    policy = None if old is None else starting(old, what, player, fresh)
    names = [*given.sources, *([] if old is None or what != "policy" else [_named(old)])]
    return replace(given, policy=policy, sources=names)


def _cut(one: Episode, problem: Problem) -> Iterator[Episode]:
    """An episode in parts that are no longer than those of the problem, if its dynamics do not change with the step."""
    n, horizon = len(one.actions), problem.horizon
    if n <= horizon or not problem.stationary:
        yield one
        return
    for first in range(0, n, horizon):
        last = min(first + horizon, n)
        part = slice(first, last)
        states = one.states[first : last + 1]
        reset = one.reset and last == n
        yield Episode(states, one.actions[part], one.rewards[part], reset, None)


def _numbers(problem: Problem) -> bool:
    """Whether states are numbered as they appear."""
    return problem.n_states is not None and "seen" in problem.saved()


def _sources(data: Any) -> list[Any]:
    """The sources that data are made of, which are not yet checked; none if there are no data."""
    if data is None:
        return []
    one = _is_one(data)
    expect(one or isinstance(data, list | tuple), "'data' of learn", f"be {SOURCE}, or a list of those", data)
    return [data] if one else list(data)


def _is_one(data: Any) -> bool:
    """Whether it is one source, and not a list of them."""
    return isinstance(data, str | Path | Run | Mapping) or hasattr(data, "iterate_episodes") or _is_rollouts(data)


def _is_rollouts(data: Any) -> bool:
    """Whether it is a list of episodes, each a list of steps."""
    first = data[0] if isinstance(data, Sequence) and not isinstance(data, str) and len(data) else None
    step = first[0] if isinstance(first, Sequence) and not isinstance(first, str) and len(first) else None
    return isinstance(step, tuple) or (isinstance(first, Mapping) and _key(first, "actions") is not None)


def _named(source: Any) -> str:
    if isinstance(source, Run):
        return "a run" if source.path is None else source.path.name
    return Path(source).name if isinstance(source, str | Path) else "rollouts"


def _episodes(source: Any, problem: Problem) -> Iterator[Episode]:
    """The episodes of one source, with rewards before scaling."""
    if isinstance(source, Run):
        if source.path is None:
            raise InvalidInput("Only a run file holds transitions: give the run a 'path' when it is made.")
        source = source.path
    if isinstance(source, str | Path):
        path = arguments.path(source, "'data' of learn")
        if path.suffix.lower() not in READERS:
            yield from episodes_for(path, problem)
        elif _numbers(problem):
            raise InvalidInput(
                f"The states of '{problem.name}' are numbered as they appear, and '{path.name}' does not say what its "
                "own are numbers of: give the run file that it was made from, or rollouts with their observations."
            )
        else:
            yield from read_transitions(path)
    elif hasattr(source, "iterate_episodes"):  # a dataset of Minari
        for one in source.iterate_episodes():
            arrays = {"observations": one.observations, "actions": one.actions, "rewards": one.rewards}
            yield from _rollout({**arrays, "terminated": one.terminations}, problem)
    elif isinstance(source, Mapping):
        yield from _rollout(source, problem)
    elif _is_rollouts(source):
        for one in source:
            yield from _rollout(one if isinstance(one, Mapping) else _arrays(one), problem)
    else:
        raise InvalidInput(f"The 'data' of learn must be {SOURCE}. Got {type(source).__name__} instead.")


def _arrays(steps: Sequence[Any]) -> dict[str, Any]:
    """A list of steps by name: observations are those before the action, and the last one after it, if it is there."""
    if not isinstance(steps, Sequence) or not all(isinstance(step, tuple) and len(step) in (5, 6) for step in steps):
        raise InvalidInput(f"An episode of the data must be {ROLLOUT}.")
    after = [step[5] for step in steps[-1:] if len(step) == 6]
    names = ("observations", "actions", "rewards", "terminated")
    found = {name: [step[i] for step in steps] for i, name in enumerate(names)}
    return {**found, "observations": [*found["observations"], *after]}


def _key(arrays: Mapping[str, Any], name: str) -> Any:
    return next((arrays[key] for key in KEYS[name] if key in arrays), None)


def _rollout(arrays: Mapping[str, Any], problem: Problem) -> Iterator[Episode]:
    """Episodes of the problem from one rollout: it is cut where the problem sees a reset."""
    parts = {name: _key(arrays, name) for name in KEYS}
    missing = [name for name, part in parts.items() if part is None]
    if missing:
        raise InvalidInput(f"An episode of the data must have {', '.join(KEYS)}. Got none of '{missing[0]}' instead.")
    observations, n = parts["observations"], _count(parts["actions"])
    length = _length(observations)
    if n == 0 or {_count(parts["rewards"]), _count(parts["terminated"])} != {n} or length - n not in (0, 1):
        raise InvalidInput(
            "An episode of the data must have one reward and one end per action, and one more observation."
        )
    given, ends = (arguments.array(parts[name], f"{name} of the data") for name in ("rewards", "terminated"))
    expect(given.shape == (n,), "rewards of the data", "be one number per action", parts["rewards"])
    expect(
        ends.shape == (n,) and np.isin(ends, (0, 1)).all(),
        "'terminated' of the data",
        "be True or False for each action",
        parts["terminated"],
    )
    if length == n and ends[-1] and problem.n_states is None:
        raise InvalidInput(
            "The last observation of an episode that terminated must be there: it is where the danger is. "
            "Give it as the sixth entry of its last step, or n + 1 observations."
        )
    states, actions, rewards = [problem.recorded(_at(observations, 0), None, False, {}).state], [], []
    for h in range(n):
        seen = _at(observations, min(h + 1, length - 1))
        step = problem.recorded(seen, float(given[h]), bool(ends[h]), {})
        actions.append(_action(parts["actions"][h], problem))
        rewards.append(step.reward)
        states.append(step.state)
        if step.reset:
            yield _made(states, actions, rewards, True, problem)
            states, actions, rewards = [], [], []
            if h + 1 < n:
                states = [problem.recorded(seen, None, False, {}).state]
    if length == n:  # where the last action led is not known
        states, actions, rewards = states[:-1], actions[:-1], rewards[:-1]
    if actions:
        yield _made(states, actions, rewards, False, problem)


def _made(states: list[Any], actions: list[Any], rewards: list[float], reset: bool, problem: Problem) -> Episode:
    dtype: Any = np.int64 if problem.n_states is not None else np.float64
    seen = arguments.array(states, "observations of the data", dtype)
    return Episode(seen, problem.actions.stack(actions), np.array(rewards), reset, None)


def _at(observations: Any, i: int) -> Any:
    """Observation i, where dictionaries and tuples hold arrays of all of them."""
    if isinstance(observations, Mapping):
        return {key: _at(part, i) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_at(part, i) for part in observations)
    return observations[i]


def _length(observations: Any) -> int:
    if isinstance(observations, Mapping):
        return min(map(_length, observations.values()), default=0)
    return min(map(_length, observations), default=0) if isinstance(observations, tuple) else _count(observations)


def _count(part: Any) -> int:
    """The length of a list, an array or what else has one; raises InvalidInput."""
    try:
        return len(part)
    except TypeError as error:
        raise InvalidInput(f"An episode of the data must be {ROLLOUT}. Got {shown(part)} in it instead.") from error


def _action(native: Any, problem: Problem) -> Any:
    """The action of the problem for one as the environment takes it."""
    space = problem.actions
    if isinstance(space, Box):
        vector = arguments.array(native, "actions of the data").ravel()
        if vector.shape != (space.size,) or not np.isfinite(vector).all():
            raise InvalidInput(f"An action of the data must be {space}. Got {str(native)[:40]} instead.")
        return space.clip(vector)
    for i, own in enumerate(space):
        if np.array_equal(own, native):
            return i
    raise InvalidInput(f"An action of the data must be {space}, as '{problem.name}' has them. Got {native!r} instead.")


def taught_anew(setup: Setup, source: FromWhat) -> GivenData | None:
    """Let the primal player of a new run learn from the data, before the first round."""
    problem, game, primal = setup.world.problem, setup.game, setup.primal
    given = _loaded(setup, source)
    game.primal = taught(primal, game.primal, problem, given)
    return given


def taught_again(setup: Setup, ledger: Ledger, source: FromWhat) -> GivenData | None:
    """Let the primal player of a resumed run learn again from the data in its file."""
    problem, given, file = setup.world.problem, ledger.data(), ledger.path
    if source:
        now = _loaded(setup, source)
        if given is None or now is None or now.about(now.rows())["digest"] != ledger.spec["data"]["digest"]:
            raise RunError(f"The run file '{file}' began with other data: resume it without them, it holds its own.")
    try:
        learned = {} if given is None or given.numbering is None else dict(given.numbering)
        if given is not None and given.units is not None and problem.units is None:
            learned["units"] = np.array(given.units)
        if learned:
            problem.restore({**problem.saved(), **learned})
        setup.game.primal = taught(setup.primal, setup.game.primal, problem, given)
    except InvalidInput as error:
        raise RunError(f"The data in '{file}' do not fit this problem or these players: {error}") from error
    return given


def _loaded(setup: Setup, source: FromWhat) -> GivenData | None:
    """The data of a request as episodes of the problem."""
    problem, primal, old = setup.world.problem, setup.primal, source.start_from
    assert old is None or isinstance(old, Run)  # a file is loaded before
    fresh = None if old is None else primal.init(problem, setup.spec["episodes"], setup.spec["seed"])
    return data_of(source.data, old, source.from_what, problem, player=primal, fresh=fresh)
