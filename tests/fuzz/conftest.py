"""The honest files, made once for all processes that test."""

import os
import random
from pathlib import Path

import pytest
from filelock import FileLock
from tests.fuzz.campaign import make_corpus

SEED = "RESETFREE_FUZZ_SEED"  # the variable that fixes the seed of the long part; `make test-all` sets and prints it


@pytest.fixture(scope="session")
def fresh_seed() -> int:
    """The seed of the long part: a new one for each run of the tests, unless the variable names one."""
    return int(os.environ.get(SEED) or random.SystemRandom().randrange(1, 2**31))


def made_once(factory: pytest.TempPathFactory, name: str, *, full: bool) -> Path:
    """The folder of a corpus; the first process that asks for it makes it, and the others wait."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            make_corpus(folder, full=full)
    return folder


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "corpus", full=False)


@pytest.fixture(scope="session")
def full_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "full-corpus", full=True)
