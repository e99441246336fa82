"""A claim is called proved only where what its proof rests on was checked on this run, and then it holds."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

import resetfree as rf
from resetfree.core.certificate import Certificate
from resetfree.game.capabilities import Proof
from resetfree.players import discover
from resetfree.players.dual.penalties import ConstantPenalty
from resetfree.players.elimination.support_elimination import SupportElimination
from resetfree.players.tabular.average_reward import Politex
from resetfree.players.tabular.ucbvi import UCBVI
from resetfree.problems.contract import Problem
from resetfree.theory.certificates import EVERY_PATH, OPTIMISM, RATES, certify

NOTHING = ConstantPenalty(C=0.0)
THEORY = {"primal": {"width": "theory"}}


def find(run: rf.Run, claim: str) -> Certificate:
    return next(c for c in certify(run) if c.claim == claim)


def broken(run: rf.Run) -> list[str]:
    return [c.claim for c in certify(run) if c.status == "proved" and not c.holds]


# Which pairs a reset rules out.


def test_the_bound_counts_what_the_player_counts() -> None:
    """Steps kept apart: 103 resets on grid-v0, where 18 pairs (s, a) and 144 triples (h, s, a) are unsafe."""
    for pooled, unsafe in ((None, 18), (False, 144)):
        run = rf.learn("grid-v0", SupportElimination(pooled=pooled), NOTHING, episodes=2000, seed=0)
        found = find(run, EVERY_PATH[pooled is False])
        assert (found.status, found.holds, found.rhs) == ("proved", True, unsafe)
        assert ("triples (h, s, a)" in found.claim) == (pooled is False)
        assert not broken(run)
    assert run.realised_resets[-1] > 18


# Noise in rewards.


def coin(horizon: int = 1) -> rf.FiniteMDP:
    """One state, two actions that pay 1 with probability 0.6 and 0.4: the first rewards often look worse."""
    reward = np.tile([0.6, 0.4], (2, 1))
    transition = np.zeros((2, 2, 2))
    transition[:, :, 0] = 1.0
    return rf.FiniteMDP(transition, reward, [False, True], horizon, noise="bernoulli")


@pytest.mark.parametrize(
    "player",
    [
        UCBVI(width="theory"),
        UCBVI(width="theory", pooled=True),
        UCBVI(width="theory", bonus="bernstein", cost_part=True),
        SupportElimination(width="theory"),
        SupportElimination(width="theory", pooled=False),
    ],
)
@pytest.mark.parametrize("horizon", [1, 3])
def test_proved_widths_cover_random_rewards(player: Any, horizon: int) -> None:
    """In each run the claim may fail with probability 0.05; measured, the upper bounds are nowhere near V*."""
    for seed in range(3):
        run = rf.learn(coin(horizon), player, NOTHING, episodes=1000, seed=seed)
        found = find(run, OPTIMISM[0])
        assert (found.status, found.holds) == ("proved", True)
        assert run.spec["statements"]["primal"]["constants"]["noise"] == 0.5
        assert not broken(run)


def test_gaussian_noise_is_covered_by_players_that_can() -> None:
    mdp = coin().replace(noise=2.0)
    for player in (UCBVI(width="theory"), SupportElimination(width="theory")):
        run = rf.learn(mdp, player, NOTHING, episodes=500, seed=1)
        found = find(run, OPTIMISM[0])
        assert (found.status, found.holds) == ("proved", True)


def test_rewards_that_are_deterministic_change_nothing() -> None:
    """And what a problem cannot say counts as random; a tuned width is what it was asked to be."""
    grid = rf.make("grid-v0").problem()
    coins = coin().problem()
    for player in (UCBVI, SupportElimination):
        assert player(width="theory").statement(grid, 100).constants["noise"] == 0.0
        assert player(width="theory", noise=0.7).statement(coins, 100).constants["noise"] == 0.7
        assert player().statement(coins, 100).constants["noise"] == 0.0
    assert Problem.reward_noise == 0.5


@dataclasses.dataclass(frozen=True)
class Deaf(UCBVI):
    """Says that its width is for deterministic rewards, wherever it plays."""

    def proof(self, problem: Problem) -> Proof:
        return super().proof(problem)._replace(noise=0.0)


def test_a_width_for_less_noise_than_there_is_proves_nothing() -> None:
    assert find(rf.learn(coin(), Deaf(width="theory"), NOTHING, episodes=100), OPTIMISM[0]).status == "tuned"


# Multipliers.


def test_a_bound_on_multipliers_is_checked_for_every_player_that_names_one() -> None:
    run = rf.learn("politex-trap-v0", Politex(B=0.1, model="exact", copies=True), ConstantPenalty(C=2000.0),
                   episodes=200)  # fmt: skip
    found = find(run, RATES[0])
    assert not found.applies
    assert "for multipliers up to B = 0.1, and here one is 2000" in found.why
    assert not broken(run)
    kept = rf.learn("politex-trap-v0", Politex(B=3.0, model="exact", copies=True), ConstantPenalty(C=3.0), episodes=200)
    assert find(kept, RATES[0]).status == "proved"
    assert not broken(kept)


def test_a_width_for_one_multiplier_is_not_proved_for_many() -> None:
    player = UCBVI(width="theory", bonus="bernstein", cost_part=True)
    many = rf.learn("grid-v0", player, "projected-gradient", feedback="realised", episodes=300)
    n = len(np.unique(many.columns["lam"]))
    assert n > 1
    found = find(many, OPTIMISM[0])
    assert found.status == "tuned"
    assert f"for a multiplier that never changes; here are {n}" in found.why
    one = rf.learn("grid-v0", player, ConstantPenalty(C=40.0), feedback="realised", episodes=300)
    assert find(one, OPTIMISM[0]).status == "proved"
    hoeffding = rf.learn("grid-v0", UCBVI(width="theory"), "projected-gradient", feedback="realised", episodes=100)
    assert find(hoeffding, OPTIMISM[0]).status == "proved"


@pytest.mark.parametrize("name", sorted(name for name, cls in discover("primal").items() if not cls.vectors_only))
def test_every_player_with_a_proved_width_can_be_certified(name: str) -> None:
    cls = discover("primal")[name]
    widths = ("tuned", "theory") if "width" in {f.name for f in dataclasses.fields(cls)} else (None,)
    for width in widths:
        settings = {} if width is None else {"primal": {"width": width}}
        for feedback in ("optimistic", "realised"):
            run = rf.learn("random-linear-v0", name, "projected-gradient", feedback=feedback, episodes=30,
                           settings=settings)  # fmt: skip
            assert not broken(run)


# What cannot be checked, or fails.


class Doomed(gymnasium.Env[Any, Any]):
    """Whatever is done, the step ends the episode: no reset can be avoided, and nothing says so beforehand."""

    observation_space = Discrete(3)
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 1, 0.5, True, False, {}


@pytest.mark.parametrize("player", ["support-elimination", "ucbvi", "linear-ucb", "greedy-composite"])
def test_without_a_model_nothing_that_needs_assumption_1_is_proved(player: str) -> None:
    problem = rf.from_gym(Doomed(), horizon=2, reward_range=(0, 1))
    if player in ("linear-ucb", "greedy-composite"):
        run = rf.learn(problem, player, "projected-gradient", episodes=200, B=1.0, settings=THEORY)
    else:
        run = rf.learn(problem, player, NOTHING, episodes=200, settings=THEORY)
    assert run.mdp is None
    assert run.realised_resets[-1] >= 199
    found = certify(run)
    assert not [c.claim for c in found if c.status == "proved" and not c.holds]
    conditional = [c for c in found if "cannot be checked without the model" in c.why]
    assert conditional
    assert {c.status for c in conditional} <= {"tuned", "not applicable"}
    if player == "support-elimination":
        bound = find(run, EVERY_PATH[0])
        assert (bound.status, bound.holds, bound.rhs) == ("tuned", False, 8.0)
        assert "if Assumption 1 does" in bound.why


@pytest.mark.parametrize("player", ["ucbvi", "support-elimination"])
def test_where_assumption_1_fails_no_optimism_is_proved(player: str) -> None:
    """Once an agent is put where no policy is safe, V* is not defined, and neither is Regret."""
    mdp = rf.make("footnote-v0")
    mdp = mdp.replace(start=mdp.restart[0])
    run = rf.learn(mdp, player, NOTHING, episodes=100, settings=THEORY)
    assert run.realised_resets[-1] > 50
    about = [c for c in certify(run) if c.claim.startswith(("Regret lies between", "V* is at most what", *EVERY_PATH))]
    assert about
    assert not [c.claim for c in about if c.status == "proved"]
