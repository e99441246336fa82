"""Finite problems: the model, its transitions, policies as tables, compiled rollouts, and which states are safe."""
