"""Values that nobody would give in good faith."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LARGE = (10**8, 10**9, 2**31 - 1, 2**31, 2**32, 10**12, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 10**30)
INTEGERS = (-1, 0, -(2**31), -(2**63), *LARGE)
NUMBERS: tuple[Any, ...] = (
    *INTEGERS, 0.5, -0.0, 1e-300, 5e-324, 1e16, 1e308, -1e308, float("nan"), float("inf"), -float("inf"), True,
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "a\0b", "x" * 300, "x" * 100_000, "\udcff\udcfe", "é\u0301\u202e", "\x1b[31mred\x1b[0m", "%s%n",
    "../../precious.txt", "nan", "inf", "1e999", "-", "--", "None", "null", "[]", "{}", "grid-v0", "gym:", ":", "::",
    "a:b:c", ":f", "os:", "math:pi", "0x10", "1_000", "٣", "'; DROP TABLE rounds;--", "\n\n", "[red]x[/red]", "[/]",
)  # fmt: skip

WORDS = tuple(text for text in TEXTS if "\0" not in text)  # those that can stand on a command line


class Weird:
    """Has a shape and a length, and is no array."""

    shape = ("x", None)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)


# Named, so that a case can be told and repeated; made anew each time, as some can be used up.
OBJECTS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "object()": object,
    "Weird()": Weird,
    "a class": lambda: dict,
    "a function": lambda: lambda *a, **k: None,
    "a function that gives text": lambda: lambda *a, **k: "text",
    "a module": lambda: np,
    "()": tuple,
    "[]": list,
    "{}": dict,
    "set()": set,
    "{None: None}": lambda: {None: None},
    "{'a': {'b': 1}}": lambda: {"a": {"b": 1}},
    "[[1], [1, 2]]": lambda: [[1], [1, 2]],
    "['a', None]": lambda: ["a", None],
    "a generator": lambda: (i for i in range(3)),
    "b'bytes'": lambda: b"bytes",
    "1j": lambda: 1j,
    "Path('nowhere/file')": lambda: Path("nowhere/file"),
    "Path('.')": lambda: Path("."),
    "Path('precious.txt')": lambda: Path("precious.txt"),
    "np.int64(3)": lambda: np.int64(3),
    "np.float32(0.5)": lambda: np.float32(0.5),
    "np.array(nan)": lambda: np.array(np.nan),
    "np.zeros(0)": lambda: np.zeros(0),
    "np.zeros((2, 2))": lambda: np.zeros((2, 2)),
    "np.full((3, 2, 3), nan)": lambda: np.full((3, 2, 3), np.nan),
    "an array of objects": lambda: np.array([None, {}, "x"], dtype=object),
    "an array of text": lambda: np.array(["a", "b"]),
    "an array of dates": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "an array of records": lambda: np.zeros(2, dtype=[("a", "i4")]),
    "an endless array": lambda: np.broadcast_to(np.float64(0.0), (2**20, 2**20)),  # takes 8 bytes
    "a masked array": lambda: np.ma.array(np.zeros((2, 2)), mask=True),
}


def value(rng: random.Random) -> tuple[str, Any]:
    """A value of any kind, with words for it."""
    pick = rng.random()
    if pick < 0.35:
        number = rng.choice(NUMBERS)
        return repr(number), number
    if pick < 0.6:
        text = rng.choice(TEXTS)
        return f"{text[:40]!r}" + (f"... of {len(text)}" if len(text) > 40 else ""), text
    name = rng.choice(list(OBJECTS))
    return name, OBJECTS[name]()


# Paths that lead nowhere good, once `lay_out` has been there. None of them leaves the folder of a case, but for those
# that no file can be made at.
PATHS = {
    "a folder": "paths/folder", "a symlink to itself": "paths/loop", "a pipe": "paths/pipe", "a text": "paths/text",
    "an empty file": "paths/empty", "zeros": "paths/zeros", "a file as a folder": "paths/text/x", "nothing": "nowhere",
    "in nothing": "nowhere/at/all", "an empty name": "", "a dot": ".", "two dots": "..", "in /proc": "/proc/nothing/x",
    "under a device": "/dev/null/x", "300 characters": "x" * 300, "5000 characters": "x/" * 2500,
    "odd bytes": "\udcff\udcfe.rfrun", "a dash": "-", "an option": "--nothing", "somebody else's": "precious.txt",
    "a letter too far": "precious.txt/", "a question mark": "a?mode=memory#x", "a newline": "a\nb",
    "a pipe with an ending": "paths/pipe.npz",
}  # fmt: skip
DEVICES = {  # and other places that are only ever read
    "an endless device": "/dev/zero", "an empty device": "/dev/null", "standard input": "/dev/stdin", "a slash": "/",
}  # fmt: skip


def lay_out(folder: Path) -> None:
    """Make the strange things that PATHS name."""
    kept = folder / "paths"
    (kept / "folder").mkdir(parents=True)
    (kept / "loop").symlink_to("loop")
    for name in ("pipe", "pipe.npz"):
        os.mkfifo(kept / name)
    for name, data in (("text", b"Not a run file.\n"), ("empty", b""), ("zeros", bytes(100_000))):
        (kept / name).write_bytes(data)
