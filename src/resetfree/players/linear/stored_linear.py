"""The linear player on stored transitions: greedy on the composite r - lam c, for states that are vectors.

Legend: psi(s) [d] features of states; phi(s, a) = psi(s) in the block of action a, so that each action has a regression
of its own, Lam_a = reg I + sum psi psi^T; width = |psi| in the norm of Lam_a^-1; lam the multiplier; t steps to go, H
actions in an episode, P the planning horizon; V = max_a Q in [-lam, t].
"""

from dataclasses import dataclass, field, replace
from math import ceil, log, log2
from typing import Annotated, Any, ClassVar

import numpy as np

from resetfree.core import (
    Count,
    Floats,
    Ints,
    InvalidInput,
    NonNegative,
    Positive,
    PositiveInt,
    Range,
    expect,
    require,
    within,
)
from resetfree.core.compiled import on_one_thread
from resetfree.game.capabilities import Suited
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.game.replay_buffer import NO_ACTION, ReplayBuffer, check_pooling, empty_buffer, vectors
from resetfree.players import TakesEpisodes, check_room
from resetfree.players.linear.regression import HasRidge, Switching
from resetfree.players.linear.stored_ridge import (
    Ridge,
    add_rows,
    decide,
    features_of_rows,
    fit,
    log_dets,
    no_ridge,
    plan_stored,
    use_features,
)
from resetfree.players.requirements import for_vectors
from resetfree.problems import ChoicePolicy, Problem, State
from resetfree.problems.features import FeatureMap, Features

MOST_FEATURES = 2000  # matrices of this many features squared are inverted in seconds
SHARE = 0.05  # by which log det grows per feature between two plans, by default
MOST_BYTES = 8_000_000_000  # of features of rows, which are all in memory


@dataclass
class LinearValues(ChoicePolicy):
    """A greedy policy for vector states, from weights: (h, s) -> probabilities [A], h from 1.

    s: one state, or states [n, D] (or [n], where states are numbers) for rows [n, A].
    """

    kind = "LinearValues"
    axes: ClassVar[dict[str, str]] = {"weight": "LdA", "root": "Add", "cap": "L"}
    features: Features
    weight: Floats  # [H, d, A] one per step, or [1, d, A] for all of them
    root: Floats  # [A, d, d] Lam_a^-1 = root_a^T root_a
    cap: Floats  # [H] or [1] steps to go
    floor: float  # -lam
    bonus: float  # weight of a width
    size: int  # D

    def __call__(self, h: int, s: Any) -> Floats:
        """All on the action of largest Q; of those that tie, on the one of smallest width."""
        states, one = as_states(s, self.size)
        actions, _ = self.best(h, states)
        rows = np.zeros((len(actions), len(self.root)))
        rows[np.arange(len(actions)), actions] = 1.0
        return rows[0] if one else rows

    @property
    def stationary(self) -> bool:
        """Whether the same weights are played at every step."""
        return len(self.weight) == 1

    @on_one_thread
    def best(self, h: int, states: Floats) -> tuple[Ints, Floats]:
        """Actions [n] and Q [n, A] of states [n, D] at step h."""
        i = min(h, len(self.weight)) - 1
        psi = np.ascontiguousarray(self.features(states))
        q, actions = np.empty((len(psi), len(self.root))), np.empty(len(psi), dtype=np.int64)
        decide(psi, self.weight[i], self.root, self.bonus, self.floor, float(self.cap[i]), q, actions)
        return actions, q


@dataclass
class Planned:
    """What one pass leaves."""

    values: LinearValues
    estimated: LinearValues  # of the steps to go for which v_r and v_c are estimated
    weight_r: Floats  # [d, A]
    weight_c: Floats  # [d, A]
    table: Floats | None  # [H, S, A] the policy where states are finite


@dataclass
class Table(Features):
    """Features of finite states, which are numbers: psi(s) = table[s]."""

    table: Floats = field(metadata={"saved": False})  # [S, d]

    @property
    def dimension(self) -> int:
        """How many features there are."""
        return int(self.table.shape[1])

    @property
    def norm_bound(self) -> float:
        """The largest norm of a row of the table."""
        return float(np.sqrt((self.table**2).sum(axis=1).max()))

    def __call__(self, states: Floats) -> Floats:
        """Rows of the table for states [n, 1]."""
        return np.asarray(self.table[states[:, 0].astype(np.int64)])


