"""Three ways to the exact answer that must agree (dynamic programming, linear program, fractions), and quadrature."""
