"""Where resets begin, in words: what few falls say about a boundary, and how surely."""

import re
from pathlib import Path

import numpy as np
import pytest

import resetfree as rf
from resetfree.game.capabilities import Decides
from resetfree.players.model_based.model_search import ModelSearch
from resetfree.players.model_based.reset_classifier import Wall, boundary
from resetfree.players.neural.neural_search import NeuralSearch

WORDS = r"resets begin where (?P<name>\S+) (?P<how>rises above|drops below) (?P<edge>\S+), give or take (?P<doubt>\S+) "


def test_the_fewest_walls_with_what_is_open_about_them() -> None:
    low, high = -np.ones(3), np.ones(3)
    dead = np.array([[-1.2, 0.0, 0.0], [-1.4, -1.5, 0.0], [0.0, 1.5, 3.0], [0.5, 0.5, 0.5]])
    first, second = boundary(low, high, dead)
    assert (first.sensor, first.above, first.lived, first.falls, first.rivals) == (0, False, -1.0, 2, ())
    assert (second.sensor, second.above, second.lived, second.falls, second.rivals) == (2, True, 1.0, 1, (1,))
    assert first.gap == pytest.approx(0.2)
    assert first.edge == pytest.approx(-1.1)
    assert second.gap == pytest.approx(2.0)
    assert second.edge == pytest.approx(2.0)


def test_a_wall_in_the_units_of_its_sensor() -> None:
    wall = Wall(1, above=False, lived=-2.0, gap=1.0, falls=3).unscaled(np.array([0.0, 10.0]), np.array([1.0, 4.0]))
    assert (wall.lived, wall.edge) == (2.0, 0.0)
    assert wall.in_words(["x", "height"], 5) == (
        "resets begin where height drops below 0, give or take 2 (3 of 5 falls)"
    )


LIMITS = {"observation[0]": 2.4, "observation[2]": 0.2095}  # of CartPole's place and angle


def test_falls_show_the_limits_of_a_pole(tmp_path: Path) -> None:
    """The true limit lies within what the sentence gives for it."""
    run = rf.learn(
        rf.from_gym("gym:CartPole-v1", horizon=100), "model-search", episodes=12, seed=1, path=tmp_path / "pole.rfrun"
    )
    found = [re.match(WORDS, one.what) for one in run.decisions]
    right = [one for one in found if one is not None and one["name"] in LIMITS]
    assert right
    for one in right:
        limit = LIMITS[one["name"]] * (1 if one["how"] == "rises above" else -1)
        assert abs(float(one["edge"]) - limit) <= float(one["doubt"]) + 5e-3 * abs(limit)  # rounding in words
    assert all(one.k == 12 for one in run.decisions)
    assert rf.load(tmp_path / "pole.rfrun").decisions == run.decisions


def test_data_count_as_no_rounds(tmp_path: Path) -> None:
    problem = rf.from_gym("gym:CartPole-v1", horizon=50)
    rf.learn(problem, "model-search", episodes=4, seed=0, path=tmp_path / "first.rfrun")
    run = rf.learn(problem, "model-search", episodes=3, seed=1, data=[tmp_path / "first.rfrun"])
    assert run.decisions
    assert {one.k for one in run.decisions} == {3}


def test_without_falls_nothing_is_said() -> None:
    run = rf.learn(rf.from_gym("gym:CartPole-v1", horizon=5), "model-search", episodes=1, seed=0)
    assert run.realised_resets[-1] == 0
    assert run.decisions == []


def test_both_players_of_machines_say_it() -> None:
    assert isinstance(ModelSearch(), Decides)
    assert isinstance(NeuralSearch(), Decides)
