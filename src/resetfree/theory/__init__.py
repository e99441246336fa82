"""The paper as something that runs: what it assumes, what it proves, and checks of both on a problem or on a run.

assumptions    whether a problem has what the theorems need, with a witness where it does not (`rf.check`)
oracle         exact answers from a known model (`rf.solve`)
theorems       read first: each statement of the reduction as a function that computes both of its sides
certificates   the claims that can be checked on a recorded run (`run.certificates()`)
regret         Regret, Resets and the two players' regrets as cumulative sums
lemmas         the paper's lemmas, and counterexamples to what it leaves out
widths, proved_widths, visit_sums   confidence widths of Algorithm 1, and what they cost over a run
delay          what remains true when plans are old; reset_limits: resets that no learner can avoid; sets: projections
"""
