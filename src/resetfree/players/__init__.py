"""Players by family, found by looking into the folders and at entry points: adding one is one file.

tabular, linear, elimination, model_based, neural, dual    the families; the docstring of each says what to read first
batched                                                    what a program over many seeds shares (JAX)
controlled, takeover                                       a controller, and a learner that takes over where it is good
requirements                                               which problems with vectors for states suit players
nonepisodic                                                one life without episodes, in which no player is chosen
testing                                                    the contract battery

What all families share is here: how players are found and made, what they require of a problem, of a run and of each
other before they play, who plays with whom and under which name in a comparison, and what a batched form is.
"""

import dataclasses
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from resetfree.core import InvalidInput, NotCertifiable, Notice, PositiveInt, check, check_names, shown
from resetfree.core.discovery import Registry, Unfit, checked_class, classes_in
from resetfree.game.contract import DualPlayer, Partner, Plan, PrimalPlayer, Round, Statement
from resetfree.problems import Episode, FiniteMDP, Problem

Role: TypeAlias = Literal["primal", "dual"]
FAMILIES: dict[Role, tuple[str, ...]] = {
    "primal": ("tabular", "linear", "elimination", "model_based", "neural", "neural.autonomy"),
    "dual": ("dual",),
}
# A module whose source names no player is not imported: kernels, states, programs of JAX.
NAMES_PLAYER = re.compile(r"^    name\b[^=\n]*=", re.M)
BASES: dict[Role, Any] = {"primal": PrimalPlayer, "dual": DualPlayer}


def _registry(role: Role) -> Registry[Any]:
    def look(module: ModuleType) -> dict[str, Any]:
        return {cls.name: cls for cls in classes_in(module, BASES[role])}

    def accept(name: str, found: Any) -> Any:
        if not isinstance(found, type) or not issubclass(found, tuple(BASES.values())):
            raise Unfit(f"must be a class that implements PrimalPlayer or DualPlayer, and is {shown(found)}")
        return checked_class(name, found, BASES[role]) if issubclass(found, BASES[role]) else None

    folders = tuple(f"{__name__}.{family}" for family in FAMILIES[role])
    kind, group = f"{role} player", "resetfree.players"
    return Registry(kind, group=group, accept=accept, folders=folders, look=look, holding=NAMES_PLAYER)


PLAYERS: dict[Role, Registry[Any]] = {role: _registry(role) for role in BASES}


def discover(role: Role) -> Registry[Any]:
    """Every player class of a role by name.

    >>> "linear-ucb" in discover("primal"), "projected-gradient" in discover("dual")
    (True, True)
    """
    return PLAYERS[role]


def settings(cls: Any) -> dict[str, Any]:
    """Names and defaults of a player's hyperparameters."""
    return {f.name: f.default for f in dataclasses.fields(cls)}


def current_settings(cls: Any, given: Mapping[str, Any], *, warn: bool = False) -> dict[str, Any]:
    """Settings of a player under the names of today: those of run files and scripts of an earlier version have others.

    warn: whether to note each former name, which the next version refuses.

    >>> current_settings(discover("primal")["sac"], {"updates": 10, "tau": 0.1})
    {'gradient_steps': 10, 'tau': 0.1}
    """
    former: Mapping[str, str] = getattr(cls, "former_settings", {})
    for old in former.keys() & given.keys():
        new = former[old]
        if new in given:
            raise InvalidInput(f"The settings '{old}' and '{new}' of '{cls.name}' are the same: give only '{new}'.")
        if warn:
            text = f"the setting '{old}' of '{cls.name}' is now '{new}', and the next version takes only that."
            warnings.warn(text, Notice, stacklevel=3)
    return {former.get(name, name): value for name, value in given.items()}


def player_class(role: Role, name: str) -> Any:
    """The class that a registered name or module:Class means.

    The second imports what it names, so it is for what a user typed, never for the contents of a run file.
    """
    return discover(role).load(name) if ":" in name else discover(role).find(name)


