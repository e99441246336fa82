"""Players that choose the multiplier function lambda(s).

Read first: `projected_gradient`, the dual player of the paper's Algorithm 1. The family shares `multiplier_functions`
(lambda(s) = <xi(s), theta> with theta in U), `function_players` (their common bases) and `batched` (many seeds at
once, JAX). `constant_penalty` learns nothing; `counting` and `doubling` need no bound B; `search` tries multipliers
before an episode.
"""
