"""Runs: play a game, save every round, and continue after any interruption with the same result, bit for bit.

The way of a run, in this order:

request      what Python, the command line, sweeps and the studio ask for, in groups, checked once
setup        from a request to two players and a game; "auto" is resolved here, once
learn        read first: `learn`, `learn_fleet` and `load`, and how a run is created or reopened
playing      the loop: play a round, save it, call callbacks, stop at a limit
resuming     what --resume restores, and the replay of a whole run to compare it with its record
result       `rf.Run`: columns, regret, certificates; recall: the policy that it learned; display: how it is shown

stuck notices when nothing happens any more; changed_dynamics, logs and dataset_loading are about data to begin with;
session has the ready callbacks. Folders: file (the run file), data (datasets), live (real time: one process acts,
another learns), fleet (several machines), tracking (TensorBoard, MLflow, Weights & Biases).
"""
