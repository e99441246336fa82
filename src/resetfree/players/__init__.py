"""Players by family, found by looking into the folders and at entry points: adding one is one file.

tabular, linear, elimination, model_based, neural, dual    the families; the docstring of each says what to read first
requirements                                               what players require of a problem, and which suit them
method                                                     who plays with whom, and under which name in a comparison
batched                                                    what a program over many seeds shares (JAX)
testing                                                    the contract battery
"""

import dataclasses
import re
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Literal, TypeAlias

from resetfree.core.arguments import shown
from resetfree.core.discovery import Registry, Unfit, checked_class, classes_in
from resetfree.core.errors import InvalidInput, Notice
from resetfree.core.settings import check_names
from resetfree.game.contract import DualPlayer, PrimalPlayer

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
