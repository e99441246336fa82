"""Dual players without gradient steps: coin betting, a constant penalty, counting, and search."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln
from tests.players.dual.rounds import B, K, Stub, a_round, after, against, never, small

import resetfree as rf
from resetfree.core import Floats
from resetfree.players.dual.one_multiplier import ConstantPenalty, Counting, Search
from resetfree.players.dual.unknown_bound import CoinBetting


def test_coin_betting_by_hand() -> None:
    state = after(CoinBetting(), [(0, 0.5), (0, 0.0), (0, 0.8)])
    assert (state.total, state.n) == (1.3, 2)
    assert state.wealth == pytest.approx(1.0 + 0.8 * (0.5 / 2))
    assert CoinBetting().multiplier(state, 0, never) == pytest.approx(1.3 / 3 * 1.2)


SIGNALS: dict[str, Callable[[int, float, np.random.Generator], float]] = {
    "ones": lambda k, lam, rng: 1.0 if k < 60 else 0.0,
    "uniform": lambda k, lam, rng: 0.1 * rng.random(),
    "sparse": lambda k, lam, rng: float(rng.random() < 0.05),
    "falling": lambda k, lam, rng: 1.0 / (k + 1),
    "until 5": lambda k, lam, rng: float(lam < 5.0),
    "until 500": lambda k, lam, rng: float(lam < 500.0 and k < 100),
    "until 500, noisy": lambda k, lam, rng: float(rng.random() < (0.3 if lam < 500.0 else 0.01)),
    "tiny": lambda k, lam, rng: 1e-12,
}


def bet(player: CoinBetting, kind: str, rounds: int) -> tuple[Floats, Floats, Any]:
    rng = np.random.default_rng(8)
    state = player.init(Stub(), rounds, 0)
    lams, gs = [], []
    for k in range(rounds):
        lam = player.multiplier(state, 0, never)
        g = SIGNALS[kind](k, lam, rng)
        state = player.update(state, a_round(k + 1, 0, lam, g))
        lams.append(lam)
        gs.append(g)
    return np.array(lams), np.array(gs), state


@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("eps", [1.0, 0.01])
@pytest.mark.parametrize("every_round", [False, True])
def test_coin_betting_keeps_the_bound_of_the_literature(kind: str, eps: float, every_round: bool) -> None:
    for rounds in (1, 3, 50, 1000):
        lam, g, state = bet(CoinBetting(eps=eps, every_round=every_round), kind, rounds)
        n = rounds if every_round else int((g > 0).sum())
        assert (lam >= 0.0).all()
        for u in (0.0, 0.1, 1.0, 5.0, 39.0, 1000.0, 1e5):
            regret = float(((u - lam) * g).sum())
            assert regret <= small(u * math.sqrt(n * math.log1p(24 * n**2 * u**2 / eps**2)) + eps)
        if lam.max() < 1e9:
            assert state.wealth == pytest.approx(eps + (g * lam).sum())


@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("every_round", [False, True])
def test_the_wealth_of_the_bettor_is_at_least_its_potential(kind: str, every_round: bool) -> None:
    """W >= eps 2^N Gamma((N+1)/2 + t/2) Gamma((N+1)/2 - t/2) / (pi N!) with t the sum of the signals."""
    for rounds in (1, 2, 10, 300):
        _, _, state = bet(CoinBetting(every_round=every_round), kind, rounds)
        n, t = state.n, state.total
        log_potential = (
            n * math.log(2) + gammaln((n + 1 + t) / 2) + gammaln((n + 1 - t) / 2) - math.log(math.pi) - gammaln(n + 1)
        )
        assert math.log(state.wealth) >= log_potential - 1e-9


@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("every_round", [False, True])
def test_the_ceiling_keeps_the_bound_below_it(kind: str, every_round: bool) -> None:
    lam, g, state = bet(CoinBetting(ceiling=5.0, every_round=every_round), kind, 2000)
    n = 2000 if every_round else int((g > 0).sum())
    assert lam.max() <= 5.0
    assert math.isfinite(state.wealth)
    for u in (0.0, 1.0, 4.0, 5.0):
        bound = u * math.sqrt(n * math.log1p(24 * n**2 * u**2)) + 1.0
        assert float(((u - lam) * g).sum()) <= small(bound)


def test_coin_betting_needs_few_resets_for_a_large_multiplier() -> None:
    lam, g, _ = bet(CoinBetting(), "until 500", 1000)
    assert 500.0 <= lam[-1] <= 1000.0
    assert g.sum() <= 14


def test_coin_betting_stops_at_the_ceiling_where_nothing_helps() -> None:
    player = CoinBetting()
    state = player.init(Stub(), 10_000, 0)
    for k in range(10_000):  # a problem in which every episode is a reset
        state = player.update(state, a_round(k + 1, 0, 0.0, 1.0))
    assert player.multiplier(state, 0, never) == 1e9
    assert state.n < 40


def test_the_bettor_forgets_only_if_it_bets_in_every_round() -> None:
    for every_round in (False, True):
        lam, _, _ = bet(CoinBetting(every_round=every_round), "until 500", 1000)
        assert (lam[-1] < 100.0) == every_round


@pytest.mark.parametrize("eps", [1.0, 1e-3, 1e150, 1e-150])
def test_the_bound_of_the_bettor_is_nearly_reached(eps: float) -> None:
    """Growing signals take more than 4/5 of it, for every eps: a constant smaller by a fifth would be wrong."""
    g, total, wealth, u = (np.arange(1, 301) / 300) ** 2, 0.0, 1.0, 5e7
    for i, cost in enumerate(g):
        total, wealth = total + cost, wealth + cost * total / (i + 1) * wealth
    if eps * u > 1e150:
        said = CoinBetting(eps=eps).statement(Stub(), 300)
        assert math.isfinite(float(said.constants["dual_regret_bound_for_1"]))
        return
    share = (u * total - (wealth - 1.0)) * eps / CoinBetting(eps=eps)._regret(u * eps, 300)
    assert 0.8 < share <= 1.0


def test_constant_penalty_is_constant() -> None:
    for player, expected in [
        (ConstantPenalty(B=3.0), 3.0),
        (ConstantPenalty(C=2.5), 2.5),
        (ConstantPenalty(B=3.0, C=0.0), 0.0),
    ]:
        trace = against(player, np.eye(3), lambda k, t: (k % 3, 1.0))
        assert set(trace.lam.tolist()) == {expected}
    trace = against(ConstantPenalty(B=B), None, lambda k, t: (0, 1.0 / (k + 1)))
    assert trace.regret(np.array([B])) == 0.0
    assert trace.regret(np.array([B - 1.0])) < 0.0


def test_counting_counts_what_happened_and_not_what_was_signalled() -> None:
    player = Counting(eta=0.5)
    state = player.init(Stub(), K, 0)
    for k, (g, reset) in enumerate([(1.0, False), (0.0, True), (0.3, True), (0.2, False)], start=1):
        state = player.update(state, a_round(k, 0, 0.0, g, reset))
    assert (state.n, player.multiplier(state, 3, never)) == (2, 1.0)
    assert type(state.n) is int


class Asked:
    """A primal player's answers, counted."""

    def __init__(self, v_c: Callable[[float], float]) -> None:
        self.v_c, self.asked = v_c, list[float]()

    def __call__(self, lam: float) -> rf.Plan:
        self.asked.append(lam)
        return rf.Plan(None, 0.0, self.v_c(lam))


