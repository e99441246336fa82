"""The process that cases run in: the commands' own `main` and the library's own functions, one case after another.

Standard output and error of a case are real files, so that children and compiled code are heard too. It speaks with
`executor` over two pipes: in, a line of JSON for every case; out, "start", "compiling", "compiled" and the outcome.
"""

import ctypes
import hashlib
import importlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.fuzz.outcome import Outcome

EVIL = "evil_code"  # a module that nothing but a hostile file names
PR_SET_PDEATHSIG = 1
SAID = 50_000_000  # bytes of output that are kept


def plant(folder: Path) -> None:
    """Put the module that must never be imported where it would be found."""
    folder.mkdir(parents=True, exist_ok=True)
    text = f"from pathlib import Path\nPath({str(folder / 'ran')!r}).touch()\ndef f(*a, **k):\n    return 0\nF = f\n"
    (folder / f"{EVIL}.py").write_text(text)


class Worker:
    """Runs cases; `tell` sends a line to whoever watches."""

    def __init__(self, evil: Path, tell: Callable[[str], None]) -> None:
        self.evil, self.tell = evil, tell
        self.argv = list(sys.argv)
        self.path = [*sys.path, str(evil)]
        sys.path[:] = self.path

    def run(self, kind: str, folder: Path, prepare: Callable[[], tuple[list[str], Any]], entry: str) -> Outcome:
        """Prepare a case in `folder` and run it there; a list of words is a command, anything else is called."""
        folder.mkdir(parents=True)
        os.chdir(folder)
        (folder / "precious.txt").write_text("A file of somebody else's.\n")
        words, action = prepare()
        one = Outcome(kind, words, argv=action if isinstance(action, list) else None)
        before = _files(folder)
        _forget_peak()
        said = [os.open(folder.parent / f"{folder.name}.{name}", os.O_RDWR | os.O_CREAT) for name in ("out", "err")]
        kept = [os.dup(fd) for fd in (1, 2)]
        streams = sys.stdout, sys.stderr
        began = _processor_time()
        for fd, target in zip(said, (1, 2), strict=True):
            os.dup2(fd, target)
        # As the interpreter sets them up for a UTF-8 terminal.
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "strict", write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
        self.tell("start " + json.dumps({"words": words, "argv": one.argv}))
        try:
            if one.argv is not None:
                one.status = _named(entry)(one.argv)
            else:
                action()
        except BaseException as error:
            self._note(one, error)
        finally:
            one.seconds = _processor_time() - began
            for stream in (sys.stdout, sys.stderr):
                with suppress(ValueError, OSError):  # the command may have closed it
                    stream.flush()
            sys.stdout, sys.stderr = streams
            for fd, target in zip(kept, (1, 2), strict=True):
                os.dup2(fd, target)
                os.close(fd)
        one.peak = _peak()
        one.out, one.err = (_read(fd) for fd in said)
        after = _files(folder)
        one.appeared = sorted(set(after) - set(before))
        one.changed = sorted(name for name in before if after.get(name) != before[name])
        one.code_ran = self._code_ran()
        self._tidy(folder)
        return one

    def _note(self, one: Outcome, error: BaseException) -> None:
        from resetfree.core.errors import ResetFreeError

        one.ours = isinstance(error, ResetFreeError)
        with suppress(Exception):
            one.raised = f"{type(error).__name__}: {str(error)[:400]}"
        one.raised = one.raised or type(error).__name__
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "resetfree" in frame.filename]
        if frames:
            last = frames[-1]
            one.where = f"{last.filename.partition('resetfree/')[2]}:{last.lineno} ({last.name})"

    def _code_ran(self) -> str:
        marker = self.evil / "ran"
        if EVIL in sys.modules or marker.exists():
            sys.modules.pop(EVIL, None)
            marker.unlink(missing_ok=True)
            return f"the module '{EVIL}' was imported, or a pickle was opened"
        return ""

    def _tidy(self, folder: Path) -> None:
        """What a case leaves in the process must not reach the next one."""
        os.chdir(folder.parent)
        sys.path[:] = self.path
        sys.argv[:] = self.argv
        figures = sys.modules.get("matplotlib.pyplot")
        if figures is not None:
            figures.close("all")


def _named(text: str) -> Any:
    module, _, name = text.partition(":")
    return getattr(importlib.import_module(module), name)


def _files(folder: Path) -> dict[str, str]:
    """Every file under a folder, by its contents; special ones by their kind."""
    found = {}
    for root, folders, names in os.walk(folder):
        for name in [*names, *(one for one in folders if os.path.islink(os.path.join(root, one)))]:
            path = Path(root, name)
            key = os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace")
            if path.is_symlink() or not path.is_file():
                found[key] = "special"
            else:
                found[key] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _processor_time() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime - _Compiling.seconds


def _forget_peak() -> None:
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _peak() -> int:
    with open("/proc/self/status") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM")), 0)


def _read(fd: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    with io.FileIO(fd) as file:
        return (file.read(SAID) or b"").decode("utf-8", "backslashreplace")


class _Compiling:
    """Processor time that went into compiling kernels, which is paid once for a machine and not by an answer."""

    seconds = 0.0
    depth = 0

    @classmethod
    def listen(cls, tell: Callable[[str], None]) -> None:
        from numba.core import event

        class Listener(event.Listener):
            def on_start(self, _: Any) -> None:
                if cls.depth == 0:
                    tell("compiling")
                    self.began = time.process_time()
                cls.depth += 1

            def on_end(self, _: Any) -> None:
                cls.depth -= 1
                if cls.depth == 0:
                    cls.seconds += time.process_time() - self.began
                    tell("compiled")

        register: Any = event.register
        register("numba:compile", Listener())


def main() -> None:
    """Read cases from one pipe and write outcomes to the other until the first is closed."""
    requests, answers, evil, hook = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    warnings.simplefilter("always")  # else the second case that warns would look better than the first

    def tell(line: str) -> None:
        os.write(answers, line.encode() + b"\n")

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # whoever watches may be killed while a case hangs
    plant(evil)
    worker = Worker(evil, tell)
    prepare = _named(hook)
    if "numba" in sys.modules:  # planted faults need no kernels, and a worker for almost each of them
        _Compiling.listen(tell)
    tell("ready")
    with io.FileIO(requests) as pipe:
        for line in io.BufferedReader(pipe):
            request = json.loads(line)
            folder = Path(request.pop("folder"))
            entry, keep = request.pop("entry"), request.pop("keep")
            kind = request["kind"]
            one = worker.run(kind, folder, partial(prepare, request), entry)
            tell("outcome " + one.judged().to_json())
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)
                for name in ("out", "err"):
                    folder.with_name(f"{folder.name}.{name}").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
