"""A player with everything that others may ask of it is one new file: `auto`, certificates and reports find it."""

import json
import subprocess
import sys
from typing import Any

import pytest

PRIMAL = '''"""Plays the only action there is."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from resetfree.game.capabilities import Partner, PrimalRegretBound, Proof, Suited
from resetfree.game.contract import Plan, PrimalPlayer, Statement


@dataclass
class OnlyActionState:
    policy: np.ndarray


@dataclass(frozen=True)
class OnlyAction(PrimalPlayer):
    name: ClassVar[str] = "only-action"

    @classmethod
    def suits(cls, problem, *, bound_known):
        if problem.actions.n != 1 or problem.n_states is None:
            return None
        return Suited(5, "there is nothing to choose", Partner("flat-price", "realised", {"price": 3.0}))

    @classmethod
    def partner(cls):
        return Partner("flat-price", "exact")

    def init(self, problem, episodes, seed):
        return OnlyActionState(np.ones((problem.horizon, problem.n_states, problem.n_actions)) / problem.n_actions)

    def plan(self, state, s1, lam):
        horizon = float(len(state.policy))
        return Plan(state.policy, horizon, 0.0, horizon)

    def update(self, state, round):
        return state

    def statement(self, problem, episodes):
        return Statement({}, problem.n_actions == 1, "there is one policy, so none is better")

    def proof(self, problem):
        return Proof(failure=0.25, values_are_bounds=True)

    def primal_regret_bound(self, problem, episodes, rounds):
        return PrimalRegretBound(0.125) if problem.n_actions == 1 else None

    def steps_ahead(self, horizon):
        return 7
'''
DUAL = '''"""One price for every reset."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from resetfree.core.errors import NotCertifiable
from resetfree.game.capabilities import OnlineBound
from resetfree.game.contract import DualPlayer, Statement


@dataclass
class FlatPriceState:
    price: float


@dataclass(frozen=True)
class FlatPrice(DualPlayer):
    name: ClassVar[str] = "flat-price"
    price: float = 2.0

    def init(self, problem, episodes, seed):
        return FlatPriceState(self.price)

    def multiplier(self, state, s1, ask):
        return state.price

    def update(self, state, round):
        return state

    def statement(self, problem, episodes):
        return Statement({"price": self.price}, True, "no comparator is dearer")

    def largest_multiplier(self, problem, episodes):
        return self.price

    def online_regret_bound(self, met, against):
        if (against.at_starts > met.replay.lam).any():
            raise NotCertifiable("The price is too low.")
        return 0.25 + np.zeros(len(met.signals))

    def other_bounds(self, met, against):
        return [OnlineBound("half of the price", self.price / 2 + 0 * met.k)]
'''
# Nothing is imported that looks for players before the two files lie where players lie.
SCRIPT = """
import json, sys
from pathlib import Path
import resetfree.players.dual, resetfree.players.tabular
folder = Path(sys.argv[1])
resetfree.players.tabular.__path__.append(str(folder / "primal"))
resetfree.players.dual.__path__.append(str(folder / "dual"))
import resetfree as rf
from resetfree.show.report import write_report
file = folder / "run.rfrun"
run = rf.learn("edge-one-action-v0", episodes=30, seed=1, path=file)
named = rf.learn("grid-v0", "only-action", episodes=30, seed=1)
other = rf.learn("grid-v0", episodes=5, seed=1)
write_report([file], folder / "report.html")
spec = lambda run: {k: run.spec[k] for k in ("primal", "dual", "feedback", "chosen")}
plain = lambda run: {c.claim: [c.status, c.rhs, c.why, c.applies, c.holds] for c in run.certificates()}
print(json.dumps({"auto": spec(run), "named": spec(named), "other": spec(other), "claims": plain(rf.load(file)),
                  "claims on the grid": plain(named)}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("players")
    for role, text in (("primal", PRIMAL), ("dual", DUAL)):
        (folder / role).mkdir()
        (folder / role / f"new_{role}.py").write_text(text)
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(folder / "script.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    page = (folder / "report.html").read_text()
    return {**json.loads(done.stdout), "page": page}


def test_auto_chooses_it_where_it_suits_best(found: dict[str, Any]) -> None:
    assert found["auto"] == {
        "primal": {"name": "only-action", "settings": {}},
        "dual": {"name": "flat-price", "settings": {"price": 3.0}},
        "feedback": "realised",
        "chosen": "there is nothing to choose",
    }
    assert found["other"]["primal"]["name"] == "rule-elimination"


def test_a_named_player_is_played_with_its_partner(found: dict[str, Any]) -> None:
    named = found["named"]
    assert (named["dual"], named["feedback"]) == ({"name": "flat-price", "settings": {"price": 2.0}}, "exact")


def test_certificates_ask_both_players_for_their_bounds(found: dict[str, Any]) -> None:
    claims = found["claims"]
    assert claims["R_p(pi*) is at most its rate"][:2] == ["proved", 0.125]
    assert claims["R_p(pi*) is at most its rate"][2] == (
        "with probability at least 0.75; there is one policy, so none is better"
    )
    assert claims["Regret is at most its rate"][:2] == ["proved", 0.375]
    assert claims["Resets are at most their rate"][0] == "proved"
    # Against a comparator of 3, the price that is always paid: chance adds nothing, and 3 Resets <= 0.125 + 0.25.
    assert claims["Resets are at most their rate"][1] == 0.375 / 3
    for name in ("0", "lambda*"):
        assert claims[f"the dual player's online regret against {name} is at most its bound"][1] == 0.25
        assert claims[f"the dual player's online regret against {name} is at most half of the price"][1] == 1.5
    assert claims["the primal player's V_r is at least that of the policy it played, in every round"][3:] == [
        True,
        True,
    ]
    assert not [claim for claim, (status, *_, holds) in claims.items() if status == "proved" and not holds]


def test_what_it_does_not_bound_is_not_claimed(found: dict[str, Any]) -> None:
    claims = found["claims on the grid"]
    assert (
        claims["R_p(pi*) is at most its rate"][2] == "No theorem bounds the regret of the primal player 'only-action'."
    )
    assert claims["the dual player's online regret against lambda* is at most its bound"][2] == "The price is too low."


def test_the_report_shows_what_they_say(found: dict[str, Any]) -> None:
    said = ("there is nothing to choose", "there is one policy, so none is better", "at most half of the price")
    assert not [words for words in ("only-action", "flat-price", *said) if words not in found["page"]]
