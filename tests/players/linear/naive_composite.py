"""Greedy planning on the composite, transcribed with every sum written out: nothing shared with the fast players.

`samples[h]` holds the steps taken at step h as (pair index, reward, successor or None, weight).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import resetfree as rf
from resetfree.problems.contract import Episode

Floats = NDArray[np.float64]
Step = tuple[int, float, int | None, float]
Bonus = Callable[[int, int, float, float], float]  # (h, pair, width, estimated cost) -> what is added to Q


class Fit(NamedTuple):
    inverse: Floats  # [d, d]
    w: Callable[[Callable[[int], float], bool], Floats]  # regression of f(s'), with the reward or without


class Pass(NamedTuple):
    q: Floats  # [H, S*A]
    q_check: Floats  # [H, S*A]
    values: Floats  # [H, S] V on arrival
    below: Floats  # [H, S] Vcheck on arrival
    v: Floats  # [S]
    v_r: Floats  # [S]
    v_c: Floats  # [S]
    width: Floats  # [H, S*A]


@dataclass
class Naive:
    mdp: rf.FiniteMDP
    phi: Floats  # [S*A, d]
    reg: float
    pooled: bool = False
    samples: list[list[Step]] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    known_last: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.samples = [[] for _ in range(self.mdp.horizon)]

    def record(self, episode: Episode, weights: Sequence[float] | None = None) -> None:
        for h, a in enumerate(episode.actions):
            successor = int(episode.states[h + 1]) if h + 1 < len(episode.states) else None
            pair = int(episode.states[h]) * self.mdp.n_actions + int(a)
            self.samples[h].append((pair, float(episode.rewards[h]), successor, 1.0 if weights is None else weights[h]))
        if episode.reset:
            where = int(episode.states[-1])
            self.known_last.add(where)
            if self.mdp.reset[where]:
                self.known.add(where)

    def fit(self, h: int) -> Fit:
        steps = [step for layer in self.samples for step in layer] if self.pooled else self.samples[h]
        d = self.phi.shape[1]
        Lambda = self.reg * np.eye(d)
        for i, _, _, x in steps:
            Lambda += x * np.outer(self.phi[i], self.phi[i])
        inverse: Floats = np.asarray(np.linalg.inv(Lambda), dtype=np.float64)

        def w(f: Callable[[int], float], reward: bool) -> Floats:
            total = np.zeros(d)
            for i, r, successor, x in steps:
                total += x * self.phi[i] * ((r if reward else 0.0) + (0.0 if successor is None else f(successor)))
            return np.asarray(inverse @ total)

        return Fit(inverse, w)

    def backward(
        self, policy: Floats, lam: float, bonus: Bonus, above: Floats | None = None, under: Floats | None = None
    ) -> Pass:
        """Q of the greedy policy; `policy` says how ties were broken, and must be greedy."""
        mdp = self.mdp
        n_actions = mdp.n_actions
        shape = (mdp.horizon, mdp.n_states * n_actions)
        q, q_check, width = np.empty(shape), np.empty(shape), np.empty(shape)
        values, below = np.empty((mdp.horizon, mdp.n_states)), np.empty((mdp.horizon, mdp.n_states))
        v, v_check, v_r, v_c = (np.zeros(mdp.n_states) for _ in range(4))
        for h in reversed(range(mdp.horizon)):
            for s in self.known | (self.known_last if h == mdp.n_transitions - 1 else set()):
                v[s], v_check[s], v_r[s], v_c[s] = -lam, -lam, 0.0, 1.0
            values[h], below[h] = v, v_check
            fit = self.fit(h)
            w, w_check = fit.w(v.__getitem__, True), fit.w(v_check.__getitem__, True)
            w_r, w_c = fit.w(v_r.__getitem__, True), fit.w(v_c.__getitem__, False)
            left = mdp.horizon - h
            for i, x in enumerate(self.phi):
                width[h, i] = np.sqrt(x @ fit.inverse @ x)
                extra = bonus(h, i, width[h, i], w_c @ x)
                q[h, i] = max(min(w @ x + extra, left, np.inf if above is None else above[h, i]), -lam)
                low = max(w_check @ x - extra, -lam, -np.inf if under is None else under[h, i])
                q_check[h, i] = min(low, left)
            v, v_check, v_r, v_c = (np.zeros(mdp.n_states) for _ in range(4))
            for s in range(mdp.n_states):
                pairs = slice(s * n_actions, (s + 1) * n_actions)
                i = s * n_actions + int(policy[h, s].argmax())
                ties = np.flatnonzero(q[h, pairs] >= q[h, pairs].max() - 1e-7) + s * n_actions
                assert i in ties, "not greedy"
                clear = np.flatnonzero(q[h, pairs] >= q[h, pairs].max() - 1e-12) + s * n_actions
                assert width[h, i] <= width[h, clear].min() + 1e-4, "a tie was not broken towards what was tried most"
                v[s], v_check[s] = q[h, pairs].max(), q_check[h, pairs].max()
                v_r[s] = min(max(w_r @ self.phi[i], 0.0), left)
                v_c[s] = min(max(w_c @ self.phi[i], 0.0), 1.0)
        return Pass(q, q_check, values, below, v, v_r, v_c, width)


def with_features(mdp: rf.FiniteMDP, d: int, seed: int = 0) -> rf.FiniteMDP:
    """The same problem seen through random features of norm one (it is not linear in them: the algebra is tested)."""
    phi = np.random.default_rng(seed).normal(size=(mdp.n_states, mdp.n_actions, d))
    return mdp.replace(phi=phi / np.linalg.norm(phi, axis=2, keepdims=True))


PROBLEMS: dict[str, Any] = {
    "one-hot": lambda: rf.make("grid-v0"),
    "dense": lambda: with_features(rf.make("grid-v0"), 60),
    "few features": lambda: rf.make("random-linear-v0", n_states=12, n_actions=3),
    "literal": lambda: rf.make("grid-v0").replace(boundary="literal"),
    "layered": lambda: rf.make("doors-v0"),
    "ends reset": lambda: rf.make("pits-v0", slip=0.2, horizon=4),
    "one action": lambda: rf.make("edge-one-action-v0"),
}
