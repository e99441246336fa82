"""The trials of a suite, and the choice of the width that a method is reported with, from tuning trials alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from resetfree.players.method import Method
from resetfree.studies.suites.suite import Case, Instance, Suite
from resetfree.studies.suites.trials import Measured, MethodPlayers, MethodTrial, ground, key_of
from resetfree.studies.trial import Trial

FIRST_TUNING_SEED = 1_000_000  # far from every reported seed


@dataclass(frozen=True)
class Entry:
    """A method on a case, pooled or not: one row of a table."""

    case: Case
    method: Method
    pooled: bool
    inapplicable: str | None  # why it has no trials


def entries(suite: Suite, chosen: Iterable[Method]) -> list[Entry]:
    """Every method on every case; both pooled and not if the method supports it and the problem is stationary."""
    result = []
    for case in suite.cases:
        worlds = [ground(instance).mdp for instance in case.reported]
        stationary = all(mdp.stationary for mdp in worlds)
        for method in chosen:
            why = next((why for mdp in worlds if (why := method.inapplicable(mdp)) is not None), None)
            ways = [True, False] if method.pools and stationary and why is None else [False]
            result += [Entry(case, method, pooled, why) for pooled in ways]
    return result


def tuning_trials(entry: Entry, suite: Suite) -> list[MethodTrial]:
    """One trial per width, tuning instance and tuning seed; none if there is only one width."""
    if entry.inapplicable is not None or len(entry.method.widths) < 2:
        return []
    case = entry.case
    episodes = max(1, round(suite.tuning_share * case.episodes))
    return [
        _trial(entry, width, instance, FIRST_TUNING_SEED + i, episodes=episodes, tuning=True)
        for width in entry.method.widths
        for instance in case.tuning[: suite.tuning_instances]
        for i in range(suite.tuning_seeds)
    ]


def reported_trials(entry: Entry, suite: Suite, width: float) -> list[MethodTrial]:
    """One trial per seed, with the width that was chosen."""
    if entry.inapplicable is not None:
        return []
    on, k = entry.case.reported, entry.case.episodes
    return [_trial(entry, width, on[i % len(on)], i, episodes=k, tuning=False) for i in range(suite.seeds)]


def choose_width(entry: Entry, suite: Suite, outcomes: Mapping[str, Measured]) -> float:
    """The width with the least mean Regret + B Resets over the tuning trials; the smaller one of equals.

    outcomes: by the key of the trial; those of reported trials are not used.
    """
    widths = entry.method.widths
    if len(widths) < 2 or entry.inapplicable is not None:
        return widths[0] if widths else 0.0
    scores: dict[float, list[float]] = {width: [] for width in widths}
    for trial in tuning_trials(entry, suite):
        scores[trial.players.width].append(score(outcomes[key_of(trial)], trial.episodes))
    return min(sorted(widths), key=lambda width: sum(scores[width]) / len(scores[width]))


def score(outcome: Measured, episodes: int) -> float:
    """Regret + B Resets; extrapolated at the same rate for a stopped trial, infinite for a failed one.

    >>> score(Measured("done", played=10, regret=3.0, resets=2.0, bound=5.0), 10)
    13.0
    """
    if outcome.status == "failed" or outcome.played == 0:
        return math.inf
    return (outcome.regret + outcome.bound * outcome.resets) * episodes / outcome.played


def _trial(entry: Entry, width: float, on: Instance, seed: int, *, episodes: int, tuning: bool) -> MethodTrial:
    case = entry.case.family if tuning and entry.case.family else entry.case.label
    players = MethodPlayers(case, entry.method.name, entry.pooled, width, tuning)
    return Trial(on.id, dict(on.options), players, episodes, seed)
