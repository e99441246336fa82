"""Security of the studio's HTTP: `core.web_guard` decides which requests are allowed; this module adds the headers and
bounds the size, the time and the number of connections by `limits`.
"""

import asyncio
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from resetfree.core.errors import InvalidInput
from resetfree.core.web import body_size, has_token, origin_refusal
from resetfree.show.studio import limits

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SILENT = 0.5  # seconds after which an idle connection may be closed in favour of a new one
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
}


class Guard:
    """Refuses requests that are not allowed, and adds the security headers to every response.

    token: required in every request for data; "" for none (loopback only).
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in own),
                ]
            await send(message)

        refusal = self._refusal(Request(scope))
        await (self._app if refusal is None else refusal)(scope, receive, headed)

    def _refusal(self, request: Request) -> Response | None:
        headers = request.headers
        sentence = origin_refusal(headers, headers.getlist("host"), any_name=bool(self._token))
        if sentence is not None:
            return refuse(403, sentence)
        if request.url.path.startswith("/api/") and not has_token(headers, self._token):
            return refuse(401, "The studio's token is missing or wrong: open the address that the terminal shows.")
        if request.method not in ("GET", "HEAD", "POST"):
            return refuse(405, "The method must be GET, HEAD or POST.")
        return None


def refuse(status: int, sentence: str) -> JSONResponse:
    """A refusal in one sentence; the connection is closed, since unread data may still be on its way."""
    return JSONResponse({"error": sentence}, status, {"connection": "close"})


class TooLarge(InvalidInput):
    """A request body that is larger than `limits.BODY`."""


async def body_of(request: Request) -> Any:
    """The JSON body of a request, bounded in size and time; its type must be JSON, which no HTML form can send."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise InvalidInput("The request must be of type application/json.")
    try:
        small = body_size(request.headers.get("content-length", "0"), limits.BODY) is not None
    except ValueError:
        small = False
    if not small:
        raise TooLarge(f"A request has at most {limits.BODY:,} bytes.")
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > limits.BODY:
                    raise TooLarge(f"A request has at most {limits.BODY:,} bytes.")
                parts.append(part)
    except TimeoutError as error:
        raise InvalidInput(f"The request did not arrive within {limits.PATIENCE:g} seconds.") from error
    try:
        return json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise InvalidInput("The request must be JSON.") from error


class Protocol(H11Protocol):
    """HTTP with a bounded number of connections, of which idle ones are closed."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept it if there is room, or if an idle connection can be closed for it."""
        self._look: asyncio.TimerHandle | None = None
        self._since = self.loop.time()
        super().connection_made(transport)
        if len(self.connections) > limits.CONNECTIONS and not self._shed():
            self._drop()
            return
        self._look = self.loop.call_later(limits.PATIENCE, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop checking it."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    @property
    def idle(self) -> bool:
        """Whether no request is being answered: none has arrived, or only a part of one."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def _check(self) -> None:
        """Close the connection if it has sent no complete request in time."""
        if self.idle:
            self._drop()
        else:
            self._look = self.loop.call_later(limits.PATIENCE, self._check)

    def _drop(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def _shed(self) -> bool:
        """Close the oldest idle connection, if it has been idle long enough; returns whether one was closed."""
        waiting = [one for one in self.connections if isinstance(one, Protocol) and one.idle and one is not self]
        first = min(waiting, key=lambda one: one._since, default=None)
        if first is None or self._since - first._since < SILENT:
            return False
        first._drop()
        return True
