"""Algorithm 1 of the paper, its primal player line by line in plain NumPy: softmax of optimistic least-squares values.

**`Algorithm1`.**
The numbers at the right are the lines of the paper's Algorithm 1. `game.loop` plays lines 3 and 4, and
`dual.online_gradient` has lines 9 to 11. As analysed, the pass of lines 12 to 20 is made at the start of an episode,
with the multiplier of that start, and values are averages under the softmax of the same Q; `lagged` averages with the
old policy, as printed. `linear_ucb` is the same player in compiled code, with all widths and for large problems.

Legend: phi [N, d] features of the N = S*A pairs; lam the multiplier; reg the ridge, which the paper calls lambda, too;
beta_r, beta_c widths of the bonuses; alpha inverse temperature; Q_r in [0, H-h+1] from above, Q_c in [0, 1] from below.
"""

from dataclasses import dataclass, field
from math import inf, log
from typing import Any, ClassVar

import numpy as np

from resetfree.core import Bound, Floats, NonNegative, Positive
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players import bound_of, check_room, sizes
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.players.linear.regression import dimension_of, features_of
from resetfree.problems import Problem, State
from resetfree.theory.widths import softmax_alpha


@dataclass
class Algorithm1State:
    """The sums over all episodes in lines 13 to 15, of which the values V of the next step are no part."""

    gram: Floats  # [H, d, d] Lambda_h: sum of phi phi^T, and reg I
    pay: Floats  # [H, d] sum of phi r
    fell: Floats  # [H, d] sum of phi c: the steps that ended in a reset
    moved: Floats  # [H, d, S] sum of phi e_{s'}^T over the steps that did not
    old: Floats  # [H, S, A] the policy of the last episode
    phi: Floats = field(metadata={"saved": False})  # [S*A, d]
    alpha: float = field(metadata={"saved": False})


@dataclass(frozen=True)
class Algorithm1(PrimalPlayer[Algorithm1State]):
    """The primal player of Algorithm 1 with tuned widths, to be read; `linear-ucb` makes the same plans faster.

    B: bound on the multipliers, which enters alpha.  scale: beta_r = scale H and beta_c = scale.
    reg: the ridge; None for scale^2, with which the bonus of an untried action just reaches the cap.
    lagged: average the new Q with the old policy, as printed (readings.md, A1).

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", "algorithm1", "projected-gradient", episodes=20, seed=0)
    >>> run.spec["primal"]["name"]
    'algorithm1'
    """

    name: ClassVar[str] = "algorithm1"
    prediction: ClassVar[Prediction] = "low"
    B: Bound | None = None
    scale: NonNegative = 0.1
    reg: Positive | None = None
    lagged: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> Algorithm1State:
        """No data yet; refuses problems that are not finite, and those whose sums take more room than there is."""
        H, (_, S, A), d = problem.horizon, sizes(problem, False, self.name), dimension_of(problem)
        check_room(problem, self.name, 8 * H * d * (d + S), "sums", "use features of smaller dimension")
        return Algorithm1State(
            gram=np.tile(self.ridge() * np.eye(d), (H, 1, 1)),
            pay=np.zeros((H, d)),
            fell=np.zeros((H, d)),
            moved=np.zeros((H, d, S)),
            old=np.full((H, S, A), 1.0 / A),
            phi=features_of(problem),
            alpha=softmax_alpha(episodes, H, A, bound_of(self)),  # 2
        )

    def plan(self, state: Algorithm1State, s1: State, lam: float) -> Plan:
        """The policy of an episode that starts in s1, and its estimated values."""
        lam, phi, (H, S, A) = check_multiplier(lam), state.phi, state.old.shape
        beta_r, beta_c = self.scale * H, self.scale
        policy, v_r, v_c = np.empty((H, S, A)), np.zeros(S), np.zeros(S)
        for h in reversed(range(H)):  # 12
            inverse = np.linalg.inv(state.gram[h])  # 13
            w_r = inverse @ (state.pay[h] + state.moved[h] @ v_r)  # 14
            w_c = inverse @ (state.fell[h] + state.moved[h] @ v_c)  # 15
            width = np.sqrt(((phi @ inverse) * phi).sum(axis=1))
            q_r = np.clip(phi @ w_r + beta_r * width, 0.0, H - h).reshape(S, A)  # 16
            q_c = np.clip(phi @ w_c - beta_c * width, 0.0, 1.0).reshape(S, A)  # 17
            score = state.alpha * (q_r - lam * q_c)
            weight = np.exp(score - score.max(axis=1, keepdims=True))
            policy[h] = weight / weight.sum(axis=1, keepdims=True)  # 6
            average = state.old[h] if self.lagged else policy[h]
            v_r, v_c = (average * q_r).sum(axis=1), (average * q_c).sum(axis=1)  # 18, 19
        slack = H * log(A) / state.alpha if state.alpha > 0 else inf  # what the softmax may lose against the best
        value_r, value_c = float(v_r[s1]), float(v_c[s1])
        return Plan(policy, value_r, value_c, value_r - lam * value_c + (slack if A > 1 else 0.0))

    def update(self, state: Algorithm1State, round: Round) -> Algorithm1State:
        """Add the steps of an episode to the sums of lines 13 to 15."""
        episode, A = round.episode, state.old.shape[2]
        states, actions = episode.states, episode.actions
        for h, a in enumerate(actions):  # 7: what was done, and what followed
            x = state.phi[states[h] * A + a]
            state.gram[h] += np.outer(x, x)
            state.pay[h] += x * episode.rewards[h]
            if episode.reset and h == len(actions) - 1:
                state.fell[h] += x
            elif h + 1 < len(states):  # the last action of the literal reading leads nowhere
                state.moved[h, :, states[h + 1]] += x
        if self.lagged:
            state.old = np.asarray(round.plan.policy)
        return state

    def ridge(self) -> float:
        """The ridge constant."""
        return self.reg if self.reg is not None else self.scale**2 or 1.0

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants of this run; its widths are tuned."""
        alpha = softmax_alpha(episodes, problem.horizon, problem.n_actions, bound_of(self))
        widths = {"beta_r": self.scale * problem.horizon, "beta_c": self.scale}
        constants = {**widths, "alpha": alpha, "reg": self.ridge()}
        return Statement({**constants}, False, "no theorem covers tuned widths; linear-ucb has those of the theorem")


def algorithm1(B: float | None = None, **settings: Any) -> tuple[LinearUCB, ProjectedGradient]:
    """The two players of Algorithm 1, for `learn` or `play`.

    Paper: Algorithm 1.

    B: the bound of Assumption 3 that both players know (None: taken from the oracle, if the problem has one).
    settings: options of the primal player (`width`, `lagged`, `anytime`, ...).

    As analysed (the default): plan at the start of an episode with the multiplier of that start; values under the
    softmax of the same Q; costs on arrival; eta_k = B / sqrt(k); the dual's feedback is V_c^k(s_1^k), optimistic. As
    printed: `lagged=True`, and a problem with `boundary="literal"`.

    The paper's constants: alpha, eta_k, the caps. Tuned, unless `width` is set: beta_r = 0.1 H and beta_c = 0.1
    (the paper's beta has a factor that it leaves open) and the ridge 0.01 (its proofs have 1). `width="theory"` is what
    the theorem is about, with ridge 1; `width="paper"` is the printed formula, with `constant` for its factor and
    ridge 1.

    >>> primal, dual = algorithm1(B=5.0, width="theory")
    >>> primal.name, dual.name
    ('linear-ucb', 'projected-gradient')
    """
    return LinearUCB(B=B, **settings), ProjectedGradient(B=B)
