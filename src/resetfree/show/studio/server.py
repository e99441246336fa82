"""The server: bound to loopback unless a token is set, bounded in everything, and every run saved when it ends."""

import errno
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn

from resetfree.core import settings
from resetfree.core.errors import InvalidInput
from resetfree.core.web import LOOPBACK, PortNumber
from resetfree.show.studio import limits
from resetfree.show.studio.app import Studio
from resetfree.show.studio.catalogue import TEMPLATES, catalogue, check_grid
from resetfree.show.studio.security import Protocol

SWITCH = 0.001  # seconds after which a learning thread yields to the server
GRACE = 0.3  # seconds for pending responses when the server ends
LATE = 0.3  # seconds after which a message says what the end of the studio is waiting for
LOOK = 0.1  # seconds of one wait at most, so that a signal is noticed soon


def serve(
    folder: Path,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str = "",
    ready: Callable[[str], None] | None = None,
    late: Callable[[str], None] | None = None,
) -> None:
    """Serve until Ctrl-C or SIGTERM; then every active run is saved after its current episode.

    token: required of the page. Beyond loopback one is generated if none is given.
    ready: called with the address when the page can be opened.
    late: called with a sentence if saving takes long; a second Ctrl-C does not wait for it.
    """
    if token and not (token.isascii() and token.isprintable() and " " not in token and len(token) >= 8):
        raise InvalidInput(
            f"The '--token' must be at least 8 printable characters without spaces. Got {len(token)} instead."
        )
    if host not in LOOPBACK and not token:
        token = secrets.token_urlsafe(24)
    listening = _bind(host, port)
    try:
        studio = Studio(folder, token)
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
        server = Server(studio)
        warm_up()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM saves the runs too
        usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH)
        try:
            with suppress(KeyboardInterrupt), server.capture_signals():  # from when the address is known
                if ready is not None:
                    ready(address + (f"#token={token}" if token else ""))
                server.run([listening])
        finally:
            _save(studio, late)
            sys.setswitchinterval(usual)
    finally:
        listening.close()


def _save(studio: Studio, late: Callable[[str], None] | None) -> None:
    """Wait until every game is saved."""
    closing = threading.Thread(target=studio.close, daemon=True)
    began = time.monotonic()
    closing.start()
    while closing.is_alive():
        closing.join(LOOK)
        if late is not None and closing.is_alive() and time.monotonic() - began > LATE:
            late("An episode is still being played and will be saved; Ctrl-C again does not wait for it.")
            late = None


def warm_up() -> None:
    """Do in advance what takes a second the first time: discovering players, loading kernels."""
    catalogue()
    check_grid(TEMPLATES["bridge"])


class Server(uvicorn.Server):
    """Uvicorn with the limits of the studio; its streams end with it."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        quiet = {"log_level": "critical", "access_log": False, "server_header": False, "proxy_headers": False}
        bounds = {"backlog": 64, "timeout_keep_alive": 5, "h11_max_incomplete_event_size": 16_384}
        options: dict[str, Any] = {"ws": "none", "loop": "asyncio", "lifespan": "off", **quiet, **bounds}
        super().__init__(uvicorn.Config(studio.app, http=Protocol, **options))
        self.config.timeout_graceful_shutdown = GRACE  # type: ignore[assignment]  # used as a time to wait only

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End games, reports and streams first."""
        self._studio.end()
        await super().shutdown(sockets)


def _bind(host: str, port: int) -> socket.socket:
    settings.check(port, PortNumber, "'--port'")
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(limits.CONNECTIONS)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidInput(f"The port {port} of {host} is taken. Choose another with '--port' (0: any).") from error
        raise InvalidInput(f"The studio cannot be served at {host}, port {port}: {error.strerror or error}.") from error
    return listening
