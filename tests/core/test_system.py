"""What only some systems have is used in one guarded place, and the package works without it."""

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import resetfree
from resetfree.core import system

SRC = Path(resetfree.__file__).parent
MODULES = {
    "fcntl",
    "termios",
    "tty",
    "pty",
    "pwd",
    "grp",
    "resource",
    "syslog",
    "posix",
    "crypt",
    "spwd",
    "nis",
    "readline",
}
NAMES = {
    "os": {
        *(
            "killpg",
            "setpgid",
            "setsid",
            "getpgid",
            "getpgrp",
            "tcgetpgrp",
            "tcsetpgrp",
            "fork",
            "forkpty",
            "wait",
            "wait4",
        ),
        *(
            "getuid",
            "geteuid",
            "getgid",
            "chown",
            "mkfifo",
            "statvfs",
            "uname",
            "ttyname",
            "openpty",
            "nice",
            "sysconf",
        ),
        *("sched_getaffinity", "sched_setaffinity", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_DIRECTORY", "kill"),
    },
    "signal": {"SIGKILL", "SIGHUP", "SIGUSR1", "SIGALRM", "SIGPIPE", "pthread_sigmask", "alarm", "setitimer", "pause"},
    "socket": {"AF_UNIX"},
    "resource_tracker": {"ensure_running"},
}
# The terminal needs POSIX and says so; the lever at a terminal is left out where its calls are missing.
GUARDED = {"core/system.py", "problems/operators/person.py", "problems/remote/station.py", "show/cli/machine.py"}


def files() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SRC.rglob("*.py")):
        yield path.relative_to(SRC).as_posix(), ast.parse(path.read_text())


