"""Registered problems, one file each; `resetfree.registry` finds them by looking in here."""
