"""Players that count: finite problems, a table entry for every step, state and action.

Read first: `ucbvi` (optimistic value iteration on counts, for the composite r - lam c). What the family shares:
  counts, count_players                        counts of all pairs as a player's state, and backward passes on them
  sparse_counts, large_problems                the same for what was seen of a large problem, on the requested states
  batched                                      the same players for many seeds at once (JAX)
Others: `references` (one learns nothing, one knows the model).
Baselines from the literature (`baseline = True`): `shields`, `mirror`, `reset_free`, `constrained`, `average_reward`.
"""
