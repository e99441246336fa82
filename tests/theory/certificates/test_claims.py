"""What claims count, what their proofs rest on, and the comparators that they are made against."""

import dataclasses
import json
import math
from math import e, log, sqrt
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner
from gymnasium.spaces import Discrete
from tests.bank import edit
from tests.mutants.honest import certified

import resetfree as rf
from resetfree.core.certificate import beside, failure_probability, resting_on
from resetfree.game.capabilities import Comparator
from resetfree.game.contract import Proof
from resetfree.players import discover
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.elimination.support_elimination import SupportElimination
from resetfree.players.tabular.average_reward import Politex
from resetfree.players.tabular.ucbvi import UCBVI
from resetfree.show.cli.certify import certify as command
from resetfree.theory.assumptions import dual_class, reachable_starts
from resetfree.theory.certificates import EVERY_PATH, OPTIMISM, RATES, certify, primal_bound, truth
from resetfree.theory.certificates.anytime import DELTA
from resetfree.theory.certificates.claims_dual import dual_side
from resetfree.theory.certificates.claims_paths import BY_SIZES

DOCS = Path(__file__).parents[3] / "docs"
OF_THE_RECORD = ("(rounds", "(entries")  # how claims end that count what differs


def find(claims: list[rf.Certificate], words: str) -> rf.Certificate:
    (found,) = [c for c in claims if c.claim.startswith(words)]
    return found


@pytest.fixture(scope="module")
def careless() -> rf.Run:
    return rf.learn("grid-v0", "uniform", episodes=300, seed=0)


def test_what_must_be_true_of_an_honest_record_is_no_theorem(tmp_path: Path) -> None:
    file = tmp_path / "a.rfrun"
    claims = rf.learn("grid-v0", episodes=40, path=file).certificates()
    kept = [c for c in claims if c.applies and any(words in c.claim for words in OF_THE_RECORD)]
    assert len(kept) >= 6
    assert {c.status for c in kept} == {"checked"}
    assert {c.claim for c in claims if c.status == "checked"} == {c.claim for c in kept}
    counts = json.loads(CliRunner().invoke(command, [str(file), "--json", "--replay"]).output)["counts"]
    assert counts["checked"] > len(kept)  # what is played again is checked, too
    assert counts["proved"] == sum(c.status == "proved" for c in claims)
    edit(file, "UPDATE rounds SET reward = reward + 1 WHERE k = 7")
    result = CliRunner().invoke(command, [str(file), "--strict"])
    assert result.exit_code == 1
    assert "checked" in result.output


def test_a_check_that_fails_is_refuted() -> None:
    assert rf.Certificate("rounds differ", 1.0, 0.0, kind="==", status="checked").refuted
    assert not rf.Certificate("rounds differ", 0.0, 0.0, kind="==", status="checked").refuted


def test_every_bound_that_every_run_satisfies_is_called_vacuous(careless: rf.Run) -> None:
    claims, k, horizon = careless.certificates(), len(careless), careless.spec["horizon"]
    reduction = find(claims, "Resets are at most R_p(pi*) + R_d(lambda*)")
    assert reduction.rhs >= k
    assert reduction.vacuous == f"vacuous: no run can exceed {k}"
    lower = find(claims, "Regret is at least -B times")
    assert lower.lhs <= -k * horizon
    assert lower.vacuous == f"vacuous: no run can be below {-k * horizon}"
    for c in claims:
        if c.status == "proved" and c.claim.startswith(("Resets are at most", "no more resets happened")):
            assert bool(c.vacuous) == (c.rhs >= k), c
    says = find(claims, "Resets are at least what the resets so far need")
    assert says.lhs > 0
    assert not says.vacuous


def test_optimism_that_names_the_horizon_in_every_round_says_nothing() -> None:
    settings = {"primal": {"width": "theory"}}
    run = rf.learn("grid-v0", "linear-ucb", episodes=30, settings=settings)
    assert (run.columns["upper"] >= run.spec["horizon"]).all()
    assert find(run.certificates(), OPTIMISM[0]).vacuous


