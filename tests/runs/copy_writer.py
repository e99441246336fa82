"""Writes a run while another process copies its file.

Usage: copy_writer.py FILE EPISODES PAGE CASE. PAGE is a file of 16 bytes: the number of rounds that are safe by now,
and a flag that lets the run end. Until it is set, the run is slowed down and does not pass its last fifty rounds.
"""

import mmap
import random
import struct
import sys
import time
from pathlib import Path
from typing import Any

import resetfree as rf

CASES: dict[str, dict[str, Any]] = {
    "a simulation": {"problem": "grid-v0", "primal": "linear-ucb", "dual": "projected-gradient", "seed": 5},
    "an operator": {
        "problem": "gym:CartPole-v1", "primal": "uniform", "dual": "constant-penalty", "seed": 5,
        "settings": {"problem": {"horizon": 30}, "dual": {"C": 1.0}},
    },
}  # fmt: skip
REST = 50  # rounds at the end that wait for the flag


class Page:
    """The page that both processes see."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._held = mmap.mmap(file.fileno(), 16)

    @property
    def safe(self) -> int:
        """Rounds that no copy may lack from now on."""
        return int(struct.unpack_from("q", self._held, 0)[0])

    @safe.setter
    def safe(self, k: int) -> None:
        struct.pack_into("q", self._held, 0, k)

    @property
    def free(self) -> bool:
        """Whether the run may end."""
        return bool(struct.unpack_from("q", self._held, 8)[0])

    def let_go(self) -> None:
        struct.pack_into("q", self._held, 8, 1)


def main() -> None:
    file, episodes, page, case = Path(sys.argv[1]), int(sys.argv[2]), Page(Path(sys.argv[3])), sys.argv[4]
    chance, played = random.Random(1), 0

    def after(session: Any) -> None:
        nonlocal played
        played = session.k
        if case == "a simulation" and chance.random() < 0.1:
            session.save()
            page.safe = session.k
        while not page.free:
            time.sleep(0.0005)
            if session.k < episodes - REST:
                return

    def answer(_: Any) -> str:
        page.safe = played  # all of them are saved before an operator is asked
        return ""

    more: dict[str, Any] = {"operator": rf.OperatorReset(answer)} if case == "an operator" else {}
    rf.learn(path=file, episodes=episodes, callbacks=[after], **more, **CASES[case])


if __name__ == "__main__":
    main()
