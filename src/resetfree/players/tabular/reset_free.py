"""What the baselines from reset-free learning share: tabular Q-learning, where steps lead, and epsilon-greedy rows."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from resetfree.core import Bools, Floats, Fraction, Ints, Range, jit
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players import Build, Method, check_restarts, penalised, sizes
from resetfree.problems import Episode, Problem, State, model_behind
from resetfree.theory.oracle.dynamic_programming import solve


def successors(episode: Episode) -> Ints:
    """[m] the state after each action; after the last one, the start of the next episode."""
    return np.append(episode.states[1 : len(episode.actions)], episode.next_start).astype(np.int64)


def epsilon_greedy(q: Floats, epsilon: float) -> Floats:
    """Rows over the last axis: uniform with probability epsilon, else uniform over the maximisers."""
    best = q == q.max(axis=-1, keepdims=True)
    return np.asarray((1.0 - epsilon) * best / best.sum(axis=-1, keepdims=True) + epsilon / q.shape[-1])


@jit
def learn_backwards(
    q: Floats,  # [L, S, A] changed; one layer for all steps, or one per step (step 1 follows step H)
    n: Ints,  # [L, S, A] changed: how often each was learned from
    states: Ints,  # [m]
    actions: Ints,  # [m]
    successors: Ints,  # [m]
    gains: Floats,  # [m]
    stops: Bools,  # [m] whether nothing comes after
    used: Bools,  # [m] whether to learn from the step
    discount: float,
    rate: float,
) -> None:
    """Backwards, so that what is found at the end of an episode reaches its beginning at once.

    Q += max(rate, 1/n) (gain + discount max Q(s', .) - Q), the maximum left out where nothing comes after.
    """
    n_layers, _, n_actions = q.shape
    for i in range(len(actions) - 1, -1, -1):
        if not used[i]:
            continue
        layer, s, a = i % n_layers, states[i], actions[i]
        target = gains[i]
        if not stops[i]:
            best = q[(i + 1) % n_layers, successors[i], 0]
            for b in range(1, n_actions):
                best = max(best, q[(i + 1) % n_layers, successors[i], b])
            target += discount * best
        n[layer, s, a] += 1
        q[layer, s, a] += max(rate, 1.0 / n[layer, s, a]) * (target - q[layer, s, a])


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
    """Leave No Trace: a forward agent that earns, and a reset agent whose value decides when the former must stop.

    After Eysenbach, Gu, Ibarz and Levine (2018). Kept: two agents, a forward one on the task's reward and a reset agent
    whose task is to return to where episodes started (called reset states there: the good ones); Q_reset as an
    ensemble, of which the smallest member counts; before a forward action is taken, Q_reset(s, a) < q_min aborts it in
    favour of the reset agent; an abort ends nothing for the forward agent; after the forward agent the reset agent
    brings the system back (`returns`). Adapted: tables in place of deep networks, learned by Q-learning from the same
    steps, backwards through each episode, so Q_reset(s, a) is the discounted chance of coming back to a start; policies
    are Markov and committed for an episode, so the abort is a switch of actions in the states where it applies and not
    for the rest of the episode; the reset agent has an episode of its own only where the last one ended outside the
    starts; the starts are those seen, the first one and where resets put the agent; members begin at random values
    above q_min, since with the smallest of untrained tables nothing would ever be tried, and each learns from a random
    half of the steps; a hard reset is the protocol's reset, not a decision after failed attempts. From memory: the size
    of the ensemble (smaller here).

    Epsilon-greedy forward actions, except those with min Q_reset < q_min, which the reset agent's replaces.

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
    counterpart: ClassVar[str] = "leave-no-trace-sac"
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
        terminated = np.zeros(m, dtype=np.bool_)
        terminated[-1] = episode.reset
        home = state.starts[after] & ~terminated
        discount = 1.0 - 0.5 / state.horizon if self.discount is None else self.discount
        walk = (episode.states[:m].astype(np.int64), episode.actions, after)
        everything = np.ones(m, dtype=np.bool_)
        learn_backwards(state.q, state.n, *walk, episode.rewards, terminated, everything, discount, self.rate)
        used = np.random.default_rng([state.seed, 1 + state.k]).random((self.members, m)) < 0.5
        gains, ends = home.astype(np.float64), home | terminated
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


@dataclass
class MedalState:
    """Both agents' tables and the states that the backward agent visited."""

    q: Floats  # [L, S, A] forward
    n: Ints  # [L, S, A]
    back: Floats  # [L, S, A] backward
    n_back: Ints  # [L, S, A]
    visits: Ints  # [S] of the backward agent
    k: int  # episodes seen; the forward agent has the even ones, counted from 0
    expert: Floats = field(metadata={"saved": False})  # [S] rho*
    horizon: int = field(metadata={"saved": False})


@dataclass(frozen=True)
class Medal(PrimalPlayer[MedalState]):
    """MEDAL: a forward agent that earns, and a backward agent that returns to where an expert would be.

    After Sharma, Ahmad and Finn (2022, "A state-distribution matching approach to non-episodic reinforcement
    learning").
    Kept: a few demonstrations of the task; a backward agent whose reward is -log(1 - D(s)), D telling the states of the
    demonstrations from those that the backward agent meets; the two agents take turns; the forward agent has learned
    from the demonstrations before it begins. Adapted: demonstrations are trajectories of pi* from the first starts,
    made through the oracle; tables in place of deep networks, D(s) = rho*(s) / (rho*(s) + rho_b(s)) from counts with
    one pseudo-count per state in rho_b; a turn is an episode of the protocol; both agents learn by Q-learning from all
    steps, backwards through each episode; nothing is earned in or after a reset state, and resets are not penalised
    otherwise. From memory: that the forward agent's replay begins with the demonstrations; the original's turns of 300
    steps and discount 0.99.

    Forward and backward episodes in turn, both epsilon-greedy on their tables.

    demonstrations: trajectories of pi*.  epsilon: share of random actions.  discount: of both agents (None:
    1 - 1 / (2 H)).  rate: least learning rate.  pooled: one table for all steps (stationary problems).

    >>> import resetfree as rf
    >>> state = Medal().init(rf.make("grid-v0").problem(), 10, 0)
    >>> round(float(state.expert.sum()), 12)
    1.0
    """

    name: ClassVar[str] = "medal"
    counterpart: ClassVar[str] = "medal-sac"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    demonstrations: Annotated[int, Range(1, 10**6)] = 10
    epsilon: Fraction = 0.1
    discount: Fraction | None = None
    rate: Fraction = 0.1
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> MedalState:
        """Learn from demonstrations of the optimal policy."""
        check_restarts(problem, self.name)
        shape = sizes(problem, self.pooled, self.name)
        solution = solve(model_behind(problem), starts=[])
        rng = np.random.default_rng([seed, 0])
        state = MedalState(
            q=np.zeros(shape),
            n=np.zeros(shape, dtype=np.int64),
            back=np.zeros(shape),
            n_back=np.zeros(shape, dtype=np.int64),
            visits=np.zeros(shape[1], dtype=np.int64),
            k=0,
            expert=np.zeros(shape[1]),
            horizon=problem.horizon,
        )
        for _ in range(self.demonstrations):
            shown = problem.rollout(solution.policy, problem.first_start(rng.random()), rng.random(problem.n_uniforms))
            np.add.at(state.expert, shown.states, 1.0)
            self._learn(state, shown, state.q, state.n, shown.rewards)
        state.expert /= state.expert.sum()
        return state

    def plan(self, state: MedalState, s1: State, lam: float) -> Plan:
        """The policy of the agent whose turn it is; no estimate of V_c, and v_c = 0 promises nothing.

        The multiplier does not enter.
        """
        rows = epsilon_greedy(state.q if state.k % 2 == 0 else state.back, self.epsilon)
        policy = np.ascontiguousarray(np.broadcast_to(rows, (state.horizon, *rows.shape[1:])))
        return Plan(policy, min(max(float(state.q[0, s1].max()), 0.0), float(state.horizon)), 0.0)

    def update(self, state: MedalState, round: Round) -> MedalState:
        """Both agents learn from every step; the backward agent's visits count against its reward."""
        episode = round.episode
        if round.rests_on % 2 == 1:  # whose plan it was
            np.add.at(state.visits, episode.states, 1)
        self._learn(state, episode, state.q, state.n, episode.rewards)
        gains = matching_reward(state.expert, state.visits)[successors(episode)]
        if episode.reset:
            gains[-1] = 0.0
        self._learn(state, episode, state.back, state.n_back, gains)
        state.k += 1
        return state

    def _learn(self, state: MedalState, episode: Episode, q: Floats, n: Ints, gains: Floats) -> None:
        m = len(episode.actions)
        terminated = np.zeros(m, dtype=np.bool_)
        terminated[-1] = episode.reset
        discount = 1.0 - 0.5 / state.horizon if self.discount is None else self.discount
        walk = (episode.states[:m].astype(np.int64), episode.actions, successors(episode))
        learn_backwards(q, n, *walk, gains, terminated, np.ones(m, dtype=np.bool_), discount, self.rate)

    @staticmethod
    def methods() -> list[Method]:
        """Its width is epsilon."""
        build = penalised(lambda s: Medal(epsilon=s.width, pooled=s.pooled), 0.0)
        text = "Forward and backward Q-learners, given ten trajectories of pi*."
        return [Method("medal", "oracle", text, build, rank=51)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved."""
        why = "no theorem: the original is empirical, and its tables here are tuned (given trajectories of pi*)"
        return Statement({"demonstrations": self.demonstrations, "epsilon": self.epsilon, "oracle": True}, False, why)


def matching_reward(expert: Floats, visits: Ints) -> Floats:
    """[S] -log(1 - D) with D = rho* / (rho* + rho_b), that is log(1 + rho* / rho_b)."""
    met = (visits + 1.0) / (visits.sum() + len(visits))
    return np.asarray(np.log1p(expert / met))
