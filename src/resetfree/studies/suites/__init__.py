"""Comparisons of methods (`methods`) on suites of problems (`suite`), and their results (`standings`)."""
