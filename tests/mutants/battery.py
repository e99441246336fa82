"""A mutation battery: for every claim that can be printed, something broken under which it fails.

A row is a claim of some honest run of `honest.RUNS` (or of `certify_problem`), a column a mutant: a broken learner, a
wrong constant, a forged record or wrong arithmetic. Honest runs fail nothing; every row has at least one kill.

To add a claim: let some run of `honest.RUNS` print it (the test names lines that make a claim and are never reached),
and add a mutant. To add a mutant: a function here that returns certificates of what is broken, under `@mutant` with a
few words. `python -m tests.mutants` (or `make mutants`) prints the table and what lacks a kill.
"""

import contextlib
import dataclasses
import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.mutants.honest import PROBLEMS, certified, learn, run, saved

import resetfree as rf
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.elimination.rule_class import Rules
from resetfree.players.elimination.support_elimination import SupportElimination
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.players.tabular.references import BestResponse
from resetfree.players.tabular.ucbvi import UCBVI
from resetfree.problems.finite.safety import SafeSets
from resetfree.runs.file import runfile
from resetfree.runs.resuming import whole_run
from resetfree.theory import theorems
from resetfree.theory.certificates import OPTIMISM, certify, claims_dual

Broken = Callable[[], list[rf.Certificate]]
MUTANTS: dict[str, Broken] = {}
PROVED, REALISED = "algorithm 1, proved width", "algorithm 1, realised costs"  # honest runs
PENALTY, UNIFORM = "best response, penalty", "uniform, constant step"


def mutant(words: str) -> Callable[[Broken], Broken]:
    """Add what the function certifies as a column."""

    def add(function: Broken) -> Broken:
        assert words not in MUTANTS
        MUTANTS[words] = function
        return function

    return add


def forged(name: str, **columns: Any) -> list[rf.Certificate]:
    """Certificates of an honest run with columns replaced: by a value for all rounds, or a function of the column."""
    honest = run(name)
    changed = {
        column: change(honest.columns[column].copy())
        if callable(change)
        else np.full_like(honest.columns[column], change)
        for column, change in columns.items()
    }
    return certify(dataclasses.replace(honest, columns={**honest.columns, **changed}))


Forgery = tuple[str, dict[str, Any]]  # an honest run, and the columns that are replaced: see `forged`


def of(name: str, **columns: Any) -> Forgery:
    """A forgery of an honest run."""
    return name, columns


def forgeries(each: dict[str, list[Forgery]], module: str = __name__) -> None:
    """Add mutants that are forged records, by their words."""
    for words, records in each.items():

        def broken(records: list[Forgery] = records) -> list[rf.Certificate]:
            return [c for name, columns in records for c in forged(name, **columns)]

        broken.__module__ = module
        mutant(words)(broken)


def at(k: int, value: Any) -> Callable[[Any], Any]:
    """A change of one round."""

    def change(column: Any) -> Any:
        column[k - 1] = value
        return column

    return change


# Broken learners. They keep the name of the player that they are not, as a bug would.


@dataclass(frozen=True)
class LearnsNothing(SupportElimination):
    """Learning switched off."""

    def update(self, state: Any, round: rf.Round) -> Any:
        """Forget the round."""
        return state


@dataclass(frozen=True)
class TooNarrow(LinearUCB):
    """The proved widths, halved so often."""

    halvings: int = 0

    def betas(self, *args: Any, **options: Any) -> Any:
        """A part of the proved ones."""
        return tuple(beta / 2**self.halvings for beta in super().betas(*args, **options))


@dataclass(frozen=True)
class InvertedRewards(UCBVI):
    """Takes every reward for what it lacks to 1."""

    def update(self, state: Any, round: rf.Round) -> Any:
        """Learn from the inverted rewards."""
        episode = dataclasses.replace(round.episode, rewards=1.0 - np.asarray(round.episode.rewards))
        return super().update(state, round._replace(episode=episode))


@dataclass(frozen=True)
class CannotMaximise(BestResponse):
    """Plays at random and says what it would have said."""

    def plan(self, state: Any, s1: Any, lam: float) -> rf.Plan:
        """The best response's values, another policy."""
        n_actions = state.model.reward.shape[-1]
        shape = (*state.safe.shape, n_actions)
        return super().plan(state, s1, lam)._replace(policy=np.full(shape, 1 / n_actions))


@dataclass(frozen=True)
class StuckAtZero(ProjectedGradient):
    """lambda held at 0."""

    def multiplier(self, *_: Any) -> float:
        """0, whatever happened."""
        return 0.0


def one_of_two() -> Iterator[rf.FiniteMDP]:
    """One of two actions is a reset, each time; a player begins with either."""
    for safe in range(2):
        transition = np.zeros((2, 2, 2))
        transition[0, safe, 0] = transition[0, 1 - safe, 1] = transition[1, :, 1] = 1
        yield rf.FiniteMDP(transition, np.zeros((2, 2)), [False, True], 1)


