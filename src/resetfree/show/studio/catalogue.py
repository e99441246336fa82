"""The choices of the page and its requests: problems, players, settings, drawn grids, and a record for each request."""

import dataclasses
import typing
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np

from resetfree.core.arguments import shown
from resetfree.core.errors import AssumptionViolated, InvalidInput, ResetFreeError
from resetfree.core.settings import (
    Fraction,
    Range,
    Rule,
    check,
    check_names,
    declarations,
    either,
    expect,
    is_whole,
    plain_parts,
    record,
)
from resetfree.game.capabilities import choose, offer_of
from resetfree.game.loop import FEEDBACK
from resetfree.players import ALGORITHM_1, BASES, discover, make_player, settings
from resetfree.problems.blueprint import describe
from resetfree.problems.contract import Problem
from resetfree.problems.finite.composed import Price
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.safety import safe_sets
from resetfree.problems.registry import HELP, find_world, make, problems
from resetfree.problems.zoo import SYMBOLS
from resetfree.show.cli.listing import summary_line
from resetfree.show.studio import limits
from resetfree.theory.assumptions import close, feasibility, largest_closed_set, reachable_starts


def _is_small(value: bool | int | float | str) -> bool:
    """Whether an option is within bounds: integers are sizes, and text may be a drawn grid."""
    if isinstance(value, str):
        return len(value) <= (limits.GRID + 1) ** 2
    return not is_whole(value) or -limits.SEED <= value <= limits.OPTION


ShortText: TypeAlias = Annotated[str, Rule(lambda text: len(text) <= 200, "text of at most 200 characters")]
LongText: TypeAlias = Annotated[str, Rule(lambda text: len(text) <= 2000, "text of at most 2000 characters")]
Seed: TypeAlias = Annotated[int, Range(0, limits.SEED)]
Option: TypeAlias = Annotated[
    bool | int | float | str, Rule(_is_small, f"a number of at most {limits.OPTION}, or a word")
]
Pace: TypeAlias = Annotated[float, Range(0, limits.FASTEST)]  # episodes per second; 0 for no limit
Lanes: TypeAlias = Annotated[list[Any], Rule(lambda lanes: 1 <= len(lanes) <= 2, "one or two pairs of players")]

FEEDBACKS = ("auto", *FEEDBACK)
Feedback: TypeAlias = Annotated[str, Rule(lambda word: word in FEEDBACKS, either(FEEDBACKS))]


# Machines that the page offers; what a push by hand changes: an entry of their state, and by how much in a step.
MACHINES = {
    "gym:CartPole-v1": ("state", 3, 0.06),
    "gym:resetfree/CartLoad-v0": ("x", 3, 0.15),
    "gym:resetfree/Quadrotor-v0": ("x", 3, 0.1),
}


@dataclass(frozen=True)
class GameRequest:
    """A game to start."""

    lanes: Lanes
    problem: ShortText = ""
    options: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, Any] | None = None
    by_hand: bool = False
    ask: Literal["never", "when-stuck"] = "never"
    episodes: Annotated[int, Range(1, limits.EPISODES)] = 2000
    seed: Seed = 0
    pace: Pace = 0
    paused: bool = False
    bound: Annotated[float, Range(0, 1e9)] | None = None
    feedback: Feedback = "auto"


@dataclass(frozen=True)
class LanePlayers:
    """The two players of a lane, and their settings."""

    primal: ShortText = "auto"
    dual: ShortText = "auto"
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Named:
    """A run by its name."""

    name: ShortText


@dataclass(frozen=True)
class Control:
    """A command for a running or stored game."""

    name: ShortText
    action: Literal["pause", "go", "step", "speed", "stop", "resume", "push"]
    pace: Pace = 0
    push: Annotated[float, Range(-1, 1)] = 0
    paused: bool = False


@dataclass(frozen=True)
class Reply:
    """The answer to a reset request: performed, or stop the run."""

    id: ShortText
    name: Any = None
    lane: int = 0
    who: ShortText = ""
    note: LongText = ""
    stop: bool | None = None


