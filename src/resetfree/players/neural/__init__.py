"""Players with neural networks: continuous actions, trained by gradient steps (extra neural).

Read first: `sac`. The family shares `networks` (layers as plain arrays, and the policy of one) and `neural_players`
(settings and state). `sac_lagrangian`, `ppo` and `mbpo` are baselines from the literature; `neural_search` takes over
from `model-search` where the data say so, with an ensemble of networks as its model. Modules that import JAX are
imported where they are used.
"""
