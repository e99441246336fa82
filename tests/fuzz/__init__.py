"""Hostile input of every kind, and what must not happen: no traceback, no signal, no code run, 2 GB, 10 seconds.

`corpus` makes honest files, `damage`, `cells`, `arrays`, `plans` spoil them, `lines` and `calls` ask for nonsense;
`cases` numbers all of it; `worker` runs a case and judges it, `executor` watches the worker from outside.
"""
