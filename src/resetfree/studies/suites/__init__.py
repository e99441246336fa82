"""Comparisons: what is compared (`methods`), on what (`suite`), and what it came to."""
