"""What claims read of a run: its columns, the ages of its plans and the statements of its players, checked."""

import math
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from resetfree.core.certificate import Certificate
from resetfree.game.capabilities import PlanAges
from resetfree.game.contract import depends_on_length
from resetfree.problems import FiniteMDP, Intervention, Note, Problem
from resetfree.problems.continuum import Continuum, inside_continuum
from resetfree.theory.delay import before_resets, delays
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


def record_claims(run: Record) -> list[Certificate]:
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
    ends, last = c["next_start"], rounds_before(c)
    if c["s1"].dtype == object:
        breaks = np.array([not np.array_equal(s, ends[j]) for s, j in zip(c["s1"], last, strict=True)], dtype=np.bool_)
    else:
        breaks = c["s1"] != ends[last]
    breaks[last < 0] = False
    put: Any = [one.k for one in run.interventions if one.k < n]  # before these rounds an operator moved the agent
    if FLEET in c:
        put = (c["operator"] > 0) & run.spec["persistent"]
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


FLEET = "machine"  # a column of fleets: which machine it was


def rounds_before(columns: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """[K] the round, from 0, in which the machine of each round acted last; -1 for none.

    >>> rounds_before({"k": np.arange(1, 5), "machine": np.array([1, 2, 2, 1])}).tolist()
    [-1, -1, 1, 0]
    """
    n = len(columns["k"])
    if FLEET not in columns:
        return np.arange(n) - 1
    last, found = dict[int, int](), np.empty(n, dtype=np.int64)
    for k, machine in enumerate(columns[FLEET].tolist()):
        found[k], last[machine] = last.get(machine, -1), k
    return found


NOWHERE = -1  # the whole number that stands for an end where a reset must be performed first


def plan_ages(run: Record) -> PlanAges | None:
    """The ages of its plans; None for a run without delay, whose plans are always new.

    Raises InvalidInput for plans that rest on rounds which were not over.
    """
    c = run.columns
    if "based_on" not in c:
        return None
    late, on = delays(c["based_on"]), c["based_on"].astype(np.int64)
    starts = made_for(c["s1"], c["next_start"], c["reset"])
    if starts.dtype == object:
        own = np.array([np.array_equal(starts[j], s) for j, s in zip(on, c["s1"], strict=True)], dtype=np.bool_)
    else:
        own = starts[on] == c["s1"]
    if FLEET in c:  # each plan is made for the start that it is played from
        own = np.ones(len(on), dtype=np.bool_)
    return PlanAges(on, late, starts, own)


def made_for(s1: NDArray[Any], ends: NDArray[Any], reset: NDArray[Any]) -> NDArray[Any]:
    """[K] by j = 0 .. K - 1: the start that the plan of j is made for.

    The first start; then where round j ended, or, where a reset had to be performed first, the start of the newest life
    (of the newest round that began after a reset, or of round 1).

    >>> made_for(np.array([7, 3, 5, 4]), np.array([3, -1, 4, 2]), np.array([False, True, False, False])).tolist()
    [7, 3, 7, 4]
    """
    found, n = s1.copy(), len(s1)
    life = np.maximum.accumulate(np.where(np.append(True, reset[:-1])[:n], np.arange(n), 0))
    if ends.dtype == object:
        nowhere = np.array([end is None for end in ends], dtype=np.bool_)
    else:
        nowhere = ends == NOWHERE if ends.dtype.kind in "iu" else np.isnan(ends)
    found[1:] = np.where(nowhere, s1[life], ends)[:-1]
    return found


def held_actions(run: Record) -> str:
    """Why claims about what policies did say nothing of this run; empty if every action was the plan's.

    Where a deadline is missed the last action is held, or a fallback acts: what happened is not the plan's doing.
    """
    missed = np.flatnonzero(run.columns.get("missed", 0))
    if not len(missed):
        return ""
    return f"deadlines were missed in {len(missed)} rounds (first in round {missed[0] + 1}): not only the plans acted"


def age_claims(run: Record) -> list[Certificate]:
    """That plans rest on the past and on every reset: what a game with delay promises; none for other runs."""
    if "based_on" not in run.columns:
        return []
    if FLEET in run.columns:
        return _fleet_claims(run.columns)
    on, reset = run.columns["based_on"], run.columns["reset"]
    wrong = (on < np.maximum.accumulate(np.append(0, on))[:-1]) | (on > np.arange(len(on)))
    past = "every plan rests on rounds that were over, and none is older than the one before (rounds in which it is)"
    rests = "after every reset the plan rests on it (rounds in which it does not)"
    return [count_rounds(past, wrong), count_rounds(rests, before_resets(on, reset))]


def _fleet_claims(columns: dict[str, NDArray[Any]]) -> list[Certificate]:
    """That plans of a fleet rest on all that was known, and that each machine plays one episode at a time."""
    began, ended, on, last = columns["began"], columns["ended"], columns["based_on"], rounds_before(columns)
    rests = "every plan rests on all rounds that were over when its episode began (rounds in which it does not)"
    alone = "every machine began after its episode before was over (rounds in which it did not)"
    early = (last >= 0) & (began < ended[last])
    return [count_rounds(rests, on != np.searchsorted(ended, began, side="right")), count_rounds(alone, early)]


ROLES: tuple[Literal["primal"], Literal["dual"]] = ("primal", "dual")
COMPARED = ("covered", "constants", "most_resets")  # `why` is wording, which a later version may improve
SIZES = ("horizon", "n_states", "persistent")  # properties of the problem that a spec repeats
CLAIM = "what the record says of its players and its problem is what they say (entries that differ)"
UNKNOWN = "the player cannot be made again to state what is proved of it: "
ROUNDING = 1e-9  # relative, between the machines that a run was made and is certified on


def known_player(run: Record, role: Literal["primal", "dual"]) -> Any:
    """A player of the run, made again; None if its statement is unknown."""
    return None if run.statements[role]["why"].startswith(UNKNOWN) else run.player_again(role)


def past_plan(run: Record, role: Literal["primal", "dual"]) -> str:
    """Why what is proved of a player ends with the episodes that were planned; empty if it does not, or all are."""
    planned, player = run.spec["episodes"], known_player(run, role)
    if len(run) <= planned or player is None:
        return ""
    if not depends_on_length(player, run.problem_again(), planned, len(run)):
        return ""
    return (
        f"the constants of '{run.spec[role]['name']}' are those for the {planned} episodes that were planned, and "
        f"tuned from episode {planned + 1} on"
    )


def began_with(run: Record) -> str:
    """Why nothing is proved of what the primal player learned from data before the first round; empty without data."""
    about = run.spec.get("data")
    if about is None:
        return ""
    return f"it began with {about['episodes']} episodes of data, which no theorem covers"


def as_played(run: Record, role: Literal["primal", "dual"]) -> tuple[bool, str]:
    """Whether a theorem covers a player in every round of the run, and why: its statement is about what was planned."""
    said, primal = run.statements[role], role == "primal"
    outside = next((one.k for one in run.notes if one.tuned), None) if primal else None
    lost = [began_with(run) if primal else "", past_plan(run, role)]
    lost += [] if outside is None else [f"the theorem is for rewards in [0, 1], which episode {outside} left"]
    if not said["covered"] or not any(lost):
        return said["covered"], said["why"]
    return False, f"{'; '.join(filter(None, lost))}. Otherwise: {said['why']}"


def unknown_cap(run: Record, claim: str) -> list[Certificate]:
    """A claim about `most_resets` that cannot be checked: the file has such a number, and the player is unknown."""
    why, named = run.statements["primal"]["why"], run.spec["statements"]["primal"].get("most_resets")
    return [Certificate.not_applicable(claim, why)] if named is not None and why.startswith(UNKNOWN) else []


def as_recorded(run: Record) -> Certificate:
    """Whether recorded and remade statements agree; if not, the file was edited or written by another version."""
    differ: list[str] = []
    for role in ROLES:
        stated, read = run.statements[role], run.spec["statements"][role]
        if stated["why"].startswith(UNKNOWN):
            return Certificate.not_applicable(CLAIM, stated["why"])
        for entry in COMPARED:
            ours, theirs = stated[entry], read.get(entry)
            if not isinstance(ours, dict) or not isinstance(theirs, dict):
                differ += [] if _same(ours, theirs) else [f"{role}.{entry}"]
                continue
            keys = [key for key in {**ours, **theirs} if key not in ours or key not in theirs]
            keys += [key for key in ours if key in theirs and not _same(ours[key], theirs[key])]
            differ += [f"{role}.{entry}.{key}" for key in keys]
    problem = run.problem_again()
    differ += [size for size in SIZES if run.spec[size] != getattr(problem, size)]
    differ += ["n_actions"] if run.spec["n_actions"] != problem.actions.n else []  # None for a box
    bounds = [getattr(run.player_again(role), "B", None) for role in reversed(ROLES)]
    differ += [] if run.spec["B"] == next((B for B in bounds if B is not None), None) else ["B"]
    why = "what is proved is taken from the players" + (
        "; the file was edited, or written by another version of resetfree" if differ else ""
    )
    where = ", ".join(differ[:3]) or None
    detail = {"differ": differ}
    return Certificate(CLAIM, len(differ), 0.0, 0.0, "==", witness=where, detail=detail, status="checked", why=why)


def _same(one: Any, other: Any) -> bool:
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other)):
        return math.isclose(one, other, rel_tol=ROUNDING)
    return type(one) is type(other) and bool(one == other)
