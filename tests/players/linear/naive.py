"""The linear players again, plainly: dense algebra and loops, for comparison.

`data[h]` holds the steps taken at step h as (pair index, reward, successor or None, whether it was a reset).

`samples[h]` holds the steps taken at step h as (pair index, reward, successor or None, weight).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import resetfree as rf
from resetfree.problems.features import Features

Floats = NDArray[np.float64]
Sample = tuple[int, float, int | None, bool]


class Pass(NamedTuple):
    policy: Floats  # [H, S, A]
    q_r: Floats  # [H, S, A]
    q_c: Floats  # [H, S, A]
    v_r: Floats  # [H, S]
    v_c: Floats  # [H, S]
    width: Floats  # [H, S, A] ||phi|| in the norm of Lam^-1


def record(data: list[list[Sample]], episode: rf.Episode, n_actions: int) -> None:
    """Append the steps of an episode that were really taken."""
    for h, a in enumerate(episode.actions):
        there = h + 1 < len(episode.states)
        reset = episode.reset and h == len(episode.actions) - 1
        data[h].append(
            (
                int(episode.states[h]) * n_actions + int(a),
                float(episode.rewards[h]),
                int(episode.states[h + 1]) if there else None,
                reset,
            )
        )


def backward(
    data: list[list[Sample]], phi: Floats, *, alpha: float, lam: float, beta_r: float, beta_c: float, reg: float = 1.0,
    old: Floats | None = None,
) -> Pass:  # fmt: skip
    """Lines 12-20 at the start of an episode; `old` is the policy of the last one if values are lagged, as printed."""
    n_states, n_actions, d = phi.shape
    horizon = len(data)
    shape = (horizon, n_states, n_actions)
    policy, q_r, q_c, width = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    v_r, v_c = np.zeros((horizon + 1, n_states)), np.zeros((horizon + 1, n_states))
    flat = phi.reshape(-1, d)
    for h in reversed(range(horizon)):
        Lambda = reg * np.eye(d)
        target_r, target_c = np.zeros(d), np.zeros(d)
        for i, r, successor, reset in data[h]:
            Lambda += np.outer(flat[i], flat[i])
            next_r = 0.0 if reset or successor is None else v_r[h + 1, successor]
            next_c = 1.0 if reset else (0.0 if successor is None else v_c[h + 1, successor])
            target_r += flat[i] * (r + next_r)
            target_c += flat[i] * next_c
        inverse = np.linalg.inv(Lambda)
        w_r, w_c = inverse @ target_r, inverse @ target_c
        for s in range(n_states):
            for a in range(n_actions):
                x = phi[s, a]
                width[h, s, a] = np.sqrt(x @ inverse @ x)
                q_r[h, s, a] = max(min(w_r @ x + beta_r * width[h, s, a], horizon - h), 0.0)
                q_c[h, s, a] = max(min(w_c @ x - beta_c * width[h, s, a], 1.0), 0.0)
            score = alpha * (q_r[h, s] - lam * q_c[h, s])
            weights = np.exp(score - score.max())
            policy[h, s] = weights / weights.sum()
            average = policy[h, s] if old is None else old[h, s]
            v_r[h, s] = average @ q_r[h, s]
            v_c[h, s] = average @ q_c[h, s]
    return Pass(policy, q_r, q_c, v_r[:horizon], v_c[:horizon], width)


Step = tuple[int, float, int | None, float]
Bonus = Callable[[int, int, float, float], float]  # (h, pair, width, estimated cost) -> what is added to Q


class Fit(NamedTuple):
    inverse: Floats  # [d, d]
    w: Callable[[Callable[[int], float], bool], Floats]  # regression of f(s'), with the reward or without


class CompositePass(NamedTuple):
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

    def record(self, episode: rf.Episode, weights: Sequence[float] | None = None) -> None:
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
    ) -> CompositePass:
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
        return CompositePass(q, q_check, values, below, v, v_r, v_c, width)


def with_features(mdp: rf.FiniteMDP, d: int, seed: int = 0) -> rf.FiniteMDP:
    """The same problem seen through random features of norm one (it is not linear in them: the algebra is tested)."""
    phi = np.random.default_rng(seed).normal(size=(mdp.n_states, mdp.n_actions, d))
    return mdp.replace(phi=phi / np.linalg.norm(phi, axis=2, keepdims=True))


def check_why_not_proved(player: Any, cases: Sequence[tuple[dict[str, Any], str]]) -> None:
    """Which settings no theorem covers, and that features must not be longer than 1: the statement says why."""
    problem = rf.make("random-linear-v0").problem()
    for settings, reason in cases:
        stated = player(B=3.0, **settings).statement(problem, 1000)
        assert not stated.covered
        assert reason in stated.why
    long = with_features(rf.make("grid-v0"), 4)
    assert long.phi is not None
    stated = player(B=3.0, width="theory").statement(long.replace(phi=2 * long.phi).problem(), 1000)
    assert "longer than 1" in stated.why


PROBLEMS: dict[str, Any] = {
    "one-hot": lambda: rf.make("grid-v0"),
    "dense": lambda: with_features(rf.make("grid-v0"), 60),
    "few features": lambda: rf.make("random-linear-v0", n_states=12, n_actions=3),
    "literal": lambda: rf.make("grid-v0").replace(boundary="literal"),
    "layered": lambda: rf.make("doors-v0"),
    "ends reset": lambda: rf.make("pits-v0", slip=0.2, horizon=4),
    "one action": lambda: rf.make("edge-one-action-v0"),
}


class StoredStep(NamedTuple):
    state: Floats
    action: int
    reward: float
    successor: Floats
    dead: bool


class Values(NamedTuple):
    """Q and weights by steps to go t, [t - 1], and what the greedy policy earns and costs."""

    w: list[Floats]  # [A, d]
    w_r: list[Floats]
    w_c: list[Floats]


@dataclass
class NaiveStored:
    n_actions: int
    reg: float
    steps: list[StoredStep] = field(default_factory=list)
    rows: list[tuple[Floats, bool]] = field(default_factory=list)  # every state in the order of visit, and if dead

    def record(self, episode: rf.Episode) -> None:
        states = np.asarray(episode.states, dtype=np.float64)
        states = states[:, None] if states.ndim == 1 else states
        last = len(states) - 1
        self.rows += [(s, episode.reset and i == last) for i, s in enumerate(states)]
        for i in range(min(len(episode.actions), last)):
            dead = episode.reset and i + 1 == last
            self.steps.append(StoredStep(states[i], int(episode.actions[i]), episode.rewards[i], states[i + 1], dead))

    def gram(self, psi: Features, a: int) -> Floats:
        total: Floats = self.reg * np.eye(psi.dimension)
        for step in self.steps:
            if step.action == a:
                x = psi(step.state[None])[0]
                total = total + np.outer(x, x)
        return total

    def width(self, psi: Features, s: Floats, a: int) -> float:
        x = psi(s[None])[0]
        return float(np.sqrt(x @ np.linalg.solve(self.gram(psi, a), x)))

    def backward(self, psi: Features, lam: float, bonus: float, steps: int, moves_last: bool = True) -> Values:
        """Weights with t = 1 .. steps to go; ties go to the action of smallest width."""
        grams = [self.gram(psi, a) for a in range(self.n_actions)]
        before = [psi(step.state[None])[0] for step in self.steps]
        after = [None if step.dead else psi(step.successor[None])[0] for step in self.steps]
        widths = [None if x is None else np.array([np.sqrt(x @ np.linalg.solve(g, x)) for g in grams]) for x in after]
        found = Values([], [], [])
        for t in range(1, steps + 1):
            totals = np.zeros((3, self.n_actions, psi.dimension))
            for x, y, width, step in zip(before, after, widths, self.steps, strict=True):
                v, v_r, v_c = 0.0, 0.0, 0.0
                if step.dead:
                    v, v_c = (-lam, 1.0) if t > 1 or moves_last else (0.0, 0.0)
                elif t > 1:
                    assert y is not None
                    assert width is not None
                    q = np.clip(found.w[-1] @ y + bonus * width, -lam, t - 1)
                    a = greedy(q, width)
                    v, v_r = q[a], min(max(found.w_r[-1][a] @ y, 0.0), t - 1)
                    v_c = min(max(found.w_c[-1][a] @ y, 0.0), 1.0)
                totals[:, step.action] += np.outer([step.reward + v, step.reward + v_r, v_c], x)
            for into, total in zip(found, totals, strict=True):
                into.append(np.array([np.linalg.solve(g, b) for g, b in zip(grams, total, strict=True)]))
        return found


def greedy(q: Floats, width: Floats) -> int:
    """The largest, to 1e-9; of those the one of smallest squared width, to 1e-9; of those the first."""
    chosen = -1
    for a in range(len(q)):
        if q[a] >= q.max() - 1e-9 and (chosen < 0 or width[a] ** 2 < width[chosen] ** 2 - 1e-9):
            chosen = a
    return chosen
