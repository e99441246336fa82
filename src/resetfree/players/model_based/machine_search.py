"""Policy search for machines with continuous actions: its state, and how a policy is found.

Legend: see `machine_model`.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from cmaes import CMA, SepCMA
from numpy.typing import NDArray
from scipy.optimize import minimize

from resetfree.core.arrays import Floats
from resetfree.core.compiled import on_one_thread
from resetfree.core.state import require
from resetfree.game.capabilities import Decision
from resetfree.game.replay_buffer import vectors
from resetfree.players.model_based.exploring import TRIAL, Exploring, explored, exploring, trial_is_over
from resetfree.players.model_based.machine_model import (
    OVERHEAD,
    Experience,
    Forecast,
    MachineModel,
    RolloutRules,
    fit_machine,
    latest_and_any,
    rollout,
    value_and_gradient,
)
from resetfree.players.model_based.search_state import (
    Candidate,
    SearchSettings,
    SearchState,
    at_rest,
    began_and_savable,
    late_counts,
    rollout_starts,
    scaled_candidate,
    unscaled_policy,
)
from resetfree.players.model_based.value_iteration import (
    NEARLY,
    Aim,
    Stepper,
    action_levels,
    learned_actions,
    planned,
)
from resetfree.problems.contract import State
from resetfree.problems.formula import TanhChoice, TanhPolicy

Searched: TypeAlias = TanhPolicy | TanhChoice
FITTED = 4096  # rows that the model is fitted to: half are the latest, half any, lest it forget what is rarely met
GENTLE = 0.3  # part of the box that first actions come from: a machine that is stable at rest is found at little cost
LONG = 300  # rows without a reset after which a policy is proven
GAIN = 0.01  # predicted gain in reward per step for which a proven policy is replaced, as a part of their range
LOSS = 0.05  # the same by which another policy may earn less before the proven one is played again
SLIGHT = 0.2  # least such range: what differs less is noise
ERRORS = 2.0  # and standard errors of what it earned: set points are not all equally far
NOTHING = -1.0  # rate while no policy is proven
AFRESH = 1.7  # first deviation of actions, before tanh, in a search from the middle of the box
NEARBY = 0.2  # first deviation of weights in a search from the policy that is played
AT_EASE = 0.05  # of half the box: actions up to that are those of a machine at rest
FEW = 12  # starts that CMA-ES compares policies on
LONGER = 4  # times as many generations at most, where rollouts end early
MANY = 500  # weights from which on CMA-ES learns a deviation of each and no correlations, which would take minutes
LEAST_POLISH, MOST_POLISH = 15, 40  # times that the gradient is taken: half as often as there are weights
STEEPEST = 1e6  # weights from which on a policy is not searched around: its actions are the ends of the box
COPIED, FLAT = 1500, 1e-4  # rows whose behaviour is copied, the latest and any; keeps the equations of that solvable
CAUGHT = 0.1  # part of the caution that is left where a controller acts outside of what was safe
SEEKING = 0.5  # reward of a step to where nothing was seen, in a search for unseen states, on the scale of rewards seen
TRUSTED = 0.3  # predicted resets of a policy that has not fallen, up to which the model is trusted


class MachineSearch(NamedTuple):
    """A search for the policy of largest reward - lam (probability of a reset) in a model.

    CMA-ES starts from the middle of the box and, with half of its generations, from the policy that is played; both
    are candidates themselves: many machines earn most by doing little. So is a policy with hidden units that does what
    value iteration chooses, where states are short. The best of all is then improved by its gradient (L-BFGS), which
    many weights need. The last quarter of a rollout counts for more: the machine runs on.
    """

    model: MachineModel
    starts: Floats  # [n, D] not scaled
    lam: float
    planning: int  # P
    population: int
    rounds: int  # generations in all; more where rollouts end early, as long as that takes no longer
    seed: int
    visited: Floats | None = None  # [., D] not scaled; None: no value iteration
    free: bool = False  # whether nothing has ever been a reset, and rewards have not risen for long
    shown: tuple[Floats, Floats] | None = None  # [n, D] not scaled, [n, A]: behaviour to improve on
    least_gain: float = GAIN  # predicted gain in reward per step for which a proven policy is replaced

    def best(self, played: Candidate, *, living: bool, proven: bool = False) -> Candidate:
        """The best policy found, which may be the one that is played.

        living: whether it has not fallen. Then it is replaced only if the model is right about it: a model that
          predicts its resets is not trusted.
        proven: whether it has long gone without a reset. Then it is replaced only for more reward.
        """
        starts = self.model.scaling(self.starts)
        noise = np.random.default_rng(self.seed).normal(size=(self.planning, *starts.shape))
        n_actions, size = len(played.theta), starts.shape[1]
        resting = at_rest(n_actions, size)
        origins, known = [(resting, AFRESH / np.sqrt(size + 1))], self.copied()
        if np.abs(played.theta).max() < STEEPEST:
            if living and self._rollout(played, starts, noise).reset.mean() > TRUSTED:
                return played
            known.insert(0, played)
        if known:
            origins.append((self._best_of(known, starts, noise), NEARBY))
        found = [resting, *known]
        for i, (origin, deviation) in enumerate(origins):
            rounds = max(1, self.rounds // len(origins))
            found += self._evolved(origin, deviation, rounds, turn=i, starts=starts[:FEW], noise=noise[:, :FEW])
        found += self.valued(starts[:FEW])
        first = self._best_of(found, starts, noise)
        best = self._polished(first, self._value(first, starts, noise), starts, noise)
        return best if not (living and proven) or self._earns_more(best, played, starts, noise) else played

    def gain(self, policy: Candidate) -> float:
        """How much more a step of a policy is predicted to earn, less resets, than what was shown; 0 if nothing was."""
        starts, known = self.model.scaling(self.starts), self.copied()
        noise = np.random.default_rng(self.seed).normal(size=(self.planning, *starts.shape))
        values = [self._value(one, starts, noise) for one in (policy, *known)]
        return (values[0] - max(values[1:], default=values[0])) / self.planning

    def valued(self, starts: Floats, bonus: float = 0.0) -> list[Candidate]:
        """The policy of value iteration, if there is one; bonus: the reward for a step to where nothing was seen."""
        if self.visited is None:
            return []
        rng, visited = np.random.default_rng([self.seed, 1]), self.model.scaling(self.visited)
        step = Stepper(
            self.model,
            self.model.table if self.model.table is not None else action_levels(self.model.n_actions),
            visited,
            Aim(self.lam, bonus),
        )
        made = planned(step, visited, starts, self.planning, rng)
        return [] if made is None else [Candidate(*made)]

    def copied(self) -> list[Candidate]:
        """A linear policy and one with hidden units that do what was shown; none if nothing was."""
        if self.shown is None:
            return []
        z, action = self.model.scaling(self.shown[0]), np.clip(self.shown[1], -NEARLY, NEARLY)
        inputs = np.concatenate([z, np.ones((len(z), 1))], axis=1)
        gram = inputs.T @ inputs + FLAT * len(z) * np.eye(inputs.shape[1])
        linear = Candidate(np.linalg.solve(gram, inputs.T @ np.arctanh(action)).T)
        rng, each = np.random.default_rng([self.seed, 2]), np.full((len(z), 1), 1.0 / len(z))
        return [linear, Candidate(*learned_actions(z, action, each, rng))]

    def _best_of(self, policies: list[Candidate], starts: Floats, noise: Floats) -> Candidate:
        values = [self._value(one, starts, noise) for one in policies] if len(policies) > 1 else [0.0]
        return policies[int(np.argmax(values))]

    def _value(self, policy: Candidate, starts: Floats, noise: Floats) -> float:
        return float(self._rollout(policy, starts, noise).value(self.lam)[0])

    def _rollout(self, policy: Candidate, starts: Floats, noise: Floats) -> Forecast:
        return rollout(self.model, policy.theta[None], starts, noise, self._rules(policy))

    def _rules(self, policy: Candidate) -> RolloutRules:
        return RolloutRules(policy.units, late_counts(self.planning))

    def _earns_more(self, new: Candidate, played: Candidate, starts: Floats, noise: Floats) -> bool:
        """Whether one is predicted to earn more, even if all resets predicted of the policy in play are wrong."""
        both = [self._rollout(one, starts, noise) for one in (new, played)]
        reward, reset = ([float(np.mean(part)) for part in parts] for parts in list(zip(*both, strict=True))[:2])
        wrong = max(0.0, reset[1] - reset[0])  # a rollout that ends early loses at most the reward of all steps
        return (reward[0] - reward[1]) / self.planning > (0.0 if self.free else self.least_gain) + wrong

    def _evolved(
        self, origin: Candidate, deviation: float, rounds: int, turn: int, starts: Floats, noise: Floats
    ) -> tuple[Candidate, Candidate]:
        """The best of all generations around an origin, and the middle of the last one."""
        shape, units, rules = origin.theta.shape, origin.units, self._rules(origin)
        evolution = CMA if origin.theta.size <= MANY else SepCMA
        seed = (self.seed + turn) % 2**32
        search = evolution(origin.theta.ravel(), deviation, seed=seed, population_size=self.population)
        best, value = search.mean, -np.inf
        left = rounds * self.planning * (self.population * len(starts) + OVERHEAD)
        for _ in range(LONGER * rounds):
            if left <= 0:
                break
            candidates = np.array([search.ask() for _ in range(self.population)])
            rollouts = rollout(self.model, candidates.reshape(-1, *shape), starts, noise, rules)
            values, left = rollouts.value(self.lam), left - rollouts.effort
            search.tell(list(zip(candidates, -values, strict=True)))
            if values.max() > value:
                best, value = candidates[values.argmax()], float(values.max())
        return Candidate(best.reshape(shape), units), Candidate(search.mean.reshape(shape), units)

    def _polished(self, policy: Candidate, value: float, starts: Floats, noise: Floats) -> Candidate:
        """The policy after gradient steps of its weights, if its value is larger; a prize has no gradient."""
        if self.model.prize is not None:
            return policy
        theta, rules = policy.theta, self._rules(policy)

        def loss(weights: Floats) -> tuple[float, Floats]:
            value, gradient = value_and_gradient(
                self.model, weights.reshape(theta.shape), starts, noise, self.lam, rules=rules
            )
            return -value / self.planning, -gradient.ravel() / self.planning

        times = {"maxfun": min(max(theta.size // 2, LEAST_POLISH), MOST_POLISH)}
        better = minimize(loss, theta.ravel(), jac=True, method="L-BFGS-B", options=times).x.reshape(theta.shape)
        new = policy._replace(theta=better)
        return new if float(self._rollout(new, starts, noise).value(self.lam)[0]) > value else policy


@dataclass
class MachineSearchState(SearchState[Searched]):
    """The state of a search among continuous actions, with the models and policies that follow from its rows."""

    models: dict[int, MachineModel] = field(metadata={"saved": False})  # of the first n rows
    found: dict[tuple[int, bytes, float], Searched] = field(metadata={"saved": False})  # in it, for s1 and lam
    proven: Searched  # the one that earned most in a long time without a reset
    rate: float  # what it earned per step
    began: int  # first row since the policy in play began, or since its last reset
    given: int = field(metadata={"later": True})  # rows of data

    def check_loaded(self) -> None:
        """Raise InvalidInput unless policies rest on whole episodes."""
        super().check_loaded()
        require(self.rows.ends_at(self.began), "policy must begin with an episode")
        require(self.given <= self.rows.n, "rows of data must exist")
        require(np.isfinite(self.rate), "rate must be a mean reward")

    @property
    def has_proven(self) -> bool:
        """Whether the policy that is played is the proven one."""
        return self.rate != NOTHING and self.policy.same_as(self.proven)

    def play(self, policy: Searched) -> None:
        """Play a policy from now on."""
        self.policy, self.began = policy, self.rows.n

    def begin_after_data(self) -> None:
        """Plan again; no policy in play counts as having begun before the data."""
        super().begin_after_data()
        self.began = self.given = self.rows.n

    def begin_with(self, policy: Searched, lam: float) -> None:
        """Play a policy first that was learned elsewhere, and count it as proven with what the last data earned."""
        super().begin_with(policy, lam)
        latest = self.rows.mean_reward(max(0, self.rows.n - LONG))
        self.proven, self.rate = policy, min(max(latest, 0.0), 1.0)

    def weigh(self, *, reset: bool) -> None:
        """Keep a policy that is proven, and return to it from one that fell or earns less.

        A proven policy that falls, or earns less than it did, is proven no longer: a new plan follows. So does one
        after each trial while it explores.
        """
        self._weigh(reset=reset)
        if trial_is_over(self.rows, self.at, self.explores(self.rows.n)):
            self.stale = True

    def _weigh(self, *, reset: bool) -> None:
        rows, has_proven = self.rows, self.has_proven
        rate, is_long = rows.mean_reward(self.began), rows.n - self.began >= LONG
        if not reset and is_long and rate > self.rate:
            self.proven, self.rate = self.policy, rate
        elif reset or (is_long and rate < self.rate - LOSS * self._range(rows.n) - self._doubt()):
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

    def _range(self, n: int) -> float:
        """Of the rewards of the first n rows, as far as gains and losses are measured by it."""
        return float(np.clip(np.ptp(self.rows.reward[:n][self.rows.taken(n)]), SLIGHT, 1.0))

    @property
    def _follows(self) -> bool:
        """Whether it improves on behaviour that may only have been careful: then it does not explore."""
        return len(self.shown) > 0 and not self.never_resets

    def explores(self, n: int) -> Exploring | None:
        """What is explored for with the first n rows; nothing beside a controller, whose not falling proves little."""
        return None if self._follows else exploring(self.rows, n, stated=self.never_resets, given=self.given)

    def explored(self) -> list[Decision]:
        """When it began to explore, and why."""
        return [] if self._follows else explored(self.rows, stated=self.never_resets, given=self.given)

    def _resting(self, plan: MachineSearch, now: Exploring | None, n: int) -> Candidate | None:
        """The policy that rests in the middle of the box, once, where nothing has ever been a reset.

        A model that has not seen a machine at rest may promise more elsewhere, for ever.
        """
        if now is None or not now.trials or now.caution or not isinstance(self.policy, TanhPolicy):
            return None
        unit = self.policy.unit(self.rows.action[:n][self.rows.taken(n)])
        rested = (np.abs(unit).max(axis=1) < AT_EASE).sum() >= TRIAL
        return None if rested else at_rest(plan.model.n_actions, len(plan.model.low))

    def _sought(self, plan: MachineSearch, now: Exploring | None, n: int) -> Candidate | None:
        """A policy that seeks unseen states, in every other trial where nothing has ever been a reset."""
        if now is None or not now.seeks:
            return None
        earned = self.rows.reward[:n][self.rows.taken(n)]
        found = plan.valued(plan.model.scaling(plan.starts[:FEW]), SEEKING * max(float(np.ptp(earned)), 1.0))
        return found[0] if found else None

    def model(self, n: int, settings: SearchSettings) -> MachineModel:
        """The model of the first n rows."""
        if n not in self.models:
            rng = np.random.default_rng([self.seed, n])
            self.models.clear()
            left = 1.0 if (now := self.explores(n)) is None else now.caution
            caution = 0.0 if self.never_resets else settings.caution * left * (CAUGHT if self.beside else 1.0)
            self.models[n] = fit_machine(
                self._seen(n),
                (self.low, self.high),
                draws=settings.draws,
                caution=caution,
                rng=rng,
                table=self.policy.table if isinstance(self.policy, TanhChoice) else None,
                known=(self.limits, self.action_limits),
                dares=left == 0.0,
            )
        return self.models[n]

    def _fitted(self, n: int) -> NDArray[np.int64]:
        """Those of the first n rows whose transitions the model is fitted to."""
        taken = np.flatnonzero(self.rows.taken(n))
        return taken[latest_and_any(len(taken), FITTED, np.random.default_rng([self.seed, n, 2]))]

    def _copy(self, n: int) -> tuple[Floats, Floats] | None:
        """States and actions that were shown in the first n rows, or else those of data that led to no reset."""
        rows = self.shown_in(n)
        if not len(rows) and self.given:
            safe = began_and_savable(self.rows, self.given)[1]
            rows = safe[self.rows.taken(self.given)[safe]]
        rows = rows[latest_and_any(len(rows), COPIED, np.random.default_rng([self.seed, n, 3]))]
        return (self.rows.state[rows], self.policy.unit(self.rows.action[rows])) if len(rows) else None

    def _seen(self, n: int) -> Experience:
        """What the model of the first n rows is fitted to."""
        rows, fitted, terminated = self.rows, self._fitted(n), self.rows.terminated[:n]
        return Experience(
            before=rows.state[fitted],
            action=self.policy.unit(rows.action[fitted]),
            reward=rows.reward[fitted],
            after=rows.state[fitted + 1],
            lived=rows.state[:n][~terminated],
            reset_states=rows.state[:n][terminated],
        )

    @on_one_thread
    def search(self, n: int, s1: State, lam: float, settings: SearchSettings) -> Searched:
        """The policy of largest value in the model of the first n rows, of an agent in s1."""
        here = vectors(np.asarray([s1]))
        if (key := (n, here.tobytes(), lam)) not in self.found:
            model, now = self.model(n, settings), self.explores(n)
            plan = self._task(n, here, lam, settings, now)
            played = scaled_candidate(self.policy, model.scaling)
            found = (
                self._resting(plan, now, n)
                or self._sought(plan, now, n)
                or plan.best(played, living=n > self.given and not self.rows.terminated[n - 1], proven=self.has_proven)
            )
            self.found.clear()
            self.found[key] = self.policy if found is played else unscaled_policy(*found, model.scaling, self.policy)
        return self.found[key]

    def _task(
        self, n: int, here: Floats, lam: float, settings: SearchSettings, now: Exploring | None = None
    ) -> MachineSearch:
        """A search in the model of the first n rows, from states `here` [., D] and from visited ones.

        now: how it explores; a bold search plans in one draw of the model.
        """
        model, rng = self.model(n, settings), np.random.default_rng([self.seed, n, 1])
        surprising = self._fitted(n)[model.surprised(self._seen(n))] + 1
        return MachineSearch(
            model=model.drawn(n // TRIAL % settings.draws) if now is not None and now.bold else model,
            starts=np.concatenate([here, rollout_starts(self.rows, n, settings.starts, surprising, rng)]),
            lam=lam,
            planning=settings.planning,
            population=settings.population,
            rounds=settings.rounds,
            seed=int(rng.integers(2**32)),
            visited=self.rows.state[self._fitted(n)] if settings.units else None,
            free=now is not None and now.bold and not now.caution,
            shown=self._copy(n),
            least_gain=GAIN * self._range(n),
        )

    @on_one_thread
    def compare(self, n: int, policy: Searched, lam: float, settings: SearchSettings) -> None:
        """Predict how much more a policy earns than what was shown, unless that was done."""
        if self.compared is None or self.compared[0] != (n, lam) or not self.compared[1].same_as(policy):
            task = self._task(n, self.rows.state[:0], lam, settings)
            self.compared = (n, lam), policy, task.gain(scaled_candidate(policy, task.model.scaling))

    @on_one_thread
    def foresee(self, n: int, policy: Searched, s1: State, settings: SearchSettings) -> tuple[float, float]:
        """What the model of the first n rows predicts of an episode from s1: its reward, the probability of a reset."""
        model = self.model(n, settings)
        start = np.repeat(model.scaling(vectors(np.asarray([s1]))), settings.draws, axis=0)
        theta, units = scaled_candidate(policy, model.scaling)
        forecast = rollout(model, theta[None], start, np.zeros((self.horizon, *start.shape)), RolloutRules(units))
        return float(forecast.reward.mean()), float(forecast.reset.mean())
