"""A finite reset-free problem, exactly as the paper's Section 3 has it; everything is checked on the way in.

Legend: S states, A actions, H actions per episode, m contexts (state index = context * S/m + base state).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree import arguments
from resetfree.arguments import as_array, is_sequence, real, shown
from resetfree.errors import InvalidInput, NotCertifiable
from resetfree.kernels.planning import Model
from resetfree.transitions import ROW_SUM_TOLERANCE, Bools, Floats, Transitions, coarse, compress, normalised

if TYPE_CHECKING:
    from resetfree.problem import FiniteProblem

Boundary: TypeAlias = Literal["physical", "literal"]
LONGEST = 100_000  # actions per episode: plans are tables with a row for each
MOST_ACTIONS = int(np.iinfo(np.int16).max)  # policies are kept in two bytes per state


@dataclass(frozen=True, slots=True, eq=False)
class GridLayout:
    """Where the states stand on a map, for pictures."""

    n_rows: int
    n_cols: int
    cell: NDArray[np.int64]  # [S] row * n_cols + column


class FiniteMDP:
    """States, actions, dynamics, rewards, reset set, horizon, and where episodes start.

    Paper: MDP (S, A, P, r, H), S_reset.

    transition: [S, A, S] or [H, S, A, S], dense; or SciPy sparse [S*A, S] (row s*A + a), or a list of H of those.
      Rows of reset states are never used and may be empty. Rows in float32 are normalised, within its rounding.
    reward: [S, A] or [H, S, A], in [0, 1].
    reset: Boolean [S]. Arriving there ends the episode and costs one reset.
    horizon: H, actions per episode.
    start: a state, or a distribution [S]: where the first episode starts.
    restart: likewise, where a reset puts the agent (default: as `start`); with contexts [m, S/m], one row each.
    support: Boolean, shaped as `transition`: what is possible, where floats cannot say it (a probability that
      underflowed to 0.0 may be possible). Default: the probabilities that are not exactly zero.
    boundary: "physical" or "literal" (docs/readings.md, A4).
    noise: 0 (rewards are deterministic), a standard deviation (Gaussian), or "bernoulli" (0 or 1 with mean `reward`).
    end_reset: Boolean [S], states in which the end of an episode calls for a reset (see `assumptions.close`).
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
    resetfree.errors.InvalidInput: Each row of the 'transition' of FiniteMDP must sum to one.
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
        check_horizon(horizon, "FiniteMDP")
        if not isinstance(boundary, str) or boundary not in ("physical", "literal"):
            raise InvalidInput(
                f'The \'boundary\' of FiniteMDP must be "physical" or "literal". Got {shown(boundary)} instead.'
            )
        self.name, self.horizon, self.boundary, self.layout = name, int(horizon), boundary, layout
        self.reset = _states(reset, "reset", None)
        self.n_states = len(self.reset)
        self.transition: Transitions = compress(transition, self.n_states, self.horizon, support)
        self.n_actions = self.transition.n_actions
        if self.n_actions > MOST_ACTIONS:
            raise InvalidInput(f"A FiniteMDP must have at most {MOST_ACTIONS} actions. Got {self.n_actions} instead.")
        self._check_rows()
        self.reward = self._check_reward(reward)  # [1 or H, S, A]
        self.noise = _check_noise(noise)
        self.end_reset = _states(
            np.zeros(self.n_states) if end_reset is None else end_reset, "end_reset", self.n_states
        )
        self.contexts = self._check_contexts(contexts)
        self.start = self._distribution(start, "start", 1)[0]  # [S]
        self.restart = self._check_restart(restart)  # [m, S/m]
        self.phi = self._check_features(phi, "phi", (self.n_states, self.n_actions))
        self.xi = self._check_features(xi, "xi", (self.n_states,))
        self.state_names = self._check_names(state_names, "state_names", self.n_states)
        self.action_names = self._check_names(action_names, "action_names", self.n_actions)
        self.model = self._model()
        self._given: dict[str, Any] = {
            "transition": self.transition, "reward": reward, "reset": reset, "horizon": horizon, "start": start,
            "restart": restart, "boundary": boundary, "noise": noise, "end_reset": end_reset, "contexts": contexts,
            "phi": phi, "xi": xi, "name": name, "state_names": state_names, "action_names": action_names,
            "layout": layout,
        }  # fmt: skip

    def __repr__(self) -> str:
        n = int(self.reset.sum())
        return (
            f"FiniteMDP({self.n_states} states, {self.n_actions} action{'' if self.n_actions == 1 else 's'}, "
            f"horizon {self.horizon}, {n} reset state{'' if n == 1 else 's'})"
        )

    def replace(self, **changes: Any) -> FiniteMDP:
        """The same problem with some arguments of the constructor changed (and all of them checked again)."""
        return FiniteMDP(**{**self._given, **changes})

    def problem(self) -> FiniteProblem:
        """What a learner sees of it: a simulator with the model hidden."""
        from resetfree.problem import FiniteProblem

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
        """How many of the H actions move the agent: all (physical), all but the last (literal)."""
        return self.horizon if self.boundary == "physical" else self.horizon - 1

    def ends_within(self, starts: Bools) -> Bools:
        """[S] states in which an episode may end so that the next start lies in `starts`, whatever context comes."""
        if self.contexts is None:
            return starts
        possible = self.contexts > 0  # [m, m]
        by_context = starts.reshape(len(possible), -1)
        return np.stack([by_context[row].all(axis=0) for row in possible]).ravel()

    @property
    def last_reset(self) -> Bools:
        """[S] states in which arriving at the end of an episode is a reset."""
        return self.model.last_reset

    def _model(self) -> Model:
        """The arrays that every compiled pass reads."""
        t, step = self.transition, np.arange(self.horizon)
        row_of_step = step * (0 if t.stationary else self.n_states * self.n_actions)
        reward_of_step = step * (0 if len(self.reward) == 1 else 1)
        # A change of context that would put the agent into a reset state calls for a reset before it.
        last_reset = np.asarray(self.reset | self.end_reset | ~self.ends_within(~self.reset))
        return Model(
            t.indptr, t.indices, t.prob, row_of_step, self.reward, reward_of_step, self.reset, last_reset,
            self.n_transitions,
        )  # fmt: skip

    def _check_rows(self) -> None:
        """Empty rows are only for reset states."""
        t = self.transition
        empty = (np.diff(t.indptr) == 0).reshape(t.n_layers, self.n_states, self.n_actions) & ~self.reset[:, None]
        if empty.any():
            layer, s, a = np.argwhere(empty)[0]
            step = "" if t.stationary else f", step {layer + 1}"
            raise InvalidInput(
                "Each row of the 'transition' of FiniteMDP must sum to one. "
                f"Got 0 for state {s}, action {a}{step} instead."
            )

    def _check_reward(self, reward: ArrayLike) -> Floats:
        array = arguments.array(reward, "'reward' of FiniteMDP")
        shape = (self.n_states, self.n_actions)
        if array.shape not in (shape, (self.horizon, *shape)):
            raise InvalidInput(
                f"The 'reward' of FiniteMDP must have shape {shape} or {(self.horizon, *shape)}. "
                f"Got {array.shape} instead."
            )
        array = array[None] if array.ndim == 2 else array
        bad = ~((array >= 0) & (array <= 1))
        if bad.any():
            h, s, a = np.argwhere(bad)[0]
            step = "" if len(array) == 1 else f", step {h + 1}"
            raise InvalidInput(
                "The 'reward' of FiniteMDP must lie in [0, 1]. "
                f"Got {array[h, s, a]:.6g} for state {s}, action {a}{step} instead."
            )
        array.setflags(write=False)
        return array

    def _check_contexts(self, contexts: ArrayLike | None) -> Floats | None:
        if contexts is None:
            return None
        chain = arguments.array(contexts, "'contexts' of FiniteMDP")
        if chain.ndim != 2 or chain.shape[0] != chain.shape[1] or len(chain) == 0 or self.n_states % len(chain):
            raise InvalidInput(
                f"The 'contexts' of FiniteMDP must be a square [m, m] with m a divisor of {self.n_states}. "
                f"Got shape {chain.shape} instead."
            )
        chain = _rows(chain, contexts)
        for row in chain:
            _check_distribution(row, "contexts")
        chain.setflags(write=False)
        return chain

    def _check_restart(self, restart: int | ArrayLike | None) -> Floats:
        if self.contexts is None:
            return self._distribution(self.start if restart is None else restart, "restart", 1)
        if restart is None:
            raise InvalidInput("The 'restart' of FiniteMDP must be given where there are contexts. Got None instead.")
        return self._distribution(restart, "restart", len(self.contexts))

    def _distribution(self, given: int | ArrayLike, what: str, n: int) -> Floats:
        """Distributions [n, S/n]; no mass on reset states."""
        array = as_array(given, f"'{what}' of FiniteMDP")
        width = self.n_states // n
        if array.ndim == 0 and array.dtype.kind in "iu" and n == 1:
            if not 0 <= array < self.n_states:
                raise InvalidInput(
                    f"The '{what}' of FiniteMDP must be a state in 0..{self.n_states - 1} or a distribution over "
                    f"the states. Got {given!r} instead."
                )
            array = np.eye(1, self.n_states, int(array))
        if array.size == 0:
            raise InvalidInput(
                f"The '{what}' of FiniteMDP must give some state positive probability. Got none instead."
            )
        array = arguments.array(array if array.ndim == 2 else array[None], f"'{what}' of FiniteMDP")
        if array.shape != (n, width):
            shape = (width,) if n == 1 else (n, width)
            raise InvalidInput(f"The '{what}' of FiniteMDP must have shape {shape}. Got {np.shape(given)} instead.")
        array = _rows(array, given)
        for row in array:
            _check_distribution(row, what)
        inside = (array > 0) & self.reset.reshape(n if n > 1 else 1, width)
        if inside.any():
            raise InvalidInput(
                f"The '{what}' of FiniteMDP must lie outside the reset set. "
                f"Got positive probability on reset state {int(np.flatnonzero(inside)[0])} instead."
            )
        array.setflags(write=False)
        return array

    def _check_features(self, given: ArrayLike | None, what: str, lead: tuple[int, ...]) -> Floats | None:
        if given is None:
            return None
        array = arguments.array(given, f"'{what}' of FiniteMDP")
        if array.shape[:-1] != lead or array.ndim != len(lead) + 1 or not np.isfinite(array).all():
            raise InvalidInput(
                f"The '{what}' of FiniteMDP must be finite numbers of shape {(*lead, 'd')}. "
                f"Got shape {array.shape} instead."
            )
        array.setflags(write=False)
        return array

    def _check_names(self, names: Sequence[str] | None, what: str, n: int) -> tuple[str, ...]:
        if names is None:
            return tuple(str(i) for i in range(n))
        if not is_sequence(names):
            raise InvalidInput(f"The '{what}' of FiniteMDP must be a list of names. Got {shown(names)} instead.")
        if len(names) != n:
            raise InvalidInput(f"The '{what}' of FiniteMDP must have {n} entries. Got {len(names)} instead.")
        return tuple(str(x) for x in names)


