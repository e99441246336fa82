"""Players that count: finite problems, a table entry for every step, state and action.

Read first: `ucbvi` (optimistic value iteration on counts, for the composite r - lam c). What the family shares:
  counts, count_players                        counts of all pairs as a player's state, and backward passes on them
  sparse_counts, lazy_passes, large_problems   the same for what was seen of a large problem, on the requested states
  batched                                      the same players for many seeds at once (JAX)
Others: `rlsvi` explores by noise, `politex` sums action values, `best_response` knows the model, `uniform` learns
nothing; `nonepisodic` plays one stream of steps without episodes. Baselines from the literature (`baseline = True`):
`shields`, `mirror`, `reset_free`, `triple_q`, `opt_cmdp`, `ucrl2`, `slucb_qvi`.
"""
