"""The state of a search with networks, and its use of the replay buffer: examples, starts, held-out tests.

Legend: n rows, the first of the replay buffer; D numbers in a state, A in an action; z = (s - centre) / scale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from resetfree.core.arrays import Bools, Floats
from resetfree.core.state import require, within
from resetfree.game.capabilities import Decision
from resetfree.players.model_based.machine_model import BEYOND, CLASSIFIED, FELL, MachineModel
from resetfree.players.model_based.machine_search import MachineSearchState, began_and_savable
from resetfree.players.model_based.reset_classifier import LARGEST, ResetClassifier, fit_classifier
from resetfree.players.neural.networks import Trained, narrow
from resetfree.problems.action_spaces import Box, to_unit
from resetfree.problems.features.scaling import Scaling

# The reset classifier of a run, calibrated by cross-validation (Platt scaling).
#
# A classifier of few falls is overconfident: its probabilities suit the falls it was fitted to. So trajectories (from
# one reset to the next) are assigned to a few folds, whole, since the steps of one resemble each other. The states of
# each fold are classified by a classifier of the others, and its log odds x are corrected to  shift + scale x,  the
# maximum a posteriori pair with the priors shift ~ N(0, 1) and scale ~ N(1, 1/4): few falls correct little. The base
# rate of resets is counted in all trajectories: the last one is often longer than all before it.
#
# Legend: z [n, D] scaled states in the order of visit, terminated [n] which are reset states, the ends of trajectories.

FOLDS = 4
LEAST_FALLS = 2  # with one, no classifier of the other folds has seen any
SCALES = (0.1, 2.0)  # least and most
SHIFT_DEVIATION, SCALE_DEVIATION = 1.0, 0.5  # of the priors


class Correction(NamedTuple):
    """Platt scaling: log odds x become shift + scale x."""

    shift: float = 0.0
    scale: float = 1.0

    def __call__(self, x: Floats) -> Floats:
        """[n] the corrected log odds."""
        return self.shift + self.scale * x


class Calibration(NamedTuple):
    """Predicted and observed resets on held-out trajectories."""

    falls: int
    before: float  # predicted falls: the sum of all probabilities
    after: float  # the same with the correction, whose two numbers were fitted to these trajectories
    loss_before: float  # log loss per fall
    loss_after: float

    def __str__(self) -> str:
        """One sentence, for the record."""
        tested = f"the reset predictor expected {self.before:.1f} falls in trajectories that it had not seen, where "
        tested += f"{self.falls} happened; corrected {self.after:.1f} "
        return tested + f"(log loss a fall {self.loss_before:.2f}, now {self.loss_after:.2f})"


def dealt(terminated: Bools) -> NDArray[np.int64]:
    """[n] the fold of each state: that of its trajectory, in turn.

    >>> dealt(np.array([False, True, False, False, True, False])).tolist()
    [0, 0, 1, 1, 1, 2]
    """
    return np.asarray(np.concatenate([[0], np.cumsum(terminated)[:-1]]) % FOLDS, dtype=np.int64)


def fit_correction(x: Floats, terminated: Bools) -> Correction:
    """The maximum a posteriori correction of log odds x [n], given which of these were reset states."""
    start = np.array([Correction().shift, Correction().scale])
    widths = np.array([SHIFT_DEVIATION, SCALE_DEVIATION])

    def loss(pair: Floats) -> tuple[float, Floats]:
        y = pair[0] + pair[1] * x
        wrong = 1.0 / (1.0 + np.exp(-y)) - terminated
        away = (pair - start) / widths
        value = float(_surprise(y, terminated) + 0.5 * (away**2).sum())
        return value, np.array([wrong.sum(), wrong @ x]) + away / widths

    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-LARGEST, LARGEST), SCALES]).x
    return Correction(float(found[0]), float(found[1]))


def calibrated_classifier(
    z: Floats, terminated: Bools, rng: np.random.Generator
) -> tuple[ResetClassifier, Calibration | None]:
    """The calibrated classifier, and its cross-validation; None and no correction while falls are too few."""
    classifier, falls = _classifier(z, terminated, np.ones(len(z), dtype=np.bool_), rng), int(terminated.sum())
    if falls < LEAST_FALLS:
        return classifier, None
    fold, x = dealt(terminated), np.zeros(len(z))
    for one in range(FOLDS):
        here = fold == one
        if here.any() and not here.all():
            x[here] = np.clip(_classifier(z, terminated, ~here, rng).logit(z[here]), -LARGEST, LARGEST)
    correction = fit_correction(x, terminated)
    both = x, correction(x)
    sums = (float((1.0 / (1.0 + np.exp(-one))).sum()) for one in both)
    losses = (_surprise(one, terminated) / falls for one in both)
    return classifier.corrected(*correction), Calibration(falls, *sums, *losses)


def _classifier(z: Floats, terminated: Bools, some: Bools, rng: np.random.Generator) -> ResetClassifier:
    """The classifier of some of the states, with the base rate of all of them."""
    lived, fell = np.flatnonzero(some & ~terminated), np.flatnonzero(some & terminated)[-FELL:]
    if len(lived) > CLASSIFIED:
        lived = rng.choice(lived, CLASSIFIED, replace=False)
    met = int((~terminated).sum()), int(terminated.sum())
    return fit_classifier(z[lived], z[fell]).calibrated((len(lived), len(fell)), met)


def _surprise(y: Floats, terminated: Bools) -> float:
    """The summed log loss of log odds y [n]."""
    return float(np.logaddexp(0.0, np.where(terminated, -y, y)).sum())


# --------------------------------------------------------------------------------------------------------------------

ROWS = 2**17  # latest transitions that networks learn from
LEAST_SCALE = 1e-3  # of a sensor that does not move
FAR = 30.0  # z is clipped there: a model that diverges predicts nothing
STEPS_TESTED = 10  # of an open-loop prediction
TESTS = 128  # such predictions in a test
RECENT = 1000  # rows from whose states rollouts start
DOUBTED, USUAL = 512, 0.99  # rows in which the doubt of the members is measured, and its quantile there
LEAST_DOUBT = 0.01  # of a deviation: members that differ less agree

TAKE_OVER, GIVE_BACK, FELL_AGAIN, ADOPTED, PROVEN, EARNED_LESS, FELL_NEW, DISTRUSTED, REFUSED = range(9)
WORDS = (
    "networks play: they predict the latest steps no worse than the model of model-search",
    "model-search plays: the networks predict the latest steps worse than its model",
    "model-search plays: the proven policy of the networks fell soon after a fall",
    "a new policy is played: the networks expect more of it without more resets",
    "the new policy is proven: it did not fall and earned more",
    "back to the proven policy: the new one earned less",
    "back to the proven policy: the new one fell",
    "no new policy: the networks wrongly predict resets of the one in play",
    "no new policy: none was found of larger value without more resets",
)


class Examples(NamedTuple):
    """Training examples, padded to a power of two; float32."""

    x: NDArray[np.float32]  # [room, D + A] z and action
    y: NDArray[np.float32]  # [room, D + 1] change of z and reward, scaled
    n: int


@dataclass(kw_only=True)
class NetworkSearchState(Trained):
    """The state of model-search, the networks, and who plays.

    The tree holds the model, its optimiser, and two actors: `played`, and `proven`, which is returned to.
    """

    search: MachineSearchState
    networks_play: bool = False
    trained: int = 0  # rows that the networks have learned from
    since: int = 0  # rows at the last decision about the policy that is played
    on_trial: bool = False  # whether it is not proven yet
    proven_reward: float = 0.0  # per step
    # [m, 2] round and index in WORDS of each decision
    decisions: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64), metadata={"grows": (0,)})
    # [m, 6] round and numbers of each test of the reset predictor after further falls
    tested: Floats = field(default_factory=lambda: np.zeros((0, 6)), metadata={"grows": (0,)})
    box: Box = field(metadata={"saved": False})

    def check_loaded(self) -> None:
        """Raise InvalidInput unless counters and decisions can be those of a run."""
        n = self.search.rows.n
        require(max(self.trained, self.since) <= n, "networks must rest on rows that were seen")
        require(within(self.decisions[:, 1], 0, len(WORDS)), "decisions must be known ones")
        require(bool(np.isfinite(self.tested).all() and (self.tested >= 0.0).all()), "tests must have numbers")

    def decide(self, k: int, word: int) -> None:
        """Record a decision of round k."""
        self.decisions = np.concatenate([self.decisions, [[k, word]]])

    def decided_since(self, k: int) -> bool:
        """Whether something was decided after round k, so that a plan of that time may have another policy."""
        return bool(len(self.decisions)) and bool(self.decisions[-1, 0] > k)

    def record_test(self, k: int, found: Calibration | None) -> None:
        """Record the test of the reset predictor in round k, if there were falls since the last time."""
        if found is not None and (not len(self.tested) or self.tested[-1, 1] != found.falls):
            self.tested = np.concatenate([self.tested, [[k, *found]]])

    def record(self) -> list[Decision]:
        """All records, in the order of rounds."""
        decided = [Decision(int(k), WORDS[what]) for k, what in self.decisions]
        tests = [Decision(int(k), str(Calibration(int(falls), *rest))) for k, falls, *rest in self.tested.tolist()]
        return sorted(tests + decided, key=lambda one: one.k)

    def scaling(self) -> Scaling:
        """The scales of states of the networks."""
        model = self.tree["model"]
        return Scaling(np.asarray(model.centre, np.float64), np.asarray(model.scale, np.float64))

    def life(self, ended: int = 0) -> int:
        """Steps since the last reset, or of the trajectory that ended `ended` resets ago."""
        rows = self.search.rows
        ends = [0, *(np.flatnonzero(rows.terminated[: rows.n]) + 1), rows.n]
        return int(rows.taken(ends[-1 - ended], ends[-2 - ended]).sum())

    def boldness(self, k: int, budget: float) -> float:
        """How much of the allowed risk may be taken in round k: max(0, 1 - resets / (budget sqrt(k)))."""
        resets = int(self.search.rows.terminated[: self.search.rows.n].sum())
        return max(0.0, 1.0 - resets / (budget * sqrt(k))) if budget else 0.0

    def boundary(self, most: int) -> int:
        """The largest number of rows up to `most` with which an episode ends."""
        ends = np.flatnonzero(~self.search.rows.taken(most)) + 1
        return int(ends[-1]) if len(ends) else 0

    def first_scales(self, n: int) -> Any:
        """The model with scales of the first n rows."""
        rows, model = self.search.rows, self.tree["model"]
        taken = np.flatnonzero(rows.taken(n))
        s, after = rows.state[taken], rows.state[taken + 1]
        scale = np.maximum(s.std(axis=0), LEAST_SCALE)
        y = np.concatenate([(after - s) / scale, rows.reward[taken, None]], axis=1)
        centre, mean, deviation = s.mean(axis=0), y.mean(axis=0), np.maximum(y.std(axis=0), LEAST_SCALE)
        least, most = (np.clip((end - centre) / scale, -FAR, FAR) for end in (self.search.low, self.search.high))
        made = {"centre": centre, "scale": scale, "mean": mean, "deviation": deviation, "least": least, "most": most}
        return model._replace(**{name: narrow(part) for name, part in made.items()})

    def examples(self, n: int, model: Any) -> Examples:
        """The latest transitions of the first n rows, on the scales of the model."""
        rows = self.search.rows
        taken = np.flatnonzero(rows.taken(n))[-ROWS:]
        z, after = ((rows.state[index] - model.centre) / model.scale for index in (taken, taken + 1))
        x = np.concatenate([z, to_unit(rows.action[taken], *self.box.ends)], axis=1)
        y = (np.concatenate([after - z, rows.reward[taken, None]], axis=1) - model.mean) / model.deviation
        room = max(1, 2 ** (len(taken) - 1).bit_length())
        x, y = (np.pad(part, ((0, room - len(taken)), (0, 0))) for part in (x, y))
        return Examples(narrow(x), narrow(y), len(taken))

    def refreshed(self, n: int, model: Any, seen: Examples, line: Floats) -> tuple[Any, Calibration | None]:
        """The model with the line, the bounds of y and the classifier of the first n rows, and its calibration."""
        rows, rng = self.search.rows, np.random.default_rng([self.seed, n, 2])
        y = seen.y[: seen.n] * model.deviation + model.mean
        beyond = BEYOND * np.ptp(y, axis=0)
        beyond[-1] = 0.0  # no reward is expected that was never earned
        z = np.clip((rows.state[:n] - model.centre) / model.scale, -FAR, FAR)
        classifier, tested = calibrated_classifier(z, rows.terminated[:n], rng)
        parts = {"line": line, "reset_classifier": classifier.weight, "smallest": y.min(axis=0) - beyond}
        parts["largest"] = y.max(axis=0) + beyond
        return model._replace(**{name: narrow(part) for name, part in parts.items()}), tested

    def usual(self, seen: Examples) -> NDArray[np.float32]:
        """[2 DOUBTED, D + A] examples whose doubt is usual, half of all and half of the latest, evenly spaced.

        The latest alone are not enough: all members agree about a machine at rest.
        """
        ways = [np.linspace(first, seen.n - 1, DOUBTED) for first in (0, max(0, seen.n - RECENT))]
        return np.asarray(seen.x[np.concatenate(ways).astype(np.int64)])

    def starts(self, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """[count, D] on the scale of z: the newest state, starts after a reset, and recent recoverable states.

        A quarter of them are starts after a reset.
        """
        rows, model = self.search.rows, self.tree["model"]
        n = rows.n
        began, savable = began_and_savable(rows, n)
        recent = savable[savable >= n - RECENT]
        if not len(recent):
            recent = np.flatnonzero(~rows.terminated[:n])[-1:]
        beginnings = count // 4
        others = rng.choice(began, beginnings), rng.choice(recent, max(0, count - 1 - beginnings))
        index = np.concatenate([np.array([n - 1]), *others])
        return narrow((rows.state[index] - model.centre) / model.scale)

    def tests(self, first: int) -> tuple[NDArray[np.int64], int] | None:
        """[TESTS] rows from `first` on after which actions are known for k steps, and k; None if there are none."""
        rows, k = self.search.rows, min(STEPS_TESTED, self.search.horizon)
        taken = rows.taken(rows.n)
        ways = (
            np.lib.stride_tricks.sliding_window_view(taken[first:], k).all(axis=1) if rows.n - first >= k else taken[:0]
        )
        found = first + np.flatnonzero(ways)
        found = found[found + k < rows.n]
        return (found[np.linspace(0, len(found) - 1, TESTS).astype(np.int64)], k) if len(found) else None

    def tested_actions(self, index: NDArray[np.int64], k: int) -> Floats:
        """[k, TESTS, A] the actions after the rows `index`, on [-1, 1]."""
        return to_unit(self.search.rows.action[index + np.arange(k)[:, None]], *self.box.ends)


def smooth_open_loop(model: MachineModel, states: Floats, actions: Floats) -> Floats:
    """[W, D] the prediction of the mean of a model's draws from states [W, D] under actions [k, W, A]."""
    z, size = model.scaling(states), states.shape[1]
    draws = range(len(model.steps.weight))
    for a in actions:
        x = np.concatenate([z, a], axis=1)
        step = np.mean([model.steps.values(x, np.full(len(x), b))[:, :size] for b in draws], axis=0)
        z = np.clip(z + np.clip(step, model.smallest[:size], model.largest[:size]), model.least, model.most)
    return np.asarray(model.scaling.centre + model.scaling.scale * z)