def test_on_few_episodes_the_unsafe_pairs_say_nothing() -> None:
    for episodes, vacuous in ((18, True), (19, False)):
        claims = rf.learn("grid-v0", "support-elimination", episodes=episodes).certificates()
        assert bool(find(claims, EVERY_PATH[0]).vacuous) == vacuous
        assert find(claims, BY_SIZES).vacuous  # 40


def test_an_interval_up_to_what_every_run_satisfies_is_called_vacuous() -> None:
    for resets, vacuous in ((10.0, True), (9.0, False)):
        interval = rf.Certificate("Resets", 0.0, resets, status="stated", why="with probability at least 0.99")
        assert bool(beside(interval, most=10.0).vacuous) == vacuous


def test_a_claim_that_fails_is_not_called_vacuous() -> None:
    assert not beside(rf.Certificate("Resets", 12.0, 11.0), most=10.0).vacuous


def test_the_events_of_all_claims_are_added_up_once(careless: rf.Run, tmp_path: Path) -> None:
    claims = careless.certificates()
    assert failure_probability(claims) == pytest.approx(2 * DELTA)  # of the resets, and of the rewards
    file = tmp_path / "a.rfrun"
    rf.learn("grid-v0", "support-elimination", episodes=30, path=file, settings={"primal": {"width": "theory"}})
    data = json.loads(CliRunner().invoke(command, [str(file), "--json"]).output)
    assert data["failure_probability"] == pytest.approx(3 * DELTA + 2 * 0.05)  # optimism and rate count apart
    events = {name: p for c in data["certificates"] for name, p in c["detail"].get("may_fail", {}).items()}
    assert data["failure_probability"] == pytest.approx(math.fsum(events.values()))
    shown = " ".join(CliRunner().invoke(command, [str(file)]).output.split())
    assert "do so together with probability at least 0.87" in shown


def test_every_claim_that_says_with_which_probability_it_holds_is_counted() -> None:
    for name, claims in certified().items():
        for c in claims:
            if c.status == "proved" and "with probability at least" in c.why:
                assert c.detail.get("may_fail"), (name, c.claim)


def test_an_event_of_two_claims_counts_once_and_a_tuned_claim_never() -> None:
    claim = rf.Certificate("a claim", 0.0, 1.0)
    tuned = rf.Certificate("a guess", 0.0, 1.0, status="tuned")
    assert failure_probability([resting_on(claim, a=0.1), resting_on(claim, a=0.2), resting_on(tuned, b=0.5)]) == 0.2
    assert failure_probability([resting_on(claim, a=0.7, b=0.6)]) == 1.0
    assert failure_probability([claim]) == 0.0


def test_words_about_the_limit_are_true() -> None:
    """On coin-chain-v0 elimination promises fewer resets than there are unsafe triples: the limit is about a class."""
    found = rf.limit(rf.make("coin-chain-v0"))
    assert found.promised is not None
    assert found.promised < found.unsafe
    readme = (DOCS.parent / "README.md").read_text()
    assert "[no learner can promise fewer](" not in readme
    assert "no learner" not in BY_SIZES
    (row,) = [line for line in (DOCS / "guarantees.md").read_text().splitlines() if "`auto` takes" in line]
    assert "if Assumption 1 holds" in row
    assert "triple" in row


NOTHING = ConstantPenalty(C=0.0)
THEORY = {"primal": {"width": "theory"}}


def find_of_what_proofs_rest_on(run: rf.Run, claim: str) -> rf.Certificate:
    return next(c for c in certify(run) if c.claim == claim)


def broken(run: rf.Run) -> list[str]:
    return [c.claim for c in certify(run) if c.status == "proved" and not c.holds]


# Which pairs a reset rules out.


def test_the_bound_counts_what_the_player_counts() -> None:
    """Steps kept apart: 103 resets on grid-v0, where 18 pairs (s, a) and 144 triples (h, s, a) are unsafe."""
    for pooled, unsafe in ((None, 18), (False, 144)):
        run = rf.learn("grid-v0", SupportElimination(pooled=pooled), NOTHING, episodes=2000, seed=0)
        found = find_of_what_proofs_rest_on(run, EVERY_PATH[pooled is False])
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
        found = find_of_what_proofs_rest_on(run, OPTIMISM[0])
        assert (found.status, found.holds) == ("proved", True)
        assert run.spec["statements"]["primal"]["constants"]["noise"] == 0.5
        assert not broken(run)


