"""Players that count: finite problems, a table entry for every step, state and action.

Read first: `ucbvi` (optimistic value iteration on counts, for the composite r - lam c). What the family shares:
  counts, sparse_counts          what was seen of a problem, all pairs of it or only those that were tried
  count_players, large_problems  the two forms of a player's state: tables, and what grows with what was seen
  count_planning, action_values  backward passes in compiled code; lazy_plans: over the requested states only
  batched_*                      the same players for many seeds at once (JAX)
Others: `rlsvi` explores by noise, `politex` sums action values, `best_response` knows the model, `uniform` learns
nothing; `nonepisodic` plays one stream of steps without episodes. Baselines from the literature are marked `baseline =
True`.
"""
