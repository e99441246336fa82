"""Reports that are open in tabs of the browser: pages of this address, with a policy that is theirs alone.

A tab cannot send the token in a header, so its address holds a secret, which only the page that requested it knows. The
report is made when the tab loads it, and loaded again from there as long as it is among the newest.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from resetfree.core.errors import ResetFreeError
from resetfree.show.report.html.page import policy
from resetfree.show.studio import limits
from resetfree.show.studio.background import background
from resetfree.show.studio.children import ChildFailed

ADDRESS = "/report/"
# A report is made from run files, which are untrusted: it has an origin of its own, and cannot reach the studio.
HEADERS = {
    "content-security-policy": f"{policy()}; frame-ancestors 'none'; sandbox allow-scripts allow-downloads",
    "cross-origin-opener-policy": "unsafe-none",  # browsers show no sandboxed page that has another one
}
GONE = "This report is gone: press Report in the studio again."


class _Tab(NamedTuple):
    name: str
    place: Path
    made: asyncio.Task[Path]


class ReportTabs:
    """The newest reports, by the secret in their address. Used in the event loop only."""

    def __init__(
        self, make: Callable[[str, Path], Path], opened: Callable[[Path], None], remove: Callable[[Path], None]
    ) -> None:
        self._make, self._opened, self._remove = make, opened, remove
        self._tabs: dict[str, _Tab] = {}

    def open(self, name: str) -> str:
        """Begin a report; returns the address of its tab."""
        secret, place = secrets.token_urlsafe(24), Path(tempfile.mkdtemp(prefix="resetfree-"))
        self._opened(place)
        made = asyncio.create_task(background(self._make, name, place))
        made.add_done_callback(lambda done: done.cancelled() or done.exception())  # the tab may be closed
        self._tabs[secret] = _Tab(name, place, made)
        while len(self._tabs) > limits.OPENED:
            old = self._tabs.pop(next(iter(self._tabs)))
            old.made.cancel()
            self._remove(old.place)
        return f"{ADDRESS}{secret}"

    async def show(self, request: Request) -> Response:
        """The page of a tab, when it is made; why there is none is one sentence."""
        tab = self._tabs.get(request.path_params["secret"])
        if tab is None:
            return PlainTextResponse(GONE, 404)
        try:
            page = await asyncio.shield(tab.made)
        except ResetFreeError as error:
            return PlainTextResponse(str(error), error.status if isinstance(error, ChildFailed) else 400)
        except asyncio.CancelledError:
            if not tab.made.cancelled():
                raise
            return PlainTextResponse(GONE, 404)
        named = {**HEADERS, "content-disposition": f'inline; filename="{tab.name}.html"'}
        return FileResponse(page, media_type="text/html", headers=named)
