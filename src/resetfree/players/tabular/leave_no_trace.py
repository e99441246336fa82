"""Leave No Trace: a forward agent that earns, and a reset agent whose value decides when the forward agent must stop.

After Eysenbach, Gu, Ibarz and Levine (2018). Kept: two agents, a forward one on the task's reward and a reset agent
whose task is to return to where episodes started (called reset states there: the good ones); Q_reset as an ensemble,
of which the smallest member counts; before a forward action is taken, Q_reset(s, a) < q_min aborts it in favour of
the reset agent; an abort ends nothing for the forward agent; after the forward agent the reset agent brings the system
back (`returns`). Adapted: tables in place of deep networks, learned by Q-learning from the same steps, backwards
through each episode, so Q_reset(s, a) is the discounted chance of coming back to a start; policies are Markov and
committed for an episode, so the abort is a switch of actions in the states where it applies and not for the rest of
the episode; the reset agent has an episode of its own only where the last one ended outside the starts; the starts are
those seen, the first one and where resets put the agent; members begin at random values above q_min, since with the
smallest of untrained tables nothing would ever be tried, and each learns from a random half of the steps; a hard reset
is the protocol's reset, not a decision after failed attempts. From memory: the size of the ensemble (smaller here).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from resetfree.core.settings import Fraction, Range
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players.method import Build, Method, penalised
from resetfree.players.requirements import check_restarts, sizes
from resetfree.players.tabular.reset_free import epsilon_greedy, learn_backwards, successors
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.backward import Bools, Floats, Ints


@dataclass
class TraceState:
    """Both agents' tables."""

    q: Floats  # [L, S, A] forward
    n: Ints  # [L, S, A]
    back: Floats  # [m, L, S, A] Q_reset, one per member
    n_back: Ints  # [m, L, S, A]
    starts: Bools  # [S] where episodes are known to start after a reset, and the first start
    k: int  # episodes seen
    forward: bool  # whether the last episode was the forward agent's
    seed: int = field(metadata={"saved": False})
    horizon: int = field(metadata={"saved": False})


@dataclass(frozen=True)
class LeaveNoTrace(PrimalPlayer[TraceState]):
    """Epsilon-greedy forward actions, except those with min Q_reset < q_min, which the reset agent's replaces.

    q_min: threshold of the abort.  members: of the ensemble.  epsilon: share of random forward actions.
    discount: of both agents (None: 1 - 1 / (2 H)).  rate: least learning rate.
    returns: whether the reset agent brings the system back after a forward episode that ended elsewhere, as in the
      original; the protocol here does not need it, and without it nothing is spent on the way back.
    pooled: one table for all steps, as in the original (stationary problems).

    >>> import resetfree as rf
    >>> player = LeaveNoTrace(epsilon=0.0)
    >>> state = player.init(rf.make("grid-v0").problem(), 10, 0)
    >>> player.plan(state, 0, 0.0).policy[0, 0].tolist()  # nothing is known
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """

    name: ClassVar[str] = "leave-no-trace"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    q_min: Fraction = 0.7
    members: Annotated[int, Range(1, 1000)] = 5
    epsilon: Fraction = 0.1
    discount: Fraction | None = None
    rate: Fraction = 0.1
    returns: bool = True
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> TraceState:
        """Forward values zero, Q_reset random above q_min."""
        check_restarts(problem, self.name)
        shape = sizes(problem, self.pooled, self.name)
        draws = np.random.default_rng([seed, 0]).random((self.members, *shape))
        return TraceState(
            q=np.zeros(shape),
            n=np.zeros(shape, dtype=np.int64),
            back=self.q_min + (1.0 - self.q_min) * draws,
            n_back=np.zeros((self.members, *shape), dtype=np.int64),
            starts=np.zeros(shape[1], dtype=np.bool_),
            k=0,
            forward=False,
            seed=seed,
            horizon=problem.horizon,
        )

    def plan(self, state: TraceState, s1: State, lam: float) -> Plan:
        """The forward policy with its aborts, or the reset agent's; no estimate of V_c, and v_c = 0 promises nothing.

        The multiplier does not enter.
        """
        weakest = state.back.min(axis=0)
        back = epsilon_greedy(weakest, 0.0)
        rows = back
        if self.is_forward(state, s1):
            rows = epsilon_greedy(state.q, self.epsilon)
            aborted = weakest < self.q_min
            rows = np.where(aborted, 0.0, rows) + (rows * aborted).sum(axis=-1, keepdims=True) * back
        policy = np.ascontiguousarray(np.broadcast_to(rows, (state.horizon, *rows.shape[1:])))
        return Plan(policy, min(max(float(state.q[0, s1].max()), 0.0), float(state.horizon)), 0.0)

    def is_forward(self, state: TraceState, s1: State) -> bool:
        """Whether the coming episode is the forward agent's."""
        return not (self.returns and state.forward and not state.starts[s1])

    def update(self, state: TraceState, round: Round) -> TraceState:
        """Both agents learn from every step."""
        episode = round.episode
        state.forward = self.is_forward(state, round.s1)
        if state.k == 0:
            state.starts[round.s1] = True
        if episode.reset:
            state.starts[episode.next_start] = True
        m = len(episode.actions)
        after = successors(episode)
        dead = np.zeros(m, dtype=np.bool_)
        dead[-1] = episode.reset
        home = state.starts[after] & ~dead
        discount = 1.0 - 0.5 / state.horizon if self.discount is None else self.discount
        walk = (episode.states[:m].astype(np.int64), episode.actions, after)
        everything = np.ones(m, dtype=np.bool_)
        learn_backwards(state.q, state.n, *walk, episode.rewards, dead, everything, discount, self.rate)
        used = np.random.default_rng([state.seed, 1 + state.k]).random((self.members, m)) < 0.5
        gains, ends = home.astype(np.float64), home | dead
        for i in range(self.members):
            learn_backwards(state.back[i], state.n_back[i], *walk, gains, ends, used[i], discount, self.rate)
        state.k += 1
        return state

    @staticmethod
    def methods() -> list[Method]:
        """Its width is epsilon."""

        def build(returns: bool) -> Build:
            return penalised(lambda s: LeaveNoTrace(epsilon=s.width, pooled=s.pooled, returns=returns), 0.0)

        text = "Forward and reset Q-learners, abort where min Q_reset < 0.7."
        one_way = "The same with no episodes spent on the way back."
        return [
            Method("leave no trace", "baseline", text, build(True), rank=50),
            Method("leave no trace, one way", "baseline", one_way, build(False), rank=50),
        ]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved."""
        constants: dict[str, float | str | bool] = {"q_min": self.q_min, "members": self.members}
        constants |= {"epsilon": self.epsilon, "returns": self.returns}
        return Statement(constants, False, "no theorem: the original is empirical, and its tables here are tuned")
