"""Algorithm 1 on a continuum of states: what an episode costs after 10^5 of them, and exact Regret and Resets.

Run: python benchmarks/continuum.py [--part cost|exact] [--episodes 100000] [--primal linear-ucb] [--dimension 2]

First part (`cost`): episodes are played without an oracle, and the processor time of each tenth is shown: of playing
(the simulator and the policy), and of the player (plans, and updates). The time that the player takes per episode in
the second half must be at most 1.5 times that in the first without its first tenth. Beside it, one pass over all
transitions: what every episode would cost that is planned anew (switching="every").
Second part (`exact`): runs with exact values, Regret and Resets by quadrature and the realised resets; and for some
of the policies that were played how much V_r and V_c change with twice as many nodes in every coordinate.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console

import resetfree as rf
from resetfree.game.contract import Round
from resetfree.game.loop import begin, learn_round, make_plan
from resetfree.players import make_player
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.theory.assumptions import constant_multipliers
from resetfree.theory.oracle import nodes

PARTS = 10
LIMIT = 1.5


def cost(console: Console, primal: str, dimension: int, episodes: int, width: str) -> bool:
    """The first part; returns whether the player's time per episode is flat."""
    mdp = rf.make("continuous-linear-v0", dimension=dimension)
    problem, B = mdp.problem(), constant_multipliers(mdp).detail["B"]
    player: Any = make_player("primal", primal, {"B": B, "width": width})
    dual = ProjectedGradient(B=B)
    game, clock = begin(problem, player, dual, episodes=episodes, seed=0), time.process_time
    console.print(
        f"{primal}, width {width}, continuous-linear-v0, dimension={dimension}, H = {mdp.horizon}, d = {mdp.d}"
    )
    console.print("episodes, transitions, plans so far, transitions read by plans per episode, ms of the player and of")
    console.print("playing per episode, ms of one pass over all transitions:")
    thought, resets, read = [], 0, 0
    part = max(episodes // PARTS, 1)
    player.plan(game.primal, game.s1, 1.0)  # compiled
    for tenth in range(PARTS):
        spent = [0.0, 0.0]
        for _ in range(part):
            began = clock()
            lam, plan = make_plan(player, dual, game, game.s1)
            planned = clock()
            episode = problem.rollout(plan.policy, game.s1, game.rng.random(problem.n_uniforms))
            rolled = clock()
            signal = plan.v_c if primal == "linear-ucb" else float(episode.reset)
            this = Round(game.k + 1, game.s1, lam, plan, episode=episode, cost_signal=signal, exact=None)
            learn_round(player, dual, game, this)
            spent[0] += planned - began + clock() - rolled
            spent[1] += rolled - planned
            resets += episode.reset
        thought.append(spent[0])
        data, before, read = game.primal.data, read, game.primal.read
        began = clock()
        kept = game.primal.plans
        game.primal.plans = {}
        player.plan(game.primal, game.s1, 1.0)
        whole = clock() - began
        game.primal.plans = kept
        done, per = (tenth + 1) * part, 1e3 / part
        figures = f"{(read - before) / part:.1f}, {per * spent[0]:.3f}, {per * spent[1]:.3f}, {1e3 * whole:.1f}"
        console.print(f"{done:,}, {int(data.now.counts.sum()):,}, {data.switches}, {figures}")
        read = game.primal.read  # the pass for this line does not count
    half = PARTS // 2
    ratio = float(np.mean(thought[half:]) / np.mean(thought[1:half]))
    console.print(
        f"second half against the first without its first tenth: {ratio:.2f} (limit {LIMIT:g}); resets {resets}"
    )
    return ratio <= LIMIT


def exact(console: Console, episodes: int, seeds: int) -> bool:
    """The second part; returns whether no claim that is proved fails."""
    console.print(f"continuous-linear-v0, {episodes:,} episodes, projected-gradient, B by the oracle")
    names = ("problem", "player", "seed", "Regret", "Resets", "realised", "Resets of the last half", "claims", "failed")
    console.print("; ".join((*names, "error of V_r and V_c")))
    good = True
    for dimension in (1, 2):
        for primal, width, feedback in (
            ("linear-ucb", "tuned", "optimistic"),
            ("linear-ucb", "proved", "optimistic"),
            ("linear-ucb", "theory", "optimistic"),
            ("greedy-composite", "tuned", "realised"),
        ):
            for seed in range(seeds):
                mdp = rf.make("continuous-linear-v0", dimension=dimension)
                played: list[Any] = []
                run = rf.learn(
                    mdp, primal, "projected-gradient", episodes=episodes, seed=seed, feedback=feedback,
                    settings={"primal": {"width": width}}, progress=lambda game, this: played.append(this),  # noqa: B023
                )  # fmt: skip
                claims = [c for c in run.certificates() if c.applies]
                failed = [c for c in claims if c.refuted]
                good &= not failed
                off, fine = [0.0, 0.0], nodes.rule(mdp).finer
                for this in played[:: max(episodes // 8, 1)]:
                    values = nodes.evaluate(mdp, this.plan.policy.rows, fine)([this.s1])
                    off = [max(o, abs(float(v[0]) - e)) for o, v, e in zip(off, values, this.exact, strict=True)]
                half = run.resets[-1] - run.resets[episodes // 2 - 1]
                words = (f"{run.regret[-1]:.2f}", f"{run.resets[-1]:.2f}", str(run.realised_resets[-1]), f"{half:.2f}")
                row = (f"dimension={dimension}", f"{primal}, {width}", str(seed), *words)
                console.print("; ".join((*row, str(len(claims)), str(len(failed)), f"{off[0]:.1e}, {off[1]:.1e}")))
    return good


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=("cost", "exact"), default="cost")
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--primal", default="linear-ucb")
    parser.add_argument("--width", default="tuned")
    parser.add_argument("--dimension", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    console = Console(highlight=False, width=160)
    if asked.part == "exact":
        return int(not exact(console, asked.episodes, asked.seeds))
    return int(not cost(console, asked.primal, asked.dimension, asked.episodes, asked.width))


if __name__ == "__main__":
    sys.exit(main())
