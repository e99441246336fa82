"""Players that search for a policy in a fitted model: vector states, smooth dynamics, few resets.

Read first: `model_search`. The family shares the model of the dynamics and rollouts of policies in it (`machine_model`,
with the Gaussian processes of `smooth_regression`), what predicts resets (`reset_classifier`), and the search:
`machine_search`, with `value_iteration` where states are short, and `exploring`, which also finds rare prizes.
"""

from resetfree.players.model_based.model_search import ModelSearch

__all__ = ["ModelSearch"]
