"""The request of a run: one frozen dataclass that Python, the command line, sweeps and the studio all build.

Its fields are the arguments of `learn` in seven groups (`What`, `Who`, `HowLong`, ...). Each group checks its own
fields when it is made, and `RunRequest` checks combinations of groups. What depends on the problem is checked later,
when the problem is made: `RunRequest.check_on` and `setup.prepare`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

import numpy as np

from resetfree.core import (
    InvalidInput,
    UnknownName,
    arguments,
    check,
    check_names,
    expect,
    flag,
    is_function,
    real,
    whole,
)
from resetfree.core.settings import parameters
from resetfree.game.contract import MOST_EPISODES, DualPlayer, PrimalPlayer, Round
from resetfree.game.loop import Game
from resetfree.problems import Problem, World, find_world
from resetfree.problems.gym.builder import from_gym
from resetfree.problems.operators import Operator
from resetfree.problems.paced import Deadlines
from resetfree.problems.registry import is_environment
from resetfree.runs.file.newfile import Ending
from resetfree.runs.live.learner_location import LOWEST, RayLearner, checked_location
from resetfree.runs.result import Run
from resetfree.runs.stuck import WHEN_STUCK, check_asking

Progress: TypeAlias = Callable[[Game, Round], object]
Settings: TypeAlias = Mapping[str, Mapping[str, Any]]  # by group, by name
GROUPS = ("problem", "primal", "dual")  # of settings
FROM = ("data", "policy", "both")  # what a run takes from an old one
ARGUMENTS = {*parameters(from_gym)} - {"env", "make_options"}  # of a problem that is an environment
EPISODES = 2000  # of a run for which no number is given
ON_VECTORS = 200  # of such a run on a machine, whose steps take longer, unless something else ends it


class Options(TypedDict):
    """The arguments of `learn` besides the problem and its players, for editors and type checkers."""

    episodes: NotRequired[int | None]
    seed: NotRequired[int]
    feedback: NotRequired[str]
    path: NotRequired[str | Path | None]
    resume: NotRequired[bool]
    overwrite: NotRequired[bool]
    B: NotRequired[float | None]
    controller: NotRequired[str | Callable[[Any], Any] | None]
    explore: NotRequired[int | None]
    settings: NotRequired[Settings | None]
    progress: NotRequired[Progress | None]
    checkpoint_every: NotRequired[float]
    max_resets: NotRequired[int | None]
    operator: NotRequired[Operator | None]
    delay: NotRequired[int | None]
    rate: NotRequired[float | str | Deadlines | None]
    max_staleness: NotRequired[int | None]
    learner: NotRequired[str | RayLearner]
    callbacks: NotRequired[Iterable[Callable[[Any], object]]]
    steps: NotRequired[int | None]
    seconds: NotRequired[float | None]
    data: NotRequired[Any]
    demonstrations: NotRequired[Any]
    simulator: NotRequired[Any]
    start_from: NotRequired[str | Path | Run | None]
    from_what: NotRequired[str | None]
    ask: NotRequired[Literal["never", "when-stuck"] | None]


@dataclass(frozen=True)
class What:
    """What is learned on."""

    problem: Any  # an id, an environment or a problem, see `registry.find_world`
    options: Mapping[str, Any] = field(default_factory=dict)  # its own options
    seed: int = 0  # of all random numbers of the run


@dataclass(frozen=True)
class Who:
    """Who learns: the two players, the cost signal between them, and their settings.

    unowned: settings without an owner, as KEY=VALUE on the command line, with the names of the problem's options (None
      if it takes any). Which player has a setting of that name is known once `auto` has chosen the players.
    """

    primal: str | PrimalPlayer[Any] = "auto"  # a name, module:Class or a player
    dual: str | DualPlayer[Any] = "auto"
    feedback: str = "auto"  # the cost signal of the dual player, see `loop.FEEDBACK`
    B: float | None = None  # bound on the multipliers; None: the oracle's, if there is one
    controller: Any = None  # a function, or module:function, that acts first
    explore: int | None = None  # resets that the learned policy may cause beside a controller
    settings: Settings = field(default_factory=dict)  # {"primal": {name: value}, "dual": {...}}
    unowned: tuple[Mapping[str, Any], Sequence[str] | None] = ({}, ())

    def __post_init__(self) -> None:
        if self.explore is not None:
            whole(self.explore, "'explore' of learn", 0)
            if self.controller is None:
                raise InvalidInput("The 'explore' of learn needs a 'controller'. Got none instead.")


@dataclass(frozen=True)
class HowLong:
    """When the run ends: after its episodes, or at a limit, counted over all its sessions; None is no limit."""

    episodes: int | None = None  # None: see `planned`
    steps: int | None = None  # actions in the environment
    seconds: float | None = None  # of the clock on the wall
    max_resets: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_resets", "steps"):
            if (value := getattr(self, name)) is not None:
                whole(value, f"'{name}' of a run", 1)
        if self.seconds is not None:
            expect(real(self.seconds, "'seconds' of a run") > 0, "'seconds' of a run", "be positive", self.seconds)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit besides the number of episodes."""
        return not self.max_resets is self.steps is self.seconds is None

    def planned(self, problem: Problem) -> Any:
        """The number of episodes; if none is given 2000, or 200 where states are vectors and there is no limit."""
        if self.episodes is not None:
            return self.episodes
        return ON_VECTORS if problem.n_states is None and not self.is_limited else EPISODES

    def check_reach(self, problem: Problem) -> None:
        """Raise InvalidInput if the planned episodes are too few for the steps, which would never be reached."""
        n, horizon = self.planned(problem), problem.horizon
        if self.steps is not None and isinstance(n, int | np.integer) and self.steps > n * horizon:
            enough = -(-self.steps // horizon)
            raise InvalidInput(
                f"The 'steps' of a run must be at most episodes x horizon = {n * horizon}. Got {self.steps} "
                f"instead: plan more episodes, at least episodes={enough} (--episodes {enough})."
            )

    def spent(self, k: int, resets: int, steps: int, seconds: float) -> Ending | None:
        """The reason to end the run after round k, None if it goes on; the arguments are totals of all sessions."""
        if self.max_resets is not None and resets >= self.max_resets:
            return Ending(k, "max_resets", f"{resets} of {self.max_resets} allowed resets")
        if self.steps is not None and steps >= self.steps:
            return Ending(k, "steps", f"{steps} of {self.steps} allowed steps")
        if self.seconds is not None and seconds >= self.seconds:
            return Ending(k, "seconds", f"{seconds:.1f} of {self.seconds:g} allowed seconds")
        return None


@dataclass(frozen=True)
class Where:
    """Where the run is kept."""

    path: Path | None = None  # the run file; None keeps it in memory
    resume: bool = False  # continue the run in that file
    overwrite: bool = False  # replace a run in that file
    checkpoint_every: float = 2.0  # seconds

    def __post_init__(self) -> None:
        flag(self.resume, "'resume' of learn")
        flag(self.overwrite, "'overwrite' of learn")
        real(self.checkpoint_every, "'checkpoint_every' of learn", finite=False)
        if self.path is None and (self.resume or self.overwrite):
            raise InvalidInput("Only a run in a file can be resumed or overwritten. Got no file instead: give path=...")
        if self.resume and self.overwrite:
            raise InvalidInput(
                "A run is either resumed or overwritten. Got both: leave out resume=True or overwrite=True."
            )
        if self.path is not None:
            object.__setattr__(self, "path", arguments.path(self.path, "'path' of learn"))


@dataclass(frozen=True)
class When:
    """How old a plan may be: by default each round is played with a plan that was made from all rounds before it."""

    delay: int | None = None  # plans are so many rounds old
    rate: float | str | Deadlines | None = None  # steps per second in real time: the newest plan that is ready
    max_staleness: int | None = None  # rounds by which a plan may be old at a rate, before acting waits for it
    learner: str | RayLearner = LOWEST  # where it learns meanwhile, see `live.learner_location`

    def __post_init__(self) -> None:
        if self.rate is not None and self.delay is not None:
            raise InvalidInput("A run is played at a rate or with a delay in rounds. Got both instead.")
        if self.rate is None and self.max_staleness is not None:
            raise InvalidInput("The 'max_staleness' of learn needs a 'rate'. Got none instead.")
        if not isinstance(self.learner, str) or self.learner != LOWEST:
            object.__setattr__(self, "learner", checked_location(self.learner, at_rate=self.rate is not None))
        if self.delay is not None:
            whole(self.delay, "'delay' of learn", 0, MOST_EPISODES)


@dataclass(frozen=True)
class FromWhat:
    """What is known before the first round."""

    data: Any = None  # logs, runs, rollouts or datasets, see `dataset_loading`
    start_from: str | Path | Run | None = None  # an old run
    from_what: str | None = None  # what is taken from it: "data", "policy" or "both"
    demonstrations: Any = None  # a few good episodes: data, and a policy to improve on
    simulator: Any = None  # a problem to learn on first, or a run on one

    def __post_init__(self) -> None:
        if self.simulator is not None and self.start_from is not None:
            raise InvalidInput("A run begins on a simulator or with an old run. Got both instead.")
        named = self.from_what is None or (isinstance(self.from_what, str) and self.from_what in FROM)
        expect(named, "'from_what' of learn", f"be one of {', '.join(FROM)}", self.from_what)
        if self.from_what is not None and self.start_from is self.simulator is None:
            raise InvalidInput("The 'from_what' of learn needs a 'start_from'. Got none instead.")
        known = self.start_from is None or isinstance(self.start_from, str | Path | Run)
        expect(known, "'start_from' of learn", "be a run or its file", self.start_from)

    def __bool__(self) -> bool:
        return not self.data is self.demonstrations is self.start_from is None


@dataclass(frozen=True)
class Around:
    """People and functions around the run: they perform resets, watch it, and can stop it."""

    ask: Literal["never", "when-stuck"] | None = None  # when to request a reset that the task does not need
    operator: Operator | None = None  # performs resets; None: the problem's own
    callbacks: tuple[Callable[[Any], object], ...] = ()  # called with the `Session` after every round
    progress: Progress | None = None  # called with the game and the round after every round

    def __post_init__(self) -> None:
        progress = self.progress
        expect(progress is None or is_function(progress), "'progress' of learn", "be a function", progress)
        object.__setattr__(self, "callbacks", _callbacks(self.callbacks))
        check(self.ask, Literal["never", "when-stuck"] | None, "'ask' of learn")


@dataclass(frozen=True)
class RunRequest:
    """Everything that is requested of a run, in groups; each field of a group is an argument of `learn`.

    >>> request = RunRequest.of("grid-v0", {"episodes": 50, "delay": 2})
    >>> request.how_long.episodes, request.when.delay, request.who.primal
    (50, 2, 'auto')
    """

    what: What
    who: Who = field(default_factory=Who)
    how_long: HowLong = field(default_factory=HowLong)
    where: Where = field(default_factory=Where)
    when: When = field(default_factory=When)
    from_what: FromWhat = field(default_factory=FromWhat)
    around: Around = field(default_factory=Around)

    def __post_init__(self) -> None:
        if self.who.controller is not None and not self.when.delay is self.when.rate is None:
            raise InvalidInput("A run with a controller is played round by round. Leave out delay and rate.")
        if self.around.ask == WHEN_STUCK and self.when.delay is not None:
            raise InvalidInput("A run that asks when it is stuck cannot be played with a delay. Got both instead.")

    @classmethod
    def of(cls, problem: Any, options: Mapping[str, Any]) -> RunRequest:
        """The request that the arguments of `learn` describe; raises InvalidInput for those that no run can have.

        options: as `Options`; "settings" may have a group "problem", which becomes `What.options`.
        """
        _refuse_options_of_problem(problem, options)
        check_names(options, OPTIONS, "argument of learn")
        given = {**options, "settings": check_settings(options.get("settings"))}
        given["options"] = given["settings"].pop("problem", {})
        group_of = {**{name: group for name, (group, _) in OPTIONS.items()}, "options": "what"}
        own: dict[str, dict[str, Any]] = {one.name: {} for one in fields(cls)}
        for name, value in given.items():
            own[group_of[name]][name] = value
        own["what"]["problem"] = problem
        return cls(**{name: kind(**own[name]) for name, kind in KINDS.items()})

    def changed(self, group: str, **changes: Any) -> RunRequest:
        """The request with some fields of one group changed."""
        return dataclasses.replace(self, **{group: dataclasses.replace(getattr(self, group), **changes)})

    def world(self) -> World:
        """The problem, made for this request; as a context manager it closes what was made here."""
        return find_world(self.what.problem, self.what.options)

    def check_on(self, world: World) -> None:
        """Raise InvalidInput for what this problem does not support."""
        if self.around.operator is not None:
            _check_operator(world)
        self.how_long.check_reach(world.problem)
        if self.around.ask == WHEN_STUCK:
            check_asking(world.problem)


KINDS: dict[str, type[Any]] = {
    "what": What,
    "who": Who,
    "how_long": HowLong,
    "where": Where,
    "when": When,
    "from_what": FromWhat,
    "around": Around,
}
# Each argument of `learn`: the group that it belongs to, and its default.
OPTIONS: dict[str, tuple[str, Any]] = {
    name: (group, one.default)
    for group, kind in KINDS.items()
    for one in fields(kind)
    if (name := one.name) not in ("problem", "options", "unowned")
}
OPTIONS["settings"] = ("who", None)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of `learn` with each of its options by name, as `help` and editors show it."""
    own = inspect.signature(function)
    named = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    kind = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(name, kind, default=OPTIONS[name][1]) for name in Options.__annotations__]
    return own.replace(parameters=[*named, *more])


def check_settings(settings: Any) -> dict[str, Mapping[str, Any]]:
    """Settings by group ("problem", "primal", "dual"), checked; None becomes {}."""
    if settings is None:
        return {}
    good = isinstance(settings, Mapping) and all(
        isinstance(group, str) and isinstance(own, Mapping) and all(isinstance(name, str) for name in own)
        for group, own in settings.items()
    )
    expect(good, "'settings' of a run", 'be {group: {name: value}}, as in {"primal": {"scale": 0.1}}', settings)
    for group in settings:
        if group not in GROUPS:
            raise UnknownName("group of settings", group, GROUPS)
    return dict(settings)


def _refuse_options_of_problem(problem: Any, options: Mapping[str, Any]) -> None:
    """Raise InvalidInput for an option of the problem that was given to `learn`, and say where it belongs."""
    for name in options:
        if name in OPTIONS or name not in ARGUMENTS:
            continue
        made = isinstance(problem, Problem) or not (isinstance(problem, str) or is_environment(problem))
        group = '{"problem": {"' + name + '": ...}}'
        how = f"give it where the problem is made, as in rf.from_gym(env, {name}=...)"
        how += "" if made else f", or as settings={group}"
        raise InvalidInput(
            f"The '{name}' is part of the problem, and no argument of learn: {how}. Got it here instead."
        )


def _callbacks(given: Any) -> tuple[Callable[[Any], object], ...]:
    """The callbacks of an argument, each a function of the session."""
    found, good = [], isinstance(given, Iterable)
    try:
        for one in given if good else ():
            good = good and is_function(one)
            if not good:  # before a long list is read to its end
                break
            found.append(one)
    except TypeError:  # an array without axes
        good = False
    expect(good, "'callbacks' of learn", "be a list of functions of the session", given)
    return tuple(found)


def _check_operator(world: World) -> None:
    """Refuse an operator for a problem that resets itself, or whose `perform_reset` takes none."""
    if not world.problem.persistent:
        raise InvalidInput(f"The problem '{world.name}' resets itself: it takes no operator.")
    if len(inspect.signature(world.problem.perform_reset).parameters) < 3:
        raise InvalidInput(f"The method 'perform_reset' of the problem '{world.name}' must take (u, why, operator).")
