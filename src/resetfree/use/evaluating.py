"""Evaluation of a policy, in the two ways of the reset-free literature.

fresh        every episode starts from the initial distribution: the value of the policy once it is deployed (deployed
             evaluation). Each start is a reset that the evaluation itself performs.
continuing   one uninterrupted trajectory: an episode starts where the last one ended, and is reset only after a reset
             event (continuing evaluation of a fixed policy; `continuing_return` is that of the training itself).

Legend: n episodes of at most H steps, G_i the return of one (in [0, H]), T steps in all, N resets.
Of an interval: numbers x_i; alpha = 1 - confidence, the probability with which it may miss.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import betaincinv, stdtrit

from resetfree.core import Bools, Floats, InvalidInput, Probability, check, whole
from resetfree.game.contract import MOST_EPISODES
from resetfree.problems import LIST_THEM, Box, Episode, Problem, find_world
from resetfree.problems.finite.tabular_policy import TabularPolicy
from resetfree.problems.gym import from_gym
from resetfree.theory.certificates.anytime import resets_lower, resets_upper
from resetfree.theory.certificates.record import Record
from resetfree.use.predictor import Predictor

Starts: TypeAlias = Literal["fresh", "continuing"]
Interval: TypeAlias = tuple[float, float]
EPISODES = 100  # by default
THOUSAND = 1000.0
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Returns and resets of an evaluation with intervals; per episode for fresh starts, per step for continuing."""

    starts: Starts
    confidence: float
    horizon: int
    returns: Floats = field(repr=False)  # [n] G_i, in the rewards of the learner
    original_returns: Floats = field(repr=False)  # [n] in the environment's own rewards
    lengths: Floats = field(repr=False)  # [n] steps
    reset: Bools = field(repr=False)  # [n] whether the episode entered a reset state
    performed: int  # resets that the evaluation performed, its first start included
    goals: int = 0  # that were reached

    @property
    def episodes(self) -> int:
        """n, the number of episodes."""
        return len(self.returns)

    @property
    def steps(self) -> int:
        """T, the number of steps over all episodes."""
        return int(self.lengths.sum())

    @property
    def resets(self) -> int:
        """N, the number of episodes that ended in a reset event."""
        return int(self.reset.sum())

    @property
    def unit(self) -> str:
        """The unit that `mean` and `original_mean` are per: "episode" or "step"."""
        return "episode" if self.starts == "fresh" else "step"

    @property
    def mean(self) -> float:
        """Reward per episode for fresh starts, per step for continuing."""
        return float(self.returns.sum()) / self._n

    @cached_property
    def interval(self) -> Interval:
        """Confidence interval of `mean`; `how` says when it holds."""
        if not self._bounded:
            return self._student(self.returns)
        shares = np.clip(self.returns / self.horizon, 0.0, 1.0)
        if self.starts == "fresh":
            low, high = bounded_mean(shares, self.confidence)
            return low * self.horizon, high * self.horizon
        low, high = running_mean(shares, self.confidence)
        scale = self.horizon * self.episodes / self.steps
        return low * scale, high * scale

    @property
    def how(self) -> str:
        """When `interval` holds, in one sentence."""
        if not self._bounded:
            return STUDENT
        return BETTING if self.starts == "fresh" else MARTINGALE

    @property
    def original_mean(self) -> float:
        """`mean` in the environment's own rewards."""
        return float(self.original_returns.sum()) / self._n

    @cached_property
    def original_interval(self) -> Interval:
        """Of `original_mean`, approximate (Student's t): the environment's own rewards have no known bounds."""
        return self._student(self.original_returns)

    @property
    def reset_rate(self) -> float:
        """Reset events per episode for fresh starts, per 1000 steps for continuing."""
        return self.resets / self._n * (1.0 if self.starts == "fresh" else THOUSAND)

    @cached_property
    def reset_interval(self) -> Interval:
        """Confidence interval of `reset_rate`; `reset_how` says when it holds."""
        if self.starts == "fresh":
            return clopper_pearson(self.resets, self.episodes, self.confidence)
        half = (1.0 - self.confidence) / 2.0
        low, high = float(resets_lower(self.resets, half)), float(resets_upper(self.resets, half))
        high = min(high, float(self.episodes))
        return low / self.steps * THOUSAND, high / self.steps * THOUSAND

    @property
    def reset_how(self) -> str:
        """When `reset_interval` holds, in one sentence."""
        return CLOPPER_PEARSON if self.starts == "fresh" else COUNTED

    @property
    def steps_between_resets(self) -> float:
        """T / N; inf without resets."""
        return self.steps / self.resets if self.resets else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """As plain data for JSON; infinite values become None."""
        names = ("starts", "confidence", "episodes", "steps", "unit", "mean")
        return {
            **{name: getattr(self, name) for name in names},
            "interval": _plain(self.interval),
            "interval_is": self.how,
            "original_mean": self.original_mean,
            "original_interval": _plain(self.original_interval),
            "resets": self.resets,
            "reset_rate": self.reset_rate,
            "reset_rate_per": "episode" if self.starts == "fresh" else "1000 steps",
            "reset_interval": _plain(self.reset_interval),
            "reset_interval_is": self.reset_how,
            "steps_between_resets": _plain((self.steps_between_resets,))[0],
            "resets_performed": self.performed,
            "goals": self.goals,
        }

    @property
    def _n(self) -> int:
        return self.episodes if self.starts == "fresh" else self.steps

    @property
    def _bounded(self) -> bool:
        """Whether every reward can lie in [0, 1]: false if unbounded noise is added to them."""
        return bool((self.returns >= -ROUNDING).all() and (self.returns <= self.lengths + ROUNDING).all())

    def _student(self, x: Floats) -> Interval:
        low, high = student(x, self.confidence)
        scale = self.episodes / self._n
        return low * scale, high * scale


