"""Runs that are read from their files: finished, interrupted, or being written by another process.

Only new rounds are read. A file is untrusted data: anything that is no valid run file is refused with a sentence. A
reset that such a run requests is answered as described in docs/hardware.md: an address file beside the run file names a
loopback address and a token. No other address is ever contacted, whatever the file contains.
"""

import base64
import http.client
import json
import math
import os
import re
import stat
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from resetfree.core.errors import ResetFreeError, RunError
from resetfree.core.files import is_held
from resetfree.core.system import NOFOLLOW, NONBLOCK, owned
from resetfree.core.web import TOKEN
from resetfree.problems.operators import Request
from resetfree.problems.operators.channel import sentence
from resetfree.problems.operators.http import LARGEST
from resetfree.runs.file import runfile
from resetfree.runs.file.newfile import read_episodes
from resetfree.runs.file.recorded import GOALS
from resetfree.runs.stuck import STUCK
from resetfree.show.report.filming import beside, kept_scenes
from resetfree.show.studio import limits
from resetfree.show.studio.files import RunFolder
from resetfree.show.studio.frames import History, Picture, RunScene, finite, read_past, scene_of

ADDRESS = re.compile(r"http://127\.0\.0\.1:([1-9][0-9]{0,4})")
WAIT = 2.0  # seconds for an answer of another process
FIELDS = {"id": str, "problem": str, "why": str, "detail": str, "asked": str}
FASTEST = 1e6  # steps per second: a file may say anything
TIMED = ("based_on", "missed", "lateness", "steps")  # columns that are read of a run that has them


class TimedHistory(History):
    """A history with the age of each plan, deadlines missed so far, and the lateness of each episode in ms."""

    def __init__(self, scene: RunScene) -> None:
        self._clock = np.zeros((3, 1024))
        self._steps = 0
        super().__init__(scene)
        timing = scene.spec.get("timing")
        rate = timing.get("rate") if isinstance(timing, dict) else None
        self._rate = float(rate) if isinstance(rate, int | float) and 0 < rate < FASTEST else math.nan

    def tick(self, based_on: int, missed: int, lateness: float, steps: int) -> None:
        """Add what the clock says of the round that was added last."""
        i = self.k - 1
        if i == self._clock.shape[1]:
            self._clock = np.concatenate([self._clock, np.zeros_like(self._clock)], axis=1)
        before = self._clock[1, i - 1] if i else 0.0
        self._clock[:, i] = (self.k - 1 - based_on, before + missed, 1000 * lateness)
        self._steps += steps

    def clear(self) -> None:
        """Forget all rounds."""
        super().clear()
        self._steps = 0

    @property
    def now(self) -> dict[str, float | None]:
        """The newest values: also the rate, the share of commands in time, and the latest command so far."""
        if not self.k:
            return super().now
        age, missed, _ = self._clock[:, self.k - 1].tolist()
        late = self._clock[2, : self.k]
        latest = float(np.nanmax(late)) if np.isfinite(late).any() else math.nan
        in_time = self._steps / (self._steps + missed) if self._steps and math.isfinite(latest) else math.nan
        clock = {"age": age, "missed": missed, "latest": latest, "in_time": 100 * in_time, "rate": self._rate}
        return {**super().now, **{name: finite(x) for name, x in clock.items()}}

    def curves(self, *most: int) -> dict[str, list[Any]]:
        """The curves of a history, and those of the clock at the same rounds."""
        result = super().curves(*most)
        at = np.array(result["k"], dtype=np.int64) - 1
        for name, row in zip(("age", "missed", "late"), self._clock, strict=True):
            result[name] = [finite(x) for x in row[at].tolist()]
        return result


JPEG = b"\xff\xd8\xff"
ONE = 100_000  # bytes of a picture


def stamp_of(file: Path) -> str:
    """What changes when the pictures of a run change; "" without any."""
    try:
        about = beside(file).lstat()
    except OSError:
        return ""
    return f"{about.st_mtime_ns}-{about.st_size}" if stat.S_ISREG(about.st_mode) else ""


def pictures(file: Path) -> list[dict[str, Any]]:
    """Scenes with their titles, steps and pictures as addresses of data; of long ones the last pictures only."""
    kept = kept_scenes(file) if stamp_of(file) else None
    if kept is None:
        return []
    for about, shown in kept.scenes:
        if len(shown) != len(about["steps"]) or any(len(one) > ONE or one[:3] != JPEG for one in shown):
            raise RunError(f"The pictures beside '{file.name}' cannot be shown.")
    each = limits.PICTURES // max(len(kept.scenes), 1)
    return [
        {**about, "steps": about["steps"][-n:], "pictures": [address(one) for one in shown[-n:]]}
        for about, shown in kept.scenes
        if (n := _fitting(shown, each))
    ]