def test_no_module_imports_what_only_posix_has_when_it_is_imported() -> None:
    wrong = []
    for name, tree in files():
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        late = {id(node) for function in functions for node in ast.walk(function)}
        for node in ast.walk(tree):
            tops = []
            if isinstance(node, ast.Import):
                tops = [alias.name.partition(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                tops = [(node.module or "").partition(".")[0]]
            wrong += [f"{name} imports {top}" for top in tops if top in MODULES and id(node) not in late]
    assert not wrong


def test_what_only_posix_has_is_used_in_guarded_places_alone() -> None:
    wrong = [
        f"{name}: {node.value.id}.{node.attr}"
        for name, tree in files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and name not in GUARDED
        if node.attr in NAMES.get(node.value.id, ())
    ]
    assert not wrong


WITHOUT = """
import builtins, importlib, os, pkgutil, signal, sys
for name in ("killpg", "setpgid", "getpgrp", "tcgetpgrp", "getuid", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY"):
    delattr(os, name)
for name in ("SIGKILL", "pthread_sigmask"):
    delattr(signal, name)
honest = builtins.__import__
def hooked(name, globals=None, *rest, **more):
    if name.partition(".")[0] in sys.argv[2].split(",") and (globals or {}).get("__name__", "").startswith("resetfree"):
        raise ImportError(name)
    return honest(name, globals, *rest, **more)
builtins.__import__ = hooked
import resetfree as rf
for module in pkgutil.walk_packages(rf.__path__, "resetfree."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # an extra that is not installed
            assert not error.name.startswith("resetfree")
from resetfree.core import files, system
os.name = "nt"
system.lead_group(); system.kill_group(os.getpid()); system.unblock(); files.flush_folder(None)
assert system.is_alive(-1) and system.owned(os.stat(".")) and (system.NOFOLLOW, system.NONBLOCK) == (0, 0)
with system.undisturbed():
    pass
os.name = "posix"
from pathlib import Path
file = Path(sys.argv[1]) / "a.rfrun"
rf.learn("grid-v0", episodes=20, path=file, max_resets=1)
print(len(rf.learn("grid-v0", episodes=20, path=file, resume=True)))
"""


def test_every_module_imports_and_a_run_is_saved_without_it(tmp_path: Path) -> None:
    words = [sys.executable, "-W", "ignore", "-c", WITHOUT, str(tmp_path), ",".join(sorted(MODULES))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "20\n"), done.stderr


def test_a_group_is_killed_with_what_it_started() -> None:
    code = (
        "import subprocess, sys\nfrom resetfree.core.system import lead_group\nlead_group()\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\nchild.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as leader:
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        assert system.is_alive(child)
        system.kill_group(leader.pid)
        assert leader.wait() == -signal.SIGKILL
        assert leader.stdout.read() == ""  # ends when the last process that holds it does
    system.kill_group(leader.pid)  # gone: nothing happens


WAITING = """
import signal
from resetfree.core import interrupts, system
seen = []
signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
with interrupts.held(), system.undisturbed():  # the thread that answers Ctrl-C must not take it
    system.send_to_self(signal.SIGTERM)
    assert not seen
assert seen == [signal.SIGTERM]
"""


def test_signals_wait_while_a_process_is_started() -> None:
    """In a process of its own: the threads of whoever runs the tests would take the signal."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    subprocess.run([sys.executable, "-c", WAITING], check=True, env={**os.environ, **one})


@pytest.mark.skipif(os.name != "posix", reason="files have owners on POSIX")
def test_the_owner_of_a_file_is_known(tmp_path: Path) -> None:
    assert system.owned(os.stat(tmp_path))
    if os.getuid() != 0:
        assert not system.owned(os.stat("/"))


CODE = """
import os, sys
from resetfree.core import system as priority
if {user} is not None:
    os.setuid({user})
got = priority.{function}()
real = {{getattr(os, "SCHED_FIFO", -1): "real-time", getattr(os, "SCHED_IDLE", -1): "idle"}}
kind = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK if sys.platform == "linux" else -2
nice = os.getpriority(os.PRIO_PROCESS, 0)
child = os.popen("awk '{{print $41}}' /proc/self/stat").read().strip()  # the policy of a child, by its number
print(got.name, real.get(kind, "nice " + str(nice) if nice else "usual"), child, got.words, sep="|")
"""


def outcome(function: str, user: int | None = None) -> tuple[str, str, str, str]:
    out = subprocess.run(
        [sys.executable, "-c", CODE.format(function=function, user=user)], capture_output=True, text=True, check=True
    )
    name, real, child, words = out.stdout.strip().split("|")
    return name, real, child, words


@pytest.mark.skipif(sys.platform == "win32", reason="no scheduling classes")
@pytest.mark.parametrize("function", ["take_highest", "take_lowest"])
def test_what_it_says_is_what_it_got(function: str) -> None:
    name, real, _, words = outcome(function)
    assert name in (real, "usual")
    assert words.startswith("It runs ")
    assert words.endswith(".")
    if function == "take_lowest":
        assert name in ("idle", "nice 19")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may become another user")
def test_without_privileges_it_stays_what_it_was_and_says_so() -> None:
    name, real, _, words = outcome("take_highest", user=65534)
    if name == "usual":  # as most systems have it
        assert not real.startswith("real-time")
        assert "neither the real-time class nor a lower nice is permitted" in words
    else:
        assert name == real
    assert outcome("take_lowest", user=65534)[0] in ("idle", "nice 19")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no real-time class here")
def test_a_child_does_not_inherit_the_real_time_class() -> None:
    name, _, child, _ = outcome("take_highest")
    assert child == str(os.SCHED_OTHER), name


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="sessions do not share the processors here")
@pytest.mark.parametrize(("leads", "nice"), [(True, 19), (False, 0)])
def test_the_lowest_place_is_that_of_the_session_too_if_it_is_its_own(leads: bool, nice: int) -> None:
    code = """
import os, subprocess, sys
from resetfree.core import system as priority
priority.take_lowest()
print(open("/proc/self/autogroup").read())
"""
    run = [sys.executable, "-c", code]
    if not leads:  # a child of the session's leader, as a program of a shell is
        run = [sys.executable, "-c", f"import subprocess; subprocess.run({run!r}, check=True)"]
    out = subprocess.run(run, capture_output=True, text=True, check=True, start_new_session=True)
    assert out.stdout.split()[-2:] == ["nice", str(nice)]
