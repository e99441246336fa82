"""T7: V* = 0 and lambda_hat(base) = 2^m, for any horizon that leaves room for one attempt.

One attempt gains 1 and resets with probability 2^-m. After a failed attempt another may follow: gains and costs both
add up over the same events, so the ratio of gain to cost is 2^m again.
"""

import pytest

import resetfree as rf
from resetfree.problems.finite.tabular_policy import uniform


@pytest.mark.parametrize("m", [1, 2, 3, 6, 20, 52, 1000])
def test_one_attempt(m: int) -> None:
    mdp = rf.make("coin-chain-v0", m=m)
    solution = rf.solve(mdp)
    assert mdp.horizon == m
    assert mdp.n_states == m + 1
    assert solution.value[0] == 0
    assert solution.lambda_hat[0] == 2.0**m  # a power of two: exact in floats
    assert solution.feasible.tolist() == [True] + [False] * m


@pytest.mark.parametrize(("m", "horizon"), [(1, 5), (3, 4), (3, 9), (6, 20)])
def test_several_attempts(m: int, horizon: int) -> None:
    assert rf.solve(rf.make("coin-chain-v0", m=m, horizon=horizon)).lambda_hat[0] == 2.0**m


def test_two_attempts_by_hand() -> None:
    # m = 1, H = 2, always "risky": 1, then with probability 1/2 (no reset) 1 again; resets with 1/2 + 1/4.
    mdp = rf.make("coin-chain-v0", m=1, horizon=2)
    values = rf.evaluate(mdp, [1, 1])
    assert (values.v_r[0], values.v_c[0]) == (1.5, 0.75)


def test_every_episode_ends_at_the_base() -> None:
    mdp = rf.make("coin-chain-v0", m=3, horizon=7)
    episodes = list(rf.simulate(mdp.problem(), uniform(mdp), 300, seed=1))
    assert {int(e.next_start) for e in episodes} == {0}
    assert any(e.reset for e in episodes)
