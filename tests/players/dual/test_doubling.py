"""The multiplier that doubles: its dual regret on hostile signals, and Regret and Resets without B."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.players.dual.rounds import Stub, a_round, never

import resetfree as rf
from resetfree.game.capabilities import RaisesMultiplier
from resetfree.players.dual.unknown_bound import Doubling
from resetfree.theory.assumptions import dual_class
from resetfree.theory.certificates import certify
from resetfree.theory.certificates.anytime import DELTA
from resetfree.theory.certificates.claims_rates import UNKNOWN_B, primal_bound


def multipliers(player: Doubling, costs: list[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    state, found = player.init(Stub(), len(costs), 0), []
    for k, g in enumerate(costs):
        found.append(player.multiplier(state, 0, never))
        state = player.update(state, a_round(k + 1, 0, found[-1], g))
    return np.array(found)


def bound(player: Doubling, u: float) -> float:
    """The formula of the docstring, written again."""
    return sum((u - phase.lam) * (phase.patience + 1) for phase in player.phases(u) if phase.lam < u)


PLAYERS = [
    Doubling(),
    Doubling(patience=2.5),
    Doubling(first=0.25, growth=0.5),
    Doubling(first=3.0, patience=4.0, ceiling=20.0),
]


@pytest.mark.parametrize("player", PLAYERS, ids=str)
def test_its_regret_is_bounded_for_every_multiplier_at_once(player: Doubling) -> None:
    rng = np.random.default_rng(0)
    nearly = 0.0
    for signals in ("ones", "fractions", "rare", "just below"):
        costs = {
            "ones": np.ones(300),
            "fractions": rng.random(300),
            "rare": (rng.random(300) < 0.1).astype(float),
            "just below": np.tile([player.patience % 1 or 0.999, 1.0], 150),
        }[signals]
        lam = multipliers(player, costs.tolist())
        assert (np.diff(lam) >= 0).all()
        for u in (0.0, 0.1, 1.0, 3.0, 7.5, 19.0):
            regret = np.cumsum((u - lam) * costs)
            most = bound(player, u)
            assert (regret <= most + 1e-9).all()
            nearly = max(nearly, regret.max() / most if most > 0 else 0.0)
    assert nearly > 0.4  # the bound is not about nothing


def test_the_multiplier_stops_at_the_ceiling_and_nothing_is_promised_above_it() -> None:
    player = Doubling(ceiling=20.0)
    assert multipliers(player, [1.0] * 9).tolist() == [1, 2, 4, 8, 16, 20, 20, 20, 20]
    assert [phase.lam for phase in player.phases(20.0)] == [1, 2, 4, 8, 16, 20]
    with pytest.raises(rf.NotCertifiable, match="above the ceiling"):
        player.phases(20.5)
    assert isinstance(player, RaisesMultiplier)
    assert player.largest_multiplier(Stub(), 3) == 8.0


@pytest.mark.parametrize("id", ["grid-v0", "random-linear-v0", "thresholds-v0", "coin-chain-v0"])
@pytest.mark.parametrize("patience", [1.0, 3.0])
def test_against_a_best_response_resets_end_before_the_multiplier_is_twice_what_is_needed(
    id: str, patience: float
) -> None:
    mdp = rf.make(id)
    needed = float(dual_class(mdp).detail["largest_lambda_star"])
    run = rf.learn(mdp, "best-response", Doubling(patience=patience), episodes=300, seed=2, feedback="realised")
    assert run.columns["lam"].max() < max(2 * needed, 1.0)
    found = {c.claim: c for c in certify(run)}
    assert all(found[claim].status == "proved" and found[claim].holds for claim in UNKNOWN_B)
    assert not [c for c in found.values() if c.refuted]


def test_where_the_patience_is_not_proved_to_suffice_the_claim_is_tuned() -> None:
    asked: dict[str, Any] = {"episodes": 60, "feedback": "realised", "B": 1e6}
    settings = {"primal": {"width": "theory"}}
    run = rf.learn("thresholds-v0", "linear-ucb", Doubling(), settings=settings, **asked)
    found = [c for c in certify(run) if c.claim in UNKNOWN_B]
    assert [c.status for c in found] == ["tuned", "tuned"]
    assert "is proved to suffice above" in found[0].why
    patient = rf.learn("thresholds-v0", "linear-ucb", Doubling(patience=1e12), settings=settings, **asked)
    found = [c for c in certify(patient) if c.claim in UNKNOWN_B]
    assert [(c.status, c.holds) for c in found] == [("proved", True)] * 2
    assert found[0].why.startswith("with probability at least 0.89")
    far = {**patient.columns, "lam": np.full_like(patient.columns["lam"], 2e6)}  # above B: no reason to say nothing
    found = [c for c in certify(dataclasses.replace(patient, columns=far)) if c.claim in UNKNOWN_B]
    assert [(c.status, c.refuted) for c in found] == [("proved", True), ("proved", False)]
    narrow = rf.learn("thresholds-v0", "linear-ucb", Doubling(patience=1e12), settings=settings, **{**asked, "B": 1.5})
    assert "is for multipliers up to B" in next(c for c in certify(narrow) if c.claim == UNKNOWN_B[0]).why
    other = rf.learn("thresholds-v0", "best-response", Doubling(), episodes=20, feedback="exact")
    assert [c.status for c in certify(other) if c.claim in UNKNOWN_B] == ["not applicable"] * 2


def test_a_bound_that_grows_with_the_root_of_resets_is_solved_for_them() -> None:
    """The largest n <= x + y sqrt(n), in place of x + y sqrt(K): less patience is proved to suffice."""
    settings = {"primal": {"width": "proved", "anytime": True}}
    asked: dict[str, Any] = {"episodes": 12_000, "feedback": "realised", "B": 2.0, "settings": settings}
    run = rf.learn("ledge-v0", "linear-ucb", Doubling(patience=8000.0), **asked)
    found = {c.claim: c for c in certify(run)}
    x, y = primal_bound(run).most, primal_bound(run).per_root_reset
    n = found[UNKNOWN_B[0]].detail["primal"]
    assert n == pytest.approx(x + y * np.sqrt(n))
    assert 1.5 * n < x + y * np.sqrt(12_000)
    assert (np.e - 1) * n + np.log(1 / DELTA) < 8000 < (np.e - 1) * (x + y * np.sqrt(12_000))
    assert all(found[claim].status == "proved" and found[claim].holds for claim in UNKNOWN_B)


def test_forged_multipliers_and_resets_are_found() -> None:
    run = rf.learn("random-linear-v0", "best-response", Doubling(), episodes=50, feedback="realised", seed=1)
    for column, value in (("lam", 64.0), ("reset", True)):
        forged = {**run.columns, column: np.full_like(run.columns[column], value)}
        assert any(c.refuted and c.claim in UNKNOWN_B for c in certify(dataclasses.replace(run, columns=forged)))
