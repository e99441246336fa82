"""Data besides the rounds that a run plays: datasets to begin with, and the transitions of runs for other programs."""
