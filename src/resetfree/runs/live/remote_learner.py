"""A learner on another machine, and its calls: everything comes and goes as plain bytes (`core.plain_tree`).

It is given the beginning of a run file in parts, then rounds, of which it keeps a copy (`mirror`); the `Learner` that
follows the copy is the one that follows a run file here. Every answer says which round is the newest that it has, and
holds the newest plan and checkpoint that the asking side lacks. So each request may be repeated after its answer
was lost.
"""

from __future__ import annotations

import dataclasses
import io
import os
import platform
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from resetfree.core.plain_tree import decode, encode
from resetfree.core.system import activity, is_alive, take_lowest
from resetfree.runs.live.assignment import Assignment
from resetfree.runs.live.board import Posted
from resetfree.runs.live.learner import Learner
from resetfree.runs.live.learner_process import said
from resetfree.runs.live.mirror import Mirror

BOOT = Path("/proc/sys/kernel/random/boot_id")
PREFIX = "resetfree-learner-"  # of folders for temporary files; the process that uses it follows


class Outbox:
    """The newest message for the other side; the counterpart of a `Board`."""

    def __init__(self, tag: int) -> None:
        """Start after a message with this tag that the other side has from an earlier learner; -1: it has none."""
        self._newest, self._data = Posted(int(tag >= 0), max(tag, 0), 0), b""

    def newest(self) -> Posted:
        """The newest message, without its bytes."""
        return self._newest

    def post(self, data: bytes, tag: int = 0) -> Posted:
        """Replace the message."""
        self._newest, self._data = Posted(self._newest.number + 1, tag, 0), data
        return self._newest

    def after(self, number: int) -> dict[str, Any] | None:
        """The message if its number is larger, as a plain tree."""
        if not self._data or self._newest.number <= number:
            return None
        newest = self._newest
        return {"number": newest.number, "tag": newest.tag, "data": np.frombuffer(self._data, dtype=np.uint8)}


class RemoteLearner:
    """The learner of one run; its methods are called one at a time, but for `pulse`."""

    def __init__(self) -> None:
        remove_leftovers()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self._mirror: Mirror | None = None  # made by the thread that uses it
        self._progress = 0  # see `hanging`
        self._learner: Learner | None = None
        self._plans, self._checkpoints = Outbox(-1), Outbox(-1)
        self._assigned = b""

    def about(self) -> bytes:
        """Where it is, and which version it has."""
        return encode(
            {"version": version("resetfree"), "node": platform.node(), "machine": this_machine(), "pid": os.getpid()}
        )

    def pulse(self) -> bytes:
        """How far it has come, and what its threads do; the only method that is called while another one works."""
        found = activity(os.getpid())
        doing = None if found is None else {"states": "".join(sorted(found.states)), "seconds": found.seconds}
        return encode({"progress": self._progress, "activity": doing})

    def assign(self, assignment: bytes, machine: str, posted: int) -> bytes:
        """Take an assignment.

        machine: the one that asks, see `this_machine`.
        posted: the round that the newest plan over there rests on, -1 if there is none.
        """
        self._assigned, self._plans = assignment, Outbox(posted)
        self._mirror = self._mirror or Mirror(self._folder / "run.rfrun")
        if machine == this_machine() and Assignment.receive(io.BytesIO(assignment)).lowest:
            take_lowest()
        return b""

    def begin(self, number: int, part: bytes) -> bytes:
        """Take a part of the beginning of the run file, see `Mirror.begin`."""
        assert self._mirror is not None
        self._advance()
        return encode({"parts": self._mirror.begin(number, part)})

    def work(self, request: bytes, rounds: bytes) -> bytes:
        """Take rounds, and unless some are missing or more of them follow, learn them and make a plan if one is due.

        request: {"last": k, "more": bool, "ending": bool, "first": {"start": s} or None, "plan": n, "checkpoint": n}:
          the last of these rounds, whether more follow at once, whether the run ends, where round 1 starts, and the
          numbers of the newest plan and checkpoint that arrived.
        Returns {"k": newest round here, "plan": ..., "checkpoint": ..., "raised": ...}, each of the last three None or
        what there is.
        """
        assert self._mirror is not None
        self._advance()
        given = decode(request, {})
        k = self._mirror.add(rounds)
        raised = None if given["more"] or k < given["last"] else self._learn(given)
        plan, checkpoint = self._plans.after(given["plan"]), self._checkpoints.after(given["checkpoint"])
        return encode({"k": k, "plan": plan, "checkpoint": checkpoint, "raised": raised})

    def close(self) -> bytes:
        """Remove what it has written; no further call is allowed."""
        if self._learner is not None:
            self._learner.close()
        if self._mirror is not None:
            self._mirror.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        return b""

    def _advance(self) -> None:
        self._progress += 1

    def _learn(self, given: dict[str, Any]) -> dict[str, Any] | None:
        assert self._mirror is not None
        try:
            if self._learner is None:  # not before: all rounds so far are there now
                assignment = Assignment.receive(io.BytesIO(self._assigned))
                here = dataclasses.replace(assignment, file=self._mirror.path)
                self._learner = Learner(here, self._plans, self._checkpoints, self._advance)
            if given["first"] is not None:
                self._learner.begin(given["first"]["start"])
            self._learner.work(ending=given["ending"])
        except Exception as error:  # players may raise anything
            return said(error)
        return None


def remove_leftovers() -> None:
    """Remove the folders of learners on this machine that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not is_alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def this_machine() -> str:
    """A name of the running system that two processes have in common only if they share its processors."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return platform.node()
