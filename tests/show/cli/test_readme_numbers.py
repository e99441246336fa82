"""The numbers of the README are those of its commands, replayed with few episodes and fixed seeds.

The run on CartPole is replayed whole in `tests/test_docs.py`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import resetfree as rf
from resetfree.runs.request import EPISODES, ON_VECTORS, HowLong

README = (Path(__file__).parents[3] / "README.md").read_text()


def stated(pattern: str) -> float:
    """The number that the README states."""
    (found,) = re.findall(pattern, README)
    return float(found)


def test_a_run_has_as_many_episodes_as_stated_unless_something_else_ends_it() -> None:
    pole, grid = rf.from_gym("gym:CartPole-v1", horizon=10), rf.make("grid-v0").problem()
    assert stated(r"(\d+) episodes, a fall or two") == ON_VECTORS
    assert [HowLong().planned(one) for one in (pole, grid)] == [ON_VECTORS, EPISODES]
    assert HowLong(steps=50).planned(pole) == EPISODES
    assert HowLong(episodes=7).planned(pole) == 7


def test_elimination_on_the_grid_needs_as_few_resets_as_stated() -> None:
    resets, regret = map(float, re.findall(r"`grid-v0` with ([\d.]+) resets and regret (\d+)", README)[0])
    runs = [rf.learn("grid-v0", episodes=400, seed=seed) for seed in range(4)]
    mean = sum(float(run.realised_resets[-1]) for run in runs) / len(runs)
    assert 0.5 * resets <= mean <= 2 * resets
    assert sum(float(run.regret[-1]) for run in runs) / len(runs) <= 2 * regret


@pytest.mark.parametrize(("typed", "offered"), [("resetfree cer", "certify"), ("resetfree run --prim", "--primal")])
def test_a_shell_gets_its_completions(typed: str, offered: str) -> None:
    assert "_RESETFREE_COMPLETE=bash_source" in README
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_RESETFREE_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from resetfree.show.cli import main; sys.exit(main())"],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"plain,{offered}" in done.stdout.splitlines()