@dataclass(frozen=True)
class PlayedWorld:
    """What is needed of the problem after `init`."""

    horizon: int
    n_states: int | None
    moves_last: bool  # whether the last action of an episode moves the agent
    map: FeatureMap | None  # None where features are known and not fitted
    low: Floats
    high: Floats
    seed: int


@dataclass
class StoredState:
    """Every transition seen, the regressions on them, and when features are fitted next."""

    rows: ReplayBuffer
    ridge: Ridge
    next_refit: int  # rows; 0 for never
    switches: int  # how often plans were discarded
    world: PlayedWorld = field(metadata={"saved": False})
    plans: dict[float, Planned] = field(metadata={"saved": False})  # by multiplier: a cache, made from the rest

    def check_loaded(self) -> None:
        """Actions and states that there are, and a fit that ends with an episode."""
        rows, n, states = self.rows, self.rows.n, self.world.n_states
        require(within(rows.action[:n], NO_ACTION, len(self.ridge.gram)), "actions must be among those there are")
        require(rows.ends_at(self.ridge.fitted), "fit must end with an episode")
        if states is not None:
            whole = (rows.state[:n] == np.rint(rows.state[:n])).all()
            require(whole and (rows.state[:n] >= 0).all() and (rows.state[:n] < states).all(), "rows must be states")


