"""T2, T3, T5 and the edge cases: values that fit on the back of an envelope."""

from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.problems.finite.tabular_policy import uniform

nan = np.nan


def check(
    id: str, value: list[float], lambda_hat: list[float], rel: float = 0.0, **options: Any
) -> tuple[rf.FiniteMDP, Any]:
    mdp = rf.make(id, **options)
    solution = rf.solve(mdp)
    np.testing.assert_allclose(solution.value, value, rtol=rel, atol=0)
    np.testing.assert_allclose(solution.lambda_hat, lambda_hat, rtol=rel, atol=0)
    np.testing.assert_array_equal(solution.feasible, ~np.isnan(value))
    return mdp, solution


@pytest.mark.parametrize("n_actions", [1, 2, 4, 9])
def test_footnote(n_actions: int) -> None:
    # home: stay four times at 1 each, and no leap pays anything. bad: everything resets.
    mdp, solution = check("footnote-v0", [4, nan, nan], [0, nan, nan], n_actions=n_actions)
    assert solution.cost.tolist() == [0, 1, 1]
    # A uniform first action leaps with probability 1 - 1/n; four of them stay home with probability n^-4.
    assert rf.evaluate(mdp, uniform(mdp)).v_c[0] == pytest.approx(1 - n_actions**-4.0)


def test_footnote_resets_for_ever_after_the_first_mistake() -> None:
    mdp = rf.make("footnote-v0")
    episodes = list(rf.simulate(mdp.problem(), uniform(mdp), episodes=50, seed=3))
    first = next(k for k, episode in enumerate(episodes) if episode.reset)
    assert all(episode.reset for episode in episodes[first:])
    assert {int(episode.start) for episode in episodes[first + 1 :]} == {1}


def test_thresholds() -> None:
    # V* = 0: only "risky" pays. A meets s for certain: gain 1, cost 1. B half of the time: gain 1/2, cost 1/2.
    # s itself: gain 1, cost 1. end reaches A or B after one step and s after two, when the episode is over.
    mdp, solution = check("thresholds-v0", [0, 0, 0, 0, nan], [1, 1, 1, 0, nan])
    assert solution.policy[1, mdp.state_names.index("s")] == mdp.action_names.index("safe")


@pytest.mark.parametrize(("risky", "reward_a", "reward_b"), [(0.5, 0.5, 0.25), (1.0, 1.0, 0.5)])
def test_thresholds_has_no_shared_optimum_if_half_a_reset_is_allowed(
    risky: float, reward_a: float, reward_b: float
) -> None:
    # Best for A within a budget of 1/2 is risky = 1/2; that leaves B with 1/4, and B's best, 1/2, costs A one reset.
    mdp = rf.make("thresholds-v0")
    values = rf.evaluate(mdp, np.tile([1 - risky, risky], (5, 1)))
    assert values.v_r[:2].tolist() == [reward_a, reward_b]
    assert values.v_c[:2].tolist() == [reward_a, reward_b]


def test_politex_trap() -> None:
    # A -> s in time for one action: gain 1, cost 1. s likewise. From B and b2 there is no action left at s.
    mdp, _ = check("politex-trap-v0", [0, 0, 0, 0, nan], [1, 1, 0, 0, nan])
    assert mdp.xi is not None
    np.testing.assert_array_equal(mdp.xi, np.eye(5))


def test_politex_trap_starts_in_b_ten_times_as_often() -> None:
    # Under "safe": A -> s -> B always, B -> b2 -> A with probability 1/10. So A is every 11th start in the long run.
    mdp = rf.make("politex-trap-v0")
    starts = [int(e.start) for e in rf.simulate(mdp.problem(), np.zeros(5, dtype=np.int64), 11_000, seed=0)]
    assert set(starts) == {0, 2}
    assert starts.count(0) == pytest.approx(1000, abs=120)


def test_edge_first_step() -> None:
    # Staying pays nothing; the leap, at best the last of three actions, gains 1 and costs 1.
    mdp, _ = check("edge-first-step-v0", [0, nan], [1, nan])
    episode = next(rf.simulate(mdp.problem(), np.array([1, 1]), 1))
    assert (episode.reset, episode.reset_at, episode.total_reward, episode.next_start) == (True, 2, 1.0, 0)


def test_edge_one_step() -> None:
    # "risky" gains 1 - 1/2 at a cost of 1/2.
    check("edge-one-step-v0", [0.5, nan], [1, nan])


def test_edge_one_action() -> None:
    # idle: 0, then busy with probability 1/2. busy: 1, then idle.
    check("edge-one-action-v0", [0.5, 1, nan], [0, 0, nan])


def test_edge_all_safe() -> None:
    # left: go once, then three steps at 1. right: four steps at 1. Nothing costs anything.
    _, solution = check("edge-all-safe-v0", [3, 4, nan], [0, 0, nan])
    assert solution.safe_actions[:, :2].all()


def test_edge_no_reset() -> None:
    mdp, _ = check("edge-no-reset-v0", [3, 4], [0, 0])
    assert not mdp.reset.any()