def test_gaussian_noise_is_covered_by_players_that_can() -> None:
    mdp = coin().replace(noise=2.0)
    for player in (UCBVI(width="theory"), SupportElimination(width="theory")):
        run = rf.learn(mdp, player, NOTHING, episodes=500, seed=1)
        found = find_of_what_proofs_rest_on(run, OPTIMISM[0])
        assert (found.status, found.holds) == ("proved", True)


def test_rewards_that_are_deterministic_change_nothing() -> None:
    """And what a problem cannot say counts as random; a tuned width is what it was asked to be."""
    grid = rf.make("grid-v0").problem()
    coins = coin().problem()
    for player in (UCBVI, SupportElimination):
        assert player(width="theory").statement(grid, 100).constants["noise"] == 0.0
        assert player(width="theory", noise=0.7).statement(coins, 100).constants["noise"] == 0.7
        assert player().statement(coins, 100).constants["noise"] == 0.0
    assert rf.Problem.reward_noise == 0.5


@dataclasses.dataclass(frozen=True)
class Deaf(UCBVI):
    """Says that its width is for deterministic rewards, wherever it plays."""

    def proof(self, problem: rf.Problem) -> Proof:
        return super().proof(problem)._replace(noise=0.0)


def test_a_width_for_less_noise_than_there_is_proves_nothing() -> None:
    assert (
        find_of_what_proofs_rest_on(rf.learn(coin(), Deaf(width="theory"), NOTHING, episodes=100), OPTIMISM[0]).status
        == "tuned"
    )


# Multipliers.


def test_a_bound_on_multipliers_is_checked_for_every_player_that_names_one() -> None:
    run = rf.learn("politex-trap-v0", Politex(B=0.1, model="exact", copies=True), ConstantPenalty(C=2000.0),
                   episodes=200)  # fmt: skip
    found = find_of_what_proofs_rest_on(run, RATES[0])
    assert not found.applies
    assert "for multipliers up to B = 0.1, and here one is 2000" in found.why
    assert not broken(run)
    kept = rf.learn("politex-trap-v0", Politex(B=3.0, model="exact", copies=True), ConstantPenalty(C=3.0), episodes=200)
    assert find_of_what_proofs_rest_on(kept, RATES[0]).status == "proved"
    assert not broken(kept)


def test_a_width_for_one_multiplier_is_not_proved_for_many() -> None:
    player = UCBVI(width="theory", bonus="bernstein", cost_part=True)
    many = rf.learn("grid-v0", player, "projected-gradient", feedback="realised", episodes=300)
    n = len(np.unique(many.columns["lam"]))
    assert n > 1
    found = find_of_what_proofs_rest_on(many, OPTIMISM[0])
    assert found.status == "tuned"
    assert f"for a multiplier that never changes; here are {n}" in found.why
    one = rf.learn("grid-v0", player, ConstantPenalty(C=40.0), feedback="realised", episodes=300)
    assert find_of_what_proofs_rest_on(one, OPTIMISM[0]).status == "proved"
    hoeffding = rf.learn("grid-v0", UCBVI(width="theory"), "projected-gradient", feedback="realised", episodes=100)
    assert find_of_what_proofs_rest_on(hoeffding, OPTIMISM[0]).status == "proved"


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
        bound = find_of_what_proofs_rest_on(run, EVERY_PATH[0])
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


def star(run: rf.Run) -> Comparator | str:
    known = truth(run)
    assert not isinstance(known, str)
    return dual_side(run, known.hat).against["lambda*"]


def first(run: rf.Run, k: int) -> rf.Run:
    return dataclasses.replace(run, columns={name: column[:k] for name, column in run.columns.items()})


