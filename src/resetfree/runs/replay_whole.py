"""Replay of a whole run from its seed: every number that can be recomputed is compared with the record.

It takes as long as the run did, and holds for the machine and the versions of the run. A persistent environment, which
keeps its own state, cannot be replayed; but a timed run can, from its file: its players are given the recorded
episodes, and make every plan again; every recorded action is compared with that of the plan, of the recorded state and
of the random numbers of (seed, k). Rounds in which a deadline was missed, so that an action was held, are left out.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import state
from resetfree.core.arrays import Floats
from resetfree.core.certificate import Certificate
from resetfree.core.errors import InvalidInput, NotCertifiable, ResetFreeError
from resetfree.game.contract import Round
from resetfree.game.delayed import DelayedGame, RecordedDelays
from resetfree.game.loop import Game
from resetfree.problems.action_spaces import Choices
from resetfree.problems.blueprint import Blueprint
from resetfree.problems.contract import Problem
from resetfree.problems.registry import World
from resetfree.problems.stepping import playable
from resetfree.runs.data.dataset import read_data, taught
from resetfree.runs.file import runfile
from resetfree.runs.file.recorded import COLUMNS, TIMING, ReplayedProblem, columns_of
from resetfree.runs.playing import timing_of
from resetfree.runs.recall import BROKEN, ROLES
from resetfree.runs.request import Who
from resetfree.runs.result import Run
from resetfree.runs.resuming import SAVED, saved_plans
from resetfree.runs.setup import Setup, as_timed, least_bound, prepare, rounds_of
from resetfree.theory.oracle import evaluator_of

ROUNDS = "both players play every round again as it is recorded, bit for bit (rounds that differ)"
ACTIONS = "every action on record is that of its plan, of the state on record and of chance (rounds that differ)"
CHECKPOINT = "the newest checkpoint is what the players knew then, bit for bit (entries that differ)"
SPEC = "everything else that the record says of its problem and its players is so (entries that differ)"
COMPARED = (*("fingerprint", "horizon", "n_states", "n_actions", "persistent", "blueprint", "statements"), *ROLES)


def whole_run(run: Run) -> list[Certificate]:
    """Certificates that replay a run: of its rounds, its newest checkpoint, and the rest of its spec.

    Of a timed run also of its actions.
    """
    timed = "timing" in run.spec
    try:
        setup = _setup(run)
        kept = None if run.path is None else _checkpoint(run.path)
        played = (_play_timed if timed else _play)(run, setup, -1 if kept is None else kept.k)
    except (ResetFreeError, *BROKEN) as error:
        claims = (ROUNDS, *([ACTIONS] if timed else []), CHECKPOINT, SPEC)
        return [Certificate.not_applicable(claim, str(error)) for claim in claims]
    where = f"round {played.differ[0] + 1}" if played.differ else None
    found = [_none_differ(ROUNDS, len(played.differ), where, {"columns": sorted(played.names)})]
    if timed:
        where = f"round {played.acted[0] + 1}" if played.acted else None
        detail = {"compared": played.compared, "left_out": len(run) - played.compared}
        found.append(_none_differ(ACTIONS, len(played.acted), where, detail))
    if kept is None or not played.then:
        found.append(Certificate.not_applicable(CHECKPOINT, "there is none, or it is not of a round that was played"))
    else:
        found.append(_entries(CHECKPOINT, _checkpoint_differs(run, kept, played.then)))
    if isinstance(setup.world.problem, Blueprint):
        why = "the problem is not given: its players were played again with what the file says of it"
        return [*found, Certificate.not_applicable(SPEC, why)]
    return [*found, _entries(SPEC, _spec_differs(run, setup))]


class Played(NamedTuple):
    """What a replay found."""

    differ: list[int]  # the rounds that differ, from 0
    names: set[str]  # in which columns
    then: dict[str, Any]  # the state of the game when the checkpoint was made; empty if that was never
    acted: Sequence[int] = ()  # the rounds whose actions differ
    compared: int = 0  # rounds whose actions were compared


def _setup(run: Run) -> Setup:
    """The run before its first round, made again from the names and settings in its record."""
    spec = run.spec
    if spec["persistent"] and "timing" not in spec:
        raise NotCertifiable("A persistent environment keeps its own state, so that its rounds cannot be played again.")
    world = World(_problem(run), run.mdp, spec["problem"], spec["problem_options"])
    who = Who(run.player_again("primal"), run.player_again("dual"), spec["feedback"])
    setup = prepare(world, who, episodes=spec["episodes"], seed=spec["seed"], before=spec)
    if run.path is not None and "data" in spec:
        with runfile.reading(run.path) as connection:
            given = read_data(connection, spec, run.path)
        setup.game.primal = taught(setup.primal, setup.game.primal, world.problem, given)
    return as_timed(setup, spec.get("timing"))


def _problem(run: Run) -> Problem:
    """The problem, or what the file says of it, which suffices where episodes are those of the record."""
    try:
        problem: Problem = run.problem_again()
        return problem
    except NotCertifiable:
        if not run.spec["persistent"]:
            raise
    described = Blueprint(run.spec["problem"], run.spec.get("blueprint"))
    described.persistent = True
    return described


def _checkpoint(path: Path) -> runfile.Checkpoint | None:
    with runfile.reading(path) as connection:
        return runfile.read_checkpoint(connection, path)


def _play(run: Run, setup: Setup, at: int) -> Played:
    """Play a run again, in its problem.  at: the round of its checkpoint."""
    game = setup.game
    rounds = rounds_of(setup, episodes=min(len(run), run.episodes), oracle=_oracle(run, setup.world.problem))
    differ: list[int] = []
    names: set[str] = set()
    then = _state(game) if at == 0 else {}
    for k, this in enumerate(rounds):
        wrong = _wrong_columns(run, k, columns_of(this))
        names |= wrong
        differ += [k] if wrong else []
        if game.k == at:
            then = _state(game)
    return Played([*differ, *range(game.k, len(run))], names, then)


def _play_timed(run: Run, setup: Setup, at: int) -> Played:
    """Give the players the recorded episodes with the recorded delays, and compare what they make of them."""
    c, game, problem = run.columns, setup.game, setup.world.problem
    if run.path is None:
        raise NotCertifiable("A run without a file keeps no episodes, which a timed run is replayed from.")
    assert isinstance(game, DelayedGame)
    has_rate, last = "rate" in run.spec["timing"], min(len(run), run.episodes)
    schedule = RecordedDelays(c["based_on"]) if has_rate else None
    waits = not (problem.persistent or has_rate)  # then also what followed the actions is played again
    differ: list[int] = []
    acted: list[int] = []
    names: set[str] = set()
    compared = 0
    then = _state(game) if at == 0 else {}
    with runfile.reading(run.path) as connection:
        replayed = ReplayedProblem(problem, runfile.read_played(connection, run.path, 1, len(run)))
        rounds = rounds_of(
            setup, problem=replayed, episodes=last, oracle=_oracle(run, setup.world.problem), schedule=schedule
        )
        for k in range(last):
            if problem.persistent and not np.array_equal(c["s1"][k], game.s1):
                game.s1 = None  # a session began here, with a reset
            u = game.chance(max(problem.n_uniforms, problem.actions.n_uniforms * problem.horizon))
            try:
                this = next(rounds)
            except InvalidInput:  # the record contradicts itself
                last = k
                break
            wrong = _wrong_columns(run, k, columns_of(this), timing_of(game, this)[: 2 if has_rate else None])
            names |= wrong
            differ += [k] if wrong else []
            if c["missed"][k] == 0:
                compared += 1
                acted += [] if (_goes_so if waits else _acts_so)(problem, this, u) else [k]
            if game.k == at:
                then = _state(game)
    rest = range(last, len(run))
    return Played([*differ, *rest], names, then, [*acted, *rest], compared)


def _wrong_columns(run: Run, k: int, row: tuple[Any, ...], timing: tuple[Any, ...] = ()) -> set[str]:
    """The columns in which round k, from 0, differs from what was recorded."""
    found = dict(zip((*COLUMNS, *TIMING), (*row, *timing), strict=False))
    if found["next_start"] is None and run.columns["next_start"].dtype.kind in "if":
        found["next_start"] = runfile.NOWHERE
    return {name for name, value in found.items() if not _same(run.columns[name][k], value)}


def _goes_so(problem: Problem, this: Round, u: Floats) -> bool:
    """Whether an episode is the one that the problem plays with its plan and these random numbers."""
    one, other = this.episode, problem.rollout(this.plan.policy, this.s1, u)
    names = ("states", "actions", "rewards", "reset", "next_start")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _acts_so(problem: Problem, this: Round, u: Floats) -> bool:
    """Whether the actions of an episode are those of its plan: see `stepping` for the order of random numbers."""
    episode, space = this.episode, problem.actions
    act, blocks = playable(this.plan.policy, problem).act, u[: space.n_uniforms * problem.horizon]
    chance = blocks.reshape(-1, problem.horizon).T
    for h, action in enumerate(episode.actions, 1):
        now = chance[h - 1, 0] if isinstance(space, Choices) else chance[h - 1]
        if not np.array_equal(act(h, episode.states[h - 1], now), action):
            return False
    return True


def _oracle(run: Run, problem: Problem) -> Any:
    return evaluator_of(run.mdp, problem)


def _state(game: Game) -> dict[str, Any]:
    """The entries of a checkpoint of the game as it is now."""
    arrays = state.dump(game.primal, "primal.") | state.dump(game.dual, "dual.") | saved_plans(game)
    copies = {name: np.array(array) for name, array in arrays.items()}
    return {**copies, "random numbers": dict(game.rng.bit_generator.state), "next start": game.s1}


def _checkpoint_differs(run: Run, kept: runfile.Checkpoint, then: dict[str, Any]) -> list[str]:
    """The entries of a checkpoint that differ from the state of the game then."""
    found = {**kept.arrays, "random numbers": kept.rng, "next start": kept.s1}
    left: set[str] = set()
    if "timing" in run.spec:  # its chance comes from (seed, k)
        left = {"random numbers"}
        left |= {SAVED} if "rate" in run.spec["timing"] else set()  # plans that were made and not played
        left |= {"next start"} if run.spec["persistent"] and kept.s1 is None else set()  # of a run before its reset
    return [name for name in {**then, **found} if name not in left and not _equal(then, found, name)]


def _equal(one: dict[str, Any], other: dict[str, Any], name: str) -> bool:
    if name not in one or name not in other:
        return False
    a, b = one[name], other[name]
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        floats: NDArray[Any] | bool = a.dtype.kind == b.dtype.kind == "f"
        return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=bool(floats)))
    return _same(a, b)


def _spec_differs(run: Run, setup: Setup) -> list[str]:
    """The keys of the recorded spec whose values differ from those of the players and the problem made again."""
    spec, fresh = run.spec, setup.spec
    differ = [key for key in COMPARED if key in spec and spec[key] != fresh[key]]
    if spec["B"] != fresh["B"]:
        differ.append("B")
    if spec["B_source"] == "oracle":
        least = least_bound(run.mdp, setup.world.problem)
        differ += [] if least is None or least == spec["B"] else ["B_source"]
    elif spec["B_source"] != fresh["B_source"]:
        differ.append("B_source")
    return differ


def _entries(claim: str, differ: list[str]) -> Certificate:
    return _none_differ(claim, len(differ), ", ".join(differ[:3]) or None, {"differ": differ})


def _none_differ(claim: str, n: int, witness: str | None, detail: dict[str, Any]) -> Certificate:
    """The claim that n, a number of differences, is zero."""
    return Certificate(claim, n, 0.0, 0.0, "==", witness=witness, detail=detail, status="checked")


def _same(one: Any, other: Any) -> bool:
    """Equal, or both not a number."""
    both = isinstance(one, float) and isinstance(other, float) and np.isnan(one) and np.isnan(other)
    return bool(both) or bool(np.array_equal(one, other))
