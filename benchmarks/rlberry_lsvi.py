"""CPU seconds of rlberry-scool's LSVI-UCB on a 5 x 5 grid, H = 10, 500 episodes; runs in an environment of its own."""

import contextlib
import io
import sys
import time

import numpy as np
from rlberry_scool.agents.features import FeatureMap
from rlberry_scool.agents.linear import LSVIUCBAgent
from rlberry_scool.envs import GridWorld


class OneHot(FeatureMap):  # type: ignore[misc]
    """One coordinate per state and action."""

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.shape = (n_states * n_actions,)
        self.n_actions = n_actions

    def map(self, state: int, action: int) -> "np.ndarray":
        """The indicator of a pair."""
        feature = np.zeros(self.shape)
        feature[state * self.n_actions + action] = 1.0
        return feature


def main() -> None:
    """Print only the seconds on standard output."""
    env = GridWorld(nrows=5, ncols=5, walls=(), success_probability=1.0)
    with contextlib.redirect_stdout(io.StringIO()):
        agent = LSVIUCBAgent(env, horizon=10, feature_map_fn=lambda e: OneHot(25, 4))
        began = time.process_time()
        agent.fit(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
        took = time.process_time() - began
    print(f"{took:.2f}")


if __name__ == "__main__":
    main()
