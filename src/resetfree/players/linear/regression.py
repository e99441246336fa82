"""What the players with a ridge regression share: its constant, its data, and the widths that are proved for it.

Legend: phi features of pairs [S*A, d]; reg the ridge constant; L layers of data, one per step or one for all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import log, sqrt
from typing import Any, Literal, TypeAlias

import numpy as np

from resetfree.core import Bools, Floats, Ints, InvalidInput
from resetfree.game.capabilities import PrimalRegretBound
from resetfree.game.contract import Proof, Round
from resetfree.players import check_room, pooled_lacks, sizes
from resetfree.players.linear.pair_values import Widths
from resetfree.players.linear.ridge import Regression, empty, greedy_plan, learn_counted, softmax_plan
from resetfree.players.tabular.counts import mark_reset
from resetfree.problems import Episode, Problem, State
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.delay import doubled_rounds
from resetfree.theory.proved_widths import (
    CONCENTRATION,
    CORNERS,
    COVER,
    CoverWidth,
    DeterminantWidth,
    cover_betas,
    cover_width,
    determinant_betas,
    determinant_width,
    most_growth,
)

# Known features phi of state-action pairs in finite problems.


def features_of(problem: Problem) -> Floats:
    """[S*A, d] the known features, one-hot if there are none.

    >>> import resetfree as rf
    >>> features_of(rf.make("grid-v0").problem()).shape, features_of(rf.make("random-linear-v0").problem()).shape
    ((60, 60), (120, 6))
    """
    assert problem.n_states is not None
    n = problem.n_states * problem.n_actions
    if problem.phi is None and 8 * n * n > problem.room:
        raise InvalidInput(
            f"One-hot features must take at most {problem.room / 1e9:.0f} GB. Got {n:,} pairs, which take "
            f"{8e-9 * n * n:.1f} GB: give the problem features 'phi' of smaller dimension."
        )
    return np.eye(n) if problem.phi is None else np.ascontiguousarray(problem.phi.reshape(n, -1))


def dimension_of(problem: Problem) -> int:
    """d, which is the number of pairs where there are no features."""
    if problem.n_states is None and problem.pairs is not None:
        return problem.pairs.dimension
    return (problem.n_states or 0) * problem.n_actions if problem.phi is None else problem.phi.shape[2]


def is_one_hot(problem: Problem) -> bool:
    """Whether each pair has a feature of its own: none are given, or they are unit vectors, all different.

    >>> import resetfree as rf
    >>> [is_one_hot(rf.make(id).problem()) for id in ("grid-v0", "random-linear-v0")]
    [True, False]
    """
    if problem.phi is None:
        return problem.pairs is None
    flat = problem.phi.reshape(-1, problem.phi.shape[2])
    ones = flat == 1.0
    return bool((ones | (flat == 0.0)).all() and (ones.sum(axis=1) == 1).all() and (ones.sum(axis=0) <= 1).all())


def longer_than_one(problem: Problem) -> bool:
    """Whether some feature is longer than 1, for which no width is proved."""
    if problem.pairs is not None and problem.pairs.norm_bound > 1 + 1e-12:
        return True
    return problem.phi is not None and bool((problem.phi**2).sum(axis=2).max() > 1 + 1e-12)


# --------------------------------------------------------------------------------------------------------------------

Switching: TypeAlias = Literal["every", "rare"]  # when a player plans again


class HasRidge:
    """A player with the settings `reg` and `scale`, and perhaps `width`."""

    reg: float | None
    scale: float

    def ridge(self) -> float:
        """The ridge constant of this run: `reg`, else scale^2 with a tuned width, 1 with a proved one."""
        if self.reg is not None:
            return self.reg
        return self.scale**2 if self.scale > 0 and getattr(self, "width", "tuned") == "tuned" else 1.0


@dataclass
class Regressed:
    """The regression of all steps taken, which reset states are known, and the sizes of the problem."""

    k: int  # episodes seen
    regression: Regression
    known: Bools  # [S] states seen to be reset states
    known_last: Bools  # [S] states in which the end of an episode was seen to be a reset
    phi: Floats = field(metadata={"saved": False})  # what the regression's form needs of the features
    layer_of_step: Ints = field(metadata={"saved": False})  # [H]
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A
    n_transitions: int = field(metadata={"saved": False})
    end_resets: bool = field(metadata={"saved": False})

    @property
    def fitted(self) -> tuple[Regression, Floats, Ints, int]:
        """What every backward pass reads first."""
        return self.regression, self.phi, self.layer_of_step, self.n_transitions


@dataclass
class Samples(Regressed):
    """A regression whose determinants are kept."""

    log_det: Floats  # [L] log det Lam, less its value without data

    def greedy(
        self, lam: float, widths: tuple[float, float, bool, Floats]
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The whole greedy pass: policy [H, S, A]; V, V_r and V_c [S] at step 1; Q [H, S*A].

        widths: beta_r, beta_c, variance_aware and noise of `greedy_plan`.
        """
        horizon, n_states, n_actions = self.shape
        policy, q = np.empty(self.shape), np.empty((horizon, n_states * n_actions))
        v, v_r, v_c = np.empty(n_states), np.empty(n_states), np.empty(n_states)
        greedy_plan(*self.fitted, *widths, lam, self.known, self.known_last, policy, q, v, v_r, v_c)
        return policy, v, v_r, v_c, q


