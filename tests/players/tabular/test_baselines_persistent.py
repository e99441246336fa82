"""Baselines that take the restart for where the last action led say so where nobody knows it yet."""

from __future__ import annotations

import pytest

import resetfree as rf
from resetfree.players import discover

REFUSE = {"leave-no-trace", "medal", "olsvi-fh"}
PLAYERS = [name for name, player in discover("primal").items() if not player.vectors_only]


@pytest.mark.parametrize("name", PLAYERS)
def test_every_player_plays_or_refuses_an_environment_that_somebody_resets(name: str) -> None:
    lake = rf.from_gym("gym:FrozenLake-v1", horizon=5, reset_when="terminated and observation!=15")

    def learn() -> rf.Run:
        settings = {"dual": {"C": 5.0}}
        return rf.learn(lake, name, "constant-penalty", episodes=12, settings=settings, feedback="realised", B=5.0)

    if name in REFUSE:
        with pytest.raises(rf.ResetFreeError, match="must see where a reset puts the agent"):
            learn()
    else:
        assert len(learn()) == 12
