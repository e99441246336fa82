"""Policy search for machines with continuous actions: its state, and how a policy is found.

Legend: see `machine_model`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from cmaes import CMA, SepCMA
from numpy.typing import NDArray
from scipy.optimize import minimize

from resetfree.core.arrays import Floats
from resetfree.core.compiled import on_one_thread
from resetfree.core.state import require
from resetfree.game.replay_buffer import ReplayBuffer, vectors
from resetfree.players.model_based.machine_model import (
    OVERHEAD,
    Experience,
    MachineModel,
    fit_machine,
    latest_and_any,
    rollout,
    value_and_gradient,
)
from resetfree.players.model_based.search_state import SearchSettings, SearchState
from resetfree.problems.action_spaces import to_unit
from resetfree.problems.contract import State
from resetfree.problems.features.scaling import Scaling
from resetfree.problems.tanh_policy import TanhPolicy

FITTED = 4096  # rows that the model is fitted to: half are the latest, half any, lest it forget what is rarely met
BEGAN = 4  # latest starts after a reset from which rollouts start
SAVABLE = 20  # steps before a reset from which no policy may recover: no rollout starts there
GENTLE = 0.3  # part of the box that first actions come from: a machine that is stable at rest is found at little cost
LONG = 300  # rows without a reset after which a policy is proven
GAIN = 0.01  # predicted gain in reward per step for which a proven policy is replaced
LOSS = 0.05  # reward per step by which another policy may earn less before the proven one is played again
ERRORS = 2.0  # and standard errors of what it earned: set points are not all equally far
NOTHING = -1.0  # rate while no policy is proven
AFRESH = 1.7  # first deviation of actions, before tanh, in a search from the middle of the box
NEARBY = 0.2  # first deviation of weights in a search from the policy that is played
AT_REST = 1e-9  # weights of the policy whose actions are the middle of the box: without any, a policy is random
FEW = 12  # starts that CMA-ES compares policies on
LONGER = 4  # times as many generations at most, where rollouts end early
MANY = 500  # weights from which on CMA-ES learns a deviation of each and no correlations, which would take minutes
LEAST_POLISH, MOST_POLISH = 15, 40  # times that the gradient is taken: half as often as there are weights
STEEPEST = 1e6  # weights from which on a policy is not searched around: its actions are the ends of the box
TRUSTED = 0.3  # predicted resets of a policy that has not fallen, up to which the model is trusted


class MachineSearch(NamedTuple):
    """A search for the policy of largest reward - lam (probability of a reset) in a model.

    CMA-ES starts from the middle of the box and, with half of its generations, from the policy that is played; both
    are candidates themselves: many machines earn most by doing little. The best of all is then improved by its
    gradient (L-BFGS), which many weights need.
    """

    model: MachineModel
    starts: Floats  # [n, D] not scaled
    lam: float
    planning: int  # P
    population: int
    rounds: int  # generations in all; more where rollouts end early, as long as that takes no longer
    seed: int

    def best(self, played: Floats, *, living: bool, proven: bool = False) -> Floats:
        """The best theta found, which may be the one that is played.

        played: theta of the policy that is played now.
        living: whether it has not fallen. Then it is replaced only if the model is right about it: a model that
          predicts its resets is not trusted.
        proven: whether it has long gone without a reset. Then it is replaced only for more reward.
        """
        starts = self.model.scaling(self.starts)
        noise = np.random.default_rng(self.seed).normal(size=(self.planning, *starts.shape))
        at_rest = np.full(played.shape, AT_REST)
        origins = [(at_rest, AFRESH / np.sqrt(played.shape[1]))]
        if np.abs(played).max() < STEEPEST:
            if living and rollout(self.model, played[None], starts, noise).reset.mean() > TRUSTED:
                return played
            origins.append((played, NEARBY))
        found = [origin for origin, _ in origins]
        evolution = CMA if played.size <= MANY else SepCMA
        for i, (origin, deviation) in enumerate(origins):
            search = evolution(origin.ravel(), deviation, seed=(self.seed + i) % 2**32, population_size=self.population)
            rounds = max(1, self.rounds // len(origins))
            found += self._evolved(search, rounds, origin.shape, starts[:FEW], noise[:, :FEW])
        values = rollout(self.model, np.array(found), starts, noise).value(self.lam)
        best = self._polished(found[values.argmax()], float(values.max()), starts, noise)
        return best if not (living and proven) or self._earns_more(best, played, starts, noise) else played

    def _earns_more(self, theta: Floats, played: Floats, starts: Floats, noise: Floats) -> bool:
        """Whether theta is predicted to earn more, even if all resets predicted of the policy in play are wrong."""
        both = rollout(self.model, np.array([theta, played]), starts, noise)
        reward, reset = both.reward.mean(axis=1), both.reset.mean(axis=1)
        wrong = max(0.0, float(reset[1] - reset[0]))  # a rollout that ends early loses at most the reward of all steps
        return float(reward[0] - reward[1]) / self.planning > GAIN + wrong

    def _evolved(
        self, search: CMA | SepCMA, rounds: int, shape: tuple[int, ...], starts: Floats, noise: Floats
    ) -> tuple[Floats, Floats]:
        """The best theta of all generations, and the middle of the last one."""
        best, value = search.mean, -np.inf
        left = rounds * self.planning * (self.population * len(starts) + OVERHEAD)
        for _ in range(LONGER * rounds):
            if left <= 0:
                break
            candidates = np.array([search.ask() for _ in range(self.population)])
            rollouts = rollout(self.model, candidates.reshape(-1, *shape), starts, noise)
            values, left = rollouts.value(self.lam), left - rollouts.effort
            search.tell(list(zip(candidates, -values, strict=True)))
            if values.max() > value:
                best, value = candidates[values.argmax()], float(values.max())
        return best.reshape(shape), search.mean.reshape(shape)

    def _polished(self, theta: Floats, value: float, starts: Floats, noise: Floats) -> Floats:
        """Theta [A, D + 1] after gradient steps, if their value is larger."""

        def loss(weights: Floats) -> tuple[float, Floats]:
            value, gradient = value_and_gradient(self.model, weights.reshape(theta.shape), starts, noise, self.lam)
            return -value / self.planning, -gradient.ravel() / self.planning

        times = {"maxfun": min(max(theta.size // 2, LEAST_POLISH), MOST_POLISH)}
        better = minimize(loss, theta.ravel(), jac=True, method="L-BFGS-B", options=times).x.reshape(theta.shape)
        found = float(rollout(self.model, better[None], starts, noise).value(self.lam)[0])
        return better if found > value else theta


@dataclass
class MachineSearchState(SearchState[TanhPolicy]):
    """The state of a search among continuous actions, with the models and policies that follow from its rows."""

    models: dict[int, MachineModel] = field(metadata={"saved": False})  # of the first n rows
    found: dict[tuple[int, bytes, float], TanhPolicy] = field(metadata={"saved": False})  # in it, for s1 and lam
    proven: TanhPolicy  # the one that earned most in a long time without a reset
    rate: float  # what it earned per step
    began: int  # first row since the policy in play began, or since its last reset

    def check_loaded(self) -> None:
        """Raise InvalidInput unless policies rest on whole episodes."""
        super().check_loaded()
        require(self.rows.ends_at(self.began), "policy must begin with an episode")
        require(self.rate == NOTHING or 0.0 <= self.rate <= 1.0, "rate must be a mean reward")

    @property
    def has_proven(self) -> bool:
        """Whether the policy that is played is the proven one."""
        return self.rate != NOTHING and self.policy.same_as(self.proven)

    def play(self, policy: TanhPolicy) -> None:
        """Play a policy from now on."""
        self.policy, self.began = policy, self.rows.n

    def begin_after_data(self) -> None:
        """Plan again; no policy in play counts as having begun before the data."""
        super().begin_after_data()
        self.began = self.rows.n

    def begin_with(self, policy: TanhPolicy, lam: float) -> None:
        """Play a policy first that was learned elsewhere, and count it as proven with what the last data earned."""
        super().begin_with(policy, lam)
        latest = self.rows.mean_reward(max(0, self.rows.n - LONG))
        self.proven, self.rate = policy, min(max(latest, 0.0), 1.0)

    def weigh(self, *, reset: bool) -> None:
        """Keep a policy that is proven, and return to it from one that fell or earns less.

        A proven policy that falls, or earns less than it did, is proven no longer: a new plan follows.
        """
        rows, has_proven = self.rows, self.has_proven
        rate, is_long = rows.mean_reward(self.began), rows.n - self.began >= LONG
        if not reset and is_long and rate > self.rate:
            self.proven, self.rate = self.policy, rate
        elif reset or (is_long and rate < self.rate - LOSS - self._doubt()):
            if self.rate != NOTHING and not has_proven:
                self.play(self.proven)
                self.at, self.stale = rows.n, False
            else:
                self.rate, self.began, self.stale = NOTHING, rows.n, True

    def pass_over(self, *, reset: bool) -> None:
        """The present policy begins later: the fall of another does not count against it."""
        self.began = self.rows.n
        super().pass_over(reset=reset and self.rate == NOTHING)

    def _doubt(self) -> float:
        """Standard errors of the reward per step of the policy in play, from its whole episodes."""
        earned = self.rows.reward[self.began : self.rows.n][self.rows.taken(self.rows.n, self.began)]
        n = len(earned) // self.horizon
        means = earned[: n * self.horizon].reshape(n, -1).mean(axis=1) if n > 1 else np.zeros(2)
        return float(ERRORS * means.std(ddof=1) / np.sqrt(len(means)))

    def model(self, n: int, settings: SearchSettings) -> MachineModel:
        """The model of the first n rows."""
        if n not in self.models:
            rng = np.random.default_rng([self.seed, n])
            self.models.clear()
            caution = 0.0 if self.never_resets else settings.caution
            self.models[n] = fit_machine(
                self._seen(n), (self.low, self.high), draws=settings.draws, caution=caution, rng=rng, limits=self.limits
            )
        return self.models[n]

    def _fitted(self, n: int) -> NDArray[np.int64]:
        """Those of the first n rows whose transitions the model is fitted to."""
        taken = np.flatnonzero(self.rows.taken(n))
        return taken[latest_and_any(len(taken), FITTED, np.random.default_rng([self.seed, n, 2]))]

    def _seen(self, n: int) -> Experience:
        """What the model of the first n rows is fitted to."""
        rows, fitted, terminated = self.rows, self._fitted(n), self.rows.terminated[:n]
        return Experience(
            before=rows.state[fitted],
            action=to_unit(rows.action[fitted], self.policy.low, self.policy.high),
            reward=rows.reward[fitted],
            after=rows.state[fitted + 1],
            lived=rows.state[:n][~terminated],
            reset_states=rows.state[:n][terminated],
        )

    @on_one_thread
    def search(self, n: int, s1: State, lam: float, settings: SearchSettings) -> TanhPolicy:
        """The policy of largest value in the model of the first n rows, of an agent in s1."""
        here = vectors(np.asarray([s1]))
        if (key := (n, here.tobytes(), lam)) not in self.found:
            model, rng = self.model(n, settings), np.random.default_rng([self.seed, n, 1])
            surprising = self._fitted(n)[model.surprised(self._seen(n))] + 1
            plan = MachineSearch(
                model=model,
                starts=np.concatenate([here, _starts(self.rows, n, settings.starts, surprising, rng)]),
                lam=lam,
                planning=settings.planning,
                population=settings.population,
                rounds=settings.rounds,
                seed=int(rng.integers(2**32)),
            )
            played = scaled_policy(self.policy, model.scaling)
            theta = plan.best(played, living=not self.rows.terminated[n - 1], proven=self.has_proven)
            self.found.clear()
            self.found[key] = self.policy if theta is played else unscaled_policy(theta, model.scaling, self.policy)
        return self.found[key]

    @on_one_thread
    def foresee(self, n: int, policy: TanhPolicy, s1: State, settings: SearchSettings) -> tuple[float, float]:
        """What the model of the first n rows predicts of an episode from s1: its reward, the probability of a reset."""
        model = self.model(n, settings)
        start = np.repeat(model.scaling(vectors(np.asarray([s1]))), settings.draws, axis=0)
        theta = scaled_policy(policy, model.scaling)[None]
        forecast = rollout(model, theta, start, np.zeros((self.horizon, *start.shape)))
        return float(forecast.reward.mean()), float(forecast.reset.mean())


def unscaled_policy(theta: Floats, scaling: Scaling, like: TanhPolicy) -> TanhPolicy:
    """The policy of theta [A, D + 1] for states that are not scaled."""
    weight = theta[:, :-1] / scaling.scale
    return replace(like, weight=weight, bias=theta[:, -1] - weight @ scaling.centre)


def scaled_policy(policy: TanhPolicy, scaling: Scaling) -> Floats:
    """Theta [A, D + 1] of a policy for states that are scaled."""
    with np.errstate(over="ignore", invalid="ignore"):  # weights without measure are not searched around
        bias = policy.bias + policy.weight @ scaling.centre
        return np.concatenate([policy.weight * scaling.scale, bias[:, None]], axis=1)


def began_and_savable(rows: ReplayBuffer, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of the first n rows: the latest starts after a reset, and the visited ones that were still recoverable."""
    fell, lived = np.flatnonzero(rows.terminated[:n]), np.flatnonzero(~rows.terminated[:n])
    began = np.append(0, fell[fell < n - 1] + 1)[-BEGAN:]
    ends = np.append(fell, n + SAVABLE)[np.searchsorted(fell, lived)]
    return began, lived[ends - lived > SAVABLE]


def _starts(rows: ReplayBuffer, n: int, count: int, surprising: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """The latest starts after a reset, and visited states that were still recoverable.

    Half of these follow a transition that the model cannot explain, if there were any: rollouts contain no set point
    that moves and no blow, and the search would otherwise find a policy that fails after them.
    """
    began, savable = began_and_savable(rows, n)
    visited = rng.choice(savable, count) if len(savable) else savable
    if len(after := np.intersect1d(surprising, savable)):
        visited[::2] = np.resize(rng.permutation(after), len(visited[::2]))
    return np.asarray(rows.state[np.concatenate([began, visited]).astype(int)])