DRAWN, BY_HAND = "drawn-v0", "drawn-by-hand-v0"
# Fields to begin with; the second breaks Assumption 1: between two pits, every way out may slip into one.
TEMPLATES = {
    "garden": {"rows": "S......./.XX..X../......../..#X..G./........", "slip": 0.1, "horizon": 12},
    "bridge": {"rows": "S....../.XXXX.G/......./.XXXX.g/S......", "slip": 0.1, "horizon": 12},
    "maze": {"rows": "S.#..X.../..#.#.#../X...#.#X./.##.#.#.#/....X...G", "slip": 0.0, "horizon": 16},
    "cliff": {"rows": "........../........../........../S.XXXXXX.G", "slip": 0.05, "horizon": 16},
    "empty": {"rows": "S......./......../......../......../.......G", "slip": 0.1, "horizon": 12},
}


@dataclass(frozen=True)
class Grid:
    """A grid as the page sends it; missing keys have the defaults of `drawn-v0`."""

    rows: list[str] | str
    slip: Fraction = 0.1
    horizon: Annotated[int, Range(1, limits.HORIZON)] = 12
    stay: bool = False
    closed: bool = False
    help: Price | None = None  # the price of asking for a reset


def options_of(given: Any) -> dict[str, Any]:
    """The options of a drawn grid, checked.

    given: {"rows": [text, ...] or text, "slip": ..., "horizon": ..., "stay": ..., "closed": ..., "help": ...}
    """
    grid = record(Grid, given, "grid")
    rows = grid.rows if isinstance(grid.rows, str) else "/".join(grid.rows)
    lines = rows.split("/")
    if len(rows) > (limits.GRID + 1) ** 2 or max(len(lines), *map(len, lines)) > limits.GRID:
        raise InvalidInput(f"A grid must have at most {limits.GRID} rows and columns. Got a larger one instead.")
    return {name: value for name, value in {**vars(grid), "rows": rows}.items() if (name, value) != ("help", None)}


def check_grid(given: Any) -> dict[str, Any]:
    """Whether every reachable start admits a reset-free policy, and the cells that break this.

    All lists are of cells (row * columns + column): `breaking` break the assumption, `stuck` are where ending an
    episode is a reset once the grid is closed, `hopeless` are those from which no policy avoids resets for certain.

    >>> check_grid({"rows": ["SX", "X."], "slip": 0.1})["breaking"]
    [0]
    """
    options = options_of(given)
    as_drawn = make(DRAWN, **{**options, "closed": False})
    cell = as_drawn.layout.cell
    found = feasibility(as_drawn)
    safe = safe_sets(as_drawn).states(1)
    breaking = reachable_starts(as_drawn).states & ~safe
    result: dict[str, Any] = {
        "holds": bool(found.holds),
        "sentence": found.sentence,
        "closed": options["closed"],
        "breaking": cell[breaking].tolist(),
        "hopeless": cell[~safe & ~as_drawn.reset].tolist(),
        "witness": None if found.witness is None else int(cell[found.witness]),
        "path": [int(cell[s]) for s in found.detail.get("path", [])],
        "states": as_drawn.n_states,
        "pits": int(as_drawn.reset.sum()),
        **{"stuck": [], "closable": False, "why_not": "", "lost_starts": 0},
    }
    if not found.holds:
        result |= _closing(as_drawn)
    if options["closed"] and result["closable"]:
        shut = feasibility(make(DRAWN, **options))
        result |= {"holds": bool(shut.holds), "sentence": shut.sentence, "breaking": [], "witness": None, "path": []}
    return result


def _closing(mdp: FiniteMDP) -> dict[str, Any]:
    """What `close` would change, or why it cannot."""
    assert mdp.layout is not None
    try:
        shut = close(mdp)
    except AssumptionViolated as error:
        words = "every start can be forced into a pit: move a start, take pits away, or let the agent stay in its cell"
        return {"closable": False, "why_not": f"{str(error).rstrip('.')}; {words}."}
    lost = int(np.count_nonzero((mdp.start > 0) & ~largest_closed_set(mdp)))
    return {"closable": True, "stuck": mdp.layout.cell[shut.end_reset & ~mdp.reset].tolist(), "lost_starts": lost}


# The price of asking for a reset, an option of every registered problem.
ASKING = {"name": HELP, "default": None, "kind": "float", "choices": None, "optional": True}


