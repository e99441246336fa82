"""A program with every fault that the fuzz is there to find: that it finds them is tested."""

import ctypes
import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.worker import EVIL


def _refuse(*sentences: str) -> int:
    print("\n".join(sentences), file=sys.stderr)
    return 2


def _crash() -> int:
    ctypes.string_at(0)
    return 0


def _spin() -> int:
    while True:
        pass


def _wait() -> int:
    time.sleep(3600)
    return 0


def _allocate() -> int:
    held = [np.ones(2**24) for _ in range(40)]  # 128 MiB each
    time.sleep(3600)
    return len(held)


def _allocate_and_free() -> int:
    """A peak that is over before anybody looks."""
    np.ones(2**28 + 2**24).sum()  # 2.1 GiB
    return 0


def _allocate_in_child() -> int:
    code = "import time, numpy as np; held = np.ones(3 * 2**27); time.sleep(3600)"  # 3 GiB
    return subprocess.run([sys.executable, "-c", code], check=False).returncode


def _leave_child() -> int:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    return 0


def _import() -> int:
    importlib.import_module(EVIL)
    return _refuse("A sentence.")


def _import_and_crash() -> int:
    _import()
    return _crash()


def _print_traceback() -> int:
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    return 0


def _print_traceback_in_child() -> int:
    subprocess.run([sys.executable, "-c", "1 / 0"], check=False)
    return 0


def _raise(error: BaseException) -> int:
    raise error


def _starve() -> int:
    try:
        np.ones(2**50)
    except MemoryError as error:
        return _refuse(f"The file cannot be read: {error}.")
    return 0


def _write(name: str, status: int) -> int:
    Path(name).write_text("changed")
    return status if status == 0 else _refuse("A sentence.")


def _print(text: str) -> int:
    os.write(1, text.encode())
    return 0


# Each with the verdict it must get.
FAULTS: dict[str, tuple[str, Callable[[], int]]] = {
    "crash": ("signal", _crash),
    "spin": ("slow", _spin),
    "wait": ("hang", _wait),
    "allocate": ("memory", _allocate),
    "allocate-and-free": ("memory", _allocate_and_free),
    "allocate-in-child": ("memory", _allocate_in_child),
    "starve": ("memory", _starve),
    "leave-child": ("children", _leave_child),
    "import": ("code ran", _import),
    "import-and-crash": ("code ran", _import_and_crash),
    "raise": ("traceback", lambda: _raise(KeyError("B"))),
    "exit": ("traceback", lambda: _raise(SystemExit(2))),
    "print-traceback": ("traceback", _print_traceback),
    "print-traceback-in-child": ("traceback", _print_traceback_in_child),
    "leave": ("exit", lambda: os._exit(0)),
    "status": ("status", lambda: 3),
    "claim-failed": ("status", lambda: 1),  # without --strict
    "silent": ("sentence", lambda: _refuse()),
    "two-sentences": ("sentence", lambda: _refuse("One.", "Two.")),
    "no-json": ("json", lambda: _print("")),
    "two-objects": ("json", lambda: _print("{}\n{}")),
    "noise-before": ("json", lambda: _print("started\n{}")),
    "not-a-number": ("json", lambda: _print('{"a": NaN}')),
    "leftover": ("leftovers", lambda: _write("draft.new", 2)),
    "spoilt-input": ("leftovers", lambda: _write("input.txt", 2)),
    "lost": ("lost", lambda: _write("precious.txt", 0)),
}
HONEST: dict[str, tuple[str, Callable[[], int]]] = {
    "fine": ("done", lambda: _print('{"a": 1}')),
    "refusing": ("refused", lambda: _refuse("A sentence.")),
    "thinking": ("done", lambda: _print(json.dumps({"a": sum(i % 7 for i in range(10**7))}))),
    "holding": ("done", lambda: _print(json.dumps({"a": np.ones(2**26).sum()}))),  # 512 MiB
}


def prepare(request: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    Path("input.txt").write_text("as it was")
    return ["planted"], [request["fault"], "--json"]


def main(argv: list[str]) -> int:
    return {**FAULTS, **HONEST}[argv[0]][1]()