def _fitting(shown: list[bytes], most: int) -> int:
    """How many of the last pictures have at most so many bytes together."""
    total, n = 0, 0
    for one in reversed(shown):
        total += len(one)
        if total > most:
            break
        n += 1
    return n


def address(picture: bytes) -> str:
    """A picture as an address of data."""
    return f"data:image/jpeg;base64,{base64.b64encode(picture).decode()}"


LONGEST = 1000  # characters of a note
MOST_STEPS = 2**31  # of an episode
EVERY = 0.5  # seconds between two reads of a file
REQUESTED = (
    f"""SELECT count(*) FROM interventions WHERE json LIKE '%"why": "{STUCK}"%'"""  # quotes in other text have \\
)
PUSHED = (
    """SELECT count(*) FROM meta WHERE key = 'note' AND json LIKE '%"pushed": %' AND json NOT LIKE '%"pushed": 0%'"""
)
COLUMNS = "k, s1, lam, reset, v_r, v_c, v_c_hat, next_start, coalesce(original_return, reward), steps"


class Followed:
    """One file, read repeatedly."""

    def __init__(self, path: Path) -> None:
        self.path, self._distant = path, Distant(path)
        self.scene: RunScene | None = None
        self.error, self.stuck, self.k, self._stamp = "", "", 0, (0, 0, 0.0, 0, 0.0)
        self._finite = self._timed = self._has_goals = False
        self._goals = self._requested = self._pushed = 0
        self._episodes = 0
        self._request: dict[str, Any] | None = None
        self._checkpoint, self._pictures = -1, ""
        self._last: dict[str, Any] | None = None

    @property
    def being_written(self) -> bool:
        """Whether another process holds its lock."""
        return is_held(self.path)

    def poll(self) -> bool:
        """Read new rounds; returns whether anything has changed."""
        stamp = self._look()
        request = self._distant.show() if stamp is not None else None
        kept = stamp_of(self.path)
        changed = request != self._request or kept != self._pictures
        self._request, self._pictures = request, kept
        if stamp is None or stamp == self._stamp:
            return changed
        first = stamp[0] != self._stamp[0]
        self._stamp = stamp
        try:
            self._read(first)
            self.error = ""
        except ResetFreeError as error:
            self.error = str(error).replace(f"{self.path.parent}{os.sep}", "")
        return True

    def frame(self, curves: bool) -> dict[str, Any]:
        """What is shown now."""
        state = "file"
        if self.error:
            state = "failed"
        elif self._request is not None:
            state = "waiting"
        elif self.scene is not None and self.k < self._episodes:
            state = "following" if self.being_written else "interrupted"
        result: dict[str, Any] = {
            "state": state,
            "error": self.error,
            "stuck": self.stuck,
            "k": self.k,
            "rate": 0.0,
            "last": self._last,
            "request": self._request,
            "pictures": self._pictures,
        }
        if self.scene is not None:
            counts = {"asked": self._requested, "pushed": self._pushed}
            counts |= {"goals": self._goals} if self._has_goals else {}
            result |= {"now": {**self._history.now, **counts}, "map": self._picture.shown}
            if curves:
                result["curves"] = self._history.curves()
        return result

    @property
    def history(self) -> History | None:
        """All rounds that were read."""
        return None if self.scene is None else self._history

    def past(self, k: int) -> dict[str, Any] | None:
        """An episode of the file."""
        found = None if self.scene is None else read_past(self.path, self.scene, k)
        return None if found is None else found.to_dict()

    def answer(self, data: dict[str, Any]) -> None:
        """Answer the reset request of the process that writes the file."""
        self._distant.reply(data)

    def _look(self) -> tuple[int, int, float, int, float] | None:
        """Inode, size and time of the file, and size and time of its log."""
        try:
            about = self.path.lstat()
        except OSError:
            self.error = "The run file is gone."
            return None
        try:
            log = Path(f"{self.path}-wal").lstat()
            return about.st_ino, about.st_size, about.st_mtime, log.st_size, log.st_mtime
        except OSError:
            return about.st_ino, about.st_size, about.st_mtime, 0, 0.0

    def _read(self, first: bool) -> None:
        if self._stamp[1] > limits.FILE:
            raise RunError(f"The run file is larger than {limits.FILE:,} bytes: use the command line for it.")
        with closing(runfile.connect(self.path, "ro")) as connection, runfile.sentences(self.path):
            if first or self.scene is None:
                spec = runfile.read_spec(connection, self.path)
                if len(json.dumps(spec)) > limits.BODY:
                    raise RunError(f"The spec of the run file takes more than {limits.BODY:,} bytes, and is not shown.")
                self.scene = scene_of(spec)
                self._timed = set(TIMED) <= set(runfile.columns_in(connection))
                self._has_goals, self._goals = GOALS in runfile.columns_in(connection), 0
                self._history = (TimedHistory if self._timed else History)(self.scene)
                self._picture = Picture(self.scene)
                self._starts = np.zeros_like(self._picture.visits)  # episodes that began in each state
                self._finite = runfile.start_type(connection) == "INTEGER"
                self.k, self._checkpoint = 0, -1
            episodes, planned = read_episodes(connection, self.scene.spec, self.path), self.scene.spec["episodes"]
            if episodes != self._episodes:
                self._episodes = episodes
                self.scene = replace(self.scene, episodes=None if episodes == planned else episodes)
            (newest,) = connection.execute("SELECT coalesce(max(k), 0) FROM rounds").fetchone()
            if not isinstance(newest, int) or newest > limits.EPISODES:
                raise RunError(f"A run of more than {limits.EPISODES:,} rounds is not shown here.")
            if newest < self.k:  # it was resumed from an earlier checkpoint, and replays the rounds since
                self._history.clear()
                self._starts[:] = 0
                self.k = self._goals = 0
            columns = ", ".join((COLUMNS, GOALS if self._has_goals else "0", *(TIMED if self._timed else ())))
            cursor = connection.execute(f"SELECT {columns} FROM rounds WHERE k > ? ORDER BY k", (self.k,))
            while batch := cursor.fetchmany(runfile.READ_BATCH):
                for row in batch:
                    self._take(row)
            self.stuck, (self._requested,) = _stuck(connection), connection.execute(REQUESTED).fetchone()
            (self._pushed,) = connection.execute(PUSHED).fetchone()
            self._learn(connection)

    def _take(self, row: tuple[Any, ...]) -> None:
        k, s1, lam, reset, v_r, v_c, v_c_hat, after, reward, steps, goals, *clock = row
        numbers = (lam, v_r, v_c, v_c_hat, reward)
        good = k == self.k + 1 and reset in (0, 1) and all(x is None or isinstance(x, int | float) for x in numbers)
        n = None if self.scene is None or self.scene.mdp is None else self.scene.mdp.n_states
        good = good and isinstance(steps, int) and 0 <= steps < MOST_STEPS and isinstance(goals, int) and goals >= 0
        good = good and self._clock_fits(k, *clock)
        if not good or (n is not None and not (isinstance(s1, int) and 0 <= s1 < n)):
            raise runfile.damaged(self.path, ValueError(f"its round {self.k + 1} cannot be"))
        lam, v_r, v_c, v_c_hat, reward = (math.nan if x is None else float(x) for x in numbers)
        self._history.add(
            s1 if n is not None else 0, lam, bool(reset), v_r=v_r, v_c=v_c, v_c_hat=v_c_hat, reward=reward, steps=steps
        )
        if isinstance(self._history, TimedHistory):
            based_on, missed, late, _ = clock
            self._history.tick(based_on, missed, math.nan if late is None else float(late), steps)
        self.k, self._goals = k, self._goals + goals
        if n is not None:
            self._starts[s1] += 1
            ends = [after] if isinstance(after, int) and 0 <= after < n and not reset else []
            self._last = {"k": k, "path": [s1, *ends], "reset": bool(reset), "reward": None}

    @staticmethod
    def _clock_fits(k: int, based_on: Any = 0, missed: Any = 0, late: Any = None, steps: Any = 0) -> bool:
        """Whether the columns of a timed run are such numbers as a clock gives."""
        counts = isinstance(based_on, int) and isinstance(missed, int) and isinstance(steps, int)
        return counts and 0 <= based_on < k and missed >= 0 and steps >= 0 and isinstance(late, int | float | None)

    def _learn(self, connection: Any) -> None:
        """Read what the player had learned at the newest checkpoint, unless it is too large."""
        k, size = connection.execute("SELECT max(k), sum(length(arrays)) FROM checkpoints").fetchone()
        if not self._finite or not isinstance(k, int) or k == self._checkpoint or size > limits.CHECKPOINT:
            return
        found = runfile.read_checkpoint(connection, self.path)
        if found is not None and len(self._picture.visits):
            self._picture.visits = self._starts
            arrays = {key: a for key, a in found.arrays.items() if key.startswith("primal.")}
            self._history.pairs = self._picture.learn(arrays, None)
            self._checkpoint = k


