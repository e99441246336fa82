"""What players require of a problem, of a run and of each other before they play; settings have `core.settings`."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from resetfree.core.errors import InvalidInput, NotCertifiable
from resetfree.core.extras import NETWORKS
from resetfree.core.settings import PositiveInt, check
from resetfree.game.capabilities import Partner, Suited
from resetfree.game.contract import Plan, Round, Statement
from resetfree.problems.action_spaces import Box
from resetfree.problems.contract import Episode, Problem

# Learning from episodes that a player did not choose, for players whose update needs nothing else of a round.


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


# What primal players share about the problems that suit them, for `auto`.

AHEAD = 200  # steps that are planned ahead where states are vectors: danger may come slowly
SENSORS, JOINTS = 60, 17  # numbers in a state and in an action up to which a search in a fitted model was tried
LONG_STATE = 8  # numbers in a state beyond which networks play where they are installed
TOO_LONG = 2000  # and up to which: five networks for more take minutes a step
LIFE = 100  # steps of a machine that are planned ahead
CHARGE = 200.0  # for a reset of a machine: twice the most that these steps can earn
MACHINE = {"planning": LIFE, "caution": 0.3, "population": 24, "rounds": 12, "starts": 24}  # found by trying


def for_vectors(problem: Problem, rank: float, how: str) -> Suited | None:
    """How a player that plans ahead suits a problem with bounded vectors for states; None for other problems.

    A reset is charged the most that the steps planned can earn.  how: what the player does, as a part of a sentence.
    """
    if problem.actions.n is None or problem.n_states is not None or problem.low is None:
        return None
    ahead = max(AHEAD, problem.horizon)
    charged = f"a reset is charged {ahead}, the most that {ahead} steps can earn"
    why = f"states are vectors of {len(problem.low)}, and {charged}; {how}, {ahead} steps ahead"
    return Suited(rank, why, Partner("constant-penalty", "realised", {"C": float(ahead)}), {"planning": ahead})


def for_machines(problem: Problem, rank: float, how: str) -> Suited | None:
    """How a player that searches in a model suits problems whose states are vectors; None for other problems.

    how: what the player does, as a part of a sentence.
    """
    actions = problem.actions
    if problem.n_states is not None or problem.low is None or not problem.stationary:
        return None
    why = f"states are vectors of {len(problem.low)} and actions {actions}; {how}, {LIFE} steps ahead, and a reset is "
    why += f"charged {CHARGE:g}, twice the most that these can earn"
    if len(problem.low) > SENSORS or (isinstance(actions, Box) and actions.size > JOINTS):
        why += f"; it was tried up to {SENSORS} and {JOINTS} numbers, and beyond expect long pauses and more resets"
    if isinstance(actions, Box) and for_networks(problem) and not networks_installed():
        why += f"; for networks, which earn more there, {NETWORKS}"
    return Suited(rank, why, Partner("constant-penalty", "realised", {"C": CHARGE}), dict(MACHINE))


def networks_installed() -> bool:
    """Whether JAX and optax are; neither is imported."""
    return all(find_spec(name) is not None for name in ("jax", "optax"))


def for_networks(problem: Problem) -> bool:
    """Whether states are so long that a linear policy found in a fitted model earns little, and networks may pay."""
    return problem.low is not None and LONG_STATE < len(problem.low) <= TOO_LONG


def features_words(dimension: int, pooled: bool) -> str:
    """Why players for features of pairs are chosen."""
    data = "pooled over the steps, as the dynamics are stationary" if pooled else "one regression per step"
    return f"features of dimension {dimension} are given, so one pair informs about others; {data}"


# --------------------------------------------------------------------------------------------------------------------


def finite_states(problem: Problem, name: str) -> int:
    """The number of states S; raises NotCertifiable if states are a continuum."""
    if problem.n_states is None:
        raise NotCertifiable(f"The player '{name}' needs a finite problem. Got a continuum of states instead.")
    return problem.n_states


def sizes(problem: Problem, pooled: bool, name: str) -> tuple[int, int, int]:
    """Layers, states and actions of a table; raises if the problem has no such table."""
    n_states = finite_states(problem, name)
    if pooled and not problem.stationary:
        raise InvalidInput(f"The 'pooled' of {name} must be false for dynamics that change with the step. Got True.")
    return 1 if pooled else problem.horizon, n_states, problem.n_actions


def check_room(problem: Problem, name: str, size: int, of: str, advice: str) -> None:
    """Refuse a player whose data would take more bytes than there is room for; advice: the end of a sentence."""
    if size > problem.room:
        raise InvalidInput(
            f"The player '{name}' keeps {size / 1e9:.1f} GB of {of} for this problem, which must be at most "
            f"{problem.room / 1e9:.0f} GB{advice and f': {advice}'}."
        )


def check_episodes(episodes: int, name: str) -> int:
    """K, for constants that must know it."""
    check(episodes, PositiveInt, f"'episodes' of {name}")
    return episodes


def dyadic(lam: float, bound: float) -> float:
    """The smallest of 0, 1, 2, 4, ... that is not below `lam`, or `bound` if that is closer.

    >>> [dyadic(lam, 5.0) for lam in (0.0, 0.3, 1.0, 1.1, 4.5, 5.0, 7.0)]
    [0.0, 1.0, 1.0, 2.0, 5.0, 5.0, 8.0]
    """
    if lam == 0.0:
        return 0.0
    level = 1.0
    while level < lam:
        level *= 2.0
    return min(level, bound) if lam <= bound else level


def bound_of(player: Any) -> float:
    """B, the player's bound on the multipliers; a run fills it in from the oracle."""
    if player.B is None:
        raise InvalidInput(f"The 'B' of {player.name} must be a bound on the multipliers. Got None instead.")
    return float(player.B)


def covered_unless(lacks: Mapping[str, bool], constants: dict[str, Any], why: str) -> Statement:
    """What is proved and `why`, unless something is missing; lacks: sentences, and whether each is true."""
    if reasons := [reason for reason, missing in lacks.items() if missing]:
        return Statement(constants, False, "no theorem covers this run: " + "; ".join(reasons))
    return Statement(constants, True, why)


def pooled_lacks(problem: Problem, pooled: bool) -> dict[str, bool]:
    """For `covered_unless`: where data of all steps are no samples of one regression of r + V(s').

    An end that alone can be a reset makes V(s') of the last step another function; an action that leads nowhere
    (literal boundary) is a sample without s', which would be taken for one with V(s') = 0.
    """
    words = "data are pooled over the steps, and the"
    return {
        f"{words} end of an episode can call for a reset": pooled and problem.end_resets,
        f"{words} last action of an episode leads nowhere": pooled and problem.n_transitions < problem.horizon,
    }


def no_margin(authors: str, needs: str = "one start and ") -> str:
    """Why a theorem about constrained problems does not apply: what follows is up to the player."""
    none = "a policy that is safe with a margin, and at threshold zero there is none"
    return f"no theorem here: that of {authors} needs {needs}{none}"


def check_restarts(problem: Problem, name: str) -> None:
    """Refuse problems in which a reset episode does not report where the next one starts."""
    if problem.persistent:
        raise NotCertifiable(
            f"The player '{name}' must see where a reset puts the agent. Got '{problem.name}', in which an operator "
            "does that later, instead."
        )
