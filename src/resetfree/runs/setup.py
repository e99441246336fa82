"""From a request to a game: two players with all their settings on a problem, and the spec."""

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import (
    InvalidInput,
    NotCertifiable,
    Notice,
    ResetFreeError,
    UnknownName,
    real,
    shown,
    state,
    whole,
    words,
)
from resetfree.game.capabilities import choose
from resetfree.game.contract import MOST_EPISODES, DualPlayer, PrimalPlayer, Round, TakesTurns, check_actions
from resetfree.game.delayed import Delay, DelayedGame, with_delay
from resetfree.game.fleet import Crew, Fleet, FleetGame, HereCrew
from resetfree.game.loop import DIRECT, FEEDBACK, Direct, Game, begin, play
from resetfree.players import Role, discover, fitting, make_player, paired, player_class
from resetfree.players import settings as defaults_of
from resetfree.players.controlled import EXPLORE, named, with_controller
from resetfree.problems import PROBLEMS, FiniteMDP, Note, Problem, State, World
from resetfree.problems.blueprint import blueprint, describe, plain_model
from resetfree.problems.continuum import continuum_behind
from resetfree.runs.file.runfile import Checkpoint, encode_start
from resetfree.runs.request import GROUPS, Settings, Who
from resetfree.theory.assumptions import constant_multipliers, dual_class

SAVED = "timing"  # the name of the plans among the arrays of a checkpoint


@dataclass(frozen=True)
class Setup:
    """Everything a run is made of, its spec, and the game before its first round."""

    world: World
    primal: PrimalPlayer[Any]
    dual: DualPlayer[Any]
    spec: dict[str, Any]
    game: Game

    @property
    def start_type(self) -> str:
        """The SQL type of the starts of this problem, see `runfile.START_TYPES`."""
        if self.world.problem.n_states is not None:
            return "INTEGER"
        if isinstance(self.game.s1, float | np.floating):
            return "REAL"
        if self.game.s1 is not None:
            encode_start(self.game.s1)  # raises if it cannot be kept
        return "TEXT"

    def checkpoint(self, seconds: float) -> Checkpoint:
        """The state of the game between two rounds; raises InvalidInput if it cannot be saved.

        seconds: how long the run took up to here.
        """
        game, arrays = self.game, arrays_of(self.game)
        state.check_arrays(arrays)
        return Checkpoint(game.k, seconds, dict(game.rng.bit_generator.state), game.s1, arrays)


def arrays_of(game: Game) -> dict[str, NDArray[Any]]:
    """The arrays of a checkpoint: both players, and the plans that later rounds may rest on, if there are any."""
    return state.dump(game.primal, "primal.") | state.dump(game.dual, "dual.") | plans_of(game)


def plans_of(game: Game) -> dict[str, NDArray[Any]]:
    """The plans that later rounds may rest on, as an array of a checkpoint; none in a game without delay."""
    return {SAVED: np.frombuffer(saved, dtype=np.uint8)} if (saved := game.saved()) else {}


def prepare(world: World, who: Who, *, episodes: int, seed: int, before: Mapping[str, Any] | None = None) -> Setup:
    """Choose and make the players, and write the spec: the one place where `auto` is resolved.

    before: the spec of an earlier run of the problem, if any: a bound B by the oracle and the player that `auto` chose
      are taken from it.
    """
    episodes = int(whole(episodes, "'episodes' of a run", 1, MOST_EPISODES))
    seed = int(whole(seed, "'seed' of a run", 0))
    chosen = _chosen(world, who, before)
    players: dict[str, Any] = {
        role: make_player(role, player, chosen.settings.get(role, {})) for role, player in chosen.players.items()
    }
    earlier = before["B"] if before is not None and before["B_source"] == "oracle" else None
    bound, source = _bound(world, players, who.B, earlier)
    made: dict[str, Any] = {
        role: dataclasses.replace(player, B=bound) if _wants_bound(player) else player
        for role, player in players.items()
    }
    check_actions(made["primal"], world.problem, _players_for(world.problem))
    playing, controller = _controlled(made, who, before)
    try:
        game = begin(world.problem, playing["primal"], playing["dual"], episodes=episodes, seed=seed)
        statements = {role: playing[role].statement(world.problem, episodes) for role in playing}
    except ResetFreeError:
        if source == "unknown":
            _check_without_bound(world, players, episodes, seed)  # raises if only B is missing
        raise
    except OverflowError as error:
        given = {name: value for role in made for name, value in _settings(made[role]).items()}
        raise InvalidInput(
            f"The settings of the players must be small enough to calculate with. Got {shown(given)} instead."
        ) from error
    if before is None and statements["primal"].covered and not world.problem.reward_range_known:
        _note_unknown_range(world, made["primal"].name)
    spec = {
        "problem": world.name,
        "problem_options": describe(world.options),
        **{role: {"name": made[role].name, "settings": _settings(made[role])} for role in made},
        "feedback": chosen.feedback,
        "episodes": episodes,
        "seed": seed,
        "B": bound,
        "B_source": None if source == "unknown" else source,
        "statements": {role: describe(dataclasses.asdict(said)) for role, said in statements.items()},
        **controller,
        **_about(world, game, chosen.why),
    }
    return Setup(world, playing["primal"], playing["dual"], spec, game)


