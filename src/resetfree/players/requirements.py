"""Which problems with vectors for states suit players that plan ahead, for `auto`."""

from dataclasses import replace
from importlib.util import find_spec

from resetfree.core.extras import NETWORKS
from resetfree.game.capabilities import Partner, Suited
from resetfree.problems.action_spaces import Box
from resetfree.problems.contract import Problem

AHEAD = 200  # steps that are planned ahead where states are vectors: danger may come slowly
SENSORS, JOINTS = 60, 17  # numbers in a state and in an action up to which a search in a fitted model was tried
FITTED = 120  # numbers in a state up to which a plan in a fitted model takes seconds
LONG_STATE = 8  # numbers in a state beyond which networks are tried, or play, where they are installed
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


def for_long_states(problem: Problem, rank: float, how: str) -> Suited | None:
    """How a player with networks suits machines with many numbers in a state; None without the extra.

    how: what the player does, as a part of a sentence.
    """
    offer, able = for_machines(problem, rank, how), for_networks(problem) and networks_installed()
    if offer is None or problem.low is None or not (isinstance(problem.actions, Box) and able):
        return None
    why = f"states are vectors of {len(problem.low)} and actions {problem.actions}; {how}"
    return replace(offer, why=why, settings={})


def networks_installed() -> bool:
    """Whether JAX and optax are; neither is imported."""
    return all(find_spec(name) is not None for name in ("jax", "optax"))


def for_networks(problem: Problem) -> bool:
    """Whether states are so long that a linear policy found in a fitted model earns little, and networks may pay."""
    return problem.low is not None and LONG_STATE < len(problem.low) <= TOO_LONG
