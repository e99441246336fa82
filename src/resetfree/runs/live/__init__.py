"""Runs by the clock: one process acts and records, another learns and hands over its plans."""