def evaluate(
    policy: Predictor,
    problem: Any,
    *,
    starts: Starts = "fresh",
    episodes: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    deterministic: bool = True,
    **options: Any,
) -> Evaluation:
    """Play a policy, and estimate its return and how often it is reset.

    problem: a Problem, a FiniteMDP, what the command line takes, or a gymnasium.Env (with `options` of `from_gym`; the
      horizon and the list of actions default to those of the policy).
    starts: "fresh" or "continuing", see the module's docstring.
    episodes: number of episodes (default 100).  steps: instead, play whole episodes until so many steps are taken.
    deterministic: play the most probable action everywhere, as `predict` does by default.

    Raises InvalidInput for bad arguments, and for a policy that does not fit the problem.

    >>> import resetfree as rf
    >>> mdp = rf.make("grid-v0")
    >>> policy = rf.learn(mdp, episodes=300, seed=1).policy
    >>> found = evaluate(policy, mdp, episodes=500, seed=3)
    >>> exact = rf.evaluate(mdp, policy.played())
    >>> found.interval[0] <= float(mdp.start @ exact.v_r) <= found.interval[1]
    True
    >>> found.resets, [round(end, 4) for end in found.reset_interval]
    (0, [0.0, 0.0074])
    """
    check(starts, Starts, "'starts' of an evaluation")
    check(confidence, Probability, "'confidence' of an evaluation")
    if episodes is not None and steps is not None:
        raise InvalidInput("An evaluation takes 'episodes' or 'steps'. Got both instead.")
    for name, value in (("episodes", episodes), ("steps", steps)):
        if value is not None:
            whole(value, f"'{name}' of an evaluation", 1, MOST_EPISODES)
    whole(seed, "'seed' of an evaluation", 0)
    world, made_here = _world(policy, problem, options)
    try:
        _check_fit(policy, world)
        rule = policy.played(deterministic)
        played = list(_play(rule, world, starts, seed=seed, episodes=episodes or EPISODES, steps=steps))
    finally:
        world.interventions()  # drop them: they belong to the evaluation, not to a run
        if made_here:
            world.close()
    returns = np.array([one.total_reward for one, _ in played])
    own = np.array([one.original_return for one, _ in played])
    return Evaluation(
        starts=starts,
        confidence=float(confidence),
        horizon=world.horizon,
        returns=returns,
        original_returns=np.where(np.isnan(own), returns, own),
        lengths=np.array([float(len(one.actions)) for one, _ in played]),
        reset=np.array([one.reset for one, _ in played]),
        performed=sum(performed for _, performed in played),
        goals=sum(one.goals for one, _ in played),
    )


