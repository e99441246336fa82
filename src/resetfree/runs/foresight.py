"""Predicted against realised resets: whether the primal player foresaw what happened.

Legend: p_i the probability of a reset that the player predicted of episode i (the column `v_c_hat`); N the resets that
happened (`reset`).
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.readable import number
from resetfree.game.contract import Prediction
from resetfree.players import discover
from resetfree.theory.certificates.anytime import SHOWN, resets_lower, resets_upper

MEANT: dict[Prediction, str] = {
    "expected": "the player's best guess",
    "low": "low by design: what is not known counts as safe",
    "high": "high by design: what is not known counts as dangerous",
    "none": "the player predicts none",
}


class Foresight(NamedTuple):
    """What the player predicted of the resets, beside what happened; None where there is no number."""

    meant: Prediction
    predicted: float | None  # the sum of all p_i
    realised: int  # N
    verdict: Literal["too low", "too high"] | None  # the sum, by the resets that happened alone, with 95 %
    with_reset: float | None  # the mean of p_i over episodes with a reset
    without_reset: float | None  # over the others

    @property
    def words(self) -> str:
        """How the prediction is meant, and how good it was.

        >>> Foresight("high", 3.2, 1, None, 0.6, 0.02).words
        'high by design: what is not known counts as dangerous; 0.6 before resets, 0.02 otherwise'
        """
        means = [(self.with_reset, "before resets"), (self.without_reset, "otherwise")]
        both = ", ".join(f"{number(mean, 2)} {where}" for mean, where in means if mean is not None)
        return "; ".join(part for part in (MEANT[self.meant], self._verdict_text(), both) if part)

    @property
    def in_short(self) -> str:
        """How the prediction is meant, and whether it was wrong, where that is not by design.

        >>> Foresight("low", 0.0, 8, "too low", 0.0, 0.0).in_short
        'low by design: what is not known counts as safe'
        >>> Foresight("high", 0.0, 8, "too low", 0.0, 0.0).in_short
        'high by design: what is not known counts as dangerous; too low (95 %)'
        """
        meant, by_design = MEANT[self.meant], self.verdict == f"too {self.meant}"
        return meant if by_design or self.verdict is None else f"{meant}; {self._verdict_text()}"

    def _verdict_text(self) -> str:
        return "" if self.verdict is None else f"{self.verdict} ({100 - 100 * SHOWN:g} %)"


def meant(spec: Mapping[str, Any], player: Any = None) -> Prediction:
    """How a run's primal player means its v_c, by its class.  player: it or its class, if it is not registered."""
    known = discover("primal").get(spec["primal"]["name"]) if player is None else player
    said: Prediction = getattr(known, "prediction", "expected")
    return said if said in MEANT else "expected"


def predicted_resets(columns: Mapping[str, NDArray[Any]], how: Prediction) -> Floats:
    """[K] cumulative resets that the player predicted; nan for a player that predicts none."""
    p = np.asarray(columns["v_c_hat"], dtype=np.float64)
    return np.cumsum(np.full(len(p), np.nan) if how == "none" else p)


def foresight(columns: Mapping[str, NDArray[Any]], how: Prediction) -> Foresight:
    """What the player predicted, beside what happened.

    The sum of the p_i is too high if it lies above what the resets so far allow for their expectation, and too low if
    it lies below what they need (`anytime`): no model is needed, and a verdict is wrong with 5 % at most.

    >>> columns = {"v_c_hat": np.where(np.arange(99) % 3, 0.1, 0.9), "reset": np.arange(99) % 3 == 0}
    >>> right = foresight(columns, "expected")
    >>> round(right.predicted, 1), right.realised, right.words
    (36.3, 33, "the player's best guess; 0.9 before resets, 0.1 otherwise")
    >>> foresight({**columns, "v_c_hat": 1 - columns["v_c_hat"]}, "expected").words
    "the player's best guess; too high (95 %); 0.1 before resets, 0.9 otherwise"
    """
    reset = np.asarray(columns["reset"], dtype=np.bool_)
    realised, total = int(reset.sum()), predicted_resets(columns, how)
    if not len(total) or not np.isfinite(total[-1]):
        return Foresight(
            meant=how, predicted=None, realised=realised, verdict=None, with_reset=None, without_reset=None
        )
    predicted, p = float(total[-1]), np.asarray(columns["v_c_hat"], dtype=np.float64)
    verdict: Literal["too low", "too high"] | None = None
    if predicted > resets_upper(realised, SHOWN):
        verdict = "too high"
    elif predicted < resets_lower(realised, SHOWN):
        verdict = "too low"
    means = [float(p[some].mean()) if some.any() else None for some in (reset, ~reset)]
    return Foresight(how, predicted, realised, verdict, *means)
