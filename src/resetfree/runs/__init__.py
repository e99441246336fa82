"""Runs that lose nothing: `learning` plays and keeps every round, `ledger` is the file, `run` reads it back."""
