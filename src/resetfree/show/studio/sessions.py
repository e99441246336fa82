"""Games that go on here: one or two lanes on the same problem, with the same random numbers, each in a run file."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from resetfree.core.arguments import whole
from resetfree.core.errors import InvalidInput, RunError
from resetfree.core.settings import check_names, record
from resetfree.players import discover
from resetfree.players import settings as defaults_of
from resetfree.problems.registry import make
from resetfree.runs.ledger import read_spec_of
from resetfree.show.studio import drawing, limits
from resetfree.show.studio.catalogue import player_settings, problem_options
from resetfree.show.studio.files import SIDES, Folder
from resetfree.show.studio.lanes import Gate, Live, Wanted
from resetfree.show.studio.page_requests import Asked, Pair

FIRST_ROUND = 120.0  # seconds that are waited for it: kernels may have to be compiled


class Session:
    """Lanes behind one gate; also what a page watches."""

    def __init__(self, name: str, wanted: list[Wanted], folder: Folder, pace: float, paused: bool) -> None:
        self.name, self.gate = name, Gate(pace, paused=True)
        self._paused = paused
        self.version = 0
        paths = [folder.free(f"{name}-{s}") for s in SIDES] if len(wanted) > 1 else [folder.free(name)]
        self.lanes = [Live(one, path, self.gate, self._changed) for one, path in zip(wanted, paths, strict=True)]
        self.gate.lanes = self.lanes

    def begin(self) -> None:
        """Start every lane; if one cannot play its first round, none goes on, and the sentence says why."""
        for lane in self.lanes:
            lane.start()
        for lane in self.lanes:
            lane.begun.wait(FIRST_ROUND)
        failed = next((lane for lane in self.lanes if lane.state == "failed"), None)
        if failed is None:
            self.gate.set(paused=self._paused)
            return
        self.stop()
        for lane in self.lanes:
            if lane.made and not lane.active:  # what somebody else put there meanwhile is not ours to remove
                lane.path.unlink(missing_ok=True)
        raise InvalidInput(failed.error)

    @property
    def active(self) -> bool:
        """Whether some lane still goes on."""
        return any(lane.active for lane in self.lanes)

    def end(self) -> None:
        """Tell every lane to end after the episode that is being played, saved."""
        self.gate.set(stopping=True)
        for lane in self.lanes:
            lane.desk.close()

    def stop(self) -> None:
        """End every lane, and wait until it is saved."""
        self.end()
        for lane in self.lanes:
            if lane.thread.is_alive():
                lane.thread.join(30.0)

    def scene(self) -> dict[str, Any]:
        """What does not change."""
        lanes = [{} if lane.scene is None else lane.scene.to_dict() for lane in self.lanes]
        return {"name": self.name, "live": True, "lanes": lanes, "files": [lane.path.stem for lane in self.lanes]}

    def frame(self, curves: bool) -> dict[str, Any]:
        """What is shown now."""
        gate, version = self.gate, self.version  # before what it stands for: what changes meanwhile has another one
        lanes = [lane.frame(curves) for lane in self.lanes]
        return {"version": version, "live": True, "paused": gate.paused, "pace": gate.pace, "lanes": lanes}

    def poll(self) -> None:
        """Nothing to look at: the lanes tell."""

    def answer(self, lane: int, data: dict[str, Any]) -> None:
        """Answer a lane's reset request."""
        self.lanes[lane].desk.reply(data)

    def _changed(self) -> None:
        self.version += 1


