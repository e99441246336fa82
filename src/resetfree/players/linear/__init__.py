"""Players with a linear model: least-squares values on features phi(s, a), with a bonus for what is unknown.

Read first: `linear_ucb`, the primal player of the paper's Algorithm 1. What the family shares:
  pair_features, ridge_players  the features of a problem, and a ridge regression on them as a player's state
  ridge, composite              the passes in compiled code: softmax of two values, greedy on r - lam c
  proved_linear                 which proved width applies to a problem; determinant_states, interval_states: its data
  continuum_players             the same players where states are vectors: pair_rows, pair_values
  batched_*                     the same players for many seeds at once (JAX)
Others: `greedy_composite` (one regression, no softmax), `lsvi_ucb_pp` (weighted by variance), `perturbed_history`
(noise in place of a bonus), `guarded_linear` (inside what elimination allows), `stored_linear` (regression on stored
transitions).
"""
