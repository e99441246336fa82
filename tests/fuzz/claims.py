"""Runs of everything against everything: each claim that is proved must hold, and nothing is raised or warned of.

python -m tests.fuzz.claims --seed 7 --cases 1000     so many cases; prints what is false, each with its name
python -m tests.fuzz.claims --case 7:42               one case again, with all its claims

Chance: a claim that holds with probability 1 - p may fail. A case in which it does is played AGAIN times with other
seeds, and counts as false if so many failures have a probability below RARE; so do all failures of a claim together,
over all cases. With M cases, C claims of a case and D claims in all a campaign of true claims fails with probability
at most (M C p + D) RARE: below 1e-3 for the numbers of the tests (M = 3000, C p < 0.1 and D < 100).
"""

import argparse
import dataclasses
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, Literal

import numpy as np
from scipy.stats import binom, poisson
from tests.fuzz.claim_problems import problem
from tests.fuzz.claim_settings import ROLES, made, players, values
from tests.fuzz.claim_signals import PATTERNS, signalling, tempting

import resetfree as rf
from resetfree.core.certificate import failure_probability
from resetfree.core.settings import declarations, plain_parts
from resetfree.game.loop import FEEDBACK

AGAIN, RARE = 30, 1e-6


@dataclass(frozen=True, eq=False)
class Case:
    """What is played."""

    name: str  # SEED:INDEX
    mdp: rf.FiniteMDP
    arguments: dict[str, Any]  # of `learn`

    def __str__(self) -> str:
        m, said = self.mdp, {name: value for name, value in self.arguments.items() if value is not None}
        sizes = f"S={m.n_states} A={m.n_actions} H={m.horizon} {m.boundary}"
        return f"{self.name}  {sizes}{'' if m.stationary else ' layered'} noise={m.noise} {said}"


@dataclass
class Outcome:
    """What is wrong with a case, in words, and the claims that may fail."""

    case: Case
    verdict: Literal["done", "refused", "wrong"] = "done"
    faults: list[str] = field(default_factory=list)
    chances: list[tuple[str, float, bool]] = field(default_factory=list)  # claim, with which probability, whether
    proved: int = 0  # claims

    def __str__(self) -> str:
        return "\n    ".join([str(self.case), *self.faults])


@cache
def finite_players(role: Literal["primal", "dual"]) -> tuple[str, ...]:
    """Those that play a small finite problem with their defaults."""
    tiny = rf.make("ledge-v0").problem()

    def plays(cls: Any) -> bool:
        bound = {"B": 2.0} if "B" in declarations(cls) else {}
        try:
            cls(**bound).init(tiny, 10, 0)
        except rf.ResetFreeError:
            return False
        return True

    return tuple(name for name, cls in sorted(players(role).items()) if plays(cls))


def make(seed: int, index: int) -> Case:
    """The case of this number."""
    rng = Random(f"claims:{seed}:{index}")
    mdp = problem(rng)
    chosen: dict[str, Any] = {
        role: rng.choices(finite_players(role), [_weight(cls) for cls in _classes(role)])[0] for role in ROLES
    }
    settings = {role: some_settings(rng, players(role)[chosen[role]]) for role in ROLES}
    arguments: dict[str, Any] = {
        **chosen,
        "settings": settings,
        "feedback": rng.choice(("auto", *FEEDBACK)),
        "episodes": rng.choice((1, 2, 10, 40, 40, 150)),
        "delay": rng.choice((None, None, None, 0, 1, 3, 10)),
        "seed": rng.randrange(2**32),
    }
    if rng.random() < 0.25:  # a game against the dual player alone, longer and with costs of a pattern
        mdp, K, pattern = (
            rng.choice((mdp, tempting(rng.choice((1.0, 1.0, 0.3, 1e-3))))),
            rng.choice((60, 600)),
            rng.choice(list(PATTERNS)),
        )
        arguments |= {"primal": Pattern(pattern, K), "feedback": rng.choice(("exact", "realised")), "episodes": K}
        settings["primal"] = {}
    return Case(f"{seed}:{index}", mdp, arguments)


@dataclass(frozen=True)
class Pattern:
    """Stands for the player that makes costs follow a pattern."""

    name: str
    episodes: int


def _classes(role: Literal["primal", "dual"]) -> list[Any]:
    return [players(role)[name] for name in finite_players(role)]


def _weight(cls: Any) -> int:
    """Players with proofs of their own are played more often."""
    return 4 if any(hasattr(cls, one) for one in ("proof", "primal_regret_bound", "keeps_steps_apart")) else 1


