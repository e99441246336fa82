"""Convex sets for the multiplier's parameter, each with its exact Euclidean projection.

Legend: theta [d] the parameter, lambda(s) = <xi(s), theta>; U a set of parameters; B the radius of the ball around 0;
C a closed convex cone; P_X the projection on X; svec(M) the upper triangle of a symmetric M, its off-diagonal entries
times sqrt(2), so that <svec(M), svec(N)> = trace(M N).

Every set here is a cone cut by the ball, and the order is the whole secret: P_{C and ball} = P_ball P_C.
  Proof. Let z = P_C x and w = x - z. By Moreau <w, z> = 0, and <w, y> <= 0 for all y in C. So for y in C and the ball
  |x - y|^2 = |z - y|^2 + |w|^2 + 2<w, z> - 2<w, y> >= |z - y|^2 + |w|^2 >= |z - P_ball z|^2 + |w|^2, which
  y = P_ball z = min(1, B/|z|) z attains: it lies on the ray of z, hence in C, and <w, y> = 0.
The other order is wrong: P_C P_ball x = (B/|x|) z if |x| > B, which is shorter than P_ball z whenever z is not x, 0.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core import Bound, Floats, InvalidInput, PositiveInt, check, check_fields

TOLERANCE = 1e-9
ROUNDING = 1e-14  # what is left, relatively, of a projection that is zero


class ConvexSet(ABC):
    """A closed convex set of parameters: a cone cut by the ball of radius B."""

    __slots__ = ()
    dim: int  # d, how many numbers a parameter has
    radius: float  # B, the largest norm in the set

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)

    @property
    def diameter(self) -> float:
        """A bound on the distance of two points: 2B where the cone may be wide, up to the whole space."""
        return 2.0 * self.radius

    def project(self, x: ArrayLike) -> Floats:
        """The point of the set nearest to x [d]; a new array."""
        return _shrink(self._onto_cone(self._point(x)), self.radius)

    def contains(self, x: ArrayLike, tolerance: float = TOLERANCE) -> bool:
        """Whether x [d] breaks no condition of the set by more than `tolerance`."""
        point = self._point(x)
        return bool(self._lowest(point) >= -tolerance) and norm(point) <= self.radius + tolerance

    @abstractmethod
    def _onto_cone(self, point: Floats) -> Floats:
        """The point of the cone nearest to a point [d], which may be changed."""

    @abstractmethod
    def _lowest(self, point: Floats) -> float:
        """The lowest of the numbers that are at least 0 in the cone."""

    def _point(self, x: ArrayLike) -> Floats:
        """A fresh copy of x, checked."""
        point = np.array(x, dtype=np.float64)
        if point.shape != (self.dim,) or not np.isfinite(point).all():
            name = type(self).__name__
            raise InvalidInput(f"A point for {name} must be finite numbers of shape ({self.dim},). Got {x!r} instead.")
        return point


@dataclass(frozen=True, slots=True)
class Ball(ConvexSet):
    """{|theta| <= B}.

    >>> Ball(2, 5.0).project([6.0, 8.0]).tolist()
    [3.0, 4.0]
    """

    dim: PositiveInt
    radius: Bound

    def _onto_cone(self, point: Floats) -> Floats:
        return point

    def _lowest(self, point: Floats) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class OrthantBall(ConvexSet):
    """{theta >= 0, |theta| <= B}: the parameters of non-negative functions where xi is one-hot.

    >>> OrthantBall(2, 5.0).project([-3.0, 12.0]).tolist()
    [0.0, 5.0]
    """

    dim: PositiveInt
    radius: Bound

    @property
    def diameter(self) -> float:
        """sqrt(2) B (B in one dimension): no two points of an orthant are more than 90 degrees apart."""
        return self.radius if self.dim == 1 else math.sqrt(2.0) * self.radius

    def _onto_cone(self, point: Floats) -> Floats:
        return np.maximum(point, 0.0)

    def _lowest(self, point: Floats) -> float:
        return float(point.min())


@dataclass(frozen=True, slots=True, eq=False)
class ConeBall(ConvexSet):
    """{Xi theta >= 0, |theta| <= B}: the parameters of functions that are non-negative at every row of Xi.

    rows: Xi [n, d]; rows of zeros constrain nothing.

    >>> wedge = ConeBall(np.array([[0.0, 1.0], [1.0, -1.0]]), 5.0)   # 0 <= theta_2 <= theta_1
    >>> wedge.project([1.0, 3.0]).round(9).tolist()
    [2.0, 2.0]
    """

    rows: Floats
    radius: Bound
    _unit: Floats = field(init=False, repr=False)  # [m, d] the distinct directions among the rows

    def __post_init__(self) -> None:
        rows = np.array(self.rows, dtype=np.float64)
        if rows.ndim != 2 or not rows.shape[1] or not np.isfinite(rows).all():
            raise InvalidInput(
                f"The 'rows' of ConeBall must be finite numbers of shape [n, d]. Got shape {rows.shape} instead."
            )
        check(self.radius, Bound, "'radius' of ConeBall")
        rows.setflags(write=False)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "_unit", _directions(rows))

    @property
    def dim(self) -> int:  # type: ignore[override]
        """The dimension d: the columns of Xi."""
        return int(self.rows.shape[1])

    def _onto_cone(self, point: Floats) -> Floats:
        """P_C x = x + Xi^T nu with nu = argmin_{nu >= 0} |x + Xi^T nu|, by Moreau again.

        The polar of C is {-Xi^T nu: nu >= 0}, and x less its projection there is P_C x.
        """
        scale = float(np.abs(point).max())
        if scale == 0.0:
            return point
        point /= scale  # P_C(t x) = t P_C(x): the solver sees numbers of order one
        if (self._unit @ point).min(initial=0.0) < 0.0:
            from scipy.optimize import nnls  # slow to import

            nu, _ = nnls(self._unit.T, -point, maxiter=30 * len(self._unit))
            point += nu @ self._unit
            if np.abs(point).max() <= ROUNDING * self.dim:
                point[:] = 0.0  # x was in the polar; the direction of rounding means nothing
        point *= scale
        return point

    def _lowest(self, point: Floats) -> float:
        """Of <row, x> over the rows scaled to norm 1."""
        return float((self._unit @ point).min(initial=0.0))


@dataclass(frozen=True, slots=True)
class SumOfSquaresBall(ConvexSet):
    """{svec(M): M positive semidefinite, |M|_F <= B}: functions m(s)^T M m(s) of monomials m(s), see `svec_features`.

    m_dim: p, how many monomials; a parameter has p(p+1)/2 numbers.

    >>> SumOfSquaresBall(2, 5.0).project([3.0, 0.0, -1.0]).tolist()   # M = diag(3, -1)
    [3.0, 0.0, 0.0]
    """

    m_dim: PositiveInt
    radius: Bound

    @property
    def dim(self) -> int:  # type: ignore[override]
        """The dimension p(p+1)/2 of the packed symmetric matrices."""
        return self.m_dim * (self.m_dim + 1) // 2

    @property
    def diameter(self) -> float:
        """sqrt(2) B (B if p = 1): traces of products of such matrices are not negative."""
        return self.radius if self.m_dim == 1 else math.sqrt(2.0) * self.radius

    def _onto_cone(self, point: Floats) -> Floats:
        """Negative eigenvalues to 0."""
        scale = float(np.abs(point).max()) or 1.0
        values, vectors = np.linalg.eigh(unsvec(point / scale))
        return point if values[0] >= 0.0 else svec((vectors * np.maximum(values, 0.0)) @ vectors.T) * scale

    def _lowest(self, point: Floats) -> float:
        return float(np.linalg.eigvalsh(unsvec(point))[0])


def for_features(xi: ArrayLike, B: float) -> ConvexSet:
    """The largest U: every theta in the ball whose function <xi(s), theta> is negative nowhere.

    Paper: U and B of the bounded, linear dual variable.

    That is a cone with the ball. It is the orthant with the ball exactly where xi >= 0 and each coordinate that any
    state uses is used alone by some state (one-hot features, or d = 1). For other xi >= 0 the orthant would do as a U,
    but it may lack theta*: with rows (1, 0) and (0.6, 0.8), theta = (4, -3) is fine and outside the orthant.

    xi: [S, d].  B: the radius.

    >>> for_features(np.eye(3), 2.0)
    OrthantBall(dim=3, radius=2.0)
    >>> for_features([[1.0, 0.0], [0.6, 0.8]], 5.0).contains([4.0, -3.0])
    True
    """
    rows = np.asarray(xi, dtype=np.float64)
    if rows.ndim == 2 and rows.size and (rows >= 0).all():
        alone = rows[(rows > 0).sum(axis=1) == 1] > 0
        if (alone.any(axis=0) == (rows > 0).any(axis=0)).all():
            return OrthantBall(rows.shape[1], B)
    return ConeBall(rows, B)


def svec(matrix: Floats) -> Floats:
    """The upper triangle [p(p+1)/2] of a symmetric matrix [p, p], off-diagonal entries times sqrt(2).

    >>> svec(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3).tolist()
    [1.0, 2.828, 3.0]
    """
    i, j = np.triu_indices(len(matrix))
    return np.asarray(np.where(i == j, 1.0, math.sqrt(2.0)) * matrix[i, j])


def unsvec(vector: Floats) -> Floats:
    """The symmetric matrix [p, p] whose `svec` is given.

    >>> unsvec(svec(np.array([[1.0, 2.0], [2.0, 3.0]]))).round(9).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    p = math.isqrt(2 * len(vector))
    if p * (p + 1) // 2 != len(vector):
        raise InvalidInput(f"The vector of unsvec must have p(p+1)/2 entries for some p. Got {len(vector)} instead.")
    i, j = np.triu_indices(p)
    matrix = np.empty((p, p))
    matrix[i, j] = matrix[j, i] = np.where(i == j, 1.0, math.sqrt(0.5)) * vector
    return matrix


