"""Compiled kernels and signals; the same bits on any number of threads."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from resetfree.core.compiled import libraries, one_thread
from resetfree.core.interrupts import deferred


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """As in a shell, wherever the tests are started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# A kernel is loaded from the cache, and the signal comes while LLVM asks for its code.
SCRIPT = """
import signal, sys
import numba.core.codegen as codegen
import numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background has ignored
library, left = codegen.JITCodeLibrary, [1]
plain = library._object_getbuffer_hook.__func__

def hook(cls, module):
    code = plain(cls, module)
    if code is not None and left[0]:
        left[0] = 0
        signal.raise_signal(signal.SIGINT)
    return code

library._object_getbuffer_hook = classmethod(hook)
sys.path.insert(0, ".")
import resetfree.core.compiled as compiled
if sys.argv[1] == "no":
    compiled._have_signals_wait = lambda: None
import kernel_of_ours
try:
    kernel_of_ours.double(np.arange(3.0))
    print("lost")
except KeyboardInterrupt:
    print("interrupted", kernel_of_ours.double(np.arange(3.0)).tolist())
"""
KERNEL = """
from resetfree.core.compiled import jit

@jit
def double(x):
    return 2.0 * x
"""


def played(folder: Path, guarded: str) -> subprocess.CompletedProcess[str]:
    (folder / "kernel_of_ours.py").write_text(KERNEL)
    (folder / "interrupt.py").write_text(SCRIPT)
    warm = "import numpy as np, kernel_of_ours; kernel_of_ours.double(np.arange(3.0))"
    subprocess.run([sys.executable, "-c", warm], cwd=folder, check=True)  # into the cache
    line = [sys.executable, "interrupt.py", guarded]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True)


def test_ctrl_c_while_a_kernel_is_loaded_interrupts(tmp_path: Path) -> None:
    done = played(tmp_path, "yes")
    assert (done.returncode, done.stdout) == (0, "interrupted [0.0, 2.0, 4.0]\n"), done.stderr


def test_without_the_wait_it_would_be_the_end(tmp_path: Path) -> None:
    """The mutant: Python drops the interrupt, and Numba writes to address 0."""
    assert played(tmp_path, "no").returncode == -signal.SIGSEGV


def test_signals_wait_until_the_end_and_none_is_lost() -> None:
    order = list[str]()

    def twice() -> None:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            order.append("inside")
        order.append("after")

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert order == ["inside"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_is_ignored_stays_so_and_other_threads_change_nothing() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    seen = list[object]()

    def elsewhere() -> None:
        with deferred():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


# Matrices large enough for OpenBLAS to split: with the threads that it chooses, one and two give different values.
RUN = """
import hashlib
import resetfree as rf
from resetfree.problems.features.basis import RandomFourier
from resetfree.players.linear.stored_linear import StoredLinear
from resetfree.players.testing.trial_problems import Plane

problem = Plane("plane", 100, (0.3, 0.8), danger=1.5)
problem.features = RandomFourier(d=200)
player = StoredLinear(planning=20, {settings})
run = rf.learn(problem, player, "counting", episodes=12, seed=0, feedback="realised")
print(hashlib.sha256(b"".join(run.columns[name].tobytes() for name in ("v_r_hat", "v_c_hat", "upper"))).hexdigest())
"""


@pytest.mark.parametrize("settings", ["", pytest.param("switching='every'", marks=pytest.mark.slow)])
def test_a_run_has_the_same_bits_on_any_number_of_threads(settings: str) -> None:
    if not libraries():
        pytest.skip("NumPy and SciPy bring no OpenBLAS of their own here")
    seen = set()
    for n in ("1", "2", "3"):
        surroundings = {**os.environ, "OPENBLAS_NUM_THREADS": n, "OMP_NUM_THREADS": n}
        code = RUN.replace("{settings}", settings)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=surroundings
        )
        seen.add(done.stdout)
    assert len(seen) == 1


def test_threads_are_given_back_after_the_last_block() -> None:
    before = [threads() for threads, _ in libraries()]
    for _, use in libraries():
        use(2)
    try:
        others: list[list[int]] = []

        def elsewhere() -> None:
            with one_thread:
                others.append([threads() for threads, _ in libraries()])

        with one_thread:
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            others.append([threads() for threads, _ in libraries()])
        assert all(n == 1 for found in others for n in found)
        assert [threads() for threads, _ in libraries()] == [2] * len(libraries())
    finally:
        for (_, use), n in zip(libraries(), before, strict=True):
            use(n)
