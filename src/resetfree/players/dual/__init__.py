"""Players that choose the multiplier function lambda(s).

Read first: `online_gradient`, which holds the dual player of the paper's Algorithm 1 and its other step rules. The
family shares `multiplier_functions` (lambda(s) = <xi(s), theta> with theta in U) and `batched` (many seeds at once,
JAX). `constant_penalty` learns nothing; `counting` and `doubling` need no bound B; `search` tries multipliers before an
episode.
"""