@cache
def catalogue() -> dict[str, Any]:
    """All choices, defaults and limits as plain data."""
    chosen = {
        id: {"summary": spec.summary, "options": [*_fields(spec.factory, spec.options), ASKING]}
        for id, spec in problems().items()
        if id not in (DRAWN, BY_HAND)
    }
    players = {
        role: {
            name: {"summary": summary_line(cls), "settings": _fields(cls, settings(cls))}
            for name, cls in discover(role).items()
        }
        for role in BASES
    }
    named = ("grid", "horizon", "episodes", "running", "certified", "seed")
    bounds = {name: getattr(limits, name.upper()) for name in named}
    return {
        "problems": chosen,
        "machines": list(MACHINES),
        "players": players,
        "feedback": ["auto", *FEEDBACK],
        "limits": bounds,
        "symbols": SYMBOLS,
        "templates": TEMPLATES,
        "breaking": [name for name, grid in TEMPLATES.items() if not check_grid(grid)["holds"]],
        "lanes": _lanes(),
    }


def _lanes() -> list[list[str]]:
    """The pairs of players that the page starts with: the choice of `auto` for a drawn grid, and Algorithm 1."""
    found = choose(make(DRAWN).problem(), discover("primal").own, bound_known=True)
    return [[primal, "auto"] for primal in (found.primal, ALGORITHM_1[0])]


@cache
def playable() -> dict[str, Any]:
    """The primal players that can play a problem with states that are counted, or vectors: the best of `auto` first.

    vectors: also the registered problems whose states are vectors; all others are finite.
    """
    own = (DRAWN, BY_HAND)
    continua = [id for id in problems() if id not in own and not isinstance(make(id), FiniteMDP)]
    found = {"finite": make(DRAWN).problem(), "vectors": find_world(continua[0]).problem}
    return {"continua": continua, **{kind: _players_of(problem) for kind, problem in found.items()}}


def _players_of(problem: Problem) -> list[str]:
    """The primal players that do not refuse a problem, the rank of `auto` and then the name deciding their order."""
    order: list[tuple[float, str]] = []
    for name, player in discover("primal").own.items():
        given = {"B": 1.0} if "B" in settings(player) else {}
        try:
            make_player("primal", name, given, warn=False).init(problem, 100, 0)
        except ResetFreeError:
            continue
        offer = offer_of(player, problem, bound_known=True)
        order.append((-offer.rank if offer else 0.0, name))
    return [name for _, name in sorted(order)]


def problem_options(id: str, given: Any) -> dict[str, Any]:
    """Options of a registered problem, bounded before the problem is made."""
    known = problems()
    expect(id in known or id in MACHINES, "problem", "be registered (see `resetfree list problems`)", id)
    check(given, dict[str, Any], f"options of '{id}'")
    check_names(given, [] if id in MACHINES else [*known[id].options, HELP], f"option of problem '{id}'")
    for name, value in given.items():
        check(value, Seed if name == "seed" else Option, f"option '{name}'")
    return dict(given)


def player_settings(role: Any, name: str, given: Any) -> dict[str, Any]:
    """Settings of a player; values are checked by the player itself."""
    if name == "auto":
        known = sorted({field for cls in discover(role).values() for field in settings(cls)})
    elif name in discover(role):
        known = list(settings(discover(role)[name]))
    else:
        raise InvalidInput(
            f"The {role} player must be discovered (see `resetfree list players`). Got {shown(name)} instead."
        )
    check(given, dict[str, Any], f"settings of '{name}'")
    check_names(given, known, f"setting of {role} player '{name}'")
    for key, value in given.items():
        check(value, bool | int | float | ShortText | None, f"setting '{key}'")
    return dict(given)


def _fields(owner: Any, defaults: dict[str, Any]) -> list[dict[str, Any]]:
    """Options of a problem or settings of a player: name, default, kind of value, and choices if these are few."""
    declared, result = declarations(owner), []
    for name, default in defaults.items():
        parts = plain_parts(declared.get(name, Any if default is None else type(default)))
        choices = [x for part in parts if typing.get_origin(part) is typing.Literal for x in typing.get_args(part)]
        plain = [part.__name__ for part in parts if part in (int, float, bool, str)]
        result.append(
            {
                "name": name,
                "default": None if default is dataclasses.MISSING else describe(default),
                "kind": plain[0] if plain else "choice" if choices else "other",
                "choices": choices or None,
                "optional": type(None) in parts,
            }
        )
    return result
