"""Players that eliminate: an action that was seen to lead to an unavoidable reset is never taken again.

Read first: `support_elimination`, the rule for single pairs, with a bound on resets that holds on every path. The
family shares `elimination_sets`: which actions can still be safe, and the common base with settings, plans, statement.
`shared_elimination` also holds back what fell at another step or task; `rule_elimination` generalises over states:
`rule_class`, `danger_beliefs` and `landings` are its beliefs, `large_rules` its form for large problems.

**Rules: what is proved.** Legend: bits(a) = log2(1 / weight) of the hypothesis of least bits under which action a is
fatal in exactly the cells where it is: its weight beforehand, times p0 for each fatal cell, times 1 - p0 for each other
one; a dangerous action is one that can lead to a reset; a test is a plan that opens a pair that was held back.

On every path resets never exceed the unsafe pairs (or triples): each reset rules one out for good, and which of the
allowed actions is taken plays no part in the proof. So a class of rules that is wrong costs no reset beyond that.

Where a pair that can lead to a reset always does, some action never does, and states have their factors before they
are seen, after K episodes resets <= sum over dangerous actions of bits(a) + log2(K) + 1.
  Proof. Let Phi(a) be the sum of the weights of all hypotheses about action a, each times the probability of what was
  seen. It is at most 1 beforehand and, if the hypothesis above is true, never below 2^-bits(a). (1) A reset by a pair
  to which the mixture gave at most 1/2, as of every pair that was not held back: Phi(a) at least halves; what else was
  seen in the episode only lowers it. (2) An episode without a reset in which a pair survived that the mixture gave at
  least 1/2 to a reset: Phi(a) at least halves, and m decreases by one (to no less than 0). Both together happen at most
  sum of bits(a) times. (3) Every other reset is a test that ended in it, and m grows by one. A test waits 2^m episodes,
  so m <= log2(K) + 1, and (3) happens at most that often more than (2). The action that is never dangerous is never
  held back, so in no state is everything held back, and there is no dead end. With hypotheses lighter than the heaviest
  by e^-25 left out, all this is up to rounding. Survivals of a pair are taken into account at the 1st, 2nd, 4th, 8th
  and 16th: fewer factors, each at most 1.  []

With `moves="relative"`: resets <= sum over all A actions of bits(a) + A + 1 + (dangerous actions) + log2(K) + 1. The
mixture is over all actions at once (1/2 that places are all that matters, and otherwise 1/2 for each action), so bits
of actions that are never dangerous count; and an action that never led to a reset is classified by the places alone,
and is taken first where everything is held back, so that its first reset is counted apart. The rest of the proof is the
same: the places are one more forecaster in the mixture, and tests wait at least 2^m episodes. Bounds of single actions
cannot be mixed (the rule of one, the pairs of another): tests share one waiting time, which a survival of any action
shortens (2).

**Plans beyond the episode: the bound is untouched.** Let A be the sets of allowed actions when an episode begins, and
let Assumption 1 hold.
  Proof. (1) A is computed from the edges and reset states that were seen, and from nothing else: neither W nor the
  objective enters. (2) Every plan takes allowed actions only, wherever there is one and the step moves: Q is maximised
  over them, whatever W is (`composite_step`). (3) What is truly safe is in A on every path, since the observed edges
  are a part of the true ones; so from a start with a safe action there is an allowed one. (4) An episode that is reset
  took, at its first step out of the states that can still be safe, or at its last, an allowed action with an observed
  successor that is now known to be bad: that pair is truly unsafe, was in A, and is not allowed again. So each reset
  removes one unsafe pair from A for good, and no path has more resets than there are unsafe pairs; the same for
  triples.  []
The bound by rules holds too: tests wait as long as before, and an episode that tries again what survived tries nothing
that is held back. With `width="theory"` the regret bound is that of `objective="episode"` alone.
"""
