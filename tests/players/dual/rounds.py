"""Dual players against starts and costs, without a game: a problem that is nothing but its features, and rounds."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.core import Floats
from resetfree.players import discover, make_player

B = 7.0
K = 400
GRADIENTS = ("projected-gradient", "constant-step", "adagrad-norm", "optimistic-gradient")
NAMES = {*GRADIENTS, "coin-betting", "constant-penalty", "counting", "search", "doubling"}


class Stub(rf.Problem):
    """A problem that is nothing but its features."""

    name, horizon, n_actions, stationary, phi = "stub", 1, 1, True, None
    n_uniforms = 1

    def __init__(self, xi: Floats | None = None, n_states: int | None = 4) -> None:
        self.xi = xi
        self.n_states = n_states if xi is None else len(xi)

    def first_start(self, u: float) -> int:
        return 0

    def rollout(self, policy: Any, start: Any, u: Floats) -> rf.Episode:
        raise NotImplementedError


def a_round(k: int, s1: int, lam: float, g: float, reset: bool | None = None) -> rf.Round:
    happened = g > 0.5 if reset is None else reset
    episode = rf.Episode(np.array([s1, 0]), np.array([0]), np.array([0.0]), happened, 0)
    return rf.Round(k, s1, lam, rf.Plan(None, 0.0, g), episode, g, None)


def never(lam: float) -> rf.Plan:
    raise AssertionError("this player must not ask for plans")


@dataclasses.dataclass
class Trace:
    """What was played against a sequence of starts and costs."""

    lam: Floats  # [K]
    theta: Floats  # [K, d] before each round; [K, 0] for players without a parameter
    x: Floats  # [K, d] gradients xi(s_1) g
    s1: list[int]
    g: Floats  # [K]
    state: Any

    def regret(self, u: Floats) -> float:
        """sum_k (<xi(s_1^k), u> - lam^k) g_k."""
        return float((self.x @ u - self.lam * self.g).sum())

    def farthest(self, u: Floats) -> float:
        """max_k |theta_k - u|."""
        return float(np.linalg.norm(self.theta - u, axis=1).max())

    @property
    def squares(self) -> float:
        """sum_k |x_k|^2."""
        return float((self.x**2).sum())


Adversary = Callable[[int, Floats], tuple[int, float]]  # (round from 0, theta) -> start, cost signal


def against(player: rf.DualPlayer[Any], xi: Floats | None, adversary: Adversary, rounds: int = K) -> Trace:
    problem = Stub(xi)
    state = player.init(problem, rounds, 0)
    features = np.ones((problem.n_states or 1, 1)) if xi is None else xi
    lams, thetas, xs, starts, gs = [], [], [], [], []
    for k in range(rounds):
        theta = np.atleast_1d(getattr(state, "theta", getattr(state, "y", np.zeros(0)))).astype(float)
        s1, g = adversary(k, theta)
        lam = player.multiplier(state, s1, never)
        assert lam == player.multiplier(state, s1, never)  # asking twice changes nothing
        assert lam >= 0.0
        state = player.update(state, a_round(k + 1, s1, lam, g))
        lams.append(lam)
        thetas.append(theta.copy())
        xs.append(features[s1] * g)
        starts.append(s1)
        gs.append(g)
    return Trace(np.array(lams), np.array(thetas), np.array(xs), starts, np.array(gs), state)


def after(player: rf.DualPlayer[Any], rounds: list[tuple[int, float]], xi: Floats | None = None) -> Any:
    """The player's state after starts and costs."""
    state = player.init(Stub(xi), 100, 0)
    for k, (s1, g) in enumerate(rounds, start=1):
        state = player.update(state, a_round(k, s1, 0.0, g))
    return state


def small(bound: Any) -> float:
    return float(bound) + 1e-9 * (1.0 + abs(float(bound)))


def a_player(name: str, **options: Any) -> rf.DualPlayer[Any]:
    fields = discover("dual")[name].__dataclass_fields__
    player: rf.DualPlayer[Any] = make_player("dual", name, ({"B": B} if "B" in fields else {}) | options)
    return player
