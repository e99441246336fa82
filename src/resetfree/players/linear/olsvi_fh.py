"""OLSVI.FH: LSVI-UCB over artificial episodes of about T^(1/4) steps, for a life without episodes.

After Wei, Jafarnia-Jahromi, Luo and Jain (2021, "Learning infinite-horizon average-reward MDPs with linear function
approximation"). Kept: the T steps are cut into artificial episodes whose length grows like T^(1/4); within one,
optimistic least squares with value 0 at its end; data of all steps in one regression (`pooled`); linear features; no
reset between artificial episodes. Adapted: a policy is committed for the H steps of a real episode, so all data up to
its start are used, and artificial episodes that begin within it are planned with the same data; a reset is one more
transition, to where the agent was put, and costs lam (lam = 0: resets are free, as in the original); in layered
problems step H is followed by step 1; width scale (length + lam) and ridge scale^2 in place of the proved ones. From
memory: the exponent 1/4 and the shared regression; the length's dependence on d and on the span is left out.

Legend of the compiled code: h from 0; length the steps of an artificial episode; a sample's successor is s' as usual,
or S + s' where a reset put the agent into s', whose value is lam less.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats, Ints
from resetfree.core.compiled import jit
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import Range
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players.linear.regression import features_of
from resetfree.players.linear.ridge import Regression, empty, expect, learn_episode
from resetfree.players.method import Method, free_and_penalised
from resetfree.players.requirements import check_restarts, sizes
from resetfree.problems.contract import Problem, State


@dataclass
class OlsviState:
    """The regression, and how many steps were taken."""

    regression: Regression  # with 2 S successors: s', and S + s' where a reset put the agent into s'
    steps: int
    phi: Floats = field(metadata={"saved": False})
    layer_of_step: Ints = field(metadata={"saved": False})  # [H]
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A
    length: int = field(metadata={"saved": False})


@dataclass(frozen=True)
class OlsviFH(PrimalPlayer[OlsviState]):
    """Greedy optimistic least squares over artificial episodes of `length` steps (None: T^(1/4), T = K H).

    scale: of the bonus scale (length + lam) |phi|.  pooled: one regression for all steps, as in the original.

    >>> import resetfree as rf
    >>> OlsviFH().init(rf.make("grid-v0").problem(), 2000, 0).length
    11
    """

    name: ClassVar[str] = "olsvi-fh"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    scale: Annotated[float, Range(1e-9)] = 0.1
    length: Annotated[int, Range(1, 10**5)] | None = None
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> OlsviState:
        """No data yet."""
        check_restarts(problem, self.name)
        layers, n, n_actions = sizes(problem, self.pooled, self.name)
        phi = features_of(problem)
        d = phi.shape[1]
        if 8 * layers * (d * d + 2 * n * d) > problem.room:
            raise InvalidInput(f"The player 'olsvi-fh' needs too much memory for {d} features and {n} states.")
        regression, kept = empty(phi, 2 * n, layers, self.scale**2)
        steps = np.zeros(problem.horizon, dtype=np.int64) if self.pooled else np.arange(problem.horizon)
        shape = (problem.horizon, n, n_actions)
        return OlsviState(regression, 0, kept, steps, shape, length=self.steps_of(problem, episodes))

    def plan(self, state: OlsviState, s1: State, lam: float) -> Plan:
        """One pass; its values are of artificial episodes, so v_r is clipped to [0, H] and v_c = 0 promises nothing."""
        lam = check_multiplier(lam)
        horizon, n_states, _ = state.shape
        policy, v = np.empty((horizon, n_states), dtype=np.int16), np.zeros(n_states)
        position, beta = state.steps % state.length, self.scale * (state.length + lam)
        unbroken_plan(state.regression, state.phi, state.layer_of_step, position, state.length, beta, lam, policy, v)
        return Plan(policy, min(max(float(v[s1]), 0.0), float(horizon)), 0.0)

    def update(self, state: OlsviState, round: Round) -> OlsviState:
        """Add the steps that were taken; after a reset the successor is n_states + the next start."""
        episode, (_, n_states, n_actions) = round.episode, state.shape
        m = len(episode.actions)
        walk = np.append(episode.states[:m], episode.next_start + (n_states if episode.reset else 0)).astype(np.int64)
        learn_episode(
            state.regression, state.phi, state.layer_of_step, n_actions, walk, episode.actions, episode.rewards
        )
        state.steps += len(episode.actions)
        return state

    def steps_of(self, problem: Problem, episodes: int) -> int:
        """The length of an artificial episode."""
        return self.length or max(1, round(float(max(episodes, 1) * problem.horizon) ** 0.25))

    @staticmethod
    def methods() -> list[Method]:
        """Without and with a penalty for a reset."""
        text = "LSVI-UCB, artificial episodes of T^(1/4) steps"
        return free_and_penalised("olsvi.fh", text, lambda s: OlsviFH(**s.own), 52)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Its theorem is about another criterion."""
        why = "its T^(3/4) theorem is about the average reward of a problem without resets, with the proved width"
        length = self.steps_of(problem, episodes)
        return Statement({"scale": self.scale, "length": length, "pooled": self.pooled}, False, why)


@jit
def unbroken_plan(
    r: Regression,  # with 2 S successors
    phi: Floats,
    layer_of_step: Ints,  # [H]
    position: int,  # of the first real step within its artificial episode
    length: int,
    beta: float,
    lam: float,
    policy: NDArray[np.int16],  # [H, S] out
    v: Floats,  # [S] out: value until the end of the artificial episode in which the real one begins
) -> None:
    """Q = min(what is left, w.phi + beta |phi|), greedy; values restart at the end of each artificial episode."""
    horizon, n_states = policy.shape
    n_actions = r.width2.shape[1] // n_states
    m = r.cross.shape[2] if phi.size == 0 else len(phi)
    value, nothing = np.zeros(2 * n_states), np.zeros(2 * n_states)
    q, unused = np.empty(m), np.empty(m)
    total = (horizon + position + length - 1) // length * length - position  # until the last artificial episode ends
    for i in range(total - 1, -1, -1):
        left = float(length - (position + i) % length)
        for s in range(n_states):
            now = 0.0 if left == 1.0 else v[s]
            value[s], value[n_states + s] = now, now - lam
        layer = layer_of_step[i % horizon]
        expect(r, phi, layer, value, nothing, q, unused)
        for s in range(n_states):
            v[s], best = -np.inf, 0
            for a in range(n_actions):
                j = s * n_actions + a
                one = min(max(q[j] + beta * sqrt(r.width2[layer, j]), -lam * left), left)
                if one > v[s]:
                    v[s], best = one, a
            if i < horizon:
                policy[i, s] = best