@mutant("learning switched off")
def _() -> list[rf.Certificate]:
    return [c for mdp in one_of_two() for c in certify(learn(LearnsNothing(), problem=mdp, feedback="realised"))]


@mutant("widths halved until they are wrong")
def _() -> list[rf.Certificate]:
    found: list[rf.Certificate] = []
    for halvings in range(0, 32, 4):
        player = TooNarrow(width="theory", halvings=halvings)
        run = learn(player, problem=rf.make("grid-v0", slip=0.3), episodes=400)
        # The record names the setting of the broken class; what is certified is the player that it says it is.
        del run.spec["primal"]["settings"]["halvings"]
        found = certify(run)
        if any(c.refuted and c.claim in OPTIMISM for c in found):
            break
    return found


@mutant("rewards inverted")
def _() -> list[rf.Certificate]:
    mdp = rf.FiniteMDP(np.ones((1, 2, 1)), np.ones((1, 2)), [False], 1)
    return certify(learn(InvertedRewards(width="theory", noise=0.0), problem=mdp, episodes=4000))


@mutant("a best response that plays at random")
def _() -> list[rf.Certificate]:
    found = certify(learn(CannotMaximise(), "constant-penalty", feedback="exact"))
    return found + certify(learn(CannotMaximise(), "constant-penalty", "random-linear-v0"))


@mutant("lambda held at 0")
def _() -> list[rf.Certificate]:
    return certify(learn("uniform", StuckAtZero(B=60.0), feedback="realised", episodes=600))


# Forged records.


forgeries(
    {
        "a start in the reset set": [of(PROVED, s1=at(7, 5))],
        "starts shuffled": [of(PROVED, s1=lambda column: np.random.default_rng(0).permutation(column))],
        "optimistic costs made up": [of(PROVED, cost_signal=at(9, 0.5))],
        "realised costs made up": [of(REALISED, cost_signal=at(9, 0.5))],
        "exact costs made up": [of("algorithm 1, tuned, exact costs", cost_signal=at(9, 0.5))],
        "V_r at its cap, V_c as it was": [of(PROVED, v_r=8.0), of(PENALTY, v_r=8.0)],
        "V_r out of its range": [of(PROVED, v_r=at(9, -1.0))],
        "V_c negative": [of(PROVED, v_c=-0.5), of(UNIFORM, v_c=-0.5)],
        "V_r zero": [of(PENALTY, v_r=0.0), of("best response", v_r=0.0)],
        "own values on the wrong side": [of(PROVED, v_r_hat=0.0, v_c_hat=1.0, upper=0.0)],
        "lambda negative": [of(UNIFORM, lam=-1e4), of(REALISED, lam=-1e4)],
        "lambda one more than it was": [of(REALISED, lam=lambda column: column + 1)],
        "a multiplier that doubles without need": [
            of("best response, doubling", lam=lambda column: 8 * column),
            of("best response, doubling", reset=True),
        ],
        "values or multipliers made up where lambda* is not in the class": [
            of("uniform, B a little too small", v_c=-0.5),
            of("uniform, B a little too small", lam=-1e4),
        ],
        "resets hidden": [of(UNIFORM, reset=False)],
        "resets made up": [
            of(name, reset=True) for name in (PENALTY, "support elimination, without oracle", "rule elimination")
        ],
        "resets made up where moves are relative": [of("rule elimination, relative moves", reset=True)],
        "rewards made up": [of(PROVED, reward=8.0)],
        "resets hidden, V_r at its cap": [of(UNIFORM, reset=False, v_r=8.0)],
    }
)


@mutant("too few bits for the rules")
def _() -> list[rf.Certificate]:
    with patch.object(Rules, "bits", lambda self, fatal: (-10.0, 0)):
        return [*certify(run("rule elimination")), *certify(run("rule elimination, relative moves"))]


@mutant("statements forged")
def _() -> list[rf.Certificate]:
    file = edited(saved("forged"), lambda spec: spec["statements"]["primal"].update(covered=True))
    return certify(rf.load(file))


@mutant("a cell of the file edited")
def _() -> list[rf.Certificate]:
    file = saved("cell")
    with opened(file) as connection:
        connection.execute("UPDATE rounds SET reward = reward + 1e-9 WHERE k = 31")
    return [*whole_run(rf.load(file)), *certify(rf.load(file))]


@mutant("the checkpoint edited")
def _() -> list[rf.Certificate]:
    file = saved("checkpoint")
    with opened(file) as connection:
        kept = runfile.read_checkpoint(connection, file)
        assert kept is not None
        arrays = {name: array + 1 if array.dtype.kind == "f" else array for name, array in kept.arrays.items()}
        runfile.write_checkpoint(connection, dataclasses.replace(kept, arrays=arrays))
    return [*whole_run(rf.load(file)), *certify(rf.load(file))]


