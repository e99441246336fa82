"""`resetfree studio`: a local web page that shows, plays and controls games.

Data flow: `web` (checks and bounds of requests) -> `server` (routes) -> `sessions` (runs of this process, each a
`lane` in its own thread) and `following` (runs in files, also those that another process is writing) -> `frames` (what
is shown of them, sampled; the data never is). Every run is a run file in one folder: the page can be closed, the server
stopped, and nothing is lost.
"""

from importlib.util import find_spec
from typing import Any

from resetfree.core.errors import InvalidInput
from resetfree.core.extras import Deferred

_server = Deferred("resetfree.show.studio.server")


def serve(*place: Any, **options: Any) -> None:
    """`server.serve`: the server is imported on first use, as it needs the extra studio."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise InvalidInput(f"The studio needs {' and '.join(missing)}: install resetfree with its extra 'studio'.")
    _server.serve(*place, **options)
