"""What several players use: counts, regressions, multiplier functions, compiled planning, batched forms."""
