"""Data from before the first round: run files, files of transitions, rollouts of Gymnasium and datasets of Minari.

They become episodes of the problem in its own units, which are part of the run file: so a run resumes and replays
without what they came from. Resets in them are known dangers, and no resets of the run. Everything is checked as
untrusted input, and nothing that a file names is executed. Before the first round the primal player learns from them,
and may begin with the policy of an old run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import InvalidInput, RunError, arguments, expect, is_special, state
from resetfree.game.capabilities import StartsFromPolicy
from resetfree.players import discover
from resetfree.problems import Episode, Note, Problem
from resetfree.problems.gym.events import AS_THEY_ARE, learned, scaled, usual
from resetfree.runs.data.all_transitions import episodes_for
from resetfree.runs.data.dataset import GivenData, check_fit, taught
from resetfree.runs.data.tables import LISTED, ROLLOUT, Log, by_name, is_log, part_of, rollout
from resetfree.runs.data.transition_files import READERS, are_transitions, episodes_in, minari_dataset, read_columns
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.runfile import MAGIC
from resetfree.runs.logs import episodes_of, matched, unused
from resetfree.runs.request import FromWhat
from resetfree.runs.result import Run
from resetfree.runs.setup import Setup

MOST_STEPS = 10**8
MINARI = "minari:"  # what the name of a dataset of Minari begins with
SOURCE = f"a file, a run, a table with named columns, {ROLLOUT}"


def gather(data: Any, problem: Problem, *more: Run, demonstrations: Any = None) -> GivenData:
    """The data for a run on a problem: one source, or a list of them; raises InvalidInput.

    Rewards that have no known range are learned to be in the range of the data.  more: runs whose data come after.
    demonstrations: data whose behaviour is to be improved on, which come before.
    """
    first = _sources(demonstrations, "demonstrations")
    sources = [*first, *_sources(data), *more]
    expect(sources, "'data' of learn", f"be {SOURCE}, or a list of those", got="an empty list")
    parts = [[one for source in some for one in _episodes(source, problem)] for some in (first, sources[len(first) :])]
    found = [one for part in parts for one in part]
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
    kept, shown = [], 0
    for i, one in enumerate(found):
        rewards = one.rewards if units == AS_THEY_ARE else np.array([scaled(r, units) for r in one.rewards.tolist()])
        kept += list(_cut(replace(one, rewards=rewards), problem))
        shown = len(kept) if i < len(parts[0]) else shown
    check_fit(kept, problem)
    numbering = {name: part for name, part in problem.saved().items() if name != "units"} if _numbers(problem) else None
    names, units_now = [_named(source) for source in sources], None if known else units
    return GivenData(kept, names, units=units_now, numbering=numbering, shown=shown)


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


def data_of(source: FromWhat, problem: Problem, *, player: Any, fresh: Any) -> GivenData | None:
    """All that a run begins with: data, and the data or the policy of an old run; None if there is nothing.

    fresh: a fresh state of the player, which is not used again.
    """
    data, shown, old, what = source.data, source.demonstrations, source.start_from, source.from_what
    assert old is None or isinstance(old, Run)  # a file is loaded before
    if not source:
        return None
    more = [] if old is None or what == "policy" else [old]
    nothing = data is None and shown is None and not more
    given = GivenData([], []) if nothing else gather(data, problem, *more, demonstrations=shown)
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


def _sources(data: Any, called: str = "data") -> list[Any]:
    """The sources that data are made of, which are not yet checked; none if there are no data."""
    if data is None:
        return []
    one = _is_one(data)
    expect(one or isinstance(data, list | tuple), f"'{called}' of learn", f"be {SOURCE}, or a list of those", data)
    return [data] if one else list(data)


def _is_one(data: Any) -> bool:
    """Whether it is one source, and not a list of them."""
    known = isinstance(data, str | Path | Run | Mapping) or hasattr(data, "iterate_episodes")
    return known or is_log(data) or _is_rollouts(data)


def _is_rollouts(data: Any) -> bool:
    """Whether it is a list of episodes, each a list of steps or arrays by name."""
    first = data[0] if isinstance(data, Sequence) and not isinstance(data, str) and len(data) else None
    step = first[0] if isinstance(first, Sequence) and not isinstance(first, str) and len(first) else None
    return isinstance(step, tuple) or (isinstance(first, Mapping) and part_of(first, "actions") is not None)


def _named(source: Any) -> str:
    if isinstance(source, Run):
        return "a run" if source.path is None else source.path.name
    if isinstance(source, str | Path):
        return str(source) if str(source).startswith(MINARI) else Path(source).name
    return "a table" if is_log(source) else "rollouts"


def _episodes(source: Any, problem: Problem) -> Iterator[Episode]:
    """The episodes of one source, with rewards before scaling."""
    if isinstance(source, str | Path) and str(source).startswith(MINARI):
        source = minari_dataset(str(source).removeprefix(MINARI))
    if isinstance(source, Run):
        yield from episodes_for(source, problem)
    elif isinstance(source, str | Path):
        yield from _of_file(arguments.path(source, "'data' of learn"), problem)
    elif hasattr(source, "iterate_episodes"):  # a dataset of Minari
        for one in source.iterate_episodes():
            arrays = {"observations": one.observations, "actions": one.actions, "rewards": one.rewards}
            yield from rollout({**arrays, "terminated": one.terminations}, problem)
    elif is_log(source):
        yield from _of_log(source, problem, "of the table")
    elif isinstance(source, Mapping):
        yield from rollout(source, problem)
    elif _is_rollouts(source):
        for one in source:
            yield from rollout(one if isinstance(one, Mapping) else by_name(one), problem)
    else:
        raise InvalidInput(f"The 'data' of learn must be {SOURCE}. Got {type(source).__name__} instead.")


def _of_file(path: Path, problem: Problem) -> Iterator[Episode]:
    """The episodes of a file: a run, transitions of a run, or a log."""
    if path.suffix.lower() not in READERS:
        _check_run_file(path)
        yield from episodes_for(path, problem)
        return
    columns = read_columns(path)
    if not are_transitions(columns):
        named = f"'{path.name}'"
        yield from _of_log(columns, problem, named) if is_log(columns) else rollout(columns, problem)
    elif _numbers(problem):
        raise InvalidInput(
            f"The states of '{problem.name}' are numbered as they appear, and '{path.name}' does not say what its "
            "own are numbers of: give the run file that it was made from, or rollouts with their observations."
        )
    else:
        yield from episodes_in(columns, path)


def _check_run_file(path: Path) -> None:
    """Refuse a file of another kind, which a run file may be by its name."""
    if is_special(path):
        return  # as `episodes_for` says
    try:
        with path.open("rb") as file:
            begins = file.read(len(MAGIC))
    except OSError as error:
        raise InvalidInput(f"The data '{path}' cannot be read: {error.strerror}.") from error
    if begins != MAGIC:
        raise InvalidInput(
            f"The data '{path}' must be a run file, or its name must end in one of {', '.join(READERS)}."
        )


def _of_log(source: Any, problem: Problem, called: str) -> Iterator[Episode]:
    """The episodes of a table with named columns; what is not used of it is noted."""
    log = Log.of(source, called)
    rows = matched(log, problem)
    yield from episodes_of(log, rows, problem)
    if spare := unused(log, rows):
        listed = ", ".join(spare[:LISTED]) + (f" and {len(spare) - LISTED} more" if len(spare) > LISTED else "")
        problem.noted.append(Note(0, f"Of the data {called} these columns are not used: {listed}."))


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
    fresh = None if old is None else primal.init(problem, setup.spec["episodes"], setup.spec["seed"])
    return data_of(source, problem, player=primal, fresh=fresh)