def check_model(mdp: Any, what: str) -> None:
    """Refuse what is no finite problem with a known model."""
    if not isinstance(mdp, FiniteMDP):
        raise NotCertifiable(f"{what} needs a finite problem whose model is known. Got {type(mdp).__name__} instead.")


def check_horizon(horizon: Any, name: str) -> None:
    """Refuse what is no number of actions per episode.

    >>> check_horizon(10**9, "FiniteMDP")
    Traceback (most recent call last):
    resetfree.errors.InvalidInput: The 'horizon' of FiniteMDP must be a positive integer up to 100000.
    Got 1000000000 instead.
    """
    good = isinstance(horizon, int | np.integer) and not isinstance(horizon, bool)
    if not good or not 1 <= horizon <= LONGEST:
        upto = f" up to {LONGEST}" if good and horizon > 1 else ""
        raise InvalidInput(f"The 'horizon' of {name} must be a positive integer{upto}. Got {shown(horizon)} instead.")


def _states(given: ArrayLike, what: str, n: int | None) -> Bools:
    array = as_array(given, f"'{what}' of FiniteMDP")
    fits = array.ndim == 1 and len(array) > 0 and (n is None or len(array) == n) and array.dtype.kind in "biufO"
    if not fits or not np.isin(array, (0, 1)).all():
        raise InvalidInput(
            f"The '{what}' of FiniteMDP must be Boolean, one entry per state. "
            f"Got {array.dtype} of shape {array.shape} instead."
        )
    result = array.astype(np.bool_)
    result.setflags(write=False)
    return result


