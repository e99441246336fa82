"""A problem describes itself once: its fingerprint stays what recorded runs hold, and who resets it does not count."""

import numpy as np
import pytest

import resetfree as rf
from resetfree.problems.blueprint import blueprint, fingerprint
from resetfree.problems.registry import find_world

# The first digits of what runs of these problems have recorded.
RECORDED: dict[tuple[str, tuple[tuple[str, object], ...]], str] = {
    ("coin-chain-v0", ()): "82d8339e192e2c2d",
    ("contexts-v0", ()): "33428a2e58bdc190",
    ("continuous-linear-v0", ()): "8c777b5dd13b90da",
    ("drawn-by-hand-v0", ()): "f89bc758ef688010",
    ("grid-v0", ()): "e77be84d5a7bf3b6",
    ("gym:Blackjack-v1", (("reward_high", 1), ("reward_low", -1))): "952537b68c54fda4",
    ("gym:CartPole-v1", (("states", 50),)): "65bac487e0cc0613",
    (
        "gym:CartPole-v1",
        (("features", "polynomial"), ("state_high", 3.0), ("state_low", -3.0), ("xi", "polynomial")),
    ): "b169f7851e453a14",
    ("gym:CartPole-v1", ()): "867712732941cfb1",
    ("gym:FrozenLake-v1", (("goal_when", "never"), ("horizon", 10))): "84dd08619393b1fc",
    ("gym:Pendulum-v1", (("actions", 3), ("reward_high", 0), ("reward_low", -17))): "673fc0e9bba7892a",
    (
        "gym:Taxi-v4",
        (("goal_when", "never"), ("horizon", 10), ("reward_high", 20), ("reward_low", -10)),
    ): "9e9e23d9db950c3d",
    ("random-linear-v0", ()): "679da4ff7186333f",
}


@pytest.mark.parametrize("asked", RECORDED, ids=str)
def test_fingerprints_are_those_of_recorded_runs(asked: tuple[str, tuple[tuple[str, object], ...]]) -> None:
    name, options = asked
    with find_world(name, dict(options)) as world:
        assert world.fingerprint.startswith(RECORDED[asked])


def test_who_performs_resets_makes_no_other_problem() -> None:
    first = rf.from_gym("gym:FrozenLake-v1", horizon=10)
    second = rf.from_gym("gym:FrozenLake-v1", horizon=10, operator=rf.OperatorReset(by=lambda request: None))
    other = rf.from_gym("gym:FrozenLake-v1", horizon=11)
    assert fingerprint(first) == fingerprint(second) != fingerprint(other)
    second.close()
    assert fingerprint(first) == fingerprint(second)


def test_a_blueprint_keeps_what_the_description_says() -> None:
    pole = rf.from_gym("gym:CartPole-v1", features=lambda observation: np.array(observation[:2]))
    told = pole.description()
    assert told.function is not None
    assert told.observation == {"kind": "function-vector", "space": {"shape": [4]}}
    kept = blueprint(pole, np.zeros(2))
    assert kept["observation"] == told.observation
    assert isinstance(pole.actions, rf.Choices)
    assert kept["actions"]["values"] == list(pole.actions) == [0, 1]
    counted = rf.from_gym("gym:CartPole-v1", states=9).description().observation
    assert counted == {"kind": "numbered", "count": 9, "space": {"shape": [4]}}
    assert rf.from_gym("gym:FrozenLake-v1").description().observation == {"kind": "number", "first": 0, "count": 16}