@pytest.mark.parametrize("threshold", [1e-3, 0.5, 3.0, math.pi, 7.9])
def test_search_finds_the_threshold(threshold: float) -> None:
    player = Search(B=8.0, tolerance=0.0)
    ask = Asked(lambda lam: 0.4 if lam < threshold else 0.0)
    lam = player.multiplier(player.init(Stub(), K, 0), 0, ask)
    assert threshold <= lam <= threshold + 8.0 / 2**20
    assert len(ask.asked) == 22
    assert ask.asked[:3] == [0.0, 8.0, 4.0]


def test_search_at_the_ends() -> None:
    player = Search(B=8.0, tolerance=0.1)
    state = player.init(Stub(), K, 0)
    free, hopeless = Asked(lambda lam: 0.1), Asked(lambda lam: 0.2)
    assert player.multiplier(state, 0, free) == 0.0
    assert free.asked == [0.0]
    assert player.multiplier(state, 0, hopeless) == 8.0
    assert hopeless.asked == [0.0, 8.0]
    unknown = Asked(lambda lam: math.nan)
    assert player.multiplier(state, 0, unknown) == 8.0
    coarse = Search(B=8.0, tolerance=0.0, n_steps=1)
    assert coarse.multiplier(coarse.init(Stub(), K, 0), 0, Asked(lambda lam: float(lam < 5))) == 8.0


def test_search_plays_a_safe_plan_even_where_cost_rises_with_the_multiplier() -> None:
    rng = np.random.default_rng(9)
    player = Search(B=B)
    state = player.init(Stub(), 100, 0)
    assert state.tol == 0.1
    regret = 0.0
    for _ in range(100):
        table = rng.random(40) ** 3

        def v_c(lam: float, table: Floats = table) -> float:
            return float(table[int(lam / B * 39)])

        lam = player.multiplier(state, 0, Asked(v_c))
        assert v_c(lam) <= 0.1 or lam == B
        regret += (B - lam) * v_c(lam)
    assert regret <= small(B * math.sqrt(100))
