"""Data besides the rounds that a run plays: datasets to begin with, and the transitions of runs for other programs.

dataset            read first: data from before the first round, as a part of the run file
tables             recorded numbers as episodes of a problem (logs and rollouts)
transition_files   .npz, .parquet, Minari and .csv
all_transitions    `rf.transitions`: every transition of a run as columns
"""
