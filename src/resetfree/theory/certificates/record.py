"""Whether the columns of a run are those of a game, and those that were written: claims about the record itself."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from resetfree.core.certificate import Certificate
from resetfree.problems.continuum import Continuum, inside_continuum
from resetfree.problems.contract import Intervention, Note, Problem
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.theory.regret import Rounds, Solved

TOLERANCE = 1e-9  # per unit of what is summed
STARTS = "every start is a state outside the reset set (rounds in which it is not)"
DIGEST = "the rounds fit the digest that was written with them (rounds that do not)"
DIGEST_WHY = (
    "a digest shows damage and edits, not forgery: rewriting the file with this program's own code makes a digest "
    "that fits, and only playing the run again (--replay) shows that its rounds are those of its players"
)


class Fit(NamedTuple):
    """How the contents of a file fit the digest that was written with it (see `digest`)."""

    rounds: int  # how many rounds do not fit
    what: str  # the first part that does not fit, "" if all do

    @property
    def whole(self) -> bool:
        """Whether the whole file fits."""
        return not self.what


class Record(Protocol):
    """The record of a run, as the claims read it."""

    @property
    def spec(self) -> dict[str, Any]:
        """The settings of the run."""

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """By name, one entry per round."""

    @property
    def mdp(self) -> FiniteMDP | None:
        """The model, if it is known."""

    @property
    def continuum(self) -> Continuum | None:
        """The model on a continuum of states, if that is what is known."""

    @property
    def interventions(self) -> tuple[Intervention, ...]:
        """Resets performed by an operator."""

    @property
    def fit(self) -> Fit | None:
        """How it fits the digest of its file; None for a run without a file."""

    @property
    def rounds(self) -> Rounds:
        """The rounds with exact values; raises NotCertifiable without a model."""

    @property
    def solution(self) -> Solved:
        """The oracle's answer for the starts that occurred; raises NotCertifiable without a model."""

    @property
    def statements(self) -> dict[str, dict[str, Any]]:
        """By role, the player's own statement: its constants, and whether a theorem covers them."""

    @property
    def realised_resets(self) -> NDArray[np.int64]:
        """[K] cumulative number of resets that happened."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the problem noticed about itself."""

    def __len__(self) -> int: ...

    def problem_again(self) -> Problem:
        """The problem, made again; raises NotCertifiable where it cannot be."""

    def player_again(self, role: Literal["primal", "dual"]) -> Any:
        """A player, made again from its name and settings; raises NotCertifiable where it cannot be."""


def record(run: Record) -> list[Certificate]:
    """The columns are those of a game: starts follow ends, and the dual player's signal is its feedback."""
    c, n = run.columns, len(run)
    found = []
    if run.mdp is not None:
        s1 = c["s1"].astype(np.int64)
        good = (s1 >= 0) & (s1 < run.mdp.n_states)
        good[good] = ~run.mdp.reset[s1[good]]
        found.append(count_rounds(STARTS, ~good))
    elif run.continuum is not None:
        found.append(count_rounds(STARTS, ~inside_continuum(c["s1"], run.continuum)))
    ends = c["next_start"]
    if c["s1"].dtype == object:
        breaks = np.array([k > 0 and not np.array_equal(c["s1"][k], ends[k - 1]) for k in range(n)], dtype=np.bool_)
    else:
        breaks = np.append(False, c["s1"][1:] != ends[:-1])[:n]
    put = [one.k for one in run.interventions if one.k < n]  # before these rounds an operator moved the agent
    breaks[put] = False
    found.append(
        count_rounds("every episode starts where the one before left the agent (rounds in which it does not)", breaks)
    )
    feedback = run.spec["feedback"]
    signals = {"optimistic": c["v_c_hat"], "realised": c["reset"].astype(np.float64), "exact": c["v_c"]}
    if feedback in signals:
        claim = f"the dual player was given the {feedback} cost (rounds in which it was not)"
        found.append(count_rounds(claim, c["cost_signal"] != signals[feedback]))
    if not np.isnan(c["v_r"]).all():
        horizon = run.spec["horizon"]
        inside = (c["v_r"] >= -TOLERANCE) & (c["v_r"] <= horizon * (1 + TOLERANCE))
        inside &= (c["v_c"] >= -TOLERANCE) & (c["v_c"] <= 1 + TOLERANCE)
        found.append(count_rounds("V_r lies in [0, H] and V_c in [0, 1] (rounds in which one does not)", ~inside))
    return [*found, fits(run)]


def fits(run: Record) -> Certificate:
    """The record is the one that was written: the chain of digests in its file is computed again."""
    if run.fit is None:
        return Certificate.not_applicable(DIGEST, "this run was never written down, so nothing could change it")
    wrong = run.fit.rounds if run.fit.rounds or run.fit.whole else 1
    where = run.fit.what or None
    return Certificate(DIGEST, wrong, 0.0, 0.0, "==", witness=where, status="checked", why=DIGEST_WHY)


def count_rounds(claim: str, wrong: Any) -> Certificate:
    """The claim that `wrong` [K] is true of no round."""
    rounds = np.flatnonzero(wrong)
    where = f"round {rounds[0] + 1}" if len(rounds) else None
    return Certificate(claim, len(rounds), 0.0, 0.0, "==", witness=where, status="checked")