def continuing_return(run: Record, original: bool = False) -> Floats:
    """[K] reward per step of the training itself, up to each round: resets and exploration included.

    original: in the environment's own rewards, if the run has them.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", episodes=50, seed=1)
    >>> found = continuing_return(run)
    >>> bool(np.isclose(found[-1], run.columns["reward"].sum() / run.columns["steps"].sum()))
    True
    """
    paid = run.columns["original_return" if original else "reward"]
    return np.asarray(np.cumsum(paid) / np.cumsum(run.columns["steps"]), dtype=np.float64)


def _play(
    rule: Any, world: Problem, starts: str, *, seed: int, episodes: int, steps: int | None
) -> Iterator[tuple[Episode, bool]]:
    """Episodes, each with whether it began with a reset; `steps`, if given, replaces `episodes`."""
    rng = np.random.default_rng(seed)
    start, taken, done, reset = None, 0, 0, True
    while taken < steps if steps is not None else done < episodes:
        if reset and (world.persistent or starts == "fresh" or not done):
            u = rng.random()
            why = "start" if starts == "fresh" or not done else "reset"
            start = world.perform_reset(u, why) if world.persistent else world.first_start(u)
        one = world.rollout(rule, start, rng.random(world.n_uniforms))
        yield one, reset
        taken, done = taken + len(one.actions), done + 1
        start, reset = one.next_start, starts == "fresh" or one.reset


def _world(policy: Predictor, problem: Any, options: dict[str, Any]) -> tuple[Problem, bool]:
    """The problem of an argument, and whether it was opened here and must be closed after use."""
    if hasattr(problem, "step") and hasattr(problem, "reset") and not isinstance(problem, Problem):
        given = {"horizon": policy.horizon, **options}
        if isinstance(policy.actions, Box):
            given.setdefault("actions", "box")
        elif isinstance(policy.actions, np.ndarray) and policy.actions.ndim > 1:
            given.setdefault("actions", list(policy.actions))
        return from_gym(problem, **given), False
    if options and not isinstance(problem, str):
        raise InvalidInput(f"Only an environment, or a problem that is given by name, takes options. Got {problem!r}.")
    found = find_world(problem, options)
    return found.problem, found.made_here or getattr(found.problem, "closed", False)


def _check_fit(policy: Predictor, world: Problem) -> None:
    """Refuse a policy of other states or actions, or of another horizon if it depends on the step."""
    n_states = policy.rule.probabilities.shape[1] if isinstance(policy.rule, TabularPolicy) else world.n_states
    d = None if world.low is None else len(world.low)
    for what, ours, theirs in (
        ("actions", policy.n_actions, world.actions.n),
        ("numbers in an action", _size(policy.actions), _size(world.actions)),
        ("states", n_states, world.n_states),
        ("numbers in a state", policy.sensor.dimension if d is not None else None, d),
    ):
        if ours != theirs and not (what == "numbers in a state" and ours is None):
            listed = f" {LIST_THEM}" if what == "actions" and theirs is None else ""
            raise InvalidInput(
                f"The policy is of a problem with {ours or 'uncounted'} {what}. "
                f"Got '{world.name}' with {theirs or 'uncounted'} instead.{listed}"
            )
    if not policy.stationary and policy.horizon != world.horizon:
        raise InvalidInput(
            f"The policy depends on the step of episodes of {policy.horizon} steps. "
            f"Got '{world.name}' with {world.horizon} instead."
        )
    if policy.sensor.seen is not None and "seen" in world.saved():
        world.restore({"seen": policy.sensor.seen})


def _size(actions: Any) -> int | None:
    return actions.size if isinstance(actions, Box) else None


def _plain(ends: tuple[float, ...]) -> list[float | None]:
    return [end if np.isfinite(end) else None for end in ends]


CELLS = 4000  # of the grid of candidate means
EXPONENTS = 20

CLOPPER_PEARSON = "exact for independent episodes (Clopper-Pearson)"
BETTING = "holds for any independent returns in [0, H] (betting against every mean)"
STUDENT = "approximate (Student's t): right for many episodes"
MARTINGALE = "of the policy's value from the starts that occurred; holds for any dependence (martingale)"
COUNTED = "of the resets expected from the starts that occurred; holds for any dependence (martingale)"