@pytest.mark.parametrize("dual", ["projected-gradient", "coin-betting"])
def test_it_covers_starts_that_did_not_occur(dual: str) -> None:
    """From 0,0 the grid's largest multiplier (at 0,2) is not met in the first rounds: it counts all the same."""
    whole = rf.learn("grid-v0", "linear-ucb", dual, feedback="realised", episodes=200, seed=1)
    few = first(whole, 2)
    assert whole.mdp is not None
    top = dual_class(whole.mdp).detail["B"]
    met = whole.solution.lambda_hat[np.unique(few.columns["s1"])].max() + 1
    assert met < 0.99 * top
    for run in (few, whole):
        found = star(run)
        assert isinstance(found, Comparator)
        assert found.u == pytest.approx(top, rel=1e-12)
        assert found.largest == pytest.approx(top, rel=1e-12)


def test_it_is_one_function_whatever_the_seed_with_features_too() -> None:
    mdp = rf.make("grid-v0").replace(xi=np.eye(12), name="one-hot")
    possible = reachable_starts(mdp).states
    wanted = rf.solve(mdp).lambda_hat[possible] + 1
    for seed in range(3):
        run = rf.learn(mdp, "uniform", "projected-gradient", feedback="realised", episodes=4, seed=seed)
        found = star(run)
        assert isinstance(found, Comparator)
        np.testing.assert_allclose(found.u[possible], wanted, rtol=1e-9)
        assert found.largest == pytest.approx(wanted.max())
        np.testing.assert_allclose(found.at_starts, found.u[run.columns["s1"]])


def test_a_start_that_no_behaviour_brings_about_has_none() -> None:
    mdp = alone()
    run = rf.learn(mdp, "uniform", "projected-gradient", feedback="realised", episodes=20)
    lost = int(np.flatnonzero(~reachable_starts(mdp).states & run.solution.feasible)[0])
    starts = run.columns["s1"].copy()
    starts[4] = lost
    moved = star(dataclasses.replace(run, columns={**run.columns, "s1": starts}))
    assert isinstance(moved, str)
    assert "round 5 starts in state" in moved
    assert "no behaviour starts an episode" in moved


def alone() -> rf.FiniteMDP:
    """Three states that lead to each other, and a fourth that nothing leads to."""
    transition = np.zeros((4, 2, 4))
    transition[0, 0, 0], transition[0, 1, [1, 2]], transition[1, :, 0], transition[3, :, 3] = 1, 0.5, 1, 1
    transition[2, :, 2] = 1
    reward = np.array([[0.1, 1.0], [0.5, 0.5], [0, 0], [1, 1]])
    return rf.FiniteMDP(transition, reward, [False, False, True, False], 3, start=[1, 0, 0, 0], restart=[1, 0, 0, 0])


@pytest.mark.parametrize(("dual", "cap"), [("projected-gradient", None), ("coin-betting", 200.0)])
def test_the_chance_of_realised_costs_is_bounded_by_what_is_known_before(dual: str, cap: float | None) -> None:
    """After two rounds neither the largest multiplier nor the largest lambda* has been met; the bound has both."""
    settings: dict[str, Any] = {"primal": {"width": "theory"}, "dual": {} if cap is None else {"ceiling": cap}}
    played = rf.learn("grid-v0", "linear-ucb", dual, feedback="realised", episodes=300, seed=1, settings=settings)
    run = first(played, 2)
    found = {c.claim: c for c in certify(run)}
    b, level = cap or run.spec["B"], log(2 / DELTA)
    assert run.columns["lam"].max() < b
    bound = primal_bound(run).most + found["the dual player's online regret against lambda* is at most its bound"].rhs
    chance = min(bound + b * sqrt(300 * level / 2), 2 * bound + 4 * (e - 2) * b**2 * level)
    assert found[RATES[2]].rhs == pytest.approx(chance, rel=1e-12)


def test_too_many_starts_are_not_replaced_by_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resetfree.theory.assumptions.LARGEST_WORK", 10.0)
    run = rf.learn("grid-v0", "uniform", "projected-gradient", B=40.0, feedback="realised", episodes=20)
    found = star(run)
    assert isinstance(found, str)
    assert "must cover all 10 possible starts" in found
