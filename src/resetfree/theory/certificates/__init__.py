"""Every claim that can be checked on a run, each with both sides computed and its status (see `certificate`).

Legend: K rounds; s_1^k the start, lam^k the multiplier, pi^k the policy of round k; V_r, V_c its exact values at s_1^k
(an oracle's); V_r^k, V_c^k the primal player's own, upper_k what it holds to be above V*(s_1^k); g_k the dual
player's feedback; lambda_hat the least optimal multipliers, lambda* >= lambda_hat + 1; R_p, R_d the players' regrets.

A claim is "proved" if a theorem covers it with the constants of this run: if it fails all the same, the record,
the code or the theorem is wrong, or an event of small probability occurred. "tuned" claims have none, or one that needs
what cannot be checked here, and may fail. What is "checked" is no theorem, but true of every honest record. An
"identity" is algebra that holds on any numbers: it checks the arithmetic here, and shows nothing about the players.
"""

from resetfree.theory.certificates.claims_optimism import OPTIMISM, optimism, primal_cover
from resetfree.theory.certificates.claims_paths import EVERY_PATH
from resetfree.theory.certificates.claims_rates import RATES, primal_bound, rates
from resetfree.theory.certificates.claims_reduction import Truth, truth
from resetfree.theory.certificates.every_claim import certify

__all__ = [
    "EVERY_PATH",
    "OPTIMISM",
    "RATES",
    "Truth",
    "certify",
    "optimism",
    "primal_bound",
    "primal_cover",
    "rates",
    "truth",
]