def clopper_pearson(successes: int, n: int, confidence: float) -> tuple[float, float]:
    """The exact interval of a probability: every p under which the count is neither too small nor too large.

    >>> [round(x, 4) for x in clopper_pearson(0, 100, 0.95)], [round(x, 4) for x in clopper_pearson(3, 10, 0.95)]
    ([0.0, 0.0362], [0.0667, 0.6525])
    """
    half = (1.0 - confidence) / 2.0
    low = 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, half))
    high = 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, 1.0 - half))
    return low, high


def student(x: Floats, confidence: float) -> tuple[float, float]:
    """Mean -+ t s / sqrt(n); infinite for fewer than two numbers.

    >>> [round(end, 3) for end in student(np.array([1.0, 2.0, 3.0]), 0.95)]
    [-0.484, 4.484]
    """
    n = len(x)
    if n < 2:
        return -np.inf, np.inf
    half = float(stdtrit(n - 1, (1.0 + confidence) / 2.0)) * float(x.std(ddof=1)) / np.sqrt(n)
    return float(x.mean() - half), float(x.mean() + half)


def bounded_mean(x: Floats, confidence: float) -> tuple[float, float]:
    """Every mean m in [0, 1] against which bets on x did not win 1/alpha.

    K_n(m) = max(prod (1 + l_i(m) (x_i - m)), prod (1 - l'_i(m) (x_i - m))) / 2 with stakes that depend on the numbers
    before: if m is the mean, half the sum of the two products is a martingale that starts at 1, and so exceeds
    1/alpha with probability at most alpha.

    x: [n] independent, with one mean, in [0, 1].

    >>> x = np.random.default_rng(0).random(400)
    >>> [round(end, 2) for end in bounded_mean(x, 0.95)]
    [0.5, 0.57]
    """
    n, alpha = len(x), 1.0 - confidence
    grid = np.linspace(0.0, 1.0, CELLS + 1)
    up, down = np.full(len(grid), 0.5), np.full(len(grid), 0.5)
    most_up, most_down = 0.5 / np.maximum(grid, 1e-300), 0.5 / np.maximum(1.0 - grid, 1e-300)
    lost = np.zeros(len(grid), dtype=np.bool_)
    total, squares, variance = 0.5, 0.25, 0.25
    with np.errstate(over="ignore"):
        for i, value in enumerate(x):
            stake = np.sqrt(2.0 * np.log(2.0 / alpha) / (n * variance))
            up *= 1.0 + np.minimum(stake, most_up) * (value - grid)
            down *= 1.0 - np.minimum(stake, most_down) * (value - grid)
            lost |= np.maximum(up, down) >= 1.0 / alpha
            total += value
            squares += (value - total / (i + 2)) ** 2
            variance = squares / (i + 2)
    kept = np.flatnonzero(~lost)
    if not len(kept):  # probability at most alpha if the numbers have one mean
        return float(np.mean(x)), float(np.mean(x))
    return float(grid[max(kept[0] - 1, 0)]), float(grid[min(kept[-1] + 1, CELLS)])  # ends lie between grid points


def running_mean(x: Floats, confidence: float) -> tuple[float, float]:
    """An interval for (1/n) sum E[x_i | x_1 .. x_{i-1}], whatever the dependence.

    |sum x_i - sum E[x_i | ...]| <= min over l of (psi(l) V + ln(2 / alpha_l)) / l, with psi(l) = -ln(1 - l) - l,
    V = sum (x_i - the prediction from those before)^2, l = 1/2, 1/4, .. and alpha_l that add up to alpha.

    x: [n] in [0, 1], in order of time.

    >>> [round(end, 2) for end in running_mean(np.full(400, 0.3), 0.95)]
    [0.28, 0.32]
    """
    n, alpha = len(x), 1.0 - confidence
    before = np.concatenate([[0.5], (0.5 + np.cumsum(x)[:-1]) / np.arange(2, n + 1)])
    spread = float(((x - before) ** 2).sum())
    best = np.inf
    for j in range(1, EXPONENTS + 1):
        rate = 0.5**j
        psi = -np.log1p(-rate) - rate
        best = min(best, (psi * spread + np.log(2.0 * j * (j + 1) / alpha)) / rate)
    middle, half = float(np.mean(x)), float(best) / n
    return max(0.0, middle - half), min(1.0, middle + half)
