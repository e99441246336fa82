"""A run for people: five lines, a figure, a table of pandas, a view in notebooks, and whether resets were foreseen.

Legend: p_i the probability of a reset that the player predicted of episode i (the column `v_c_hat`); N the resets that
happened (`reset`).
"""

from __future__ import annotations

import html
import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from resetfree.core import AssumptionViolated, Floats, InvalidInput, NotCertifiable
from resetfree.core.readable import counted, duration, number
from resetfree.game.contract import Prediction
from resetfree.players import discover
from resetfree.problems import FiniteMDP, Note
from resetfree.runs.file.newfile import Ending
from resetfree.theory.certificates.anytime import SHOWN, resets_lower, resets_upper
from resetfree.theory.certificates.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


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


SOLVED = 10**6  # H S A up to which a view asks the oracle: it must be quick
LATELY = 10  # a tenth of the episodes, the latest, is shown besides all of them
POINTS, WIDTH, HEIGHT = 120, 240, 48  # of the curve in a notebook


class Shown(Record, Protocol):
    """What is shown of a run."""

    @property
    def mdp(self) -> FiniteMDP | None:
        """Its model, if it is known."""

    @property
    def path(self) -> Any:
        """Its file."""

    @property
    def seconds(self) -> float:
        """Its time."""

    @property
    def requested_resets(self) -> list[int]:
        """The rounds after which a reset was requested because it was stuck."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was noticed, and when it was stuck."""

    @property
    def ended(self) -> Ending | None:
        """Why it ended."""

    @property
    def regret(self) -> Floats:
        """Exact regret."""

    @property
    def resets(self) -> Floats:
        """Exact expected resets."""