class Sessions:
    """All of them, by name."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._all: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._ending = False

    def get(self, name: str) -> Session | None:
        """A session that is in memory."""
        with self._lock:
            return self._all.get(name)

    def active(self) -> dict[str, bool]:
        """The names of those in memory, and whether they go on."""
        with self._lock:
            return {name: session.active for name, session in self._all.items()}

    def start(self, asked: Any) -> Session:
        """Begin a game that the page asked for."""
        wanted, pace, paused = wanted_of(asked)
        first = wanted[0]
        players = " vs ".join(one.primal for one in wanted)
        with self.folder.reserved(f"{first.problem}-{players}") as name:
            return self._begin(name, wanted, pace, paused)

    def resume(self, name: str, pace: float, paused: bool) -> Session:
        """Go on with a game whose files are in the folder."""
        return self._begin(name, [resumed(read_spec_of(path)) for path in self.folder.lanes(name)], pace, paused)

    def end(self) -> list[Session]:
        """Let everything end after the episode that is being played, and nothing begin; returns what goes on yet."""
        with self._lock:
            self._ending = True
            sessions = [one for one in self._all.values() if one.active]
        for session in sessions:
            session.end()
        return sessions

    def stop_all(self) -> None:
        """End and save everything."""
        for session in self.end():
            session.stop()

    def _begin(self, name: str, wanted: list[Wanted], pace: float, paused: bool) -> Session:
        session = Session(name, wanted, self.folder, pace, paused)
        with self._lock:
            before = self._all.get(name)
            if self._ending:
                raise RunError("The studio is ending: nothing begins any more.")
            if before is not None and before.active:
                raise RunError(f"The run '{name}' goes on already.")
            if sum(one.active for one in self._all.values()) >= limits.RUNNING:
                raise RunError(f"At most {limits.RUNNING} games go on at a time. Stop one first.")
            for old in [n for n, one in self._all.items() if not one.active][
                : max(len(self._all) - limits.KEPT + 1, 0)
            ]:
                del self._all[old]
            self._all[name] = session
        try:
            session.begin()
        except BaseException:
            with self._lock:
                if self._all.get(name) is session:
                    del self._all[name]
                    if before is not None:
                        self._all[name] = before
            raise
        return session


def wanted_of(asked: Any) -> tuple[list[Wanted], float, bool]:
    """What the page asked for: one or two lanes, how fast, and whether to begin with a pause."""
    told = record(Asked, asked, "request")
    problem, options = _problem(told)
    common: dict[str, Any] = {
        "problem": problem, "episodes": told.episodes, "seed": told.seed, "feedback": told.feedback,
        "B": None if told.bound is None else float(told.bound),
    }  # fmt: skip
    wanted = []
    for lane in told.lanes:
        pair = record(Pair, lane, "lane")
        names: dict[str, Any] = {"primal": pair.primal, "dual": pair.dual}
        check_names(pair.settings, names, "player with settings")
        chosen = {role: player_settings(role, names[role], pair.settings.get(role, {})) for role in names}
        wanted.append(Wanted(**common, **names, settings={"problem": options, **chosen}))
    return wanted, pace_of(told.pace), told.paused


def pace_of(pace: float) -> float:
    """Episodes per second; 0 for as many as there can be."""
    return float(pace) if pace == 0 else max(float(pace), 0.05)


def _problem(told: Asked) -> tuple[str, dict[str, Any]]:
    if told.grid is not None:
        options = drawing.options_of(told.grid)
        name = drawing.BY_HAND if told.by_hand else drawing.DRAWN
    else:
        if told.by_hand:
            raise InvalidInput("Resets by hand are for a grid that is drawn. Got a registered problem instead.")
        name = told.problem
        options = problem_options(name, told.options)
    made = make(name, **options)
    states = made.n_states or 1
    if states > limits.STATES or states * made.n_actions * made.horizon > limits.TABLE:
        raise InvalidInput(
            f"A problem must have at most {limits.STATES:,} states here, and {limits.TABLE:,} entries in a table. "
            f"Got {states:,} states instead: use the command line for it."
        )
    return name, options


def resumed(spec: Mapping[str, Any]) -> Wanted:
    """What a run file was asked for, so that the same is asked again; a file is data that somebody may have made up."""
    options = problem_options(spec["problem"], spec["problem_options"])
    given = spec["B_source"] == "given"
    settings: dict[str, dict[str, Any]] = {"problem": options}
    for role in ("primal", "dual"):
        name, stored = spec[role]["name"], spec[role]["settings"]
        known = discover(role).get(name)
        defaults = {} if known is None else defaults_of(known)
        kept = {
            key: value for key, value in stored.items()
            if (given or key != "B") and isinstance(value, bool | int | float | str) and value != defaults.get(key)
        }  # fmt: skip
        settings[role] = player_settings(role, name, kept)
    if len(json.dumps(settings)) > limits.BODY:
        raise RunError("The run file asks for more than is taken here.")
    return Wanted(
        spec["problem"], spec["primal"]["name"], spec["dual"]["name"],
        whole(spec["episodes"], "number of episodes", 1, limits.EPISODES), spec["seed"], spec["feedback"], None,
        settings, resume=True,
    )  # fmt: skip
