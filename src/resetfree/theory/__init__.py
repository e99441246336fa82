"""The paper as something that runs: assumptions, exact oracles, theorems, lemmas, counterexamples, certificates."""