def _rows(array: Floats, given: object) -> Floats:
    """Distributions [n, width]; what was given in single precision is normalised within its rounding."""
    if not coarse(given):
        return array
    n, width = array.shape
    return normalised(np.arange(n + 1) * width, array.ravel()).reshape(n, width)


def _check_distribution(row: Floats, what: str) -> None:
    if not (np.isfinite(row) & (row >= 0)).all():
        raise InvalidInput(
            f"The '{what}' of FiniteMDP must hold probabilities. Got a negative or non-finite one instead."
        )
    if not (row > 0).any():
        raise InvalidInput(f"The '{what}' of FiniteMDP must give some state positive probability. Got none instead.")
    if abs(row.sum() - 1) > ROW_SUM_TOLERANCE:
        raise InvalidInput(f"The '{what}' of FiniteMDP must sum to one. Got {row.sum():.12g} instead.")


def _check_noise(noise: float | Literal["bernoulli"]) -> float | Literal["bernoulli"]:
    if isinstance(noise, str) and noise == "bernoulli":
        return "bernoulli"
    try:
        return real(noise, "noise")
    except InvalidInput:
        raise InvalidInput(
            "The 'noise' of FiniteMDP must be \"bernoulli\" or a standard deviation that is not negative. "
            f"Got {shown(noise)} instead."
        ) from None