def regression_size(problem: Problem, rows: tuple[int, int, int], by_features: bool = False) -> int:
    """Bytes of a regression; rows: L, S, A.  by_features: see `no_regression`."""
    n_layers, n_states, n_actions = rows
    width = dimension_of(problem) if by_features else min(n_states * n_actions, dimension_of(problem))
    return 8 * n_layers * (width**2 + n_states * width)


def no_regression(
    problem: Problem, name: str, *, pooled: bool, reg: float, by_features: bool = False
) -> dict[str, Any]:
    """The fields of `Regressed` without data; refuses problems that are not finite and layered problems if pooled.

    by_features: keep the regression in the form of features unless they are one-hot.
    """
    rows = sizes(problem, pooled, name)
    n_layers, n_states, n_actions = rows
    size = regression_size(problem, rows, by_features)
    check_room(problem, name, size, "regression", "use features of smaller dimension")
    horizon, by_pairs = problem.horizon, not by_features or problem.phi is None
    regression, phi = empty(features_of(problem), n_states, n_layers, reg, by_pairs)
    return {
        "k": 0,
        "regression": regression,
        "known": np.zeros(n_states, dtype=np.bool_),
        "known_last": np.zeros(n_states, dtype=np.bool_),
        "phi": phi,
        "layer_of_step": np.zeros(horizon, dtype=np.int64) if pooled else np.arange(horizon),
        "shape": (horizon, n_states, n_actions),
        "n_transitions": problem.n_transitions,
        "end_resets": problem.end_resets,
    }


def no_samples(problem: Problem, name: str, *, pooled: bool, reg: float, by_features: bool = False) -> Samples:
    """No data yet; see `no_regression`."""
    empty_fields = no_regression(problem, name, pooled=pooled, reg=reg, by_features=by_features)
    return Samples(**empty_fields, log_det=np.zeros(1 if pooled else problem.horizon))


def add(data: Samples, episode: Episode) -> None:
    """Add the steps that were taken; remember which states turned out to be reset states."""
    fitted = (data.regression, data.phi, data.log_det, data.layer_of_step, data.shape[2])
    learn_counted(*fitted, episode.states, episode.actions, episode.rewards)
    remember(data, episode)


def remember(data: Samples, episode: Episode) -> None:
    """One more episode, and the reset state in which it ended, if it did."""
    if episode.reset:
        mark_reset(data, episode, episode.states[-1])
    data.k += 1


def doubled(data: Samples, log_det: Floats) -> bool:
    """Whether the determinant of some layer is at least twice what it was."""
    return bool((data.log_det - log_det).max() >= log(2.0))


NO_OLD = np.empty((0, 0, 0))


