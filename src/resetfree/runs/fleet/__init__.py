"""Fleets: machines of one kind that act at the same time, and one learner; `runs.learn.learn_fleet` begins one.

plan    read first: the machines of a run, how many operators there are, where each machine runs; the order in which
        episodes begin and end where people perform the resets, and how a fleet is resumed
crews   the machines themselves: in this process, in threads, in processes or on a Ray cluster

The game is `game.fleet`; the theory of its bound on resets is in `theory.delay`; `runs.result.fleet_table` summarises a
run of a fleet.
"""
