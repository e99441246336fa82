"""Predicted against realised resets: the columns of every run, and a verdict that no broken prediction escapes."""

import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import resetfree as rf
from resetfree.game.contract import Prediction
from resetfree.players import discover
from resetfree.players.tabular.references import BestResponse
from resetfree.runs.display import MEANT, foresight

PROBLEM, EPISODES = "random-linear-v0", 300
FREE: dict[str, Any] = {"dual": "constant-penalty", "settings": {"dual": {"C": 0.0}}, "episodes": EPISODES, "seed": 3}


class Inverted(BestResponse):
    """Foresees a reset where there is none, and none where there is one."""

    name: ClassVar[str] = "inverted"

    def plan(self, state: Any, s1: Any, lam: float) -> rf.Plan:
        plan = super().plan(state, s1, lam)
        return plan._replace(v_c=1.0 - plan.v_c)


class Confident(BestResponse):
    """Foresees no reset at all, and says that this is meant to be high."""

    name: ClassVar[str] = "confident"
    prediction: ClassVar[Prediction] = "high"

    def plan(self, state: Any, s1: Any, lam: float) -> rf.Plan:
        return super().plan(state, s1, lam)._replace(v_c=0.0)


def test_who_knows_the_model_foresees_its_resets() -> None:
    run = rf.learn(PROBLEM, "best-response", **FREE)
    np.testing.assert_allclose(run.predicted_resets, run.resets, atol=1e-9)
    found = run.foresight
    assert found.realised == run.realised_resets[-1] > 10
    assert (found.meant, found.verdict) == ("expected", None)
    assert found.predicted == run.predicted_resets[-1]


@pytest.mark.parametrize("player", [Inverted, Confident])
def test_a_broken_prediction_shows_in_the_verdict(player: type[BestResponse]) -> None:
    found = rf.learn(PROBLEM, player(), **FREE).foresight
    share = found.realised / EPISODES
    assert found.predicted is not None
    if player is Inverted:
        assert found.predicted / EPISODES == pytest.approx(1 - share, abs=0.1)
    assert found.verdict == ("too high" if found.predicted > found.realised else "too low")
    assert f"{found.verdict} (95 %)" in found.words
    assert MEANT[found.meant] in found.words


def test_an_inverted_prediction_of_the_right_size_shows_in_the_means() -> None:
    reset = np.arange(200) % 2 == 0
    right, wrong = (foresight({"v_c_hat": p, "reset": reset}, "expected") for p in (0.75 * reset, 0.75 * ~reset))
    assert right.verdict is wrong.verdict is None  # both predict 75 resets, and 100 happened
    assert (right.with_reset, right.without_reset) == (0.75, 0.0)
    assert (wrong.with_reset, wrong.without_reset) == (0.0, 0.75)


def test_a_verdict_on_honest_predictions_is_rarely_wrong() -> None:
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(300):
        p = rng.random(rng.integers(1, 400)) ** rng.integers(1, 6)
        wrong += foresight({"v_c_hat": p, "reset": rng.random(len(p)) < p}, "expected").verdict is not None
    assert wrong <= 3  # 1 % at most, over all rounds at once


def test_a_player_that_predicts_nothing_says_so() -> None:
    run = rf.learn(PROBLEM, "uniform", **FREE)
    assert run.realised_resets[-1] > 0
    assert not run.columns["v_c_hat"].any()  # which would read as a prediction of no reset
    assert np.isnan(run.predicted_resets).all()
    found = run.foresight
    assert found.words == "the player predicts none"
    assert found == ("none", None, run.realised_resets[-1], None, None, None)


def test_every_player_says_how_its_prediction_is_meant() -> None:
    said = {name: player.prediction for name, player in discover("primal").items()}
    assert set(said.values()) == set(MEANT)
    assert {name for name, how in said.items() if how == "high"} == {"model-search", "sac-lagrangian", "staged-search"}
    assert {name for name, how in said.items() if how == "expected"} == {
        "best-response",
        "goal-search",
        "mbpo",
        "neural-search",
        "ppo",
        "sac",
    }


def test_a_file_says_the_same_as_the_run(tmp_path: Path) -> None:
    file = tmp_path / "a.rfrun"
    run = rf.learn(PROBLEM, Confident(), **FREE, path=file)
    assert rf.load(file, primal=Confident).foresight == run.foresight
    unknown = rf.load(file).foresight  # whose class is not known: its best guess
    assert unknown == run.foresight._replace(meant="expected")


def test_a_prediction_that_is_no_number_is_none() -> None:
    columns = {"v_c_hat": np.array([0.5, math.nan]), "reset": np.array([True, False])}
    assert foresight(columns, "expected") == ("expected", None, 1, None, None, None)
    nothing = foresight({name: column[:0] for name, column in columns.items()}, "expected")
    assert (nothing.predicted, nothing.realised) == (None, 0)
