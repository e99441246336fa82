"""Players that search for a policy in a fitted model: vector states, smooth dynamics, few resets.

Read first: `model_search`. The family shares the model of the dynamics (`machine_model`, Gaussian processes in
`smooth_regression`), what predicts resets (`reset_judge`, `slants_and_rings`), rollouts of policies in the model
(`imagined_lives`), and the search: `machine_search` for continuous actions, `choice_search` for discrete ones.
"""
