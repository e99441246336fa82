"""Finite problems: the model, its transitions, tabular policies, compiled rollouts, safe states."""
