"""The result of a finished or interrupted run: its rounds as columns, regret, resets, certificates and policy.

Legend: K rounds; column names as in docs/columns.md; regret and resets are cumulative and exact (they need an oracle),
realised resets are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats, NotCertifiable, RunError
from resetfree.core.certificate import Certificate
from resetfree.game.capabilities import Decision
from resetfree.game.contract import Pauses, Prediction
from resetfree.players import Role, discover, make_player
from resetfree.players.controlled import learner_of, under_controller
from resetfree.problems import FiniteMDP, Intervention, Note, Problem, find_world
from resetfree.problems.blueprint import fingerprint, number
from resetfree.problems.continuum import Continuum, as_rows, continuum_behind, inside_continuum
from resetfree.problems.registry import problems
from resetfree.runs import display
from resetfree.runs.display import Foresight, foresight, meant, predicted_resets
from resetfree.runs.file.newfile import Ending
from resetfree.runs.recall import TrainedPlayer, decisions_of, recall, recomputed, trusted_options
from resetfree.runs.stuck import requested_after
from resetfree.theory import regret as measures
from resetfree.theory.certificates import certify
from resetfree.theory.certificates.record import Fit
from resetfree.theory.oracle import nodes
from resetfree.theory.oracle.dynamic_programming import solve
from resetfree.theory.regret import Rounds
from resetfree.use.exporting import DeployedPolicy

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

MOST_KEPT = 1_000_000  # steps of a run without a file that are kept with it


@dataclass(frozen=True, eq=False)
class Run:
    """One run: its request (`spec`), its rounds (`columns`), and the model if it is known (`mdp`)."""

    spec: dict[str, Any]
    columns: dict[str, NDArray[Any]] = field(repr=False)  # each [K]
    mdp: FiniteMDP | None = field(repr=False)
    path: Path | None
    seconds: float
    interventions: tuple[Intervention, ...] = ()  # resets by an operator
    notes: tuple[Note, ...] = ()  # what was noticed about the problem, and when the run was stuck
    problem: Problem | None = field(default=None, repr=False)  # if available
    learned: TrainedPlayer | None = field(default=None, repr=False)  # of a run of this process
    pauses: Pauses | None = field(default=None, repr=False)  # in which its players computed; of a run of this process
    fit: Fit | None = None  # None for a run without a ledger
    players: Mapping[Role, type] = field(default_factory=dict, repr=False)  # given classes of players, by role
    ended: Ending | None = (
        None  # why it ended after its last round, if something ended it: a budget, a callback, Ctrl-C
    )
    extended: int | None = None  # the episodes that it was extended to; None for those that were planned
    # The form and the bytes of each episode (see `file.recorded`), of a short run of this process without a file.
    played: Sequence[tuple[str, bytes]] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.columns["k"])

    def __repr__(self) -> str:
        return f"<Run of {self.spec['problem']}: {len(self)} of {self.spec['episodes']} episodes>"

    def __str__(self) -> str:
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.as_html(self)

    def plot(self) -> Figure:
        """The resets so far and the reward of each episode, as a Matplotlib figure."""
        return display.figure(self)

    def to_pandas(self) -> DataFrame:
        """One row per episode, with the columns of docs/columns.md; needs pandas."""
        return display.frame(self)

    @property
    def episodes(self) -> int:
        """How many episodes it has in the end: those that were planned (`spec`), or what it was extended to."""
        planned: int = self.spec["episodes"]
        return planned if self.extended is None else self.extended

    @cached_property
    def continuum(self) -> Continuum | None:
        """The model on a continuum of states, if that is what is known."""
        try:
            finite = self.mdp is not None or self.spec["n_states"] is not None
            return None if finite else continuum_behind(self.problem_again())
        except NotCertifiable:
            return None

    @cached_property
    def solution(self) -> Any:
        """The oracle's answer for the starts that occurred, a `Solution`; on a continuum `AtStarts`, one per round."""
        if self.mdp is None and self.continuum is not None:
            return nodes.solve(self.continuum).at(self._vectors(self.continuum))
        if self.mdp is None:
            raise NotCertifiable("This run has no oracle: regret and expected resets cannot be computed exactly.")
        starts = np.unique(self._starts(self.mdp))
        feasible = solve(self.mdp, starts=[]).feasible
        return solve(self.mdp, starts=starts[feasible[starts]])

    @cached_property
    def rounds(self) -> Rounds:
        """The rounds with exact values, as the theorems take them."""
        c = self.columns
        if self.mdp is None and self.continuum is not None and not np.isnan(c["v_r"]).any():
            self._vectors(self.continuum)
            return Rounds(np.arange(len(self)), c["lam"], c["v_r"], c["v_c"])
        if self.mdp is None:
            raise NotCertifiable("This run has no oracle: its policies were not evaluated exactly.")
        return Rounds(self._starts(self.mdp), c["lam"], c["v_r"], c["v_c"])

    def _starts(self, mdp: FiniteMDP) -> NDArray[np.int64]:
        """[K] the starts, checked to be states of the problem: a file may hold anything."""
        s1 = self.columns["s1"]
        if s1.dtype.kind not in "iu" or (len(s1) and not 0 <= s1.min() <= s1.max() < mdp.n_states):
            raise NotCertifiable("Some starts of this run are no states of its problem: its file was changed.")
        return np.asarray(s1, dtype=np.int64)

    def _vectors(self, model: Continuum) -> Floats:
        """[K, D] the starts on a continuum, checked to be states of the problem: a file may hold anything."""
        if inside_continuum(self.columns["s1"], model).all():
            return as_rows(self.columns["s1"], model.dimension)
        raise NotCertifiable("Some starts of this run are no states of its problem: its file was changed.")

    @property
    def regret(self) -> Floats:
        """[K] cumulative Regret(k), exact, never clipped."""
        return measures.regret(self.rounds, self.solution)

    @property
    def resets(self) -> Floats:
        """[K] cumulative expected Resets(k), exact."""
        return measures.resets(self.rounds)

    @property
    def realised_resets(self) -> NDArray[np.int64]:
        """[K] cumulative number of resets that happened."""
        return np.asarray(self.columns["reset"].astype(np.int64).cumsum())

    @property
    def requested_resets(self) -> list[int]:
        """The rounds after which a reset was requested because the run was stuck; `realised_resets` excludes them."""
        return requested_after(self.interventions)

    @property
    def asked(self) -> list[int]:
        """Another name of `requested_resets`, which scripts use."""
        return self.requested_resets

    @property
    def goals(self) -> NDArray[np.int64]:
        """[K] cumulative number of goals that were reached; a goal is never a reset."""
        return np.asarray(self.columns.get("goals", np.zeros(len(self), dtype=np.int64)).cumsum())

    @property
    def plan_ages(self) -> NDArray[np.int64]:
        """[K] by how many rounds each plan was older than the round before it; 0 in a run that is not timed."""
        return np.asarray(self.columns["k"] - 1 - self.columns.get("based_on", self.columns["k"] - 1))

    @property
    def predicted_resets(self) -> Floats:
        """[K] cumulative number of resets that the primal player predicted; nan if it predicts none."""
        return predicted_resets(self.columns, self._prediction())

    @property
    def foresight(self) -> Foresight:
        """Predicted against realised resets, and how the prediction is meant."""
        return foresight(self.columns, self._prediction())

    def _prediction(self) -> Prediction:
        return meant(self.spec, self.players.get("primal") if self.learned is None else self.learned.player)

    @cached_property
    def statements(self) -> dict[str, dict[str, Any]]:
        """By role, the statement of the player about itself: recomputed by the player, never read from a file."""
        return recomputed(self)

    def problem_again(self) -> Problem:
        """The problem, made again: the given one, that of the model, or a registered one; else raises NotCertifiable.

        The given one comes first: an environment with a table has a model too, and is another problem than that.
        """
        name, problem = self.spec["problem"], self.problem
        if problem is None and self.mdp is not None:
            problem = self.mdp.problem()
        elif problem is None and name in problems():
            problem = find_world(name, trusted_options(self.spec)).problem
        if problem is None:
            raise NotCertifiable(f"The problem '{name}' of this run is neither given nor registered.")
        found = fingerprint(problem)
        if found != self.spec.get("fingerprint", found):
            raise NotCertifiable(f"The problem '{name}' is not what it was when the run was made.")
        return problem

    def player_again(self, role: Role) -> Any:
        """A player, made again from its name and settings, of the class that is given for it, or registered.

        A user's own primal player of this process, which may have the name of a registered one, is returned itself.
        """
        name, settings = self.spec[role]["name"], self.spec[role]["settings"]
        known = None if self.learned is None or role == "dual" else self.learned.player
        explore = None if role == "dual" else self.spec.get("controller", {}).get("explore")
        known = known if explore is None else learner_of(known)
        if known is not None and known.name == name and type(known) is not discover(role).get(name):
            return under_controller(known, explore)
        settings = {key: number(value) for key, value in settings.items()}
        return under_controller(make_player(role, self.players.get(role, name), settings, warn=False), explore)

    def certificates(self) -> list[Certificate]:
        """Every claim that can be checked on this run."""
        return certify(self)

    @cached_property
    def decisions(self) -> list[Decision]:
        """What the primal player decided about itself, up to the newest checkpoint: who plays, what is tried."""
        try:
            return decisions_of(self)
        except RunError:  # nothing was learned yet, or its player cannot be made again
            return []

    @cached_property
    def policy(self) -> DeployedPolicy:
        """The policy learned up to the newest checkpoint: `predict`, `evaluate`, `export`."""
        return recall(self)


