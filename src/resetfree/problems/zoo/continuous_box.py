"""`continuous-linear-v0` in two or more dimensions: a linear problem on [0, 1]^D (see `problems.continuum`).

Legend: b_i(x), i < 3^D, products of the quadratic Bernstein polynomials of the coordinates, which are positive and sum
to one; nu_j a product of Beta distributions; I_a a box whose ends are tenths, q_a the reset probability in it.
phi_d(x,a) = q_a 1[x in I_a], phi_j(x,a) = (1 - phi_d(x,a)) sum_i b_i(x) control[a,i,j].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import beta as beta_function
from scipy.special import betainc, betaincinv

from resetfree.core import Bools, Floats, InvalidInput, expect
from resetfree.problems.continuum import Continuum, KnownRows
from resetfree.problems.contract import draw
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.transitions import LONGEST
from resetfree.problems.stepping import Step, SteppedProblem

RESET_COORDINATE = -1.0  # every coordinate of the reset state, which lies outside of [0, 1]^D
MOST_DIMENSIONS = 3  # 3^D control points, and nodes of quadrature in every coordinate
BITS = 52  # of a uniform number that are dealt out to coordinates


@dataclass(frozen=True, eq=False)
class ContinuousBoxMDP(Continuum):
    """A linear MDP with states [0, 1]^D and one reset state; action 0 is safe everywhere, so every state is feasible.

    Paper: Assumption 2 (linear MDP), with infinitely many states.

    All densities and features are polynomials between the tenths of the coordinates, so that Gauss's rule is exact for
    them (`oracle.nodes`). Every q_a is bounded away from zero, without which there may be no least multiplier.

    >>> import resetfree as rf
    >>> mdp = rf.make("continuous-linear-v0", d=3, dimension=2)
    >>> phi = mdp.rows(np.array([[0.25, 0.75]]))
    >>> phi.shape, bool(np.allclose(phi.sum(axis=-1), 1))
    ((1, 3, 3), True)
    """

    horizon: int
    shape: NDArray[np.int64]  # [d-1, D, 2] a and b of every Beta distribution, integers from 1
    danger: Floats  # [A, D, 2] I_a, low <= x < high in every coordinate, multiples of 0.1; empty for action 0
    risk: Floats  # [A] q_a; 0 for action 0
    control: Floats  # [A, 3^D, d-1] control points of the mixtures, each a distribution
    omega: Floats  # [d] in [0, 1]
    name: str = "continuous-linear-v0"
    n_states: ClassVar[None] = None

    def __post_init__(self) -> None:
        n_actions, d, D = len(self.risk), len(self.omega), self.dimension
        low, high = self.danger[..., 0], self.danger[..., 1]
        sums = np.abs(self.control.sum(axis=-1) - 1)
        for good, what, got in (
            (1 <= self.horizon <= LONGEST, f"'horizon' must be an integer in 1..{LONGEST}", self.horizon),
            (self.shape.shape == (d - 1, D, 2), "'shape' must have shape [d-1, D, 2]", self.shape.shape),
            ((self.shape >= 1).all(), "'shape' must be integers from 1", self.shape),
            (self.control.shape == (n_actions, 3**D, d - 1), "'control' must be [A, 3^D, d-1]", self.control.shape),
            ((self.control >= 0).all() and (sums <= 1e-12).all(), "'control' must hold distributions", self.control),
            (((self.omega >= 0) & (self.omega <= 1)).all(), "'omega' must lie in [0, 1]", self.omega),
            (np.array_equal(self.danger, np.rint(self.danger * 10) / 10), "'danger' must be tenths", self.danger),
            (((low >= 0) & (low <= high) & (high < 1)).all(), "'danger' must lie in [0, 1)", self.danger),
            ((low[0] == high[0]).all() and self.risk[0] == 0, "action 0 must be safe", self.danger[0]),
            (((self.risk[1:] > 0) & (self.risk[1:] <= 1)).all(), "'risk' must lie in (0, 1]", self.risk[1:]),
        ):
            if not good:
                raise InvalidInput(f"In {self.name}, {what}. Got {got} instead.")

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.shape.shape[1])

    def dangers(self, states: Floats) -> Bools:
        """[n, A] whether states [n, D] lie in I_a; raises InvalidInput for states outside [0, 1]^D."""
        x = np.asarray(states, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.dimension or not ((x >= 0) & (x <= 1)).all():
            raise InvalidInput(f"States of {self.name} must lie in [0, 1]^{self.dimension}. Got {x.tolist()} instead.")
        point = x[:, None, :]
        return np.asarray(((self.danger[..., 0] <= point) & (point < self.danger[..., 1])).all(axis=-1))

    def rows(self, states: Floats) -> Floats:
        """Phi [n, A, d] of states [n, D]; they sum to one."""
        reset = np.where(self.dangers(states), self.risk, 0.0)[..., None]
        n, D = states.shape
        flat = self.control.transpose(1, 0, 2).reshape(3**D, -1)
        mixture = (bernstein_products(states) @ flat).reshape(n, self.n_actions, self.d - 1)
        return np.concatenate([(1.0 - reset) * mixture, reset], axis=-1)

    def densities(self, states: Floats) -> Floats:
        """[n, d-1] densities of nu_j: products of polynomials, because all shapes are integers."""
        a, b = self.shape[..., 0], self.shape[..., 1]
        x = np.asarray(states, dtype=np.float64)[:, None, :]
        return np.asarray((x ** (a - 1) * (1.0 - x) ** (b - 1) / beta_function(a, b)).prod(axis=-1))

    def discretise(self, n: int) -> FiniteMDP:
        """A finite problem of n^D equal cells, with the features of their midpoints and the exact mass of each cell.

        n: a multiple of 10, so that the ends of the I_a are ends of cells. State n^D is the reset state.
        """
        expect(n >= 10 and n % 10 == 0, "'n' of discretise", "be a positive multiple of 10", n)
        D, cells = self.dimension, n**self.dimension
        sides = np.diff(betainc(self.shape[..., :1], self.shape[..., 1:], np.arange(n + 1) / n), axis=-1)  # [d-1, D, n]
        mass, phi = np.zeros((self.d, cells + 1)), np.zeros((cells + 1, self.n_actions, self.d))
        mass[-1, cells] = 1.0
        for j in range(self.d - 1):
            product = sides[j, 0]
            for i in range(1, D):
                product = np.multiply.outer(product, sides[j, i])
            mass[j, :cells] = product.ravel()
        phi[:cells] = self.rows(grid((np.arange(n) + 0.5) / n, D))
        reward = np.clip(phi @ self.omega, 0.0, 1.0)  # rounding only
        start, reset = np.append(np.full(cells, 1.0 / cells), 0.0), np.arange(cells + 1) == cells
        name = f"{self.name} in {n}^{D} cells"
        return FiniteMDP(phi @ mass, reward, reset, self.horizon, start=start, phi=phi, name=name)

    def problem(self) -> BoxProblem:
        """The problem as a learner sees it: a simulator and the features, with the model hidden."""
        return BoxProblem(self)


def bernstein_products(states: ArrayLike) -> Floats:
    """[n, 3^D] products of (1-x)^2, 2x(1-x), x^2 over the coordinates of states [n, D], the last running fastest.

    >>> bernstein_products([[0.5, 0.0]]).tolist()
    [[0.25, 0.0, 0.0, 0.5, 0.0, 0.0, 0.25, 0.0, 0.0]]
    """
    x = np.asarray(states, dtype=np.float64)
    found = np.ones((len(x), 1))
    for t in x.T:
        one = np.stack([(1.0 - t) ** 2, 2.0 * t * (1.0 - t), t**2], axis=-1)
        found = (found[:, :, None] * one[:, None, :]).reshape(len(x), -1)
    return found


def grid(points: Floats, dimension: int) -> Floats:
    """[n^D, D] all points whose coordinates are among `points` [n], the last coordinate running fastest."""
    mesh = np.meshgrid(*[points] * dimension, indexing="ij")
    return np.stack([axis.ravel() for axis in mesh], axis=-1)


def dealt(u: float, dimension: int) -> Floats:
    """[D] independent uniform numbers from the bits of one, dealt out in turn.

    >>> dealt(0.75, 2).tolist(), dealt(0.5, 2).tolist()
    ([0.5, 0.5], [0.5, 0.0])
    """
    bits = int(u * 2.0**BITS)
    found = np.zeros(dimension)
    for i in range(BITS):
        if bits >> (BITS - 1 - i) & 1:
            found[i % dimension] += 0.5 ** (i // dimension + 1)
    return found


class BoxProblem(SteppedProblem):
    """Episodes of a `ContinuousBoxMDP`: a step draws a component of the mixture, then the place.

    >>> import resetfree as rf
    >>> problem = rf.make("continuous-linear-v0", dimension=2).problem()
    >>> runs = list(rf.simulate(problem, lambda h, s: np.array([1.0, 0.0, 0.0]), episodes=50, seed=1))
    >>> sum(e.reset for e in runs), runs[0].states.shape
    (0, (6, 2))
    """

    def __init__(self, mdp: ContinuousBoxMDP) -> None:
        self._mdp, D = mdp, mdp.dimension
        self.name, self.horizon, self.n_actions, self.n_states = mdp.name, mdp.horizon, mdp.n_actions, None
        self.stationary, self.n_transitions, self.end_resets = True, mdp.horizon, False
        self.phi, self.xi, self.d = None, None, mdp.d
        self.step_uniforms, self.end_uniforms = 1 + D, D
        self.low, self.high, self.reward_noise, self.pairs = np.zeros(D), np.ones(D), 0.0, KnownRows(mdp)

    @property
    def _continuum(self) -> ContinuousBoxMDP:
        return self._mdp

    def first_start(self, u: float) -> Floats:
        """Uniform on [0, 1]^D."""
        return dealt(u, self._mdp.dimension)

    def step(self, h: int, state: Floats, action: int, u: Floats) -> Step:
        """Draw a component of the mixture, then the place; the last component is the reset state."""
        mdp = self._mdp
        phi = mdp.rows(np.asarray(state, dtype=np.float64)[None])[0, action]  # [d]
        component, reward = draw(phi.cumsum(), u[0]), float(phi @ mdp.omega)
        if component == mdp.d - 1:
            return Step(np.full(mdp.dimension, RESET_COORDINATE), reward, True)
        a, b = mdp.shape[component].T
        return Step(np.asarray(betaincinv(a, b, u[1:])), reward, False)

    def leave(self, state: Floats, reset: bool, u: Floats) -> Floats:
        """The last state; uniform on [0, 1]^D after a reset."""
        return np.array(u) if reset else state


def box_instance(d: int, horizon: int, seed: int, gap: float, dimension: int) -> ContinuousBoxMDP:
    """A random instance: three actions, the last two dangerous in a box each, where they pay.

    Feature j leads to states around a place of its own, and pays more the further it lies along the diagonal; the safe
    action stays near the origin for long, the dangerous ones lead to the far corner at once.
    """
    rng = np.random.default_rng([seed, dimension])
    along = np.linspace(0.0, 1.0, d - 1)
    place = np.clip(along[:, None] + 0.3 * (rng.random((d - 1, dimension)) - 0.5), 0.0, 1.0)
    a = 1 + np.rint(5 * place).astype(np.int64)
    shape = np.stack([a, 7 - a], axis=-1) + rng.integers(0, 2, size=(d - 1, dimension, 2))
    omega = np.append(0.1 * rng.random(d - 1) + 0.6 * along**2, 1.0)
    corner = grid(np.array([0.0, 0.5, 1.0]), dimension).mean(axis=1)  # [3^D] how far along the diagonal
    target = np.stack([corner**3, np.where(corner < 0.4, 0.9, 0.8 * corner), np.minimum(1.0, 2 * corner)])
    near = np.exp(-12.0 * (target[..., None] - along) ** 2)  # [A, 3^D, d-1]
    control = np.stack([[rng.dirichlet(30.0 * weight) for weight in action] for action in near])
    danger = np.zeros((3, dimension, 2))
    danger[1, :, 1] = rng.integers(5, 9, size=dimension) / 10  # a box at the origin
    danger[2, :, 0], danger[2, :, 1] = rng.integers(1, 3, size=dimension) / 10, rng.integers(6, 10, size=dimension) / 10
    risk = np.append(0.0, gap + 0.1 * (1.0 - gap) * rng.random(2))
    return ContinuousBoxMDP(horizon, shape, danger, risk, control, omega=omega)
