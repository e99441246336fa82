"""The linear player on stored transitions, written from its definition: loops, dense solves, nothing kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.problems.contract import Episode
from resetfree.problems.features import Features

Floats = NDArray[np.float64]


class Step(NamedTuple):
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
class Naive:
    n_actions: int
    reg: float
    steps: list[Step] = field(default_factory=list)
    rows: list[tuple[Floats, bool]] = field(default_factory=list)  # every state in the order of visit, and if dead

    def record(self, episode: Episode) -> None:
        states = np.asarray(episode.states, dtype=np.float64)
        states = states[:, None] if states.ndim == 1 else states
        last = len(states) - 1
        self.rows += [(s, episode.reset and i == last) for i, s in enumerate(states)]
        for i in range(min(len(episode.actions), last)):
            dead = episode.reset and i + 1 == last
            self.steps.append(Step(states[i], int(episode.actions[i]), episode.rewards[i], states[i + 1], dead))

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
