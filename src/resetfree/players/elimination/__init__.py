"""Players that eliminate: an action that was seen to lead to an unavoidable reset is never taken again.

Read first: `support_elimination`, the rule for single pairs, with a bound on resets that holds on every path. The
family shares `elimination_players` (settings, plans, statement) and `elimination_sets` (which actions can still be
safe). `shared_elimination` also holds back what fell at another step or task (`shared_risk`); `rule_elimination`
generalises over states: `rule_class`, `danger_beliefs` and `landings` are its beliefs, `large_rules` its form for
large problems.
"""
