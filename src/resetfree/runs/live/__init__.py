"""Runs in real time: one process acts and records, another learns and hands over its plans."""