def some_settings(rng: Random, cls: Any) -> dict[str, Any]:
    """Settings that the player accepts: choices often, numbers now and then, seldom extreme."""
    while True:
        found = {}
        for one in dataclasses.fields(cls):
            offered = values(cls, one, extreme=rng.random() < 0.1)
            numeric = any(part in (int, float) for part in plain_parts(declarations(cls)[one.name]))
            if offered and rng.random() < (0.15 if numeric else 0.5):
                found[one.name] = rng.choice(offered)
        if made(cls, found) is not None:
            return found


def failure(c: rf.Certificate) -> float:
    """The probability with which a claim may fail, as it says."""
    return failure_probability([c])


def certificates(mdp: rf.FiniteMDP, arguments: dict[str, Any]) -> list[rf.Certificate] | None:
    """Every claim of a run; None if it is refused. Whatever is raised or warned of later propagates."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            primal = arguments["primal"]
            if isinstance(primal, Pattern):
                arguments = {**arguments, "primal": signalling(mdp, primal.name, primal.episodes)}
            run = rf.learn(mdp, **arguments)
        except rf.ResetFreeError:
            return None
        return [*run.certificates(), *(rf.certify_problem(mdp) if arguments["seed"] % 8 == 0 else [])]


def wrong(c: rf.Certificate) -> bool:
    """Whether a claim fails that must hold, or compares what is no number."""
    return c.refuted or (c.applies and bool(np.isnan([c.lhs, c.rhs]).any()))


def check(case: Case) -> Outcome:
    """Play a case; what fails by chance, if it does, is played again."""
    found = Outcome(case)
    try:
        claims = certificates(case.mdp, case.arguments)
        if claims is None:
            return dataclasses.replace(found, verdict="refused")
        found.proved = sum(c.status in ("proved", "identity") for c in claims)
        found.chances = [(c.claim, failure(c), wrong(c)) for c in claims if c.status == "proved" and failure(c)]
        found.faults = [str(c) for c in claims if wrong(c) and not failure(c)]
        found.faults += [said for c in claims if wrong(c) and failure(c) and (said := _often(case, c))]
    except Exception as error:
        at = [
            f"{frame.filename.rpartition('resetfree/')[2]}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__)
        ]
        found.faults.append(f"{type(error).__name__}: {error} [{' < '.join(at[:-4:-1])}]")
    found.verdict = "wrong" if found.faults else "done"
    return found


def _often(case: Case, claim: rf.Certificate) -> str:
    """That a claim fails more often than it may, over other seeds; empty if it does not."""
    failed = 0
    for i in range(1, AGAIN + 1):
        claims = certificates(case.mdp, {**case.arguments, "seed": case.arguments["seed"] + i * 2**32}) or []
        failed += any(c.claim == claim.claim and wrong(c) for c in claims)
    often = float(binom.sf(failed - 1, AGAIN, failure(claim)))
    return f"{claim} (fails with {failed} of {AGAIN} other seeds)" if often < RARE else ""


def campaign(seed: int, cases: int, first: int = 0, tell: Any = None) -> list[Outcome]:
    """Cases in a row; `tell` is told of each that is wrong."""
    found = []
    for index in range(first, first + cases):
        found.append(check(make(seed, index)))
        if tell and found[-1].faults:
            tell(f"{found[-1]}\n")
    return found


def faults(found: list[Outcome]) -> list[str]:
    """All that is wrong with a campaign: with its cases, and with claims that fail too often over all of them."""
    said, failed = [str(one) for one in found if one.faults], Counter[str]()
    most: defaultdict[str, float] = defaultdict(float)
    for one in found:
        for claim, p, fails in one.chances:
            most[claim] += p
            failed[claim] += fails
    said += [
        f"fails {n} times, and {most[claim]:.3g} times would be expected at most: {claim}"
        for claim, n in failed.items()
        if poisson.sf(n - 1, most[claim]) < RARE  # which is above the probability that chances so rare add up to it
    ]
    return said


def summary(found: list[Outcome]) -> str:
    """Cases by verdict, and the claims that were compared."""
    counts = Counter(one.verdict for one in found)
    return f"{dict(counts)}, {sum(one.proved for one in found)} claims that must hold"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.claims")
    parser.add_argument("--seed", type=int, help="Default: a fresh one, which is printed.")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="The first index.")
    parser.add_argument("--case", metavar="SEED:INDEX", help="Play this one again, with all its claims.")
    asked = parser.parse_args()
    if asked.case:
        case = make(*map(int, asked.case.split(":")))
        print(check(case))
        claims: Any = certificates(case.mdp, case.arguments) or ["refused"]
        print(*claims, sep="\n")
        return 0
    seed = time.time_ns() % 10**9 if asked.seed is None else asked.seed
    print(f"seed {seed}")
    found = campaign(seed, asked.cases, asked.first, tell=lambda text: print(text, flush=True))
    print(summary(found))
    return 1 if faults(found) else 0


if __name__ == "__main__":
    sys.exit(main())
