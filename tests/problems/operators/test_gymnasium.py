"""A Gymnasium environment with a person beside it: stopped in the middle, it goes on with all that was learned."""

from pathlib import Path
from typing import Any

import pytest

import resetfree as rf
from resetfree.core.errors import OperatorTimeout
from resetfree.problems.operators import Request
from resetfree.runs.file.runfile import connect, read_problem

gym = pytest.importorskip("resetfree.problems.gym")


def test_numbered_observations_keep_their_numbers_over_sessions(tmp_path: Path) -> None:
    """The lake without its table: states are numbered in the order in which they come."""
    path = tmp_path / "a.rfrun"
    came: list[str] = []

    def ask(request: Request) -> None:
        came.append(request.why)
        if len(came) % 7 == 0:
            raise OperatorTimeout("Nobody came.")

    def learn(**asked: Any) -> rf.Run:
        lake = gym.from_gym("gym:FrozenLake-v1", horizon=10, states=20, table=False)
        return rf.learn(lake, episodes=60, seed=2, path=path, operator=rf.OperatorReset(ask), **asked)

    def numbers() -> bytes:
        connection = connect(path, "ro")
        kept = read_problem(connection, path)
        connection.close()
        return kept["seen"].tobytes()

    sessions, before = 0, b""
    while True:
        sessions += 1
        try:
            run = learn(resume=path.exists())
        except OperatorTimeout:
            seen = numbers()
            assert seen.startswith(before)  # what has a number keeps it
            before = seen
            continue
        break
    assert sessions >= 3
    assert len(run) == 60
    assert len(before) > 16  # more than one of them
    assert numbers().startswith(before)
    whys = [one.why for one in run.interventions]
    assert whys[0] == "start"
    assert whys.count("start") == 1
    assert whys.count("resume") == sessions - 1
    assert len(whys) == len(came) - (sessions - 1)  # each session but the last ended with a question nobody answered
