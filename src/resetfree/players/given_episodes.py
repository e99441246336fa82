"""Learning from episodes that a player did not choose, for players whose update needs nothing else of a round."""

from __future__ import annotations

from typing import Any

from resetfree.game.contract import Plan, Round
from resetfree.problems.contract import Episode


class TakesEpisodes:
    """A primal player whose `update` uses the episode alone, and for which an episode of any policy is as good."""

    update: Any

    def absorb(self, state: Any, episode: Episode) -> Any:
        """Learn from an episode of data."""
        return self.update(state, given_round(episode))


def given_round(episode: Episode, policy: Any = None) -> Round:
    """An episode of data as a round before the first."""
    plan = Plan(policy, 0.0, 0.0)
    return Round(0, episode.start, 0.0, plan, episode=episode, cost_signal=float(episode.reset), exact=None)
