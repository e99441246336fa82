"""The reduction theorem on any sequence of policies, multipliers and starts: both sides, and the exact identities."""

import numpy as np

import resetfree as rf
from resetfree.problems.finite.tabular_policy import random_policy
from resetfree.theory.regret import exact_rounds
from resetfree.theory.theorems import reduction

mdp = rf.make("grid-v0")
solution = rf.solve(mdp)
rng = np.random.default_rng(0)
K = 200
rounds = exact_rounds(
    mdp,
    policies=(random_policy(mdp, rng) for _ in range(K)),
    multipliers=rng.uniform(0, 40, K),
    starts=rng.choice(solution.starts, K),
)
for claim in reduction(rounds, solution):
    print(claim)
