"""`resetfree studio`: a local web page on which the game is seen, played and steered.

The way: `security` (who may ask, and how much) -> `app` (what can be asked) -> `sessions` (runs that go on here, each a
`lane` in a thread of its own) and `following` (runs in files, also those that a terminal is writing) -> `frames` (what
is shown of them, sampled; the data never is). Every run is a run file in one folder: the page can be closed, the server
stopped, and nothing is lost.
"""
