"""The finite reset-free problem of the paper's Section 3; every argument is checked.

Legend: S states, A actions, H actions per episode, m contexts (state index = context * S/m + base state).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from resetfree.core import Bools, Floats, InvalidInput, NotCertifiable, check, expect, jit, shown
from resetfree.problems.contract import ChoicePolicy, Description, Episode, Problem, State, draw
from resetfree.problems.finite import transitions as checks
from resetfree.problems.finite.backward import Model
from resetfree.problems.finite.tabular_policy import LazyPolicy, as_policy
from resetfree.problems.finite.transitions import Transitions, compress
from resetfree.problems.knowledge import Factors, context_factors, grid_factors


@jit
def pick(weights: NDArray[np.float64], u: float) -> int:
    """The first index whose cumulative weight exceeds u; beyond the rounded total, the last with positive weight."""
    total = 0.0
    last = 0
    for i in range(len(weights)):
        if weights[i] > 0.0:
            total += weights[i]
            last = i
            if u < total:
                return i
    return last


@jit
def move(m: Model, h: int, s: int, a: int, u: float) -> int:
    """The next state after action a in s at step h, drawn by u."""
    i = m.row_of_step[h] + s * m.reward.shape[2] + a
    begin = m.indptr[i]
    return int(m.indices[begin + pick(m.prob[begin : m.indptr[i + 1]], u)])


@jit
def roll(
    m: Model,
    policy: NDArray[np.float64],  # [H, S, A]
    start: int,
    u: NDArray[np.float64],  # [>= 2H] H for actions, then H for transitions
    states: NDArray[np.int64],  # [H + 1] out
    actions: NDArray[np.int64],  # [H] out
    rewards: NDArray[np.float64],  # [H] out, the means
) -> tuple[int, bool]:
    """Fill states, actions and rewards; returns the number of actions and whether a reset state was entered."""
    horizon = policy.shape[0]
    s = start
    states[0] = s
    for h in range(horizon):
        a = pick(policy[h, s], u[h])
        actions[h] = a
        rewards[h] = m.reward[m.reward_of_step[h], s, a]
        if h == m.n_transitions:
            return h + 1, False
        s = move(m, h, s, a, u[horizon + h])
        states[h + 1] = s
        if m.reset[s] or (h == m.n_transitions - 1 and m.last_reset[s]):
            return h + 1, True
    return horizon, False


Boundary: TypeAlias = Literal["physical", "literal"]
DECIDING = ("start", "restart", "contexts", "noise", "boundary")  # affect episodes, besides the arrays of the model
MOST_ACTIONS = int(np.iinfo(np.int16).max)  # policies are kept in two bytes per state


@dataclass(frozen=True, slots=True, eq=False)
class GridLayout:
    """The position of each state on a map, for pictures."""

    n_rows: int
    n_cols: int
    cell: NDArray[np.int64]  # [S] row * n_cols + column


class FiniteMDP:
    """States, actions, dynamics, rewards, reset set, horizon, and the distributions of starts.

    Paper: MDP (S, A, P, r, H), S_reset.

    transition: [S, A, S] or [H, S, A, S], dense; or SciPy sparse [S*A, S] (row s*A + a), or a list of H of those.
      Rows of reset states are never used and may be empty. Rows in float32 are normalised, within its rounding.
    reward: [S, A] or [H, S, A], in [0, 1].
    reset: Boolean [S]. Arriving there ends the episode and costs one reset.
    horizon: H, actions per episode.
    start: the start of the first episode, a state or a distribution [S].
    restart: likewise, the state after a reset (default: as `start`); with contexts [m, S/m], one row each.
    support: Boolean, shaped as `transition`: which transitions are possible, for probabilities that underflowed to
      0.0. Default: those that are not exactly zero.
    boundary: "physical" or "literal" (docs/readings.md, A4).
    noise: 0 (rewards are deterministic), a standard deviation (Gaussian), or "bernoulli" (0 or 1 with mean `reward`).
    end_reset: Boolean [S], states in which the end of an episode is a reset (see `assumptions.close`).
    contexts: [m, m], row c the distribution of the next episode's context (see `contexts.with_contexts`).
    phi, xi: known features [S, A, d] of state-action pairs and [S, d'] of start states.

    >>> import numpy as np
    >>> P = np.zeros((3, 2, 3)); P[0, 0, 0] = P[0, 1, 1] = P[1, :, 0] = 1   # state 2 is the reset state
    >>> P[1, 1] = [0, 0, 1]
    >>> mdp = FiniteMDP(P, reward=np.full((3, 2), 0.5), reset=[False, False, True], horizon=4)
    >>> mdp
    FiniteMDP(3 states, 2 actions, horizon 4, 1 reset state)
    >>> FiniteMDP(P * 0.9, np.zeros((3, 2)), [False, False, True], horizon=4)
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: Each row of the 'transition' of FiniteMDP must sum to one.
    Got 0.9 for state 0, action 0 instead.
    """

    def __init__(
        self,
        transition: Any,
        reward: ArrayLike,
        reset: ArrayLike,
        horizon: int,
        *,
        start: int | ArrayLike = 0,
        restart: int | ArrayLike | None = None,
        support: Any = None,
        boundary: Boundary = "physical",
        noise: float | Literal["bernoulli"] = 0.0,
        end_reset: ArrayLike | None = None,
        contexts: ArrayLike | None = None,
        phi: ArrayLike | None = None,
        xi: ArrayLike | None = None,
        name: str = "unnamed",
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        layout: GridLayout | None = None,
    ) -> None:
        self._given = {**locals()}  # for `replace`
        del self._given["self"], self._given["support"]
        check(horizon, checks.Horizon, "'horizon' of FiniteMDP")
        check(boundary, Boundary, "'boundary' of FiniteMDP")
        self.name, self.horizon, self.boundary, self.layout = name, int(horizon), boundary, layout
        self.reset = checks.state_set(reset, "reset", None)
        self.n_states = len(self.reset)
        self.transition: Transitions = compress(transition, self.n_states, self.horizon, support)
        self.n_actions = self.transition.n_actions
        if self.n_actions > MOST_ACTIONS:
            raise InvalidInput(f"A FiniteMDP must have at most {MOST_ACTIONS} actions. Got {self.n_actions} instead.")
        checks.check_rows(self.transition, self.reset)
        shape = (self.n_states, self.n_actions)
        self.reward = checks.check_reward(reward, self.horizon, shape)  # [1 or H, S, A]
        self.noise = checks.check_noise(noise)
        self.end_reset = checks.state_set(
            np.zeros(self.n_states) if end_reset is None else end_reset, "end_reset", self.n_states
        )
        self.contexts = checks.check_contexts(contexts, self.n_states)
        self.start = checks.distributions(start, "start", self.reset)[0]  # [S]
        self.restart = self._restart(restart)  # [m, S/m]
        self.phi = checks.check_features(phi, "phi", shape)
        self.xi = checks.check_features(xi, "xi", (self.n_states,))
        self.state_names = checks.check_names(state_names, "state_names", self.n_states)
        self.action_names = checks.check_names(action_names, "action_names", self.n_actions)
        self.model = self._model()
        self._given["transition"] = self.transition  # with its support

    def __repr__(self) -> str:
        n = int(self.reset.sum())
        return (
            f"FiniteMDP({self.n_states} states, {self.n_actions} action{'' if self.n_actions == 1 else 's'}, "
            f"horizon {self.horizon}, {n} reset state{'' if n == 1 else 's'})"
        )

    def replace(self, **changes: Any) -> FiniteMDP:
        """The same problem with some arguments of the constructor changed; all are checked again."""
        return FiniteMDP(**{**self._given, **changes})

    def problem(self) -> FiniteProblem:
        """The problem as a learner sees it: a simulator with the model hidden."""
        return FiniteProblem(self)

    @property
    def stationary(self) -> bool:
        """Whether dynamics and rewards are the same at every step."""
        return self.transition.stationary and len(self.reward) == 1

    @property
    def reward_noise(self) -> float:
        """Sub-Gaussian constant of a reward about its mean: 0 if it is deterministic, 0.5 within [0, 1] (Hoeffding)."""
        return 0.5 if self.noise == "bernoulli" else float(self.noise)

    @property
    def n_transitions(self) -> int:
        """The number of actions that move the agent: H (physical) or H - 1 (literal)."""
        return self.horizon if self.boundary == "physical" else self.horizon - 1

    def ends_within(self, starts: Bools) -> Bools:
        """[S] states in which an episode may end so that the next start is in `starts`, in every possible context."""
        if self.contexts is None:
            return starts
        possible = self.contexts > 0  # [m, m]
        by_context = starts.reshape(len(possible), -1)
        return np.stack([by_context[row].all(axis=0) for row in possible]).ravel()

    @property
    def last_reset(self) -> Bools:
        """[S] states whose entry at the end of an episode is a reset."""
        return self.model.last_reset

    def _restart(self, restart: int | ArrayLike | None) -> Floats:
        given = restart is not None or self.contexts is None
        expect(given, "'restart' of FiniteMDP", "be given if there are contexts")
        n = 1 if self.contexts is None else len(self.contexts)
        return checks.distributions(self.start if restart is None else restart, "restart", self.reset, n)

    def _model(self) -> Model:
        """The arrays that every compiled pass reads."""
        t, step = self.transition, np.arange(self.horizon)
        row_of_step = step * (0 if t.stationary else self.n_states * self.n_actions)
        reward_of_step = step * (0 if len(self.reward) == 1 else 1)
        # If the next context could make the state a reset state, the end of the episode is a reset.
        last_reset = np.asarray(self.reset | self.end_reset | ~self.ends_within(~self.reset))
        return Model(
            indptr=t.indptr,
            indices=t.indices,
            prob=t.prob,
            row_of_step=row_of_step,
            reward=self.reward,
            reward_of_step=reward_of_step,
            reset=self.reset,
            last_reset=last_reset,
            n_transitions=self.n_transitions,
        )


def check_model(mdp: Any, what: str) -> None:
    """Raise NotCertifiable for anything but a `FiniteMDP`."""
    if not isinstance(mdp, FiniteMDP):
        raise NotCertifiable(f"{what} needs a finite problem whose model is known. Got {type(mdp).__name__} instead.")


class FiniteProblem(Problem):
    """The simulator of a `FiniteMDP`, which hides its model from learners.

    >>> import resetfree as rf
    >>> problem = rf.make("grid-v0").problem()
    >>> problem.n_states, problem.n_actions, problem.horizon
    (12, 5, 8)
    >>> hasattr(problem, "transition") or hasattr(problem, "reset")
    False
    """

    def __init__(self, mdp: FiniteMDP) -> None:
        self._model = self._mdp = mdp
        self._cum_start, self._cum_restart = mdp.start.cumsum(), mdp.restart.cumsum(axis=1)
        self.name = mdp.name
        self.horizon, self.n_actions, self.n_states = mdp.horizon, mdp.n_actions, mdp.n_states
        self.stationary, self.n_transitions = mdp.stationary, mdp.n_transitions
        self.n_contexts = 1 if mdp.contexts is None else len(mdp.contexts)
        self.end_resets = bool((mdp.last_reset != mdp.reset).any())
        self.reward_noise = mdp.reward_noise
        self.phi, self.xi = mdp.phi, mdp.xi

    @cached_property
    def factors(self) -> Factors | None:  # type: ignore[override]
        """Row and column on a grid, or place and task where there are contexts."""
        if self._mdp.layout is not None:
            return grid_factors(self._mdp.layout, self._mdp.n_states, tuple(self._mdp.action_names))
        return context_factors(self._mdp.n_states, self.n_contexts) if self.n_contexts > 1 else None

    def description(self, s1: State = None) -> Description:
        """The identity is that of the model; names of states do not count."""
        identity = self._sizes() | self._mdp.model._asdict() | {name: getattr(self._mdp, name) for name in DECIDING}
        return Description(identity, self._observation(s1))

    def twin(self) -> Problem:
        """One that shares the model: an episode depends on nothing but its start and its uniforms."""
        other = copy.copy(self)
        other._performed, other.noted = [], []
        return other

    @property
    def n_uniforms(self) -> int:
        """Per step one for the action, one for the transition, one for noise; two for the next start."""
        return 3 * self.horizon + 2

    def first_start(self, u: float) -> int:
        """A draw from the start distribution."""
        return draw(self._cum_start, u)

    def rollout(self, policy: ArrayLike | ChoicePolicy, start: int, u: Floats) -> Episode:
        """Play a Markov policy (see `as_policy` for the accepted forms) from `start`."""
        mdp, horizon = self._mdp, self.horizon
        if len(u) != self.n_uniforms:
            raise InvalidInput(f"One episode of '{self.name}' needs {self.n_uniforms} uniforms. Got {len(u)} instead.")
        start = check_start(mdp, start)
        out = states, actions, rewards = np.empty(horizon + 1, np.int64), np.empty(horizon, np.int64), np.empty(horizon)
        if not isinstance(policy, np.ndarray) and isinstance(policy, LazyPolicy):  # an array is the common case
            n, reset = self._roll_lazy(policy, start, u, out)
        else:
            n, reset = roll(mdp.model, as_policy(policy, mdp), start, u, *out)
        if n < horizon:
            actions, rewards = actions[:n], rewards[:n]
        seen = n + 1 if reset or n == mdp.n_transitions else n
        if mdp.noise == "bernoulli":
            rewards = (u[2 * horizon : 2 * horizon + n] < rewards).astype(np.float64)
        elif mdp.noise > 0:
            rewards = rewards + mdp.noise * ndtri(np.clip(u[2 * horizon : 2 * horizon + n], 1e-16, 1 - 1e-16))
        next_start = self._next_start(int(states[seen - 1]), bool(reset), u[-2], u[-1])
        return Episode(states[:seen], actions, rewards, bool(reset), next_start)

    def _roll_lazy(
        self, policy: LazyPolicy, start: int, u: Floats, out: tuple[NDArray[np.int64], NDArray[np.int64], Floats]
    ) -> tuple[int, bool]:
        """`roll` with a policy that is computed state by state: the same uniforms give the same episode."""
        mdp, here, (states, actions, rewards) = self._mdp, np.array([start]), out
        states[0] = start
        for h in range(self.horizon):
            a = pick(policy.rows(h, here)[0], u[h])
            actions[h], rewards[h] = a, mdp.reward[mdp.model.reward_of_step[h], here[0], a]
            if h == mdp.n_transitions:
                return h + 1, False
            here[0] = states[h + 1] = move(mdp.model, h, here[0], a, u[self.horizon + h])
            if mdp.reset[here[0]] or (h == mdp.n_transitions - 1 and mdp.last_reset[here[0]]):
                return h + 1, True
        return self.horizon, False

    def _next_start(self, last: int, reset: bool, u_state: float, u_context: float) -> int:
        """The last state, or a restart after a reset; in a new context if there are contexts."""
        chain = self._mdp.contexts
        if chain is None:
            return draw(self._cum_restart[0], u_state) if reset else last
        n_base = self._mdp.n_states // len(chain)
        context, base = divmod(last, n_base)
        context = draw(chain[context].cumsum(), u_context)
        if reset:
            base = draw(self._cum_restart[context], u_state)
        return context * n_base + base


def check_start(mdp: FiniteMDP, start: State) -> int:
    """The start as an int; raises InvalidInput unless it is a state outside the reset set."""
    whole = isinstance(start, int | np.integer)
    if not whole or not 0 <= start < mdp.n_states or mdp.reset[start]:
        raise InvalidInput(
            f"A start of '{mdp.name}' must be a state outside the reset set. Got {shown(start)} instead."
        )
    return int(start)


def model_behind(problem: Problem) -> FiniteMDP:
    """The model that a problem hides from learners, for oracles; raises NotCertifiable if there is none."""
    if problem._model is None:
        raise NotCertifiable(f"'{problem.name}' has no exact oracle: it is not a finite problem whose model is known.")
    found: FiniteMDP = problem._model
    return found