def make_player(role: Role, player: Any, options: Mapping[str, Any] | None = None, *, warn: bool = True) -> Any:
    """A player by its registered name or its class, with some hyperparameters set, or the player itself.

    warn: whether to note former names of settings; not those of a file.
    """
    if isinstance(player, str):
        player = discover(role).find(player)
    made = not isinstance(player, type)
    cls: Any = type(player) if made else player
    if not issubclass(cls, BASES[role]) or not (made or dataclasses.is_dataclass(cls)):
        raise InvalidInput(f"The '{role}' must be a name or a {role} player. Got {cls.__name__} instead.")
    if options:
        options = current_settings(cls, options, warn=warn)
        allowed = settings(cls) if dataclasses.is_dataclass(cls) else {}
        check_names(options, allowed, f"setting of {role} player '{cls.name}'")
    if made:
        return dataclasses.replace(player, **options) if options else player
    for field in dataclasses.fields(cls):
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and field.init and field.name not in (options or {}):
            raise InvalidInput(
                f"The {role} player '{cls.name}' needs its setting '{field.name}': "
                f"give it with --set {role}.{field.name}=VALUE, or in settings."
            )
    return cls(**(options or {}))


# What players require of a problem, of a run and of each other.


NO_PENALTY = Partner("constant-penalty", "realised", {"C": 0.0})


class NeedsNoPenalty:
    """A primal player that avoids resets by itself: its partner charges nothing for one."""

    @classmethod
    def partner(cls) -> Partner:
        """No penalty."""
        return NO_PENALTY


class TakesEpisodes:
    """A primal player whose `update` uses the episode alone, and for which an episode of any policy is as good."""

    update: Any

    def absorb(self, state: Any, episode: Episode) -> Any:
        """Learn from an episode of data."""
        return self.update(state, given_round(episode))


def given_round(episode: Episode, policy: Any = None) -> Round:
    """An episode of data as a round before the first."""
    plan = Plan(policy, 0.0, 0.0)
    return Round(0, episode.start, 0.0, plan, episode=episode, cost_signal=float(episode.reset), exact=None)


def features_words(dimension: int, pooled: bool) -> str:
    """Why players for features of pairs are chosen."""
    data = "pooled over the steps, as the dynamics are stationary" if pooled else "one regression per step"
    return f"features of dimension {dimension} are given, so one pair informs about others; {data}"


def finite_states(problem: Problem, name: str) -> int:
    """The number of states S; raises NotCertifiable if states are a continuum."""
    if problem.n_states is None:
        raise NotCertifiable(f"The player '{name}' needs a finite problem. Got a continuum of states instead.")
    return problem.n_states


def sizes(problem: Problem, pooled: bool, name: str) -> tuple[int, int, int]:
    """Layers, states and actions of a table; raises if the problem has no such table."""
    n_states = finite_states(problem, name)
    if pooled and not problem.stationary:
        raise InvalidInput(f"The 'pooled' of {name} must be false for dynamics that change with the step. Got True.")
    return 1 if pooled else problem.horizon, n_states, problem.n_actions


def check_room(problem: Problem, name: str, size: int, of: str, advice: str) -> None:
    """Refuse a player whose data would take more bytes than there is room for; advice: the end of a sentence."""
    if size > problem.room:
        raise InvalidInput(
            f"The player '{name}' keeps {size / 1e9:.1f} GB of {of} for this problem, which must be at most "
            f"{problem.room / 1e9:.0f} GB{advice and f': {advice}'}."
        )


def check_episodes(episodes: int, name: str) -> int:
    """K, for constants that must know it."""
    check(episodes, PositiveInt, f"'episodes' of {name}")
    return episodes


def dyadic(lam: float, bound: float) -> float:
    """The smallest of 0, 1, 2, 4, ... that is not below `lam`, or `bound` if that is closer.

    >>> [dyadic(lam, 5.0) for lam in (0.0, 0.3, 1.0, 1.1, 4.5, 5.0, 7.0)]
    [0.0, 1.0, 1.0, 2.0, 5.0, 5.0, 8.0]
    """
    if lam == 0.0:
        return 0.0
    level = 1.0
    while level < lam:
        level *= 2.0
    return min(level, bound) if lam <= bound else level


def bound_of(player: Any) -> float:
    """B, the player's bound on the multipliers; a run fills it in from the oracle."""
    if player.B is None:
        raise InvalidInput(f"The 'B' of {player.name} must be a bound on the multipliers. Got None instead.")
    return float(player.B)


