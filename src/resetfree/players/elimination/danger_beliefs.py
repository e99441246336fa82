"""What is believed about the danger of every pair: the mixture of rules, and beside it the danger of places.

Each action has its own mixture of rules about pairs (`rule_class`). Where moves are taken to be relative, there is one
more hypothesis: that danger belongs to where one lands (`landings`), for all actions or for some.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.players.elimination.landings import Landings
from resetfree.players.elimination.rule_beliefs import LOG_MIX, Cells, believe, note, weigh
from resetfree.players.elimination.rule_class import Rules
from resetfree.players.tabular.count_players import TIE, CountState

MOST_STAYS = 16  # survivals of one pair that count; in between, those at powers of two
EXCEPTIONS = 0.75  # the largest belief about a pair before it survives, by the rules
FIRM = 0.98  # likewise by the places: moves are the same nearly everywhere
HALF = 0.5  # a survival in spite of such a belief refutes it; both bounds rest on it
DOUBT = 0.4  # belief above which a pair is held back: at most HALF
FIRST_FALL = 1e-6  # an action that never fell is held back with a belief just above that: it is tried first
SURE = 1e-3  # what no forecast of the places goes below


@dataclass
class Beliefs:
    """What was seen, cell by cell of every rule, and the beliefs that follow from it."""

    rules: Rules
    recorded: NDArray[np.int32]  # [2, R, A] falls and survivals that are taken into account
    n_falls: Cells  # [A, C]
    n_stays: Cells  # [A, C]
    weights: Floats  # [A, P, J] logarithms, of actions that fell; where there are places, of all
    shares: Floats  # [A] of the places in the mixture
    fatal: Floats  # [L, S, A] that a pair can fall
    falls: Floats  # [L, S, A] that it falls at the next try
    by_rules: Floats  # [2, A, R] both, by the rules alone
    landings: Landings | None

    @classmethod
    def none(cls, rules: Rules, shape: tuple[int, ...], landings: Landings | None = None) -> Beliefs:
        """Nothing seen; shape: L, S, A."""
        n_rows, n_actions = shape[0] * shape[1], shape[2]
        cells = (n_actions, int(rules.first[-1]))
        return cls(
            rules=rules,
            recorded=np.zeros((2, n_rows, n_actions), dtype=np.int32),
            n_falls=np.zeros(cells, dtype=np.int32),
            n_stays=np.zeros(cells, dtype=np.int32),
            weights=np.tile(LOG_MIX[:, None] + rules.prior, (n_actions, 1, 1)),
            shares=np.zeros(n_actions),
            fatal=np.zeros(shape),
            falls=np.zeros(shape),
            by_rules=np.zeros((2, n_actions, n_rows)),
            landings=landings,
        )

    def take(
        self,
        data: CountState,
        layer: NDArray[Any],
        states: NDArray[Any],
        actions: NDArray[Any],
        forecasts: Floats | None = None,
    ) -> bool:
        """Take some pairs of the counts into account; whether anything about them was news.

        forecasts: [A] logarithms of what the places gave to all that was taken into account, in and out.
        """
        seen = data.seen[layer, states, actions]
        fell = (seen * data.known[data.successor[layer, states, actions]]).sum(axis=1)
        stays = np.minimum(data.moved[layer, states, actions] - fell, MOST_STAYS)
        stays = np.where(stays > 0, 1 << np.frexp(np.maximum(stays, 1))[1].astype(np.int64) - 1, 0)
        rows, falls = layer * data.tried.shape[1] + states, np.minimum(fell, 1)
        news = (falls != self.recorded[0, rows, actions]) | (stays != self.recorded[1, rows, actions])
        touched: set[int] = set()
        for i in np.flatnonzero(news):
            r, a = int(rows[i]), int(actions[i])
            before = self.recorded[:, r, a].copy()
            if falls[i] == before[0] and stays[i] == before[1]:
                continue  # a pair that was taken twice
            new = int(falls[i] - before[0]), int(stays[i] - before[1])
            if forecasts is not None and self.landings is not None:
                forecasts[a] += self._forecast(self.landings, r, a, int(before[1]), *new)
            note(self.rules.cell, r, *new, self.n_falls[a], self.n_stays[a])
            self.recorded[:, r, a] = falls[i], stays[i]
            touched.add(a)
        for a in touched:
            tallies, rules = (self.n_falls[a], self.n_stays[a], self.weights[a]), self.rules
            if self.recorded[0, :, a].any():
                believe(rules.cell, rules.first, rules.prior, *tallies, *self.by_rules[:, a])
            elif self.landings is not None:
                weigh(rules.first, rules.prior, *tallies)
            if self.landings is None:
                self._mix(a, 0.0)
        return bool(touched)

    def settled(self, n_states: int, layer: NDArray[Any], states: NDArray[Any], actions: NDArray[Any]) -> bool:
        """Whether these pairs survived so often that another time says nothing."""
        return bool((self.recorded[1, layer * n_states + states, actions] >= MOST_STAYS).all())

    def _forecast(self, landings: Landings, r: int, a: int, survived: int, falls: int, stays: int) -> float:
        """The logarithm of the probability that the places gave to new survivals of a pair, and to a fall after them.

        The pair can fall with probability f, and then falls each time with probability q: it survives n times with
        probability g(n) = 1 - f + f (1 - q)^n. Where the places say nothing, the share of falls so far is taken.
        """
        if landings.falls[r, a] < 0.0:
            fell, before = self.recorded[0, :, a].sum(), self.recorded[1, :, a].sum()
            n = fell + before + 1.0
            chance = float(np.log1p(-(fell + 0.25) / (n + np.arange(stays))).sum()) if stays else 0.0
            return chance + (float(np.log(min((fell + 0.25) / (n + stays), HALF))) if falls else 0.0)
        f = min(max(float(landings.fatal[r, a]), SURE), 1.0 - SURE)
        q = min(max(float(landings.falls[r, a]) / f, SURE), 1.0 - SURE)
        after = f * (1.0 - q) ** (survived + stays)
        chance = float(np.log((1.0 - f + after) / (1.0 - f + f * (1.0 - q) ** survived)))
        return chance + (float(np.log(max(after * q / (1.0 - f + after), SURE**2))) if falls else 0.0)

    def with_landings(self, forecasts: Floats) -> None:
        """Mix in what the places say; forecasts: [A], see `take`.

        Beforehand danger belongs to places for all actions together with probability 1/2, and otherwise for each action
        by itself with probability 1/2.
        """
        evidence = np.array([np.logaddexp.reduce(one.ravel()) for one in self.weights])
        alone = np.logaddexp(forecasts, evidence)  # and a factor of 1/2 for each action
        together = forecasts.sum() - (alone - np.log(2.0)).sum()
        joint = 1.0 / (1.0 + np.exp(np.clip(-together, -700.0, 700.0)))
        self.shares = joint + (1.0 - joint) * np.exp(forecasts - alone)
        for a, share in enumerate(self.shares.tolist()):
            self._mix(a, min(share, 1.0))

    def _mix(self, a: int, share: float) -> None:
        """Beliefs about one action, of which the places have a share.

        An action that never fell is not held back by the rules.
        """
        (fatal, fall), shape = self.by_rules[:, a], self.fatal.shape[:2]
        fell = bool(self.recorded[0, :, a].any())
        if self.landings is not None and share > 0.0:
            stated = self.landings.falls[:, a] >= 0.0
            by_place = np.where(stated, self.landings.falls[:, a], self._usual()[a])
            mixed = (1.0 - share) * fall + share * by_place
            fatal = np.where(
                stated, (1.0 - share) * fatal + share * self.landings.fatal[:, a], np.maximum(fatal, mixed)
            )
            fall = mixed
        elif not fell:
            return
        own = self._own(a, fatal, fall, EXCEPTIONS + (FIRM - EXCEPTIONS) * share)
        if not fell:
            own = np.where(own > DOUBT, DOUBT + FIRST_FALL * own, own)
        self.falls[..., a] = fall.reshape(shape)
        self.fatal[..., a] = own.reshape(shape)

    def _usual(self) -> Floats:
        """[A] the share of falls, at most one half: what the places say where they say nothing."""
        falls, stays = self.recorded.sum(axis=1)
        return np.asarray(np.minimum((falls + 0.25) / (falls + stays + 1.0), HALF))

    def _own(self, a: int, fatal: Floats, fall: Floats, most: float) -> Floats:
        """Beliefs [R] about one action, in which a pair that survived may be an exception to the rules.

        Where falls always happen, it is one.
        """
        fell, stays = self.recorded[:, :, a]
        prior = np.minimum(fatal, most)
        hidden = prior * (1.0 - fall / np.maximum(fatal, TIE)) ** stays
        own = np.where(stays >= MOST_STAYS, 0.0, hidden / (hidden + 1.0 - prior))
        return np.where((stays > 0) & (fell == 0), own, fatal)

    def heaviest(self, a: int) -> int:
        """The rule that is believed in most."""
        return int(np.argmax(np.logaddexp.reduce(self.weights[a], axis=0)))
