"""A reset whose probability is 1e-300 asks for a multiplier of 1e300, whose square is no float."""

import dataclasses
import math

import numpy as np
import pytest

import resetfree as rf
from resetfree.players import discover
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.theory.certificates import certify

TINY = 1e-300


def almost_safe() -> rf.FiniteMDP:
    """Going on from 1 pays, and ends in a reset once in 1e300 times."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = transition[0, 1, 1] = transition[1, 0, 0] = transition[2, :, 2] = 1.0
    transition[1, 1] = [1.0 - TINY, 0.0, TINY]
    reward = np.array([[0.0, 0.1], [0.2, 1.0], [0.0, 0.0]])
    return rf.FiniteMDP(transition, reward, [False, False, True], 3)


PLAYERS = [
    (role, name, width)
    for role in ("primal", "dual")
    for name, cls in sorted(discover(role).items())
    if not cls.vectors_only
    for width in (("tuned", "theory") if "width" in {f.name for f in dataclasses.fields(cls)} else ("",))
]


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize(("role", "name", "width"), PLAYERS)
def test_every_player_plays_and_is_certified(role: str, name: str, width: str) -> None:
    primal, dual = (name, ConstantPenalty(C=1.0)) if role == "primal" else ("uniform", name)
    settings = {"primal": {"width": width}} if width else {}
    for feedback in ("optimistic", "realised"):
        run = rf.learn(almost_safe(), primal, dual, feedback=feedback, episodes=20, settings=settings)
        assert np.isfinite(run.columns["lam"]).all()
        assert not [c.claim for c in certify(run) if c.status == "proved" and not c.holds]


def test_the_players_that_know_the_multiplier_state_finite_bounds() -> None:
    for name in ("projected-gradient", "constant-step", "adagrad-norm", "optimistic-gradient", "one-multiplier"):
        run = rf.learn(almost_safe(), "uniform", name, feedback="realised", episodes=20)
        said = run.spec["statements"]["dual"]
        assert run.spec["B"] > 1e299
        assert math.isfinite(said["constants"]["dual_regret_bound"])
        assert said["covered"]
