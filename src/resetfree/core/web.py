"""Which requests a server accepts, by host, origin, token and size: for the operator's server and the studio.

Pages of another origin are refused by their Origin and Host headers, and other users of a shared machine by the token,
if one is set. `LimitedServer` is a small web server in a run.
"""

import hmac
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from resetfree.core.settings import Range

PortNumber: TypeAlias = Annotated[int, Range(0, 65_535)]  # 0 for any that is free
TOKEN = "x-resetfree-token"  # the header that carries it
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HOST = "The host must be 127.0.0.1 or localhost."
ORIGIN = "Requests from pages of another origin are refused."


def origin_refusal(headers: Mapping[str, str], hosts: Sequence[str], *, any_name: bool = False) -> str | None:
    """Why a request is refused by its host or origin; None if it is accepted.

    headers: with names in lower case or in a mapping that ignores case.  hosts: the values of every Host header.
    any_name: whether the server may have any host name (a token guards it), or only those of loopback.

    >>> origin_refusal({"origin": "http://evil.example"}, ["127.0.0.1:8000"])
    'Requests from pages of another origin are refused.'
    >>> origin_refusal({}, ["evil.example:8000"])
    'The host must be 127.0.0.1 or localhost.'
    >>> origin_refusal({"origin": "http://localhost:8000"}, ["localhost:8000"])
    """
    host = hosts[0] if len(hosts) == 1 else ""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name is None or (not any_name and name not in LOOPBACK):
        return HOST
    elsewhere = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
    return ORIGIN if elsewhere or headers.get("origin", f"http://{host}") != f"http://{host}" else None


def has_token(headers: Mapping[str, str], token: str) -> bool:
    """Whether the headers hold the token, compared in constant time; True if the token is empty."""
    given = headers.get(TOKEN, "")
    return not token or hmac.compare_digest(given.encode(errors="replace"), token.encode())


def body_size(length: str, most: int) -> int | None:
    """The number of bytes in a Content-Length, None if it exceeds `most`; raises ValueError if it is not a number.

    >>> body_size("12", 100), body_size("1000", 100), body_size("9" * 5000, 100)
    (12, None, None)
    """
    if not (length.isascii() and length.isdigit()):
        raise ValueError("A request needs its Content-Length.")
    return int(length) if len(length) <= 12 and int(length) <= most else None


CONNECTIONS = 16  # served at once
POLL = 0.1  # seconds between two checks for a shutdown and for late connections
PATIENCE = 10.0  # seconds that one connection may take in all


class LimitedServer(ThreadingHTTPServer):
    """Serves few connections at a time, each for a limited time, and logs nothing."""

    daemon_threads = True  # a run that ends does not wait for them
    request_queue_size = 64

    def __init__(self, host: str, port: int, handler: type[BaseRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        self._since: dict[socket.socket, float] = {}
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Bind without the look-up of the host name that the base class does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the request; refuse it if too many run."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._since[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._done(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle the request, and free its place in any case."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._done(request)

    def service_actions(self) -> None:
        """Cut connections that last too long."""
        late = time.monotonic() - PATIENCE
        for request, since in list(self._since.items()):
            if since < late:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections."""

    def _done(self, request: Any) -> None:
        if self._since.pop(request, None) is not None:
            self._free.release()


class QuietHandler(BaseHTTPRequestHandler):
    """Answers within PATIENCE, and logs nothing."""

    timeout = PATIENCE
    server_version, sys_version = "resetfree", ""

    def reply(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        """Send a body that must not be kept; headers by their names, with `_` for `-`."""
        self.send_response(status)
        own = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        for name, value in {**own, "X-Content-Type-Options": "nosniff", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
