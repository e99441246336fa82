"""Sixteen machines with two operators against one machine, with as many episodes in all.

Run: python examples/fleet.py [seed] [episodes]
"""

from __future__ import annotations

import sys

import resetfree as rf


def main(seed: int = 1, episodes: int = 600) -> None:
    """Play both, and print resets, time and waiting."""
    for n in (1, 16):
        run = rf.learn_fleet("grid-v0", n=n, operators=2, reset_time=20, episodes=episodes, seed=seed)
        c = run.columns
        words = f"{int(run.realised_resets[-1])} resets in {c['ended'][-1]:.0f} steps of each machine"
        print(f"{n:2} machine(s): {words}, {c['waited'].sum():.0f} steps of waiting for an operator")
    (bound,) = [one for one in run.certificates() if "of all machines together" in one.claim]
    print(bound)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
