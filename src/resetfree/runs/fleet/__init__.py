"""Fleets: machines of one kind that act at the same time, and one learner. `crews` has where they are, `learning` runs.

The game is `game.fleet`; the theory of its bound on resets is in `theory.delay`.
"""
