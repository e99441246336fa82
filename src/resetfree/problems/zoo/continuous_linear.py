"""`continuous-linear-v0`: a linear problem on [0, 1], or on [0, 1]^D, whose exact solution can be computed.

Legend: phi(s,a) in the d-dimensional simplex; nu_j = Beta(a_j, b_j), j < d, the next state without a reset; nu_d the
reset state; I_a where action a is dangerous, q_a its reset probability there; omega rewards per feature.
P(.|s,a) = sum_j phi_j(s,a) nu_j and r(s,a) = phi(s,a).omega, the same at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import beta as beta_function
from scipy.special import betainc, betaincinv

from resetfree.core import Bools, Count, Floats, InvalidInput, Range, expect
from resetfree.problems.continuum import Continuum, KnownRows
from resetfree.problems.contract import draw
from resetfree.problems.features import FeatureMap, Features
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.transitions import LONGEST, Horizon
from resetfree.problems.registry import Size, register
from resetfree.problems.stepping import Step, SteppedProblem
from resetfree.problems.zoo.continuous_box import MOST_DIMENSIONS, ContinuousBoxMDP, box_instance

RESET_STATE = -1.0  # the reset state, outside the states [0, 1]
N_ACTIONS = 3
ContinuousPolicy: TypeAlias = Callable[[int, Any], Floats]  # (h = 1..H, states [...]) -> probabilities [..., A]


def bernstein(s: ArrayLike) -> Floats:
    """[..., 3] the quadratic Bernstein polynomials (1-s)^2, 2s(1-s), s^2.

    >>> bernstein(0.5).tolist()
    [0.25, 0.5, 0.25]
    """
    x = np.asarray(s, dtype=np.float64)
    return np.stack([(1.0 - x) ** 2, 2.0 * x * (1.0 - x), x**2], axis=-1)


@dataclass(frozen=True, eq=False)
class ContinuousLinearMDP(Continuum):
    """A linear MDP with states [0, 1] and one reset state; action 0 is safe everywhere, so every state is feasible.

    Paper: Assumption 2 (linear MDP), with infinitely many states.

    phi_d(s,a) = q_a 1[s in I_a], and phi_j(s,a) = (1 - phi_d(s,a)) sum_i B_i(s) control[a,i,j] with the Bernstein
    polynomials B = (1-s)^2, 2s(1-s), s^2, which are positive and sum to one. Everything is a polynomial between the
    ends of the I_a, which makes quadrature exact (`oracle.quadrature`). Every q_a is bounded away from zero,
    without which there may be no least multiplier.

    >>> import resetfree as rf
    >>> mdp = rf.make("continuous-linear-v0", d=3)
    >>> mdp.phi([0.25, 0.75]).shape, bool(np.allclose(mdp.phi([0.25, 0.75]).sum(axis=-1), 1))
    ((2, 3, 3), True)
    """

    horizon: int
    shape: NDArray[np.int64]  # [d-1, 2] a_j and b_j, integers from 1
    danger: Floats  # [A, 2] I_a = [low, high), multiples of 0.1; empty for action 0
    risk: Floats  # [A] q_a; 0 for action 0
    control: Floats  # [A, 3, d-1] control points of the mixtures, each a distribution
    omega: Floats  # [d] in [0, 1]
    name: str = "continuous-linear-v0"
    n_states: ClassVar[None] = None

    def __post_init__(self) -> None:
        n_actions, d = len(self.risk), len(self.omega)
        low, high = self.danger.T
        for good, what, got in (
            (1 <= self.horizon <= LONGEST, f"'horizon' must be an integer in 1..{LONGEST}", self.horizon),
            (self.shape.shape == (d - 1, 2) and (self.shape >= 1).all(), "'shape' must be integers from 1", self.shape),
            (self.control.shape == (n_actions, 3, d - 1), "'control' must have shape [A, 3, d-1]", self.control.shape),
            (_distributions(self.control), "'control' must hold distributions", self.control),
            (((self.omega >= 0) & (self.omega <= 1)).all(), "'omega' must lie in [0, 1]", self.omega),
            (np.array_equal(self.danger, np.rint(self.danger * 10) / 10), "'danger' must be tenths", self.danger),
            (((low >= 0) & (low <= high) & (high < 1)).all(), "'danger' must lie in [0, 1)", self.danger),
            (low[0] == high[0] and self.risk[0] == 0, "action 0 must be safe", (self.danger[0], self.risk[0])),
            (((self.risk[1:] > 0) & (self.risk[1:] <= 1)).all(), "'risk' must lie in (0, 1]", self.risk[1:]),
        ):
            if not good:
                raise InvalidInput(f"In {self.name}, {what}. Got {got} instead.")

    @property
    def dimension(self) -> int:
        """D = 1."""
        return 1

    def rows(self, states: Floats) -> Floats:
        """Phi [n, A, d] of states [n, 1]."""
        return self.phi(states[:, 0])

    def dangers(self, states: Floats) -> Bools:
        """[n, A] whether states [n, 1] lie in I_a."""
        return self.unsafe(states[:, 0])

    def densities(self, states: Floats) -> Floats:
        """[n, d-1] densities of nu_j at states [n, 1]."""
        return self.density(states[:, 0])

    def unsafe(self, s: ArrayLike) -> Bools:
        """[..., A] whether s lies in I_a; raises InvalidInput for states outside [0, 1]."""
        states = np.asarray(s, dtype=np.float64)[..., None]
        if not ((states >= 0) & (states <= 1)).all():
            raise InvalidInput(f"A state of {self.name} must lie in [0, 1]. Got {states[..., 0].tolist()} instead.")
        return np.asarray((self.danger[:, 0] <= states) & (states < self.danger[:, 1]))

    def phi(self, s: ArrayLike) -> Floats:
        """[..., A, d] features of every action in states s [...]; they sum to one.

        Paper: phi(s, a).
        """
        reset = np.where(self.unsafe(s), self.risk, 0.0)[..., None]
        mixture = np.einsum("...i,aij->...aj", bernstein(s), self.control)
        return np.concatenate([(1.0 - reset) * mixture, reset], axis=-1)

    def reward(self, s: ArrayLike) -> Floats:
        """[..., A] phi(s, a).omega."""
        return np.asarray(self.phi(s) @ self.omega)

    def density(self, x: ArrayLike) -> Floats:
        """[..., d-1] densities of nu_j: polynomials, because a_j and b_j are integers.

        Paper: mu_h.
        """
        a, b = self.shape.T
        point = np.asarray(x, dtype=np.float64)[..., None]
        return np.asarray(point ** (a - 1) * (1.0 - point) ** (b - 1) / beta_function(a, b))

    def discretise(self, n: int) -> FiniteMDP:
        """A finite problem of n equal cells, with the features of their midpoints and the exact mass of each cell.

        n: a multiple of 10, so that the ends of the I_a are ends of cells. State n is the reset state.
        """
        expect(n >= 10 and n % 10 == 0, "'n' of discretise", "be a positive multiple of 10", n)
        a, b = self.shape[:, :1], self.shape[:, 1:]
        mass = np.zeros((self.d, n + 1))
        mass[:-1, :n] = np.diff(betainc(a, b, np.arange(n + 1) / n), axis=1)
        mass[-1, n] = 1.0
        phi = np.zeros((n + 1, self.n_actions, self.d))  # zero in the reset state, which has no actions
        phi[:n] = self.phi((np.arange(n) + 0.5) / n)
        reward = np.clip(phi @ self.omega, 0.0, 1.0)  # rounding only
        start, reset = np.append(np.full(n, 1.0 / n), 0.0), np.arange(n + 1) == n
        name = f"{self.name} in {n} cells"
        return FiniteMDP(phi @ mass, reward, reset, self.horizon, start=start, phi=phi, name=name)

    def problem(self) -> ContinuousProblem:
        """The problem as a learner sees it: a simulator and the features, with the model hidden."""
        return ContinuousProblem(self)


def _distributions(rows: Floats) -> bool:
    return bool((rows >= 0).all() and (np.abs(rows.sum(axis=-1) - 1) <= 1e-12).all())


@dataclass
class KnownFeatures(Features):
    """psi(s) = phi(s, .), all actions side by side: the block of action a holds phi(s, a), so the MDP stays linear."""

    mdp: ContinuousLinearMDP = field(metadata={"saved": False})

    @property
    def dimension(self) -> int:
        """The dimension A d."""
        return self.mdp.n_actions * self.mdp.d

    @property
    def norm_bound(self) -> float:
        """The bound sqrt(A): every phi(s, a) lies in the simplex."""
        return float(np.sqrt(self.mdp.n_actions))

    def __call__(self, states: Floats) -> Floats:
        """Psi [n, A d] of states [n, 1]."""
        return self.mdp.phi(states[:, 0]).reshape(len(states), -1)


@dataclass(frozen=True)
class KnownPairs(FeatureMap):
    """The features of the problem itself: nothing to fit."""

    name: ClassVar[str] = "known-pairs"
    mdp: ContinuousLinearMDP

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> KnownFeatures:
        """The same for any states."""
        return KnownFeatures(self.mdp)


class ContinuousProblem(SteppedProblem):
    """Episodes of a `ContinuousLinearMDP`: a step draws a component of the mixture, then the place.

    >>> import resetfree as rf
    >>> problem = rf.make("continuous-linear-v0").problem()
    >>> runs = list(rf.simulate(problem, lambda h, s: np.array([1.0, 0.0, 0.0]), episodes=50, seed=1))
    >>> sum(e.reset for e in runs)
    0
    """

    step_uniforms = 2
    end_uniforms = 1

    def __init__(self, mdp: ContinuousLinearMDP) -> None:
        self._mdp = mdp
        self.name, self.horizon, self.n_actions = mdp.name, mdp.horizon, mdp.n_actions
        self.n_states = None
        self.stationary, self.n_transitions, self.end_resets = True, mdp.horizon, False
        self.phi, self.xi = None, None
        self.d = mdp.d
        self.features, self.low, self.high = KnownPairs(mdp), np.zeros(1), np.ones(1)
        self.pairs, self.reward_noise = KnownRows(mdp), 0.0

    @property
    def _continuum(self) -> ContinuousLinearMDP:
        return self._mdp

    def first_start(self, u: float) -> float:
        """Uniform on [0, 1]."""
        return float(u)

    def enter(self, start: float) -> np.float64:
        """The start as a float64."""
        return np.float64(start)

    def step(self, h: int, state: np.float64, action: int, u: Floats) -> Step:
        """Draw a component of the mixture, then the place; the last component is the reset state."""
        phi = self._mdp.phi(state)[action]  # [d]
        component, reward = draw(phi.cumsum(), u[0]), float(phi @ self._mdp.omega)
        if component == self._mdp.d - 1:
            return Step(np.float64(RESET_STATE), reward, True)
        a, b = self._mdp.shape[component]
        return Step(np.float64(betaincinv(a, b, u[1])), reward, False)

    def leave(self, state: np.float64, reset: bool, u: Floats) -> float:
        """The last state; uniform on [0, 1] after a reset."""
        return float(u[0]) if reset else float(state)


@register(
    "continuous-linear-v0",
    "Infinitely many states, linear features, and an exact answer by quadrature.",
    lambda d, horizon, dimension, **_: Size(  # of a regression on its features, and of its nodes
        (N_ACTIONS * d) ** 2 + 3**dimension * N_ACTIONS * d, 1000 * d * (d + horizon)
    ),
)
def continuous_linear(
    d: Annotated[int, Range(2)] = 4,
    horizon: Horizon = 5,
    seed: Count = 0,
    gap: Annotated[float, Range(above=0, most=1)] = 0.1,
    dimension: Annotated[int, Range(1, MOST_DIMENSIONS)] = 1,
) -> ContinuousLinearMDP | ContinuousBoxMDP:
    """A random instance: three actions, the last two dangerous on an interval, or in a box, each, where they pay.

    d: features, the last of them the reset state's (from 2). gap: the least reset probability of a dangerous action.
    dimension: D, of the states.
    """
    if dimension > 1:
        return box_instance(d, horizon, seed, gap, dimension=dimension)
    rng = np.random.default_rng(seed)
    place = np.linspace(0.0, 1.0, d - 1)  # feature j leads to states around place_j, and pays more further right
    a = 1 + np.rint(6 * place).astype(np.int64)
    shape = np.stack([a, 8 - a], axis=1) + rng.integers(0, 3, size=(d - 1, 2))
    omega = np.append(0.1 * rng.random(d - 1) + 0.6 * place**2, 1.0)
    # The safe action stays left for long; the dangerous ones lead right at once.
    target = np.array([[0.0, 0.1, 1.0], [0.8, 1.0, 0.8], [0.0, 1.0, 1.0]])
    near = np.exp(-12.0 * (target[..., None] - place) ** 2)  # [A, 3, d-1]
    control = np.stack([[rng.dirichlet(30.0 * weight) for weight in action] for action in near])
    danger = np.array([[0, 0], [0, rng.integers(4, 7)], [rng.integers(1, 3), rng.integers(5, 8)]]) / 10
    risk = np.append(0.0, gap + 0.1 * (1.0 - gap) * rng.random(N_ACTIONS - 1))
    return ContinuousLinearMDP(horizon, shape, danger, risk, control, omega=omega)
