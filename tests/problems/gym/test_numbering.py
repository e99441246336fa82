"""Numbers of observations outlive an interruption: a resumed run speaks of the same states."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.core.errors import EnvironmentFailed


def test_a_resumed_run_numbers_observations_as_before(line: Any, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "primal": "support-elimination", "dual": "constant-penalty", "episodes": 60, "seed": 1, "B": 1.0,
        "path": tmp_path / "line.rfrun",
    }  # fmt: skip
    env = line(observation="dictionary")
    env.fail[150] = RuntimeError("stalled")
    first = rf.from_gym(env, horizon=10, states=30)
    with pytest.raises(EnvironmentFailed):
        rf.learn(first, **given)
    known = first.saved()["seen"]
    assert len(known) > 5
    second = rf.from_gym(line(observation="dictionary"), horizon=10, states=30)
    run = rf.learn(second, resume=True, **given)
    assert len(run) == 60
    assert np.array_equal(second.saved()["seen"][: len(known)], known)
