"""The bits of a run on stored transitions do not depend on how many threads linear algebra may use."""

import os
import subprocess
import sys
import threading

import pytest

from resetfree.core.compiled import libraries, one_thread

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