def described(run: Shown) -> dict[str, str]:
    """A run in five entries: where it was played, by whom, its resets, its reward, and how it ended."""
    spec, c, n = run.spec, run.columns, len(run)
    late = slice(n - max(n // LATELY, 1), n)
    few = f"the last {len(c['k'][late])}"
    resets = f"{int(c['reset'].sum())}, {int(c['reset'][late].sum())} of them in {few}" if n else "0"
    if exact(run):
        resets += f"; expected {number(float(run.resets[-1]), 4)}"
    if run.requested_resets:
        resets += f"; {len(run.requested_resets)} more requested when it was stuck"
    if "goals" in c:
        resets += f"; {counted(int(c['goals'].sum()), 'goal')}"
    paid = own_rewards(run)
    earned = f"{number(paid.mean(), 4)} per episode, {number(paid[late].mean(), 4)} in {few}" if n else "nothing yet"
    known = regret(run)
    earned += "" if known is None or not n else f"; regret {number(float(known[-1]), 4)}"
    if run.ended is not None:
        state = f"ended after {n} of {spec['episodes']} episodes: {run.ended.why}"
    else:
        state = "all episodes played" if n >= spec["episodes"] else f"{n} of {spec['episodes']} episodes played"
    if stuck := [note.k for note in run.notes if note.stuck]:
        state = f"STUCK, last reported in episode {stuck[-1]:,} (run.notes); {state}"
    state = "; ".join(filter(None, (pushed(run.notes), state)))
    episodes = "episode" if n == 1 else "episodes"
    where = "in no file" if run.path is None else f"saved in '{run.path}'"
    return {
        "problem": f"{spec['problem']}, {n} {episodes} of {spec['horizon']} actions in {duration(run.seconds)}",
        "players": f"{spec['primal']['name']} against {spec['dual']['name']}, seed {spec['seed']}",
        "resets": resets,
        "reward": earned,
        "state": f"{state}, {where}",
    }


def pushed(notes: Iterable[Note]) -> str:
    """In how many steps a hand pushed the machine, and in which episodes; "" if it did not.

    >>> pushed([Note(3, "", pushed=4), Note(4, ""), Note(9, "", pushed=1)]), pushed([Note(3, "", pushed=1)]), pushed([])
    ('pushed by hand in 5 steps of 2 episodes, from 3 to 9', 'pushed by hand in 1 step of episode 3', '')
    """
    found = {one.k: one.pushed for one in notes if one.pushed}
    if not found:
        return ""
    where = f"episode {min(found):,}"
    if len(found) > 1:
        where = f"{len(found):,} episodes, from {min(found):,} to {max(found):,}"
    return f"pushed by hand in {counted(sum(found.values()), 'step')} of {where}"


def text(run: Shown) -> str:
    """The five entries as lines."""
    return "\n".join(f"{name + ':':<9}{' '.join(words.split())}" for name, words in described(run).items())


def as_html(run: Shown) -> str:
    """The five entries as a table, and the cumulative resets as a curve: no script, everything escaped."""
    rows = "".join(
        f'<tr><th style="text-align:left">{name}</th><td style="text-align:left">{html.escape(words)}</td></tr>'
        for name, words in described(run).items()
    )
    total = np.cumsum(run.columns["reset"], dtype=np.float64)
    curve = ""
    if len(total) > 1:
        at = np.unique(np.linspace(0, len(total) - 1, POINTS).astype(np.int64))
        x, y = at / (len(total) - 1) * WIDTH, HEIGHT - total[at] / max(total[-1], 1.0) * (HEIGHT - 2) - 1
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        curve = (
            f'<svg width="{WIDTH}" height="{HEIGHT}" role="img"><title>resets so far, episode by episode</title>'
            f'<polyline points="{points}" fill="none" stroke="currentColor"/></svg>'
        )
    return f"<div><table>{rows}</table>{curve}</div>"


def figure(run: Shown) -> Figure:
    """Resets so far and the reward per episode, as a Matplotlib figure of its own."""
    from matplotlib.figure import Figure

    class RunFigure(Figure):
        """A figure that notebooks show without pyplot."""

        def _repr_png_(self) -> bytes:
            drawn = io.BytesIO()
            self.savefig(drawn, format="png")
            return drawn.getvalue()

    c, k = run.columns, run.columns["k"]
    drawn = RunFigure(figsize=(8.0, 3.2), layout="constrained")
    left, right = drawn.subplots(1, 2)
    left.step(k, np.cumsum(c["reset"]), where="post", label="happened")
    if exact(run):
        left.plot(k, run.resets, "--", label="expected, exact")
    if "goals" in c:
        left.step(k, np.cumsum(c["goals"]), where="post", label="goals")
    left.legend()
    left.set(title="resets so far", xlabel="episode", ylim=(0, None))
    paid = own_rewards(run)
    window = max(len(paid) // 20, 1)
    right.plot(k, paid, ".", markersize=2, alpha=0.4)
    if len(paid):
        right.plot(k[window - 1 :], np.convolve(paid, np.full(window, 1 / window), "valid"))
    right.set(title=f"reward per episode (mean of {window})", xlabel="episode")
    return drawn


def frame(run: Shown) -> DataFrame:
    """One row per episode with the columns of docs/columns.md, the resets so far, and regret if that is known."""
    try:
        import pandas
    except ImportError as error:
        raise InvalidInput("A table of pandas needs pandas, which is not installed: pip install pandas.") from error
    found = pandas.DataFrame({name: list(c) if c.dtype == object else c for name, c in run.columns.items()})
    found["realised_resets"] = np.cumsum(run.columns["reset"], dtype=np.int64)
    if exact(run):
        found["resets"] = run.resets
        known = regret(run)
        if known is not None:
            found["regret"] = known
    return found


def own_rewards(run: Shown) -> NDArray[np.float64]:
    """[K] the return of each episode in the environment's own rewards, if it has such."""
    return np.asarray(run.columns["original_return"], dtype=np.float64)


def exact(run: Shown) -> bool:
    """Whether the policies of the run were evaluated exactly."""
    known = run.mdp is not None or run.continuum is not None
    return known and len(run) > 0 and not np.isnan(run.columns["v_c"]).any()


def regret(run: Shown) -> Floats | None:
    """[K] the exact regret; None if it is not known, not defined, or takes long to compute."""
    mdp = run.mdp
    if mdp is None and not exact(run):
        return None
    if mdp is not None and mdp.horizon * mdp.n_states * mdp.n_actions > SOLVED:
        return None
    try:
        return run.regret
    except (AssumptionViolated, NotCertifiable):
        return None
