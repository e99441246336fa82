"""Players with neural networks: continuous actions, trained by gradient steps (extra neural).

Read first: `sac`, one file from the networks to the player. The family shares `networks`: layers as plain arrays, the
policy of one, settings and state. `sac.SACLagrangian`, `ppo` and `mbpo` are baselines from the literature, too.
`neural_search` takes over from `model-search` where the data say so: `world_model` is its ensemble and its critics,
`actor_critic` has its policy too. JAX is imported by the first call that needs it.
"""