def _stuck(connection: Any) -> str:
    """The newest note that the run was stuck, if it is one; a file may hold anything."""
    (text,) = connection.execute("SELECT json FROM meta WHERE key = 'note' ORDER BY rowid DESC").fetchone() or ("{}",)
    try:
        note = json.loads(text)
        return f"Episode {int(note['k']):,}: {note['what'][:LONGEST]}" if note["stuck"] is True else ""
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
        return ""


class Following:
    """The files of a session, read once for all watchers."""

    def __init__(self, name: str, folder: RunFolder) -> None:
        self.name, self.version, self._seen = name, 0, 0.0
        self._looking = threading.Lock()
        self.lanes = [Followed(path) for path in folder.lanes(name)]
        self.poll()
        wrong = next((lane.error for lane in self.lanes if lane.scene is None), None)
        if wrong is not None:
            raise RunError(wrong or "The run file cannot be read.")

    def poll(self) -> None:
        """Read the files, if it is time."""
        if time.monotonic() - self._seen < EVERY or not self._looking.acquire(blocking=False):
            return
        try:
            if any([lane.poll() for lane in self.lanes]):
                self.version += 1
            self._seen = time.monotonic()
        finally:
            self._looking.release()

    def scene(self) -> dict[str, Any]:
        """What does not change."""
        lanes = [{} if lane.scene is None else lane.scene.to_dict() for lane in self.lanes]
        return {"name": self.name, "live": False, "lanes": lanes, "files": [lane.path.stem for lane in self.lanes]}

    def frame(self, curves: bool) -> dict[str, Any]:
        """What is shown now."""
        version = self.version
        lanes = [lane.frame(curves) for lane in self.lanes]
        return {"version": version, "live": False, "paused": False, "pace": 0.0, "lanes": lanes}

    def answer(self, lane: int, data: dict[str, Any]) -> None:
        """Answer a lane's reset request."""
        self.lanes[lane].answer(data)