def covered_unless(lacks: Mapping[str, bool], constants: dict[str, Any], why: str) -> Statement:
    """What is proved and `why`, unless something is missing; lacks: sentences, and whether each is true."""
    if reasons := [reason for reason, missing in lacks.items() if missing]:
        return Statement(constants, False, "no theorem covers this run: " + "; ".join(reasons))
    return Statement(constants, True, why)


def pooled_lacks(problem: Problem, pooled: bool) -> dict[str, bool]:
    """For `covered_unless`: where data of all steps are no samples of one regression of r + V(s').

    An end that alone can be a reset makes V(s') of the last step another function; an action that leads nowhere
    (literal boundary) is a sample without s', which would be taken for one with V(s') = 0.
    """
    words = "data are pooled over the steps, and the"
    return {
        f"{words} end of an episode can call for a reset": pooled and problem.end_resets,
        f"{words} last action of an episode leads nowhere": pooled and problem.n_transitions < problem.horizon,
    }


def no_margin(authors: str, needs: str = "one start and ") -> str:
    """Why a theorem about constrained problems does not apply: what follows is up to the player."""
    none = "a policy that is safe with a margin, and at threshold zero there is none"
    return f"no theorem here: that of {authors} needs {needs}{none}"


def check_restarts(problem: Problem, name: str) -> None:
    """Refuse problems in which a reset episode does not report where the next one starts."""
    if problem.persistent:
        raise NotCertifiable(
            f"The player '{name}' must see where a reset puts the agent. Got '{problem.name}', in which an operator "
            "does that later, instead."
        )


# Who plays with whom, and the methods of a comparison: two players and the dual's feedback, made for a problem, a width
# and pooling or not. A player declares its own in a static method `methods()`, a primal one those with two players.

ALGORITHM_1 = ("linear-ucb", "projected-gradient")  # its primal and its dual player
OF_ALGORITHM_1 = Partner(ALGORITHM_1[1], "optimistic")


def partner_of(primal: Any) -> Partner:
    """The partner that a primal player, or the one of that name, names; else the dual player of Algorithm 1.

    >>> partner_of("uniform").dual
    'projected-gradient'
    """
    return _known(primal).partner() or OF_ALGORITHM_1


def paired(primal: Any, problem: Problem) -> tuple[Partner, dict[str, Any]]:
    """The partner of a named primal player on a problem, and its own settings there.

    A player that is given itself, not by its name or class, has settings already.
    """
    offer = _known(primal).named(problem)
    if offer is None:
        return partner_of(primal), {}
    return offer.partner, offer.settings if isinstance(primal, str | type) else {}


def fitting(primal: Any, problem: Problem) -> Any:
    """A named primal player, or the player of the same method if that alone can play the problem's actions."""
    player = _known(primal)
    taken = not player.counterpart or isinstance(problem.actions, player.action_spaces)
    return primal if taken or not isinstance(primal, str) else player.counterpart


def _known(primal: Any) -> Any:
    """The player or its class; the base class, which names nothing, for a name or an object that is refused later."""
    found = discover("primal").get(primal) if isinstance(primal, str) else primal
    return found if PrimalPlayer in getattr(found, "__mro__", type(found).__mro__) else PrimalPlayer


Kind: TypeAlias = Literal["ours", "paper", "baseline", "oracle"]
Players: TypeAlias = tuple[PrimalPlayer[Any], DualPlayer[Any], str]  # and the feedback, see `game.FEEDBACK`
WIDTHS = (0.02, 0.05, 0.1, 0.2)  # every method with a width gets this sweep


@dataclass(frozen=True)
class Setting:
    """What a method may use when it is made for a problem."""

    B: float  # the bound on the multipliers that the paper's algorithm must know too
    width: float  # scale of the bonuses, from WIDTHS; 0 where a method has none
    pooled: bool  # one set of data for all steps; only where the dynamics are stationary
    problem: Problem | None = None  # what a learner sees, for methods that choose by it

    @property
    def own(self) -> dict[str, Any]:
        """The settings that most primal players have."""
        return {"scale": self.width, "pooled": self.pooled}


Build: TypeAlias = Callable[[Setting], Players]


