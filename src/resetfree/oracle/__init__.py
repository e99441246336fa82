"""Three ways to the exact answer (dynamic programming, linear program, fractions) that must agree, and one for a continuum."""