class Distant:
    """The operator's endpoint of a run that another process executes."""

    def __init__(self, run_file: Path) -> None:
        self._file = run_file.with_name(f"{run_file.name}.operator.json")

    def show(self) -> dict[str, Any] | None:
        """The pending request of that run; None if there is none or the run cannot be reached."""
        try:
            status, data = self._call("GET", "/request", None)
        except RunError:
            return None
        if status != 200 or not isinstance(data, dict) or not all(isinstance(data.get(k), FIELDS[k]) for k in FIELDS):
            return None
        request = {key: data[key][:4000] for key in FIELDS}
        return {**request, "sentence": sentence(Request(request["problem"], request["why"], request["detail"]))}

    def reply(self, data: dict[str, Any]) -> None:
        """Answer the pending request; raises RunError if the answer is refused."""
        status, response = self._call("POST", "/answer", data)
        if status != 200:
            why = response.get("error") if isinstance(response, dict) else None
            raise RunError(f"The answer was refused: {str(why)[:200]}")

    def _call(self, method: str, path: str, data: Any) -> tuple[int, Any]:
        port, token = self._address()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
        try:
            body = None if data is None else json.dumps(data)
            connection.request(method, path, body, {TOKEN: token, "Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read(LARGEST))
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise RunError("The run that requested a reset cannot be reached.") from error
        finally:
            connection.close()

    def _address(self) -> tuple[int, str]:
        """Loopback port and token, from a small plain file that this user owns."""
        try:
            handle = os.open(self._file, os.O_RDONLY | NOFOLLOW | NONBLOCK)
            try:
                about = os.fstat(handle)
                if not stat.S_ISREG(about.st_mode) or not owned(about):
                    raise ValueError("it is not a plain file of this user")
                data = json.loads(os.read(handle, 4096))
            finally:
                os.close(handle)
            found = ADDRESS.fullmatch(data["url"])
            token = data["token"]
            if found is None or not isinstance(token, str) or not token.isascii() or not token.isprintable():
                raise ValueError("it names no loopback address")
            return int(found[1]), token
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise RunError("No reset is requested at present.") from error
