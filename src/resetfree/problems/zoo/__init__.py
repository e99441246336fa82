"""Registered problems, one file each; `resetfree.problems.registry` finds them by looking in here."""