def _controlled(
    made: dict[str, Any], who: Who, before: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Who plays under the controller of a request, and what the spec says of it; both as they are without one."""
    if who.controller is None:
        return made, {}
    function, text = named(who.controller)
    earlier = EXPLORE if before is None else before.get("controller", {}).get("explore", EXPLORE)
    explore = earlier if who.explore is None else int(who.explore)
    primal = with_controller(made["primal"], function, explore)
    return {**made, "primal": primal}, {"controller": {"function": text, "explore": explore}}


def _about(world: World, game: Game, why: str | None) -> dict[str, Any]:
    """What a spec says of the problem, and why its players were chosen (the keys of a spec keep their order)."""
    problem = world.problem
    found = {
        "fingerprint": world.fingerprint,
        "horizon": problem.horizon,
        "n_states": problem.n_states,
        "n_actions": problem.actions.n,
        "chosen": why,
        "persistent": problem.persistent,
        "after_goal": problem.after_goal,
        **({"sensors": names} if (names := _sensors(problem)) else {}),
        "units": None if problem.units is None else [float(end) for end in problem.units],
        "blueprint": blueprint(problem, game.s1),
    }
    named = ":" in world.name or PROBLEMS.knows(world.name)
    if not named and (model := plain_model(problem)) is not None:
        found["model"] = model  # a user's own table, which no name makes again
    return found


def _sensors(problem: Problem) -> list[str]:
    """The names of a state's numbers, where the problem has its own: without any they are observation[0] and so on."""
    names = [str(name) for name in getattr(problem, "names", None) or ()]
    return [] if names == [f"observation[{i}]" for i in range(len(names))] else names


def _note_unknown_range(world: World, player: str) -> None:
    """Note that a theorem for rewards in [0, 1] is claimed for a problem whose rewards have no known range."""
    text = (
        f"The theorem for the player '{player}' is for rewards in [0, 1], and no reward_range is "
        f"stated for '{world.name}': state it, or what is claimed is tuned from the first reward outside on "
        "(docs/own_environment.md)."
    )
    world.problem.noted.append(Note(0, text))
    warnings.warn(text, Notice, stacklevel=2)


def as_timed(setup: Setup, timing: Mapping[str, Any] | None) -> Setup:
    """The setup of a timed run, whose plans may be older than the round before; itself if `timing` is None.

    timing: in its spec, {"delay": D} in rounds, or {"rate": HZ, ...}, or {"machines": n, ...} of a fleet.
    """
    if timing is None:
        return setup
    if "machines" in timing:
        sizes = timing["machines"], timing["operators"]
        fleet = FleetGame.of(setup.game, setup.world.problem, setup.spec["seed"], *sizes)
        return dataclasses.replace(setup, spec={**setup.spec, "timing": dict(timing)}, game=fleet)
    game = with_delay(setup.game, setup.world.problem, setup.spec["seed"])
    return dataclasses.replace(setup, spec={**setup.spec, "timing": dict(timing)}, game=game)


def fleet_of(setup: Setup, crew: Crew | None = None, episodes: int | None = None) -> Fleet:
    """The schedule of a fleet.  crew: default, all machines in this process, on problems that keep no state."""
    timing, problem = setup.spec["timing"], setup.world.problem
    return Fleet(
        problem,
        HereCrew([problem]) if crew is None else crew,
        episodes=setup.spec["episodes"] if episodes is None else episodes,
        reset_time=timing["reset_time"],
        risk=timing["risk"],
    )


def rounds_of(
    setup: Setup,
    *,
    problem: Problem | None = None,
    episodes: int | None = None,
    oracle: Callable[[Any, State], tuple[float, float] | None] | None = None,
    schedule: Direct | None = None,
) -> Iterator[Round]:
    """The rounds of a run that are still to be played.

    problem: where they are played (default: its own).  episodes: up to which round (default: all).
    schedule: default, its delay if it has one, else direct.
    """
    if schedule is None and isinstance(setup.game, FleetGame):
        schedule = fleet_of(setup, episodes=episodes)
    if schedule is None:
        late = isinstance(setup.game, DelayedGame)
        schedule = Delay(setup.spec["timing"]["delay"]) if late else DIRECT
    return play(
        setup.world.problem if problem is None else problem,
        setup.primal,
        setup.dual,
        setup.game,
        episodes=setup.spec["episodes"] if episodes is None else episodes,
        feedback=setup.spec["feedback"],
        oracle=oracle,
        schedule=schedule,
    )


class _Chosen(NamedTuple):
    """Who plays: `auto` is replaced."""

    players: dict[Role, Any]
    feedback: str
    settings: Settings
    why: str | None  # of a choice by `auto`


def _chosen(world: World, who: Who, before: Mapping[str, Any] | None) -> _Chosen:
    """Replace "auto" by players and feedback, with the reason; a named primal player is kept, with its partner."""
    words(who.feedback, "'feedback' of a run")
    primal, dual, settings = _named("primal", who.primal), _named("dual", who.dual), who.settings
    if isinstance(primal, str) and primal == "auto":
        kept = before["primal"]["name"] if before is not None and before["chosen"] is not None else None
        known = who.B is not None or world.mdp is not None
        found = choose(world.problem, discover("primal").own, bound_known=known, before=kept)
        primal, why, own, signal, partner = found.primal, found.why, found.settings, found.feedback, found.dual
        if before is not None and kept == primal:  # with the settings that it was chosen with then
            then = before["primal"]["settings"]
            own = {**own, "primal": {name: then[name] for name in own.get("primal", {}) if name in then}}
        settings = _owned(world, who, found.primal, partner)
    else:
        primal = fitting(primal, world.problem)
        other, mine = paired(primal, world.problem)
        why, own, signal, partner = None, {"primal": mine, "dual": other.settings}, other.feedback, other.dual
    roles = ["primal"]
    if isinstance(dual, str) and dual == "auto":
        dual, roles = partner, ["primal", "dual"]
    merged = {**settings, **{role: {**own.get(role, {}), **settings.get(role, {})} for role in roles}}
    feedback = signal if who.feedback == "auto" else who.feedback
    if feedback not in FEEDBACK:
        raise UnknownName("feedback", str(feedback), FEEDBACK)
    if feedback == "exact" and world.mdp is None and continuum_behind(world.problem) is None:
        raise NotCertifiable(f"The feedback 'exact' needs an oracle, which '{world.name}' does not have.")
    return _Chosen({"primal": primal, "dual": dual}, feedback, merged, why)


def _owned(world: World, who: Who, primal: str, partner: str) -> Settings:
    """The settings of players that `auto` chose, with those whose owner was not known before."""
    pairs, options = who.unowned
    if not pairs:
        return who.settings
    given = split_settings(pairs, options, primal, partner if who.dual == "auto" else who.dual)
    for key in given["problem"].keys() - world.options.keys():
        ways = " or ".join(f"{group}.{key}" for group in GROUPS)
        raise InvalidInput(f"The setting '{key}' must name its owner: {ways}. Got '{key}' instead.")
    return {**who.settings, **{role: {**who.settings.get(role, {}), **given[role]} for role in ("primal", "dual")}}


def split_settings(
    given: Mapping[str, Any], options: Sequence[str] | None, primal: Any, dual: Any
) -> dict[str, dict[str, Any]]:
    """Settings by their owner: the problem, the primal or the dual player.

    given: by name, or by owner.name.  options: names of the problem's options, None if it takes any.
    """
    players: dict[str, Any] = {"primal": player_class("primal", primal), "dual": player_class("dual", dual)}
    names: dict[str, Sequence[str] | None] = {
        "problem": options,
        **{role: list(defaults_of(cls)) for role, cls in players.items()},
    }
    form = players["primal"].counterpart
    if options is None and form:  # the problem's actions will say which of the two forms plays
        names["primal"] = [*defaults_of(players["primal"]), *defaults_of(player_class("primal", form))]
    result: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    for key, value in given.items():
        group, dot, name = key.partition(".")
        if dot and group in GROUPS:
            result[group][name] = value
            continue
        fits = [group for group in GROUPS if key in (names[group] or ())]
        fits = fits or [role for role, cls in players.items() if key in cls.former_settings]
        if not fits and names["problem"] is None:
            fits = ["problem"]
        if not fits:
            raise UnknownName("setting", key, sorted({name for group in GROUPS for name in names[group] or ()}))
        if len(fits) > 1:
            ways = " or ".join(f"{group}.{key}" for group in fits)
            raise InvalidInput(f"The setting '{key}' must name its owner: {ways}. Got '{key}' instead.")
        result[fits[0]][key] = value
    return result


def _players_for(problem: Problem) -> list[str]:
    """What to name as the primal player of a problem whose actions are a box."""
    if problem.actions.n is not None:
        return []
    known = discover("primal").own.items()
    able = [name for name, one in known if problem.guidance is not None or not issubclass(one, TakesTurns)]
    return ["auto", *(name for name in able if isinstance(problem.actions, discover("primal")[name].action_spaces))]


def _named(role: Role, player: Any) -> Any:
    """The class that module:Class names: unlike a file, the arguments of a run are the user's, and may name code."""
    return player_class(role, player) if isinstance(player, str) and ":" in player else player


def _settings(player: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(player):
        return {}
    return {f.name: describe(getattr(player, f.name)) for f in dataclasses.fields(player)}


def _wants_bound(player: Any) -> bool:
    return dataclasses.is_dataclass(player) and getattr(player, "B", 0.0) is None


def _bound(
    world: World, players: Mapping[str, Any], B: float | None, earlier: float | None
) -> tuple[float | None, str | None]:
    """The players' bound on the multipliers, and its source; `earlier`: the oracle's bound for an earlier run."""
    having = {role: player.B for role, player in players.items() if hasattr(player, "B")}
    set_already = [value for role in ("dual", "primal") if (value := having.get(role)) is not None]
    wanting = [player.name for player in players.values() if _wants_bound(player)]
    if B is not None:
        B = real(B, "bound B")
        if not wanting:
            raise InvalidInput(
                f"No player here takes the bound B (or it is set already). Got B = {B} for '{players['primal'].name}' "
                f"and '{players['dual'].name}' instead."
            )
        return float(B), "given"
    if not wanting:
        return (float(set_already[0]), "given") if set_already else (None, None)
    if set_already:  # one player has it: the other gets the same
        return float(set_already[0]), "given"
    if earlier is not None:
        return earlier, "oracle"
    found = least_bound(world.mdp, world.problem)
    return (None, "unknown") if found is None else (found, "oracle")


def least_bound(mdp: FiniteMDP | None, problem: Problem) -> float | None:
    """The least B of the oracle, of a finite model or of one on a continuum; None without one, or if it takes long."""
    if mdp is not None:
        found = dual_class(mdp).detail.get("B")
        return None if found is None else float(found)
    behind = continuum_behind(problem)
    return None if behind is None else float(constant_multipliers(behind).detail["B"])


def _check_without_bound(world: World, players: Mapping[str, Any], episodes: int, seed: int) -> None:
    """Raise the error of the first player that cannot be made without B; some can (a penalty that is set)."""
    for player in players.values():
        complaint = _complaint(player, world.problem, episodes, seed)
        if complaint is None:
            continue
        if _wants_bound(player) and not _complaint(dataclasses.replace(player, B=1.0), world.problem, episodes, seed):
            why = "has no oracle to compute one" if world.mdp is None else "has none that the oracle can compute"
            raise InvalidInput(
                f"The player '{player.name}' needs a bound B on the multipliers, and '{world.name}' {why}: "
                "give it as B (--bound on the command line)."
            ) from complaint
        raise complaint


def _complaint(player: Any, problem: Problem, episodes: int, seed: int) -> ResetFreeError | None:
    try:
        player.init(problem, episodes, seed)
        player.statement(problem, episodes)
    except ResetFreeError as error:
        return error
    return None
