"""The certificate of a dual player has the bound that is proved for the settings in force, whatever they are."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import resetfree as rf
from resetfree.players import discover
from resetfree.players.dual.unknown_bound import CoinBetting
from resetfree.theory.certificates import certify, truth
from resetfree.theory.certificates.claims_dual import DualSide, dual_side

Floats = NDArray[np.float64]
B, K = 5.0, 60
CHOICES: dict[str, dict[str, list[Any]]] = {
    "projected-gradient": {"feasible_set": ["auto", "ball"]},
    "constant-step": {"eta": [None, 0.3], "feasible_set": ["auto", "ball"]},
    "adagrad-norm": {"gamma": [None, 0.7], "feasible_set": ["auto", "ball"]},
    "optimistic-gradient": {"eta": [None, 0.3], "hint": ["last", "frequency"], "feasible_set": ["auto", "ball"]},
    "coin-betting": {"eps": [1.0, 0.01], "ceiling": [1e9, 4.0], "every_round": [False, True]},
    "doubling": {"first": [1.0, 0.1], "patience": [1.0, 2.5], "growth": [0.0, 0.5], "ceiling": [1e6, 4.0]},
    "constant-penalty": {"C": [None, 4.5, 2.0], "factor": [1.0, 0.5]},
    "search": {"tolerance": [None, 0.2], "n_steps": [0, 20]},
    "one-multiplier": {"step": ["bound", "unit"], "capped": [True, False], "first_start_only": [False, True]},
    "counting": {"eta": [1.0]},
    "virtual-queue": {},
}
NO_BOUND = {"one-multiplier", "counting", "virtual-queue"}


def slippery(fall: float = 0.003) -> rf.FiniteMDP:
    """Whatever is done in 0 leads on once in 1/fall times; in 1, where a reset puts the agent, one action falls."""
    transition = np.zeros((3, 2, 3))
    transition[0, :, 0], transition[0, :, 1] = 1 - fall, fall
    transition[1, 0, 1] = transition[1, 1, 2] = transition[2, :, 2] = 1.0
    reward = np.zeros((3, 2))
    reward[1, 1] = 1.0
    return rf.FiniteMDP(transition, reward, [False, False, True], 1, start=[1, 0, 0], restart=[0, 1, 0])


def combinations() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, choices in CHOICES.items():
        for values in itertools.product(*choices.values()):
            yield name, dict(zip(choices, values, strict=True))


def side_of(run: rf.Run) -> DualSide:
    known = truth(run)
    assert not isinstance(known, str)
    return dual_side(run, known.hat)


def proved(name: str, given: dict[str, Any], run: rf.Run, u: float) -> Floats | None:
    """The bound of the docstring, from the multipliers and signals alone; None where there is none. xi = 1."""
    lam, g, k = run.columns["lam"], run.columns["cost_signal"], np.arange(1, len(run) + 1)
    far = np.maximum.accumulate(np.abs(lam - u))
    if name == "projected-gradient":
        return np.asarray((far**2 / (2 * B) + B * np.maximum.accumulate(g**2)) * np.sqrt(k))
    if name == "constant-step":
        eta = given["eta"] or B / math.sqrt(K)
        return np.asarray(u**2 / (2 * eta) + eta / 2 * np.cumsum(g**2))
    if name == "adagrad-norm":
        low = -B if given["feasible_set"] == "ball" else 0.0
        gamma = given["gamma"] or (B - low) / math.sqrt(2)
        return np.asarray((far**2 / (2 * gamma) + gamma) * np.sqrt(np.cumsum(g**2)))
    if name == "optimistic-gradient":
        eta, past, wrong = given["eta"] or B / math.sqrt(K), dict[int, list[float]](), []
        for s1, cost in zip(run.columns["s1"].tolist(), g.tolist(), strict=True):
            seen = past.setdefault(s1, [])
            wrong.append(cost - (0.0 if not seen else seen[-1] if given["hint"] == "last" else sum(seen) / len(seen)))
            seen.append(cost)
        return np.asarray(u**2 / (2 * eta) + eta / 2 * np.cumsum(np.square(wrong)))
    if name == "coin-betting" and u <= given["ceiling"]:
        bets, w, total, wealth, n = [], 0.0, 0.0, given["eps"], 0
        for cost in g:
            w = total / (n + 1) * wealth
            now = cost if w <= given["ceiling"] else 0.0
            n, total, wealth = n + bool(now > 0 or given["every_round"]), total + now, wealth + now * w
            bets.append(n)
        N = np.array(bets)
        return np.asarray(u * np.sqrt(N * np.log1p(24 * (N * u / given["eps"]) ** 2)) + given["eps"])
    if name == "doubling" and u <= given["ceiling"]:
        lams = [given["first"] * 2.0**j for j in range(10)]
        most = sum((u - at) * (given["patience"] + given["growth"] * at + 1) for at in lams if at < u)
        return np.asarray(np.minimum(most, u * k))
    if name == "constant-penalty":
        return np.zeros(len(k)) if u <= lam[0] else None
    if name == "search" and run.spec["feedback"] == "optimistic":
        tolerance = 1 / math.sqrt(K) if given["tolerance"] is None else given["tolerance"]
        return np.asarray(B * tolerance * k)
    return None


def test_every_setting_of_every_dual_player_is_tried() -> None:
    for name, cls in discover("dual").items():
        assert set(CHOICES[name]) == {field.name for field in dataclasses.fields(cls)} - {"B"}, name


@pytest.mark.parametrize(("name", "given"), list(combinations()), ids=str)
def test_the_certificate_is_the_proof_and_holds(name: str, given: dict[str, Any]) -> None:
    own = {"B": B} if "B" in discover("dual")[name].__dataclass_fields__ else {}
    for feedback, primal in itertools.product(("optimistic", "realised", "exact"), ("uniform", "ucbvi")):
        settings = {"dual": {**own, **given}}
        run = rf.learn(slippery(0.3), primal, name, feedback=feedback, episodes=K, seed=1, settings=settings)
        side = side_of(run)
        for against in ("0", "lambda*"):
            bound, u = side.bounds[against], 0.0 if against == "0" else 2.0
            expected = None if name in NO_BOUND else proved(name, given, run, u)
            if expected is None:
                assert isinstance(bound, str)
                continue
            assert not isinstance(bound, str), bound
            np.testing.assert_allclose(bound, expected, rtol=1e-12)
            online = np.cumsum((u - run.columns["lam"]) * run.columns["cost_signal"])
            assert (online <= bound + 1e-9).all()
        assert not [str(c) for c in certify(run) if c.refuted]


def test_a_bettor_that_bets_in_every_round_is_certified_for_every_round() -> None:
    """Few resets in many rounds: the bound with the rounds that had a cost in place of all fails in many of 20 runs."""
    wrong = 0
    for seed in range(20):
        settings = {"dual": {"every_round": True}}
        run = rf.learn(
            slippery(), "uniform", "coin-betting", feedback="realised", episodes=1000, seed=seed, settings=settings
        )
        assert not [str(c) for c in certify(run) if c.refuted]
        g = run.columns["cost_signal"]
        fewer = proved("coin-betting", {"eps": 1.0, "ceiling": 1e9, "every_round": False}, run, 2.0)
        wrong += bool((np.cumsum((2.0 - run.columns["lam"]) * g) > fewer).any())
    assert wrong >= 5


@pytest.mark.parametrize("eps", [1.0, 1e-3, 1e150, 1e-150])
def test_the_bound_of_the_bettor_is_nearly_reached(eps: float) -> None:
    """Growing signals take more than 4/5 of it, for every eps: a constant smaller by a fifth would be wrong."""
    g, total, wealth, u = (np.arange(1, 301) / 300) ** 2, 0.0, 1.0, 5e7
    for i, cost in enumerate(g):
        total, wealth = total + cost, wealth + cost * total / (i + 1) * wealth
    if eps * u > 1e150:
        said = CoinBetting(eps=eps).statement(slippery().problem(), 300)
        assert math.isfinite(float(said.constants["dual_regret_bound_for_1"]))
        return
    share = (u * total - (wealth - 1.0)) * eps / CoinBetting(eps=eps)._regret(u * eps, 300)
    assert 0.8 < share <= 1.0