@mutant("what was asked for edited")
def _() -> list[rf.Certificate]:
    return whole_run(rf.load(edited(saved("asked"), lambda spec: spec.update(horizon=9, B=1.0))))


@contextlib.contextmanager
def opened(file: Path) -> Iterator[sqlite3.Connection]:
    """A run file as anybody can open it."""
    connection = sqlite3.connect(file)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def edited(file: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    """The file with its spec changed by hand."""
    with opened(file) as connection:
        spec = json.loads(connection.execute("SELECT json FROM spec").fetchone()[0])
        edit(spec)
        connection.execute("UPDATE spec SET json = ?", (json.dumps(spec),))
    return file


# Wrong arithmetic: what identities are there for.


@mutant("R_p computed with the sign of lambda wrong")
def _() -> list[rf.Certificate]:
    honest: Any = vars(theorems)["primal_regret"]

    def wrong(rounds: Any, solution: Any) -> Any:
        return honest(dataclasses.replace(rounds, lam=-rounds.lam), solution)

    with patch.object(theorems, "primal_regret", wrong):
        return certify(run("algorithm 1, realised costs"))


@mutant("R_d computed with the sign of lambda wrong")
def _() -> list[rf.Certificate]:
    honest: Any = vars(claims_dual)["dual_regret"]

    def wrong(rounds: Any, **options: Any) -> Any:
        return honest(dataclasses.replace(rounds, lam=-rounds.lam), **options)

    with patch.object(claims_dual, "dual_regret", wrong):
        return certify(run("uniform, constant step"))


# Wrong answers of the oracle.


def misled(wrong: Callable[[rf.Solution], rf.Solution]) -> list[rf.Certificate]:
    """Certificates of problems whose solution is spoilt before it is checked."""
    honest: Any = vars(theorems)["solve"]
    spoilt = patch.object(theorems, "solve", lambda *args, **options: wrong(honest(*args, **options)))
    with spoilt, np.errstate(invalid="ignore"):
        return [c for made in PROBLEMS.values() for c in rf.certify_problem(made())]


def multiplied(solution: rf.Solution, factor: float) -> rf.Solution:
    solution.__dict__["lambda_hat"] = solution.lambda_hat * factor
    return solution


@mutant("pi* replaced by the first action")
def _() -> list[rf.Certificate]:
    return misled(lambda found: dataclasses.replace(found, policy=np.zeros_like(found.policy)))


@mutant("V* a little larger")
def _() -> list[rf.Certificate]:
    return misled(lambda found: dataclasses.replace(found, value=found.value + 1e-3))


@mutant("lambda_hat a third of what it is")
def _() -> list[rf.Certificate]:
    return misled(lambda found: multiplied(found, 1 / 3))


@mutant("lambda_hat a little larger")
def _() -> list[rf.Certificate]:
    return misled(lambda found: multiplied(found, 1 + 1e-5))


@mutant("every action taken for safe")
def _() -> list[rf.Certificate]:
    def wrong(found: rf.Solution) -> rf.Solution:
        safe = SafeSets(np.ones_like(found.safe.layers), found.safe.layer_of_step, found.safe.last)
        return dataclasses.replace(found, safe=safe)

    return misled(wrong)


@mutant("only the first safe action taken for safe")
def _() -> list[rf.Certificate]:
    def wrong(found: rf.Solution) -> rf.Solution:
        layers = found.safe.layers & (found.safe.layers.cumsum(axis=2) == 1)
        return dataclasses.replace(found, safe=SafeSets(layers, found.safe.layer_of_step, found.safe.last))

    return misled(wrong)


# The table.


def claims() -> dict[str, str]:
    """Every claim that an honest run prints with a verdict, and its status (the strongest of its statuses)."""
    found: dict[str, str] = {}
    for each in certified().values():
        for c in each:
            if c.applies and found.get(c.claim) in (None, "tuned"):
                found[c.claim] = c.status
    return found


def kills() -> dict[str, set[str]]:
    """By mutant, the claims that fail though they must hold."""
    return {name: {c.claim for c in broken() if c.refuted} for name, broken in MUTANTS.items()}


def table(found: dict[str, str], killed: dict[str, set[str]]) -> str:
    """Claim x mutant: one line per claim, one column per mutant."""
    width = max(map(len, found))
    lines = [f"{i + 1:3}  {name}: {len(killed[name] & set(found))} kills" for i, name in enumerate(killed)]
    head = " ".join(f"{i + 1:2}" for i in range(len(killed)))
    lines += ["", f"{'claim':{width}}  {'status':8}  {head}"]
    for claim, status in found.items():
        row = " ".join(" x" if claim in hit else " ." for hit in killed.values())
        lines.append(f"{claim:{width}}  {status:8}  {row}")
    alive = [claim for claim in found if not any(claim in hit for hit in killed.values())]
    lines += ["", f"{len(found)} claims, {len(killed)} mutants; without a kill: {len(alive)}", *alive]
    return "\n".join(lines)
