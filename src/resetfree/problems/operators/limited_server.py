"""A small web server in a run: few connections at a time, each for a limited time, and nothing that is logged."""

import socket
import threading
import time
from contextlib import suppress
from http.server import ThreadingHTTPServer
from socketserver import BaseRequestHandler
from typing import Any

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
