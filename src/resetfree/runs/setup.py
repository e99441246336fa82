"""From the arguments of `learn` to a game: the problem, two players with all their settings, and the spec."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from resetfree.core.arguments import real, shown, whole, words
from resetfree.core.errors import InvalidInput, NotCertifiable, Notice, ResetFreeError, UnknownName
from resetfree.core.settings import expect
from resetfree.game.auto import choose
from resetfree.game.contract import MOST_EPISODES, DualPlayer, PrimalPlayer, check_actions
from resetfree.game.loop import FEEDBACK, Game, begin
from resetfree.players import Role, discover, make_player, player_class
from resetfree.players.pairing import paired
from resetfree.problems.blueprint import blueprint
from resetfree.problems.continuum import continuum_behind
from resetfree.problems.contract import Note, Problem
from resetfree.problems.fingerprint import describe
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.model_data import plain_model
from resetfree.problems.registry import PROBLEMS
from resetfree.problems.world import World
from resetfree.theory.assumptions import dual_class
from resetfree.theory.assumptions.on_continuum import constant_multipliers

GROUPS = ("problem", "primal", "dual")
Settings: TypeAlias = Mapping[str, Mapping[str, Any]]  # by group, by name


@dataclass(frozen=True)
class Setup:
    """Everything a run is made of, its spec, and the game before its first round."""

    world: World
    primal: PrimalPlayer[Any]
    dual: DualPlayer[Any]
    spec: dict[str, Any]
    game: Game


def check_settings(settings: Any) -> Settings:
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


def prepare(
    world: World,
    primal: str | PrimalPlayer[Any],
    dual: str | DualPlayer[Any],
    *,
    episodes: int,
    seed: int,
    feedback: str,
    B: float | None = None,
    settings: Settings | None = None,
    before: Mapping[str, Any] | None = None,
) -> Setup:
    """Check the arguments, make the players, and write the spec.

    before: the spec of an earlier run of the problem, if any: a bound B by the oracle and the player that `auto` chose
      are taken from it.
    """
    whole(episodes, "'episodes' of a run", 1, MOST_EPISODES)
    whole(seed, "'seed' of a run", 0)
    words(feedback, "'feedback' of a run")
    primal, dual = _named("primal", primal), _named("dual", dual)
    known = B is not None or world.mdp is not None
    primal, dual, feedback, settings, why = _chosen(
        world, (primal, dual), feedback, settings or {}, bound_known=known, before=before
    )
    if feedback not in FEEDBACK:
        raise UnknownName("feedback", str(feedback), FEEDBACK)
    if feedback == "exact" and world.mdp is None and continuum_behind(world.problem) is None:
        raise NotCertifiable(f"The feedback 'exact' needs an oracle, which '{world.name}' does not have.")
    players = {"primal": player_from("primal", primal, settings), "dual": player_from("dual", dual, settings)}
    check_actions(players["primal"], world.problem, _players_for(world.problem))
    earlier = before["B"] if before is not None and before["B_source"] == "oracle" else None
    bound, source = _bound(world, players, B, earlier)
    made: dict[str, Any] = {
        role: dataclasses.replace(player, B=bound) if _wants_bound(player) else player
        for role, player in players.items()
    }
    try:
        game = begin(world.problem, made["primal"], made["dual"], episodes=int(episodes), seed=int(seed))
        statements = {role: made[role].statement(world.problem, int(episodes)) for role in made}
    except ResetFreeError:
        if source == "unknown":
            _check_without_bound(world, players, int(episodes), int(seed))  # raises if only B is missing
        raise
    except OverflowError as error:
        given = {name: value for role in made for name, value in _settings(made[role]).items()}
        raise InvalidInput(
            f"The settings of the players must be small enough to calculate with. Got {shown(given)} instead."
        ) from error
    if before is None and statements["primal"].covered and not world.problem.reward_range_known:
        text = (
            f"The theorem for the player '{made['primal'].name}' is for rewards in [0, 1], and no reward_range is "
            f"stated for '{world.name}': state it, or what is claimed is tuned from the first reward outside on "
            "(docs/reward_scale.md)."
        )
        world.problem.noted.append(Note(0, text))
        warnings.warn(text, Notice, stacklevel=2)
    spec = {
        "problem": world.name,
        "problem_options": describe(world.options),
        **{role: {"name": made[role].name, "settings": _settings(made[role])} for role in made},
        "feedback": feedback,
        "episodes": int(episodes),
        "seed": int(seed),
        "B": bound,
        "B_source": None if source == "unknown" else source,
        "statements": {role: describe(dataclasses.asdict(said)) for role, said in statements.items()},
        "fingerprint": world.fingerprint,
        "horizon": world.problem.horizon,
        "n_states": world.problem.n_states,
        "n_actions": world.problem.actions.n,
        "chosen": why,
        "persistent": world.problem.persistent,
        "after_goal": world.problem.after_goal,
        "units": None if world.problem.units is None else [float(end) for end in world.problem.units],
        "blueprint": blueprint(world.problem, game.s1),
    }
    named = ":" in world.name or PROBLEMS.knows(world.name)
    if not named and (model := plain_model(world.problem)) is not None:
        spec["model"] = model  # a user's own table, which no name makes again
    return Setup(world, made["primal"], made["dual"], spec, game)


def _chosen(
    world: World,
    players: tuple[Any, Any],
    feedback: str,
    settings: Settings,
    *,
    bound_known: bool,
    before: Mapping[str, Any] | None,
) -> tuple[Any, Any, str, Settings, str | None]:
    """Replace "auto" by players and feedback, with the reason; a named primal player is kept, with its partner."""
    primal, dual = players
    if isinstance(primal, str) and primal == "auto":
        kept = before["primal"]["name"] if before is not None and before["chosen"] is not None else None
        found = choose(world.problem, discover("primal").own, bound_known=bound_known, before=kept)
        primal, why, own, signal, partner = found.primal, found.why, found.settings, found.feedback, found.dual
    else:
        other, mine = paired(primal, world.problem)
        why, own, signal, partner = None, {"primal": mine, "dual": other.settings}, other.feedback, other.dual
    roles = ["primal"]
    if isinstance(dual, str) and dual == "auto":
        dual, roles = partner, ["primal", "dual"]
    merged = {**settings, **{role: {**own.get(role, {}), **settings.get(role, {})} for role in roles}}
    return primal, dual, signal if feedback == "auto" else feedback, merged, why


def _players_for(problem: Problem) -> list[str]:
    """What to name as the primal player of a problem whose actions are a box."""
    if problem.actions.n is not None:
        return []
    known = discover("primal").own.items()
    return ["auto", *(name for name, one in known if isinstance(problem.actions, one.action_spaces))]


def _named(role: Role, player: Any) -> Any:
    """The class that module:Class names: unlike a file, the arguments of a run are the user's, and may name code."""
    return player_class(role, player) if isinstance(player, str) and ":" in player else player


def player_from(role: Role, player: Any, settings: Settings) -> Any:
    """A player with its settings.  player: a registered name, a class or the player itself."""
    return make_player(role, player, settings.get(role, {}))


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
    behind = continuum_behind(problem)
    if mdp is not None:
        found = dual_class(mdp).detail.get("B")
        return None if found is None else float(found)
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
