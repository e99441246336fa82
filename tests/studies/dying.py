"""Problems that kill their process, raise or hang at a certain episode: once, or as long as a file is there."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import resetfree as rf
from resetfree.problems import State
from resetfree.problems.finite.mdp import FiniteProblem

BEFORE = 40  # episodes until a checkpoint has been written for certain
AFTER = 60  # and the episode of the end


class Fragile(FiniteProblem):
    """The problem grid-v0, which comes to its end at an episode."""

    def __init__(self, marker: Path, kind: str) -> None:
        super().__init__(rf.make("grid-v0"))
        self.marker, self.kind, self.count = marker, kind, 0

    def rollout(self, policy: Any, start: State, u: Any) -> rf.Episode:
        self.count += 1
        if self.kind == "doomed" or (self.kind == "killed" and not self.marker.exists()):
            if self.count == BEFORE:
                time.sleep(0.15)  # longer than `learning.FIRST`: then comes a checkpoint
            if self.count == AFTER:
                self.marker.write_text("killed here")
                os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "raising" and self.marker.exists() and self.count == AFTER:
            raise ValueError("the gripper is stuck")
        if self.kind == "hanging" and self.marker.exists() and self.count == BEFORE:
            time.sleep(0.15)
        if self.kind == "hanging" and self.marker.exists() and self.count == AFTER:
            helper = subprocess.Popen(["sleep", "600"])  # as a simulator would be: it must go too
            self.marker.with_suffix(".pid").write_text(f"{helper.pid} ")
            while True:
                with suppress(BaseException):
                    time.sleep(600)
        return super().rollout(policy, start, u)


def killed(marker: str = "") -> Fragile:
    """Kills its process once, and then works."""
    return Fragile(Path(marker), "killed")


def doomed(marker: str = "") -> Fragile:
    """Kills its process every time."""
    return Fragile(Path(marker), "doomed")


def raising(marker: str = "") -> Fragile:
    """Raises while the file is there."""
    return Fragile(Path(marker), "raising")


def hanging(marker: str = "") -> Fragile:
    """Starts another program and hangs for ever, whatever it is told, while the file is there."""
    return Fragile(Path(marker), "hanging")
