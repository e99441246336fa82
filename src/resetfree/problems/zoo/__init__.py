"""Registered problems, one file each; `resetfree.problems.registry` finds them in this folder."""
