"""Players with a linear model: least-squares values on features phi(s, a), with a bonus for what is unknown.

Read first: `algorithm1`, the paper's primal player in plain NumPy; `linear_ucb` is the same player with all its widths,
compiled, and with forms for large problems and for states that are vectors. What the family shares:
  regression, ridge       features of pairs and a ridge regression as a player's state, its proved widths and passes
  continuum, pair_values  the same players where states are vectors
  batched                 the same players for many seeds at once (JAX)
Others: `greedy_composite` (one regression, no softmax), `lsvi` (weighted by variance, or with noise in place of a
bonus), `guarded` (inside what elimination allows), `stored_linear` (regression on stored transitions), and
`baselines` from the literature.
"""
