"""Transition probabilities in compressed rows; the stored pattern is the support.

Legend: L layers (1 if the dynamics are stationary, else one per step), S states, A actions.
Row l*S*A + s*A + a holds the successors of action a in state s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from resetfree.core import Bools, Floats, InvalidInput, NonNegative, Range, arguments, as_array, expect, is_sequence
from resetfree.core.settings import accepts

ROW_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Transitions:
    """P_h(s'|s,a) for all h, as rows of (successor, probability).

    A stored entry is possible, any other impossible: safety is decided by the pattern (`indptr`, `indices`) and never
    by `prob`, which may underflow. The arrays are read-only.
    """

    n_states: int
    n_actions: int
    n_layers: int
    indptr: NDArray[np.int64]  # [L*S*A + 1]
    indices: NDArray[np.int32]  # [nnz]
    prob: Floats  # [nnz]

    def __post_init__(self) -> None:
        for array in (self.indptr, self.indices, self.prob):
            array.setflags(write=False)

    @property
    def nnz(self) -> int:
        """The number of possible (h, s, a, s')."""
        return len(self.indices)

    @property
    def stationary(self) -> bool:
        """Whether all steps have one layer."""
        return self.n_layers == 1

    def row(self, layer: int, state: int, action: int) -> tuple[NDArray[np.int32], Floats]:
        """Successors of an action and their probabilities."""
        i = (layer * self.n_states + state) * self.n_actions + action
        part = slice(self.indptr[i], self.indptr[i + 1])
        return self.indices[part], self.prob[part]

    def matrix(self, layer: int = 0) -> Any:
        """One layer as a SciPy sparse array [S*A, S]."""
        rows = self.n_states * self.n_actions
        indptr = self.indptr[layer * rows : (layer + 1) * rows + 1]
        part = slice(indptr[0], indptr[-1])
        return sparse.csr_array(
            (self.prob[part], self.indices[part], indptr - indptr[0]), shape=(rows, self.n_states), copy=True
        )


def compress(transition: object, n_states: int, horizon: int, support: object = None) -> Transitions:
    """A user's argument compressed: an array [S,A,S] or [H,S,A,S], a SciPy sparse [S*A,S], or a list of H of those."""
    if isinstance(transition, Transitions):
        if support is not None:
            raise InvalidInput("The 'support' of FiniteMDP must not be given twice: 'transition' carries its own.")
        _check_shape(transition.n_states == n_states and transition.n_layers in (1, horizon), transition.n_layers)
        return transition
    rounded = coarse(transition)
    layers = _layers(transition, "transition", n_states, horizon)
    masks = None if support is None else _layers(support, "support", n_states, horizon)
    same = masks is None or (len(masks) == len(layers) and masks[0].shape == layers[0].shape)
    expect(same, "'support' of FiniteMDP", "have the shape of 'transition'", got="another one")
    n_actions = layers[0].shape[0] // n_states
    parts = []
    for h, layer in enumerate(layers):
        if masks is None:
            layer.eliminate_zeros()
            parts.append((layer.indptr, layer.indices, layer.data))
        else:
            parts.append(_on_support(layer, masks[h], n_states, n_actions, h if len(layers) > 1 else None))
    offsets = np.cumsum([0] + [len(data) for _, _, data in parts])
    starts = [ptr[:-1].astype(np.int64) + off for (ptr, _, _), off in zip(parts, offsets, strict=False)]
    indptr = np.concatenate([*starts, offsets[-1:]]).astype(np.int64)
    indices = np.concatenate([indices for _, indices, _ in parts]).astype(np.int32)
    prob = np.concatenate([data for _, _, data in parts]).astype(np.float64)
    if rounded:
        prob = normalised(indptr, prob)
    _check_probabilities(n_states, n_actions, indptr, indices, prob)
    return Transitions(n_states, n_actions, len(layers), indptr=indptr, indices=indices, prob=prob)


def _check_shape(right: bool, got: object) -> None:
    must = "have shape [S, A, S] or [H, S, A, S], or be a sparse [S*A, S] or a list of H of them"
    expect(right, "'transition' of FiniteMDP", f"{must}, with S and H as in 'reset' and 'horizon'", got=str(got))


def _layers(given: object, what: str, n_states: int, horizon: int) -> list[Any]:
    """Every accepted form as a list of sparse [S*A, S] layers with sorted rows."""
    dtype = np.bool_ if what == "support" else np.float64
    if sparse.issparse(given):
        given = [given]
    elif not (isinstance(given, Sequence) and len(given) > 0 and all(sparse.issparse(x) for x in given)):
        try:
            array = as_array(given, f"'{what}' of FiniteMDP")
            if array.dtype.kind == "c":
                raise TypeError("it is complex")
            array = np.asarray(array, dtype=dtype)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"The '{what}' of FiniteMDP must be an array of numbers. Got one that NumPy refuses: {error}."
            ) from error
        array = array[None] if array.ndim == 3 else array
        _check_shape(array.ndim == 4, f"{what} {array.shape}")
        if array.shape[2] == 0:
            raise InvalidInput("A FiniteMDP must have at least one action. Got none instead.")
        if array.shape[1] == array.shape[3] == n_states and array.shape[0] in (1, horizon):
            given = [sparse.csr_array(layer.reshape(-1, n_states)) for layer in array]
        else:
            _check_shape(False, f"{what} {array.shape}")
    result = []
    for layer in given:  # type: ignore[attr-defined]
        shape = layer.shape
        _check_shape(len(shape) == 2 and shape[1] == n_states and shape[0] % n_states == 0, f"{what} {shape}")
        if shape[0] == 0:
            raise InvalidInput("A FiniteMDP must have at least one action. Got none instead.")
        csr = sparse.csr_array(layer, dtype=dtype, copy=True)
        csr.sum_duplicates()
        csr.sort_indices()
        result.append(csr)
    same = all(layer.shape == result[0].shape for layer in result)
    _check_shape(same and len(result) in (1, horizon), f"{len(result)} layers of {what}")
    return result


def _on_support(layer: Any, mask: Any, n_states: int, n_actions: int, h: int | None) -> tuple[Any, Any, Any]:
    """The probabilities of `layer` on the pattern of `mask`; raises InvalidInput for one outside it.

    The other way round is allowed: a possible successor whose probability underflowed to 0.0 stays possible.
    """
    layer.eliminate_zeros()
    mask.eliminate_zeros()
    outside = layer.astype(np.bool_) > mask
    if outside.nnz:
        i, j = (int(x[0]) for x in outside.nonzero())
        where = _row_name(i, n_states, n_actions, h)
        raise InvalidInput(
            f"The 'support' of FiniteMDP must contain every positive probability. Got support False at next state {j} "
            f"of {where}, whose probability is {layer[i, j]:.6g}, instead."
        )
    rows = np.repeat(np.arange(mask.shape[0]), np.diff(mask.indptr))
    order = rows.astype(np.int64) * n_states + mask.indices
    have = np.repeat(np.arange(layer.shape[0]), np.diff(layer.indptr)).astype(np.int64) * n_states + layer.indices
    data = np.zeros(len(order))
    data[np.searchsorted(order, have)] = layer.data
    return mask.indptr, mask.indices, data


def _row_name(i: int, n_states: int, n_actions: int, h: int | None) -> str:
    state, action = divmod(i, n_actions)
    return f"state {state}, action {action}" + ("" if h is None else f", step {h + 1}")


def _check_probabilities(
    n_states: int, n_actions: int, indptr: NDArray[np.int64], indices: NDArray[np.int32], prob: Floats
) -> None:
    """Raise InvalidInput unless each row is a distribution or empty (see `checks.check_rows`)."""
    rows = n_states * n_actions
    layered = len(indptr) - 1 > rows

    def name(i: int) -> str:
        return _row_name(i % rows, n_states, n_actions, i // rows if layered else None)

    bad = ~(np.isfinite(prob) & (prob >= 0))
    if bad.any():
        j = int(np.argmax(bad))
        i = int(np.searchsorted(indptr, j, side="right")) - 1
        raise InvalidInput(
            "The 'transition' of FiniteMDP must hold probabilities, finite and not negative. "
            f"Got {prob[j]} for next state {indices[j]} of {name(i)} instead."
        )
    total = row_sums(indptr, prob)
    off = (np.abs(total - 1) > ROW_SUM_TOLERANCE) & (np.diff(indptr) > 0)
    if off.any():
        i = int(np.argmax(off))
        raise InvalidInput(
            f"Each row of the 'transition' of FiniteMDP must sum to one. Got {total[i]:.12g} for {name(i)} instead."
        )


def coarse(given: object) -> bool:
    """Whether probabilities are in single precision, so that rows sum to one only up to its rounding."""
    parts = given if isinstance(given, list | tuple) else [given]  # one for each step, or one for all
    return any(getattr(part, "dtype", None) == np.float32 for part in parts)


def normalised(indptr: NDArray[np.int64], prob: Floats) -> Floats:
    """Rows divided by their sums if these miss one by no more than rounding in single precision; others unchanged.

    The rounded sum of n rounded numbers is off by at most n + 1 units of rounding. The support does not change.
    """
    total, count = row_sums(indptr, prob), np.diff(indptr)
    off = np.abs(total - 1)
    mend = (off > ROW_SUM_TOLERANCE) & (off <= (count + 1) * np.finfo(np.float32).eps)
    return np.asarray(prob / np.repeat(np.where(mend, total, 1.0), count))


def row_sums(indptr: NDArray[np.int64], prob: Floats) -> Floats:
    """Sum of each compressed row (empty rows give 0)."""
    total = np.zeros(len(indptr) - 1)
    filled = np.diff(indptr) > 0
    if filled.any():
        total[filled] = np.add.reduceat(prob, indptr[:-1][filled])
    return total


LONGEST = 100_000  # actions per episode: plans have a row for each
Horizon: TypeAlias = Annotated[int, Range(1, LONGEST)]


def check_rows(t: Transitions, reset: Bools) -> None:
    """Raise InvalidInput if a row of a state outside the reset set is empty."""
    empty = (np.diff(t.indptr) == 0).reshape(t.n_layers, len(reset), t.n_actions) & ~reset[:, None]
    if empty.any():
        layer, s, a = np.argwhere(empty)[0]
        step = "" if t.stationary else f", step {layer + 1}"
        raise InvalidInput(
            f"Each row of the 'transition' of FiniteMDP must sum to one. Got 0 for state {s}, action {a}{step} instead."
        )


def check_reward(reward: ArrayLike, horizon: int, shape: tuple[int, int]) -> Floats:
    """Rewards [1 or H, S, A] in [0, 1]."""
    array = arguments.array(reward, "'reward' of FiniteMDP")
    shapes = (shape, (horizon, *shape))
    expect(array.shape in shapes, "'reward' of FiniteMDP", f"have shape {shapes[0]} or {shapes[1]}", array.shape)
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


def check_contexts(contexts: ArrayLike | None, n_states: int) -> Floats | None:
    """The chain of contexts [m, m], or None."""
    if contexts is None:
        return None
    chain = arguments.array(contexts, "'contexts' of FiniteMDP")
    square = chain.ndim == 2 and chain.shape[0] == chain.shape[1] and len(chain) > 0 and n_states % len(chain) == 0
    must = f"be a square [m, m] with m a divisor of {n_states}"
    expect(square, "'contexts' of FiniteMDP", must, got=f"shape {chain.shape}")
    chain = _rows(chain, contexts)
    for row in chain:
        _check_distribution(row, "contexts")
    chain.setflags(write=False)
    return chain


def distributions(given: int | ArrayLike, what: str, reset: Bools, n: int = 1) -> Floats:
    """Distributions [n, S/n] without mass on reset states."""
    array = as_array(given, f"'{what}' of FiniteMDP")
    n_states = len(reset)
    width = n_states // n
    if array.ndim == 0 and array.dtype.kind in "iu" and n == 1:
        must = f"be a state in 0..{n_states - 1} or a distribution over the states"
        expect(0 <= array < n_states, f"'{what}' of FiniteMDP", must, given)
        array = np.eye(1, n_states, int(array))
    expect(array.size, f"'{what}' of FiniteMDP", "give some state positive probability", got="none")
    array = arguments.array(array if array.ndim == 2 else array[None], f"'{what}' of FiniteMDP")
    if array.shape != (n, width):
        shape = (width,) if n == 1 else (n, width)
        raise InvalidInput(f"The '{what}' of FiniteMDP must have shape {shape}. Got {np.shape(given)} instead.")
    array = _rows(array, given)
    for row in array:
        _check_distribution(row, what)
    inside = (array > 0) & reset.reshape(n if n > 1 else 1, width)
    got = f"positive probability on reset state {int(inside.argmax())}"
    expect(not inside.any(), f"'{what}' of FiniteMDP", "lie outside the reset set", got=got)
    array.setflags(write=False)
    return array


def check_features(given: ArrayLike | None, what: str, lead: tuple[int, ...]) -> Floats | None:
    """Known features [*lead, d], finite, or None."""
    if given is None:
        return None
    array = arguments.array(given, f"'{what}' of FiniteMDP")
    good = array.shape[:-1] == lead and array.ndim == len(lead) + 1 and np.isfinite(array).all()
    must = f"be finite numbers of shape {(*lead, 'd')}"
    expect(good, f"'{what}' of FiniteMDP", must, got=f"shape {array.shape}")
    array.setflags(write=False)
    return array


def check_names(names: Sequence[str] | None, what: str, n: int) -> tuple[str, ...]:
    """Check `n` names; by default they are the numbers from 0."""
    if names is None:
        return tuple(str(i) for i in range(n))
    expect(is_sequence(names), f"'{what}' of FiniteMDP", "be a list of names", names)
    expect(len(names) == n, f"'{what}' of FiniteMDP", f"have {n} entries", len(names))
    return tuple(str(x) for x in names)


def state_set(given: ArrayLike, what: str, n: int | None) -> Bools:
    """A set of states as Boolean [S]; n: S if it is known."""
    array = as_array(given, f"'{what}' of FiniteMDP")
    fits = array.ndim == 1 and len(array) > 0 and (n is None or len(array) == n) and array.dtype.kind in "biufO"
    good, got = fits and np.isin(array, (0, 1)).all(), f"{array.dtype} of shape {array.shape}"
    expect(good, f"'{what}' of FiniteMDP", "be Boolean, one entry per state", got=got)
    result = array.astype(np.bool_)
    result.setflags(write=False)
    return result


def _rows(array: Floats, given: object) -> Floats:
    """Distributions [n, width]; those given in single precision are normalised within its rounding."""
    if not coarse(given):
        return array
    n, width = array.shape
    return normalised(np.arange(n + 1) * width, array.ravel()).reshape(n, width)


def _check_distribution(row: Floats, what: str) -> None:
    owner = f"'{what}' of FiniteMDP"
    expect((np.isfinite(row) & (row >= 0)).all(), owner, "hold probabilities", got="a negative or non-finite one")
    expect((row > 0).any(), owner, "give some state positive probability", got="none")
    expect(abs(row.sum() - 1) <= ROW_SUM_TOLERANCE, owner, "sum to one", got=f"{row.sum():.12g}")


def check_noise(noise: float | Literal["bernoulli"]) -> float | Literal["bernoulli"]:
    """Noise of rewards: "bernoulli", or a standard deviation."""
    good = accepts(noise, Literal["bernoulli"] | NonNegative)
    expect(good, "'noise' of FiniteMDP", 'be "bernoulli" or a standard deviation that is not negative', noise)
    return "bernoulli" if noise == "bernoulli" else float(noise)


def simplest_fraction(x: float) -> Fraction:
    """The first convergent of x that rounds to x.

    If x is the float nearest to a/b with b < 2**26, this is a/b: |x - a/b| < 1/(2 b^2), so a/b is a convergent
    (Legendre), and no fraction with a smaller denominator rounds to the same float.

    >>> simplest_fraction(0.1), simplest_fraction(1 / 3), simplest_fraction(0.75)
    (Fraction(1, 10), Fraction(1, 3), Fraction(3, 4))
    """
    exact = rest = Fraction(x)
    p0, q0, p1, q1 = 0, 1, 1, 0
    while True:
        whole = rest.numerator // rest.denominator
        p0, q0, p1, q1 = p1, q1, whole * p1 + p0, whole * q1 + q0
        found = Fraction(p1, q1)
        if found == exact or float(found) == x:
            return found
        rest = 1 / (rest - whole)
