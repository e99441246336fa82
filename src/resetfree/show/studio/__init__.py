"""`resetfree studio`: a local web page that shows, plays and controls games.

Data flow: `security` (checks and bounds of requests) -> `app` (routes) -> `sessions` (runs of this process, each a
`lane` in its own thread) and `following` (runs in files, also those that another process is writing) -> `frames` (what
is shown of them, sampled; the data never is). Every run is a run file in one folder: the page can be closed, the server
stopped, and nothing is lost.
"""
