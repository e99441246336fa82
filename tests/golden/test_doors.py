"""T6: V* = H/2 and lambda_hat = max(0, (L-1)/2), with the exceptions at the shortest horizons.

Reset-free, each step pays 1/2 (right into the loop, and round it): V* = H/2 from fork and loop.
Entering at step h pays 0 + L over L + 1 steps and nothing after, where the loop pays (H - h + 1)/2: the gain is
L - (H - h + 1)/2, at a cost of 1. The door's last step h = H - L is the best: L - (L + 1)/2 = (L - 1)/2.
From the fork the agent can be back at the fork at any step but 2 without losing pay; from the loop at any but 1. So
with H = L + 2 the fork must enter at step 1, for (L - 2)/2, and with H = L + 1 the loop never finds the door open.
"""

import numpy as np
import pytest

import resetfree as rf


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("extra", [1, 2, 3, 4, 10])
def test_values_and_multipliers(length: int, extra: int) -> None:
    horizon = length + extra
    solution = rf.solve(rf.make("doors-v0", length=length, horizon=horizon))
    full = (length - 1) / 2
    at_fork = max(0.0, full - 0.5) if extra == 2 else full
    at_loop = 0.0 if extra == 1 else full
    assert solution.value[:2].tolist() == [horizon / 2, horizon / 2]
    assert solution.lambda_hat[:2].tolist() == [at_fork, at_loop]
    assert solution.feasible.tolist() == [True, True] + [False] * (length + 1)


def test_the_chamber_is_lost_although_the_next_step_is_harmless() -> None:
    mdp = rf.make("doors-v0")
    solution = rf.solve(mdp)
    chamber = [mdp.state_names.index(f"c{i}") for i in (1, 2, 3)]
    assert (solution.cost[chamber] == 1).all()
    for state in chamber[:-1]:
        assert not mdp.reset[mdp.transition.row(0, state, 0)[0]].any()
    # The door is unsafe while it is open, and harmless (and worthless) afterwards.
    np.testing.assert_array_equal(solution.safe_actions[:, 0, 0], np.arange(1, 11) > 7)
