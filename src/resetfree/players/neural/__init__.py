"""Players with neural networks: continuous actions, trained by gradient steps (extra neural).

Read first: `sac`, one file from the networks to the player, with its Lagrangian form. The family shares `networks`:
layers as plain arrays, the policy of one, settings and state. `ppo` and `mbpo` are baselines from the literature, too;
`autonomy` has those that bring a system back themselves. `staged_search` lets `neural_search` take over from
`model-search` where the reward stops rising: `world_model` is its ensemble, `actor_critic` what is trained in it,
`planning` its plans, `schedule` how boldly it acts. `goal_search` pursues goals that are part of the observation, with
`hindsight`. JAX is imported by the first call that needs it.
"""
