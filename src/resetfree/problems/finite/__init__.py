"""Finite problems: a known model with states and actions that can be counted, and everything exact about it.

mdp              read first: `rf.FiniteMDP`, its arguments and their checks
transitions      probabilities in compressed rows; which entries are stored decides what is safe
tabular_policy   policies as arrays; backward: dynamic programming over the rows
safety           which states admit a policy without resets, and the repair of problems that have none
composed         problems made of others: several tasks, or one more action that asks for help
"""
