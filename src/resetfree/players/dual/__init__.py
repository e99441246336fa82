"""Players that choose the multiplier function lambda(s).

Read first: `online_gradient`, which holds the dual player of the paper's Algorithm 1 and its other step rules. The
family shares `multiplier_functions` (lambda(s) = <xi(s), theta> with theta in U) and `batched` (many seeds at once,
JAX). `penalties` follow no gradient, `unknown_bound` needs no bound B, `search` tries multipliers before an episode,
and `baselines` are from the literature.
"""
