"""The clock of a run that is followed: rate, lateness, age of plans and missed deadlines beside its other numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import resetfree as rf
from resetfree.show.studio.files import RunFolder
from resetfree.show.studio.following import Followed, Following, TimedHistory
from resetfree.show.studio.frames import History, RunScene, scene_of


def scene(timing: object) -> RunScene:
    return scene_of({**rf.learn("grid-v0", episodes=1).spec, "timing": timing})


def history(timing: object, late: float, n: int = 2000) -> TimedHistory:
    """More rounds than there is room for at first."""
    found = TimedHistory(scene(timing))
    for k in range(1, n + 1):
        found.add(0, 1.0, False, 0.0, 0.0, 0.0)
        found.tick(max(k - 5, 0), missed=k % 2, lateness=late * (3 if k == 7 else 1), steps=8)
    return found


def test_the_clock_stands_beside_the_other_numbers() -> None:
    found = history({"rate": 50}, 0.001)
    assert found.now == {
        **{"regret": pytest.approx(found.now["regret"]), "expected": 0.0, "realised": 0, "predicted": 0.0, "lam": 1.0},
        **{"pairs": None, "newest_reset": 0, "lived": 0, "reward": None, "upper": pytest.approx(found.now["upper"])},
        **{
            "age": 4.0,
            "missed": 1000.0,
            "latest": 3.0,
            "in_time": pytest.approx(100 * 16 / 17, rel=1e-5),
            "rate": 50.0,
        },
    }
    curves = found.curves()
    assert curves["k"][-1] == 2000
    assert curves["missed"] == [math.ceil(k / 2) for k in curves["k"]]
    assert curves["age"] == [min(k - 1, 4) for k in curves["k"]]
    assert set(curves["late"]) <= {1.0, 3.0}
    assert set(curves) - {"age", "missed", "late"} == set(History(scene(None)).curves())


def test_without_a_rate_there_is_no_lateness() -> None:
    now = history({"delay": 4}, math.nan, 10).now
    assert (now["age"], now["latest"], now["in_time"], now["rate"]) == (4.0, None, None, None)
    for strange in (10**400, "fast", -1, None, [1]):
        assert history({"rate": strange}, math.nan, 1).now["rate"] is None


def test_forgotten_rounds_leave_nothing() -> None:
    found = history({"rate": 50}, 0.001, 30)
    found.clear()
    assert found.k == 0
    found.add(0, 1.0, False, 0.0, 0.0, 0.0)
    found.tick(0, 0, 0.001, 8)
    assert (found.now["missed"], found.now["in_time"], found.now["latest"]) == (0.0, 100.0, 1.0)


@pytest.mark.parametrize(
    "clock", [(5, 0, 0.1, 8), (-1, 0, 0.1, 8), (1, -1, 0.1, 8), (1, 0, "x", 8), (1.5, 0, None, 8), (1, 0, None, b"")]
)
def test_a_clock_that_cannot_be_is_refused(clock: tuple[object, ...]) -> None:
    assert not Followed._clock_fits(5, *clock)
    assert Followed._clock_fits(5, 4, 0, None, 8)
    assert Followed._clock_fits(5)


def test_a_followed_run_shows_the_ages_of_its_plans(tmp_path: Path) -> None:
    run = rf.learn("grid-v0", episodes=60, path=tmp_path / "late.rfrun", delay=3)
    rf.learn("grid-v0", episodes=60, path=tmp_path / "new.rfrun")
    late, new = (Following(name, RunFolder(tmp_path)) for name in ("late", "new"))
    assert late.scene()["lanes"][0]["spec"]["timing"] == {"delay": 3}
    assert new.scene()["lanes"][0]["spec"]["timing"] is None
    lane = late.frame(True)["lanes"][0]
    assert lane["error"] == ""
    assert lane["curves"]["age"] == run.plan_ages.tolist()
    assert lane["now"]["age"] == run.plan_ages[-1]
    assert run.plan_ages.max() == 3
    assert (lane["now"]["missed"], lane["now"]["rate"], lane["now"]["realised"]) == (0, None, run.realised_resets[-1])
    assert not {"age", "missed"} & set(new.frame(True)["lanes"][0]["curves"])