@dataclass(frozen=True)
class StoredLinear(TakesEpisodes, HasRidge, PrimalPlayer[StoredState]):
    """Q = clip(w_a.psi + scale (P + lam) width, -lam, t), greedy, w_a the regression of r + V(s') on all transitions.

    The mathematics of `greedy-composite`, pooled, on transitions that are kept one by one, so that states may be
    vectors: the features are those of the problem (`Problem.features`), fitted to the states seen and fitted again each
    time their number has doubled; finite states have theirs, or one-hot ones. v_r, v_c are the regressions' estimates
    for the greedy policy without bonus, with min(H, P) steps to go; the dual's feedback should be the realised resets.

    A plan is made from the transitions at the last switch and kept until the next one; multipliers are then rounded up
    to one of 0, 1, 2, 4, .... One pass costs about 3 P n d (A + 1) operations for n rows. Between switches the number
    of rows grows by a fixed share, so that the cost of an episode stays the same on average. Linear algebra is done on
    one thread (`core.compiled`): how many cores there are does not change a bit.

    scale: of the bonus; 0 for none.  reg: the ridge; None for scale^2: then an untried action just reaches its cap.
    planning: None for the paper's way: P = H, and at step h the weights of H - h + 1 steps to go are played. A number:
      the long-run mode, P steps ahead at every step: for dangers that lie beyond the end of an episode.
    switching: "rare" plans again when the determinant of some Lam_a is `growth` times what it was, after a reset, and
      when features were fitted again; "every" in every episode, for the multiplier as it is.
    growth: 2 is the rule of the theory, by which hundreds of features are planned in every episode for long. None
      for the larger of 2 and e^(d/20): until the directions of some action were seen a twentieth more, on average.
    refit: fit the features at so many rows and at each doubling; 0 for never.

    >>> import resetfree as rf
    >>> problem = rf.make("continuous-linear-v0").problem()
    >>> player = StoredLinear()
    >>> player.plan(player.init(problem, 10, 0), 0.5, 1.0).policy(1, 0.5).tolist()
    [1.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "stored-linear"
    suited_states = ("vectors",)
    prediction: ClassVar[Prediction] = "low"
    refuses: ClassVar[tuple[str, ...]] = ("layered",)
    scale: NonNegative = 0.1
    reg: Positive | None = 1e-4
    planning: PositiveInt | None = None
    switching: Switching = "rare"
    growth: Annotated[float, Range(above=1)] | None = None
    refit: Count = 128

    @on_one_thread
    def init(self, problem: Problem, episodes: int, seed: int) -> StoredState:
        """No data yet; refuses what changes with the step, since all transitions are pooled."""
        check_pooling(problem, self.name)
        if problem.end_resets:
            raise InvalidInput(
                f"The player '{self.name}' pools its data over steps. Got resets that only the end of an episode needs."
            )
        if problem.n_transitions < 1:
            raise InvalidInput(f"The player '{self.name}' learns from transitions. Got episodes without any.")
        rows, known = empty_buffer(problem), known_features(problem)
        low = np.full(rows.state.shape[1], -np.inf) if problem.low is None else problem.low
        high = np.full(rows.state.shape[1], np.inf) if problem.high is None else problem.high
        moves_last = problem.n_transitions == problem.horizon
        feature_map = problem.features if known is None else None
        most = max(episodes, 1) * (problem.horizon + 1)
        sizes = (problem.horizon, problem.n_states, moves_last)
        world = PlayedWorld(*sizes, map=feature_map, low=low, high=high, seed=seed)
        features = fitted(world, rows.state[:0]) if known is None else known
        self._check_size(features.dimension, most, min(MOST_BYTES, 4 * problem.room))
        size = 8 * (self.planning or problem.horizon) * features.dimension * problem.n_actions
        check_room(problem, self.name, size, "weights of a plan", "give less for 'planning'")
        next_refit = 0 if known is not None else self.refit
        ridge = no_ridge(features, problem.n_actions, self.ridge())
        return StoredState(rows, ridge, next_refit, switches=0, world=world, plans={})

    @on_one_thread
    def plan(self, state: StoredState, s1: State, lam: float) -> Plan:
        """The greedy policy for the data at the last switch; one pass for each multiplier until the next one."""
        planned, horizon = self._planned(state, self.level(check_multiplier(lam))), state.world.horizon
        states, _ = as_states(s1, state.rows.state.shape[1])
        actions, q = planned.estimated.best(1, states)
        psi, a = planned.estimated.features(states)[0], actions[0]
        v_r = min(max(float(psi @ planned.weight_r[:, a]), 0.0), planned.estimated.cap[0])
        v_c = min(max(float(psi @ planned.weight_c[:, a]), 0.0), 1.0)
        upper = float(q[0, a]) if planned.estimated.cap[0] >= horizon else float("nan")
        return Plan(planned.values if planned.table is None else planned.table, v_r, v_c, upper)

    @on_one_thread
    def update(self, state: StoredState, round: Round) -> StoredState:
        """Add the transitions; when due, fit the features and the regressions to all of them."""
        rows, first = state.rows, state.rows.n
        rows.add(round.episode)
        refit = 0 < state.next_refit <= rows.n
        if refit:
            while state.next_refit <= rows.n:
                state.next_refit *= 2
            seen = rows.state[: rows.n][~rows.terminated[: rows.n]]
            state.ridge = use_features(state.ridge, rows, fitted(state.world, seen))
        else:
            add_rows(state.ridge, rows, first)
            if self.switching == "rare" and not round.episode.reset and not self._grown(state.ridge):
                return state
            fit(state.ridge, rows)
        state.plans.clear()
        state.switches += 1
        return state

    @on_one_thread
    def greedy(self, state: StoredState, lam: float) -> LinearValues:
        """The policy without any bonus, from the data at the last switch: for use after learning."""
        return self._pass(state, check_multiplier(lam), 0.0).values

    def level(self, lam: float) -> float:
        """The multiplier that is planned for: `lam`, or with rare switching the next of 0, 1, 2, 4, ....

        >>> [StoredLinear().level(lam) for lam in (0.0, 0.3, 1.0, 1.1, 5.0)]
        [0.0, 1.0, 1.0, 2.0, 8.0]
        """
        if self.switching == "every" or lam == 0.0:
            return lam
        return 2.0 ** max(ceil(log2(lam)), 0)

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Problems whose states are vectors with known bounds."""
        return for_vectors(problem, 1, "values are fitted to all steps in features of the state")

    def steps_ahead(self, horizon: int) -> int:
        """P, or H where every step is planned to the end of its episode."""
        return self.planning or horizon

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Constants of this run; no theorem covers them."""
        ahead = self.planning or problem.horizon
        constants: dict[str, float | str | bool] = {"beta_r": self.scale * ahead, "beta_c": self.scale}
        constants |= {"reg": self.ridge(), "planning": float(ahead)}
        constants |= {"growth": "tuned" if self.growth is None else self.growth, "switching": self.switching}
        lacks = ["the width is tuned, not proved", "data are pooled over the steps"]
        if known_features(problem) is None and self.refit:
            lacks.append("features are fitted to the data")
        if self.planning is not None:
            lacks.append("plans do not end with the episode")
        return Statement(constants, False, "no theorem covers this run: " + "; ".join(lacks))

    def _planned(self, state: StoredState, lam: float) -> Planned:
        """The backward pass for a multiplier, cached until the next switch."""
        if lam not in state.plans:
            state.plans[lam] = self._pass(state, lam, self.scale * ((self.planning or state.world.horizon) + lam))
        return state.plans[lam]

    def _pass(self, state: StoredState, lam: float, bonus: float) -> Planned:
        """The backward pass over all rows that are fitted."""
        rows, ridge, world = state.rows, state.ridge, state.world
        horizon = world.horizon
        steps = self.planning or horizon
        estimated, played = min(horizon, steps), steps if self.planning is None else 1
        n_actions, d, _ = ridge.root.shape
        n, psi = ridge.fitted, features_of_rows(ridge, rows)
        weight = np.zeros((max(played, steps - estimated + 1), d, n_actions))
        weight_r, weight_c = np.zeros((d, n_actions)), np.zeros((d, n_actions))
        fitted_rows = (psi[:n], rows.action[:n], rows.reward[:n], rows.terminated[:n], ridge.width2[:n])
        moves_last = world.moves_last or self.planning is not None
        weights = (weight, weight_r, weight_c)
        plan_stored(*fitted_rows, ridge.root, bonus, lam, moves_last, estimated, *weights, steps)
        root, size = ridge.root.copy(), rows.state.shape[1]
        cap = np.arange(steps, steps - played, -1, dtype=np.float64)
        values = LinearValues(ridge.features, weight[:played].copy(), root, cap, floor=-lam, bonus=bonus, size=size)
        at = replace(values, weight=weight[steps - estimated][None].copy(), cap=np.array([float(estimated)]))
        table = None if world.n_states is None else _table(values, horizon, world.n_states)
        return Planned(values, at, weight_r, weight_c, table)

    def _grown(self, ridge: Ridge) -> bool:
        """Whether some determinant is `growth` times what it was when plans were made."""
        least = max(log(2.0), SHARE * ridge.gram.shape[1]) if self.growth is None else log(self.growth)
        return bool((log_dets(ridge) - ridge.log_det).max() >= least)

    def _check_size(self, d: int, rows: int, most: int) -> None:
        expect(d <= MOST_FEATURES, f"features for {self.name}", f"be at most {MOST_FEATURES}", got=f"{d}")
        if 8 * d * rows > most:
            raise InvalidInput(
                f"The player '{self.name}' keeps {8e-9 * d * rows:.1f} GB of features of {rows} states, which must be "
                f"at most {most / 1e9:.0f} GB: use fewer features or episodes."
            )


def known_features(problem: Problem) -> Features | None:
    """Features that need no fitting: those of finite states, the pairs' side by side or one-hot; None for vectors."""
    if problem.n_states is None:
        expect(problem.features is not None, f"problem '{problem.name}'", "have 'features' of its states", got="None")
        return None
    if problem.phi is None:
        return Table(np.eye(problem.n_states))
    return Table(np.ascontiguousarray(problem.phi.reshape(problem.n_states, -1)))


def fitted(world: PlayedWorld, states: Floats) -> Features:
    """The features for states like these."""
    assert world.map is not None
    return world.map.fit(states, world.low, world.high, world.seed)


def as_states(s: Any, size: int) -> tuple[Floats, bool]:
    """[n, D] from one state or many, and whether it was one.

    >>> as_states(0.5, 1), as_states([0.1, 0.2], 2)[1], as_states([0.1, 0.2], 1)[1]
    ((array([[0.5]]), True), True, False)
    """
    states = np.asarray(s, dtype=np.float64)
    if states.ndim == 0 or states.shape == (size,):
        return states.reshape(1, -1), True
    return vectors(states), False


def _table(values: LinearValues, horizon: int, n_states: int) -> Floats:
    """[H, S, A] the policy in every state."""
    states = np.arange(n_states, dtype=np.float64)[:, None]
    steps = [values(h + 1, states) for h in range(len(values.weight))]
    return np.stack(steps if len(steps) == horizon else steps * horizon)