def whole_pass(
    data: Regressed, betas: Floats, misfit: Floats, widths: Widths, caps: Floats, old: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The pass of Algorithm 1: policy [H, S, A], V_r and V_c [S] at step 1, Q's [H, S*A].

    betas: [2, H] times the width of a pair, for rewards and costs.  misfit: [2, H] what is added besides.
    """
    horizon, n_states, n_actions = data.shape
    policy = np.empty(data.shape)
    q_r, q_c = np.empty((horizon, n_states * n_actions)), np.empty((horizon, n_states * n_actions))
    v_r, v_c = np.empty(n_states), np.empty(n_states)
    made = (policy, q_r, q_c, v_r, v_c)
    (beta_r, beta_c), (z_r, z_c), x = betas, misfit, widths
    bonus = (beta_r, beta_c, z_r, z_c)
    softmax_plan(*data.fitted, *bonus, x.alpha, x.lam, data.known, data.known_last, caps, old, *made)
    return policy, v_r, v_c, q_r, q_c


class WholePass:
    """A state whose `backward` is the pass over all states: see `LinearUCB.backward`."""

    backward: Callable[[Widths, Floats], tuple[Floats, Floats, Floats, Floats, Floats]]

    def plan(self, s1: State, widths: Widths, caps: Floats) -> tuple[Floats, float, float]:
        """The policy [H, S, A], and its estimated V_r and V_c at s1."""
        policy, v_r, v_c, _, _ = self.backward(widths, caps)
        return policy, float(v_r[s1]), float(v_c[s1])


@dataclass
class DeterminantState(WholePass):
    """The regression with its determinants, and the constants of this run."""

    k: int  # episodes seen
    data: Samples
    width: DeterminantWidth = field(metadata={"saved": False})
    alpha: float = field(metadata={"saved": False})
    beta_r: float = field(metadata={"saved": False})  # not used: widths grow with the data
    beta_c: float = field(metadata={"saved": False})

    @property
    def shape(self) -> tuple[int, int, int]:
        """H, S, A."""
        return self.data.shape

    def backward(self, widths: Widths, caps: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """See `LinearUCB.backward`."""
        layers, width = len(self.data.log_det), self.width
        samples = self.k * self.shape[0] // layers  # of each regression, at most
        betas = determinant_betas(width, self.data.log_det[self.data.layer_of_step], samples)
        return whole_pass(self.data, betas, np.stack([width.z_r, width.z_c]), widths, caps, old=NO_OLD)

    def learn(self, round: Round) -> None:
        """Add the steps of an episode to the regression."""
        add(self.data, round.episode)


# --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Covers:
    """Self-normalised widths with a cover of the values, on a continuum of states: see `theory.proved_widths`."""

    problem: Problem
    pooled: bool
    p: float
    B: float
    reg: float
    alpha: float
    rare: bool  # whether plans are kept until a determinant has doubled

    @cached_property
    def width(self) -> CoverWidth:
        """Its constants."""
        return cover_width(self.problem, dimension_of(self.problem), self.p, self.B, self.alpha, reg=self.reg)

    def constants(self) -> dict[str, Any]:
        """For the player's statement: which bound is used, and the widths without data, which grow with them."""
        beta_r, beta_c = self.largest(0.0).max(axis=1).tolist()
        return {"bound": COVER, "beta_r": beta_r, "beta_c": beta_c, "reg": self.reg, "d": dimension_of(self.problem)}

    def largest(self, samples: float) -> Floats:
        """[2, H] the largest widths after so many samples of a regression."""
        H = self.problem.horizon
        return cover_betas(self.width, np.full(H, most_growth(self.width, samples)), np.full(H, samples))

    def lacks(self) -> dict[str, bool]:
        """What a theorem would need, and whether it is missing."""
        return {"a feature is longer than 1": longer_than_one(self.problem)}

    def proof(self) -> Proof:
        """Linearity, multipliers up to B, and rewards no noisier than the problem says."""
        noise = self.problem.reward_noise
        return Proof(failure=self.p, largest_multiplier=self.B, linear=True, noise=noise, values_are_bounds=True)

    def regret(self, rounds: int, late: int) -> PrimalRegretBound:
        """What the widths add to the primal regret, as in `Determinants.regret`; sqrt(2) times that for kept plans."""
        H, B, d = self.problem.horizon, self.B, dimension_of(self.problem)
        samples, regressions = (H * rounds, 1) if self.pooled else (rounds, H)
        beta_r, beta_c = self.largest(float(samples))
        kept, rewards = 2 * (sqrt(2.0) if self.rare else 1.0), H * (H + 1) / 2
        once: dict[str, Any] = {"missed": late + self.pooled, "reg": self.reg, "d": d, "rounds": rounds}
        once["chance"] = (1 - CONCENTRATION) * self.p
        most = summed_widths(kept * (beta_r + B * beta_c), samples, regressions, largest=rewards + B * H, **once)
        return most._replace(regret=summed_widths(kept * beta_r, samples, regressions, largest=rewards, **once).most)


def summed_widths(
    weights: Floats,  # [H] of the width of each step
    samples: int,  # of a regression
    regressions: int,
    *,
    missed: int,  # rounds that plans may not know
    reg: float,
    d: int,
    largest: float,  # of what a round can add
    rounds: int,
    chance: float,
    misfit: float = 0.0,  # what is added to it
) -> PrimalRegretBound:
    """The expected sum of weights times |phi| in the norm of Lam^-1: see `Determinants.regret`."""
    growth = d * log(1 + samples / (d * reg))
    factor = 2.0 if reg >= 1 else 1 / (reg * log(1 + 1 / reg))
    widths = float(weights.max() if regressions == 1 else weights.sum()) * sqrt(samples * factor * growth)
    if missed:
        widths = sqrt(2.0) * widths + largest * doubled_rounds(missed, regressions * growth)
    most = largest * float(resets_upper(widths / largest, chance)) + misfit
    return PrimalRegretBound(min(most, largest * rounds), any_weights=True)


@dataclass(frozen=True)
class Determinants:
    """Self-normalised widths with the determinants of the data, for features of pairs: see `theory.proved_widths`."""

    problem: Problem
    pooled: bool
    p: float
    B: float
    reg: float
    misfit: tuple[float, float] = (0.0, 0.0)  # how far P and r may be from linear

    @cached_property
    def width(self) -> DeterminantWidth:
        """Its constants."""
        problem, d = self.problem, dimension_of(self.problem)
        return determinant_width(
            problem, d, self.pooled, self.p, problem.reward_noise, reg=self.reg, misfit=self.misfit
        )

    def begin(self, name: str, alpha: float) -> DeterminantState:
        """No data yet; refuses what is not finite, pooling over steps that differ, and what does not fit in memory."""
        data, nan = no_samples(self.problem, name, pooled=self.pooled, reg=self.reg), float("nan")
        return DeterminantState(0, data, self.width, alpha, beta_r=nan, beta_c=nan)

    def constants(self) -> dict[str, Any]:
        """For the player's statement: which bound is used, and the widths without data, which grow with them."""
        beta_r, beta_c = determinant_betas(self.width, np.zeros(self.problem.horizon)).max(axis=1).tolist()
        found = {"bound": CORNERS, "beta_r": beta_r, "beta_c": beta_c, "reg": self.reg, "d": dimension_of(self.problem)}
        return found | ({"misfit": list(self.misfit)} if any(self.misfit) else {})

    def lacks(self) -> dict[str, bool]:
        """What a theorem would need, and whether it is missing."""
        long = {"a feature is longer than 1": longer_than_one(self.problem)}
        return pooled_lacks(self.problem, self.pooled) | long

    def proof(self) -> Proof:
        """Linearity up to the misfit, and rewards no noisier than the problem says."""
        needs = Proof(failure=self.p, largest_multiplier=self.B, linear=True, misfit=self.misfit)
        return needs._replace(noise=self.problem.reward_noise, values_are_bounds=True)

    def regret(self, rounds: int, late: int) -> PrimalRegretBound:
        """What the widths add to the primal regret: 2 (beta_r + B beta_c) times the sum of |phi|, over the steps.

        |phi|^2 in the norm of Lam^-1 add up to at most factor d log(1 + n / (d reg)) over n samples of a regression,
        factor such that x <= factor log(1 + x) up to 1/reg. Plans do not know the latest `late` rounds, and if data are
        pooled the steps of their own: sqrt(2) times the widths, and H + B for the rounds of `doubled_rounds`. What is
        expected exceeds what was realised by no more than `anytime.resets_upper` says. Where the problem is only nearly
        linear, z sqrt(n) is in the betas, and 2 (z_r + B z_c) is added in every step of every round.
        """
        H, B, d, reg = self.problem.horizon, self.B, dimension_of(self.problem), self.reg
        samples, regressions = (H * rounds, 1) if self.pooled else (rounds, H)
        beta_r, beta_c = determinant_betas(self.width, np.full(H, d * log(1 + samples / (d * reg))), samples)
        once: dict[str, Any] = {"missed": late + self.pooled, "reg": reg, "d": d, "rounds": rounds}
        once["chance"], rewards, z_r = (1 - CONCENTRATION) * self.p, H * (H + 1) / 2, self.width.z_r
        misfit = 2 * rounds * float((z_r + B * self.width.z_c).sum())
        weights = (2 * (beta_r + B * beta_c), samples, regressions)
        most = summed_widths(*weights, largest=rewards + B * H, misfit=misfit, **once)
        weights, misfit = (2 * beta_r, samples, regressions), 2 * rounds * float(z_r.sum())
        return most._replace(regret=summed_widths(*weights, largest=rewards, misfit=misfit, **once).most)