def svec_features(m: ArrayLike) -> Floats:
    """xi(s) = svec(m(s) m(s)^T), so that <xi(s), svec(M)> = m(s)^T M m(s) and |xi(s)| = |m(s)|^2.

    m: monomials [S, p] (or of one state, [p]).  Returns [S, p(p+1)/2].

    >>> svec_features([[0.6, 0.8]]).round(3).tolist()
    [[0.36, 0.679, 0.64]]
    """
    monomials = np.asarray(m, dtype=np.float64)
    i, j = np.triu_indices(monomials.shape[-1])
    return np.asarray(np.where(i == j, 1.0, math.sqrt(2.0)) * monomials[..., i] * monomials[..., j])


def norm(x: Floats) -> float:
    """|x|, also where its square is no float."""
    squared = float(np.vdot(x, x))
    if 1e-280 < squared < 1e280:
        return math.sqrt(squared)
    return math.hypot(*x.tolist())  # slower, but it neither overflows nor underflows


def _shrink(x: Floats, radius: float) -> Floats:
    """The projection onto the ball of this radius."""
    size = norm(x)
    if size <= radius:
        return x
    return np.asarray((x / size) * radius)


def _directions(rows: Floats) -> Floats:
    """The rows that are not zero, scaled to norm 1, each direction once."""
    size = np.abs(rows).max(axis=1)
    rows = rows[size > 0] / size[size > 0, None]
    return np.unique(rows / np.linalg.norm(rows, axis=1, keepdims=True), axis=0)
