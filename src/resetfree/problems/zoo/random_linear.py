"""`random-linear-v0`: a random linear MDP with features in the simplex, where the assumptions hold by construction;
`drifting-v0`: the same with dynamics that change with the step.

Legend: d features; nu [d, S] the measures they lead to, the last one the reset state; omega [d] their rewards.
"""

from typing import Annotated, TypeAlias

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Count, Fraction, PositiveInt, Range
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.transitions import Horizon
from resetfree.problems.registry import LAYER, STEP, Size, register

CONCENTRATION = 0.2  # of features and measures: a pair mixes few features, each of which leads mostly to few states
RISKY_SHARE = 0.5  # of the pairs (state, action), action 0 aside
RISK = (0.1, 0.5)  # range of the reset probability of a risky pair

AtLeastTwo: TypeAlias = Annotated[int, Range(2)]  # states and features, of which one belongs to resets


def _size(n_states: int, n_actions: int, d: int, horizon: int, *, stationary: bool = True, **_: object) -> Size:
    n_layers = 1 if stationary else horizon
    numbers = n_layers * n_states * n_actions * n_states + (n_states * n_actions + n_layers * n_states) * d
    return Size(numbers, (n_states * n_actions + STEP) * horizon if stationary else LAYER * horizon)


@register("drifting-v0", "A random linear MDP whose dynamics are drawn anew for each step of the episode.", _size)
def drifting(
    n_states: AtLeastTwo = 30,
    n_actions: PositiveInt = 4,
    d: AtLeastTwo = 6,
    horizon: Horizon = 6,
    seed: Count = 1,
    risk_pays: bool = True,
    stationary: bool = False,
) -> FiniteMDP:
    """Rows of phi in the simplex, nu_1..nu_{d-1} Dirichlet on the live states, nu_d the reset state: P_h = phi nu_h.

    Start in state 0, restart anywhere; the last state is the reset state. Action 0 never has weight on nu_d, so it is
    safe everywhere and Assumption 1 holds. Of the other pairs half are risky, with weight 0.1 to 0.5 on nu_d.
    ||phi|| <= 1, and the measures have total variation sqrt(d).

    risk_pays: if True, omega_d = 1, more than any safe action pays. If False, omega_d = 0 and a risky pair is action 0
    with a risk: phi(s, a) = (1 - p) phi(s, 0) + p e_d, so Q(s, a) = (1 - p) Q(s, 0) and every multiplier is 0.
    stationary: whether all steps have nu_1: the twin, a test of pooling.
    """
    rng = np.random.default_rng(seed)
    n_live = n_states - 1
    mixture = rng.dirichlet(np.full(d - 1, CONCENTRATION), size=(n_live, n_actions))
    risky = rng.random((n_live, n_actions)) < RISKY_SHARE
    risky[:, 0] = False
    risk = np.where(risky, rng.uniform(*RISK, size=(n_live, n_actions)), 0.0)
    omega = np.append(rng.random(d - 1), 1.0 if risk_pays else 0.0)
    if not risk_pays:
        mixture = np.where(risky[:, :, None], mixture[:, :1], mixture)
    phi = np.zeros((n_states, n_actions, d))  # zeros in the reset state, which has no actions
    phi[:n_live, :, :-1] = mixture * (1.0 - risk)[:, :, None]
    phi[:n_live, :, -1] = risk
    restart = np.full(n_states, 1.0 / n_live)
    restart[-1] = 0.0
    return FiniteMDP(
        np.stack([_transition(phi, _measures(rng, d, n_live)) for _ in range(1 if stationary else horizon)]),
        np.minimum(phi @ omega, 1.0),  # against rounding
        reset=np.arange(n_states) == n_live,
        horizon=horizon,
        start=0,
        restart=restart,
        phi=phi,
        xi=np.ones((n_states, 1)),
        name="drifting-v0",
        state_names=[*(f"s{i}" for i in range(n_live)), "reset"],
        action_names=["safe", *(f"a{i}" for i in range(1, n_actions))],
    )


@register("random-linear-v0", "A random linear MDP with simplex features: P = phi nu and r = phi omega exactly.", _size)
def random_linear(
    n_states: AtLeastTwo = 30,
    n_actions: PositiveInt = 4,
    d: AtLeastTwo = 6,
    horizon: Horizon = 6,
    seed: Count = 1,
    risk_pays: bool = True,
    epsilon: Fraction = 0.0,
) -> FiniteMDP:
    """As `drifting-v0`, with the same dynamics at every step.

    epsilon: the share of dynamics and rewards that is drawn for each pair alone, and so is not linear in phi. Rows move
    within the live states: what is safe stays safe. P is within 2 epsilon of a linear one (sum over s'), r within
    epsilon; `theory.assumptions.linearity` measures both.
    """
    twin = drifting(n_states, n_actions, d, horizon, seed, risk_pays=risk_pays, stationary=True)
    if epsilon == 0.0:
        return twin.replace(name="random-linear-v0")
    n_live, rng = n_states - 1, np.random.default_rng([seed, 1])
    alone = np.zeros((n_states, n_actions, n_states))
    alone[:n_live, :, :n_live] = rng.dirichlet(np.full(n_live, CONCENTRATION), size=(n_live, n_actions))
    linear = twin.transition.matrix(0).toarray().reshape(alone.shape)
    falls = linear[:, :, -1:]  # kept as it is
    transition = (1.0 - epsilon) * linear + epsilon * (1.0 - falls) * alone
    transition[:, :, -1:] = falls
    reward = (1.0 - epsilon) * twin.reward[0] + epsilon * rng.random(twin.reward[0].shape)
    total = transition.sum(axis=2, keepdims=True)
    rows = transition / np.where(total > 0, total, 1.0)
    return twin.replace(transition=rows, reward=reward, name="random-linear-v0")


def _measures(rng: np.random.Generator, d: int, n_live: int) -> Floats:
    nu = np.zeros((d, n_live + 1))
    nu[:-1, :-1] = rng.dirichlet(np.full(n_live, CONCENTRATION), size=d - 1)
    nu[-1, -1] = 1.0
    return nu


def _transition(phi: Floats, nu: Floats) -> Floats:
    """P = phi nu, each row divided by its sum, which is 1 up to rounding (the reset state keeps its zeros)."""
    transition = phi @ nu
    total = transition.sum(axis=2, keepdims=True)
    return np.asarray(transition / np.where(total > 0, total, 1.0))