def fleet_table(run: Run) -> dict[str, Any] | None:
    """Rounds, resets and waiting of each machine, and the load of each operator; None for a run of one machine.

    Times are in steps of a machine, or in seconds if people performed the resets. What a machine neither acted nor
    waited for an operator, nor was reset, it stood so as not to repeat a fall of another.

    >>> import resetfree as rf
    >>> found = fleet_table(rf.learn_fleet("grid-v0", n=2, episodes=20, reset_time=5))
    >>> sum(one["episodes"] for one in found["machines"]), len(found["operators"])
    (20, 1)
    """
    timing, c = run.spec.get("timing", {}), run.columns
    if "machines" not in timing or not len(run):
        return None
    end, reset_time = float(c["ended"][-1]), float(timing["reset_time"])
    machines = []
    for machine in range(1, timing["machines"] + 1):
        own = c["machine"] == machine
        acted = float((c["ended"] - c["began"])[own].sum())
        helped = float((c["operator"][own] > 0).sum())
        waited = float(c["waited"][own].sum())
        machines.append(
            {
                "machine": machine,
                "episodes": int(own.sum()),
                "steps": int(c["steps"][own].sum()),
                "resets": int(c["reset"][own].sum()),
                "acted": acted,
                "waited": waited,
                "longest_wait": float(c["waited"][own].max(initial=0.0)),
                "stood": max(end - acted - waited - helped * reset_time, 0.0),
            }
        )
    operators = []
    for who in range(1, timing["operators"] + 1):
        n = int((c["operator"] == who).sum())
        operators.append({"operator": who, "resets": n, "busy": n * reset_time / end if end else 0.0})
    steps = int(np.asarray(c["steps"]).sum())
    sizes = {"time": end, "in_steps": timing["in_steps"], "steps": steps}
    return {**sizes, "machines": machines, "operators": operators}
