"""A machine never waits without a command while a plan is made: it has fallen, is held, or gets the safe action."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.problems.remote.machines_served import served
from tests.runs.live import quick_players
from tests.runs.live.quick_players import Mortal
from tests.runs.live.test_live import learn, replayed

import resetfree as rf
from resetfree.core import Notice
from resetfree.problems.remote.packets import ANSWERS
from resetfree.runs.live.acting import _Acting

RATE, SLOW = 50.0, 0.4  # Hz; seconds that a plan takes: 20 ticks
AGES = 2.0  # the same where a busy computer must not be mistaken for it


def test_after_a_fall_the_plan_is_there_before_the_lever_is_pulled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_reset: list[tuple[int, int]] = []  # what the plan rests on, and the fall, when a reset is requested
    behind: list[int] = []  # sensors since those that the first command of a life answers
    perform = _Acting._reset

    def reset(self: Any, operator: Any) -> None:
        at_reset.append((-1 if self._plan is None else self._plan.based_on, self._game.fell))
        perform(self, operator)

    monkeypatch.setattr(_Acting, "_reset", reset)
    with served(tmp_path, rate=RATE, seed=2) as machine:
        station: Any = machine.station
        accept = station._command

        def command(header: Any, payload: Any, *more: Any) -> Any:
            if station.held and not behind[len(at_reset) - 1 :]:
                behind.append(station._sent - ANSWERS.unpack_from(payload)[0])
            return accept(header, payload, *more)

        monkeypatch.setattr(station, "_command", command)
        with machine.problem(horizon=25, actions=2) as problem:
            run = learn(problem, Mortal(slow=AGES), path=tmp_path / "a.rfrun", rate="own", max_resets=2, episodes=1000)
            assert station.client is None  # it is released when the run has ended
            before = station.counts.due
    assert station.counts.due == before
    assert at_reset[0] == (-1, 0)
    assert len(at_reset) == len(behind) == 2  # at the start, and after the first fall
    assert at_reset[1][0] >= at_reset[1][1] > 0
    assert max(behind) <= 0.75 * AGES * RATE
    monkeypatch.setattr(quick_players, "time", SimpleNamespace(sleep=lambda seconds: None))
    replayed(run, problem, Mortal)


def test_while_acting_waits_for_a_slow_learner_the_safe_action_is_commanded_and_no_policy_acts_on_old_sensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    firsts: list[int] = []  # the first action of every round
    with served(tmp_path, "tanks", rate=RATE, seed=2) as machine:
        how: dict[str, Any] = {"rate": rf.Deadlines(RATE, safe=1), "max_staleness": 1, "episodes": 8}
        how["progress"] = lambda game, this: firsts.append(int(this.episode.actions[0]))
        two = machine.problem(horizon=3, actions=[[0.0, 0.0], [0.2, 0.2]])
        with two as problem, pytest.warns(Notice, match="safe action is held"):
            run = learn(problem, Mortal(slow=SLOW), path=tmp_path / "a.rfrun", **how)
        commands = machine.station.counts.commands
    waited = [one.k for one in run.notes if "safe action is held" in one.what]
    assert waited
    assert [firsts[k - 1] for k in waited] == [1] * len(waited)
    assert commands >= run.columns["steps"].sum() + 10  # between the episodes too
    monkeypatch.setattr(quick_players, "time", SimpleNamespace(sleep=lambda seconds: None))
    replayed(run, problem, Mortal)