@dataclass(frozen=True)
class Method:
    """A row of the comparison.

    build: makes the players for a setting, and chooses the dual's feedback.
    rank: tables list methods by rank; those of one rank stay in the order in which their player declares them.
    widths: the sweep its width is chosen from, on other instances than those reported; () if it has no width.
    pools: whether it has a pooled version.
    guaranteed: whether a theorem covers its resets or its regret with the constants used here (else tuned).
    inapplicable: why it cannot run on a problem, or None.
    """

    name: str
    kind: Kind
    summary: str
    build: Build
    rank: int = 100
    widths: tuple[float, ...] = WIDTHS
    pools: bool = True
    guaranteed: bool = False
    inapplicable: Callable[[FiniteMDP], str | None] = lambda mdp: None


def against(primal: PrimalPlayer[Any], dual: str, feedback: str = "realised", **settings: Any) -> Players:
    """A primal player and a named dual player, with its settings and its feedback."""
    return primal, make_player("dual", dual, settings), feedback


def penalised(primal: Callable[[Setting], PrimalPlayer[Any]], factor: float | None = None) -> Build:
    """A primal player against a constant multiplier: B, or `factor` times B; 0 where resets are free."""

    def build(s: Setting) -> Players:
        penalty: dict[str, Any] = {"B": s.B} if factor is None else {"C": factor * s.B}
        return against(primal(s), "constant-penalty", **penalty)

    return build


def free_and_penalised(name: str, text: str, primal: Callable[[Setting], PrimalPlayer[Any]], rank: int) -> list[Method]:
    """A baseline without a penalty for a reset, and the same with B."""
    same = "The same with a constant penalty B for a reset."
    return [
        Method(name, "baseline", f"{text}; resets are free.", penalised(primal, 0.0), rank=rank),
        Method(f"{name}, penalty B", "baseline", same, penalised(primal, 1.0), rank=rank),
    ]


def own_methods(cls: Any) -> list[Method]:
    """The methods that a class of players declares itself; those of its base classes are not repeated."""
    return list(cls.methods()) if "methods" in vars(cls) else []


# What a player declares to be played by the batched engine, without JAX: `batched_form(problem, episodes)`, made by
# `written_in` or by itself, is a program over rows: the last axis of every array is the row, which is one run.
# InvalidInput is raised for settings that have no batched form.


class PrimalProgram(Protocol):
    """What of a primal player is compiled; equal programs are compiled once. `linear.batched` has examples."""

    @property
    def samples_actions(self) -> bool:
        """Whether its policy draws actions, so that uniforms must be drawn for them."""

    def begin(self, shape: Any, given: dict[str, Any]) -> Any:
        """The fresh state on the host, a pytree of NumPy arrays."""

    def plan(self, scene: Any, state: Any, turn: Any, evaluate: bool) -> Any:
        """A `BatchedPlan` (of `players.batched`) for the starts and multipliers in the `Turn`, for all rows."""

    def learn(self, scene: Any, state: Any, path: Any, lam: Any, plan: Any) -> Any:
        """The state after the episodes."""


class DualProgram(Protocol):
    """What of a dual player is compiled; `dual.batched` has examples."""

    def begin(self, given: dict[str, Any]) -> Any:
        """The fresh state on the host, a pytree of NumPy arrays."""

    def multiplier(self, given: dict[str, Any], state: Any, s1: Any) -> Any:
        """[rows] multipliers of the starts."""

    def learn(self, given: dict[str, Any], state: Any, s1: Any, k: Any, g: Any, was_reset: Any) -> Any:
        """The state after round k with the cost signal g [rows] in [0, 1]."""


class BatchedForm(NamedTuple):
    """A player with its settings, ready for the batched engine."""

    program: Any  # a PrimalProgram or DualProgram: static and hashable
    numbers: dict[str, Any]  # given to the program: a number becomes [rows], one per setting; arrays are for all rows


def written_in(place: str) -> Callable[[Any, Problem, int], BatchedForm]:
    """The method `batched_form` of a player whose form is the function `place`, module:name, of player and problem.

    The module needs JAX and is imported when a form is wanted, so that a player is read without it.
    """

    def batched_form(self: Any, problem: Problem, episodes: int) -> BatchedForm:
        module, _, name = place.partition(":")
        form: BatchedForm = getattr(import_module(f"resetfree.players.{module}"), name)(self, problem, episodes)
        return form

    return batched_form


def has_batched_form(cls: type) -> bool:
    """Whether a class of players declares its own batched form; inherited ones do not count: a subclass may differ."""
    return "batched_form" in vars(cls)
