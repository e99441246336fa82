"""Data from before the first round as a part of a run: rows of its file, bound to its spec by a digest.

The table holds one row per episode: its number, whether it was reset, form and bytes (see `recorded`). Row 0, where
there is one, is the policy to begin with: its kind, its arrays, and the multiplier that it was learned with. Row -1 is
what the states are numbers of, where they are numbered as they appear.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core import InvalidInput, whole
from resetfree.core.state import pack, unpack
from resetfree.game.capabilities import Follows, LearnsFromEpisodes, StartsFromPolicy
from resetfree.players import discover
from resetfree.problems import Episode, Problem
from resetfree.runs.file.recorded import EpisodeBuffer, RecordedRound, check_episode, unpacked
from resetfree.runs.file.runfile import BROKEN, damaged

Row: TypeAlias = tuple[int, int, str, bytes]
POLICY, NUMBERING = "policy", "numbering"  # the forms of rows 0 and -1


@dataclass(frozen=True, eq=False)
class GivenData:
    """Episodes in the units of the problem, and the policy to begin with."""

    episodes: Sequence[Episode] = field(repr=False)
    sources: Sequence[str]  # names of files, or what kind of data
    units: tuple[float, float] | None = None  # that rewards were learned to be in; None if they were known
    policy: Mapping[str, NDArray[Any]] | None = field(default=None, repr=False)  # its kind, its arrays, and lam
    numbering: Mapping[str, NDArray[Any]] | None = field(default=None, repr=False)  # of states numbered as they appear
    shown: int = 0  # episodes, the first ones, that demonstrate behaviour to improve on

    def rows(self) -> list[Row]:
        """All of it as rows of a run file."""
        buffer = EpisodeBuffer()
        for one in self.episodes:
            buffer.add(one)
        numbered = enumerate(zip(self.episodes, *buffer.take(), strict=True), 1)
        parts = ((-1, NUMBERING, self.numbering), (0, POLICY, self.policy))
        first: list[Row] = [(i, 0, form, pack(dict(arrays))) for i, form, arrays in parts if arrays is not None]
        return [*first, *((i, int(one.reset), form, bytes(data)) for i, (one, form, data) in numbered)]

    def about(self, rows: Sequence[Row]) -> dict[str, Any]:
        """What the spec of a run says of its data."""
        return {
            "from": list(self.sources),
            "episodes": len(self.episodes),
            "steps": sum(len(one.actions) for one in self.episodes),
            "resets": sum(one.reset for one in self.episodes),
            "units": None if self.units is None else list(self.units),
            "policy": self.policy is not None,
            "digest": digest_of(rows),
            **({"demonstrations": self.shown} if self.shown else {}),
        }


def digest_of(rows: Iterable[Row]) -> str:
    """The digest of rows of data."""
    digest = hashlib.sha256()
    for i, reset, form, data in rows:
        digest.update(f"{i},{reset},{form},{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def write_data(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Fill the table of data, inside the caller's transaction."""
    connection.executemany("INSERT INTO data (i, reset, form, data) VALUES (?, ?, ?, ?)", rows)


def read_data(connection: sqlite3.Connection, spec: Mapping[str, Any], path: Path | None) -> GivenData | None:
    """The data of a run file, None if it has none; raises RunError if they are not those that its spec names."""
    about = spec.get("data")
    if about is None:
        return None
    try:
        rows = connection.execute("SELECT i, reset, form, data FROM data ORDER BY i").fetchall()
        if any(
            type(form) is not str or type(data) is not bytes or reset not in (0, 1) for _, reset, form, data in rows
        ):
            raise ValueError("its data cannot be read")
        if digest_of(rows) != about["digest"]:
            raise ValueError("its data do not fit their digest")
        first = {form: unpack(data) for i, _, form, data in rows if i <= 0}
        episodes = [_episode(unpacked(form, data), bool(reset)) for i, reset, form, data in rows if i > 0]
        units = None if about["units"] is None else tuple(float(end) for end in about["units"])
        if units is not None and not (len(units) == 2 and -np.inf < units[0] < units[1] < np.inf):
            raise ValueError("its rewards are scaled from what is no range")
        shown = whole(about.get("demonstrations", 0), "'demonstrations' of a run's data", 0, len(episodes))
        policy, numbering = first.get(POLICY), first.get(NUMBERING)
        return GivenData(episodes, about["from"], units, policy=policy, numbering=numbering, shown=int(shown))
    except (*BROKEN, InvalidInput, sqlite3.Error) as error:
        raise damaged(path, error) from error


def _episode(arrays: Sequence[NDArray[Any]], reset: bool) -> Episode:
    states, actions, rewards = arrays
    return Episode(states, actions, rewards, reset, None)


def check_fit(episodes: Iterable[Episode], problem: Problem) -> None:
    """Raise InvalidInput for episodes that the problem cannot have: compiled code uses their entries as indices."""
    for i, one in enumerate(episodes, 1):
        first = one.states[0] if len(one.states) else None
        start = int(first) if first is not None and one.states.dtype.kind in "iu" and one.states.ndim == 1 else first
        try:
            check_episode(problem, RecordedRound(i, start, one))
        except InvalidInput as error:
            raise InvalidInput(
                f"The data do not fit '{problem.name}': {error} (round: episode of the data)."
            ) from error


def taught(player: Any, state: Any, problem: Problem, given: GivenData | None) -> Any:
    """The state of a fresh player after the data; raises InvalidInput for a player that cannot learn from them."""
    if given is None:
        return state
    if not isinstance(player, LearnsFromEpisodes):
        able = [name for name, one in discover("primal").items() if isinstance(one, LearnsFromEpisodes)]
        raise InvalidInput(
            f"The player '{player.name}' cannot learn from episodes that it did not choose. "
            f"Players that can: {', '.join(able)}."
        )
    check_fit(given.episodes, problem)
    for i, one in enumerate(given.episodes):
        learn = player.follow if i < given.shown and isinstance(player, Follows) else player.absorb
        state = learn(state, one)
    if given.policy is not None and isinstance(player, StartsFromPolicy):
        state = player.adopt(state, given.policy)
    return state
