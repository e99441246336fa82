"""Requests for resets through a small web server on loopback: for a page, another program, or a person with curl.

GET /request returns the open request (or null), POST /answer answers it; docs/hardware.md has the protocol. Both need
the token in the address file, which only its owner can read: other users of the machine and web pages of another
origin are refused.

A person who is called (`calls`) confirms on a page: one link with a secret, one button, and the picture if there is
one. Opening the link changes nothing (mail programs open links to look at them); only the button, which posts, does.
"""

from __future__ import annotations

import html
import json
import os
import secrets
import tempfile
import threading
import time
import weakref
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from resetfree.core import InvalidInput, check
from resetfree.core.interrupts import wait
from resetfree.core.system import NOFOLLOW
from resetfree.core.web import (
    POLL,
    TOKEN,
    LimitedServer,
    PortNumber,
    QuietHandler,
    body_size,
    has_token,
    origin_refusal,
)
from resetfree.problems.operators.channel import (
    Answer,
    Channel,
    Request,
    accept,
    announce,
    as_json,
    check_reply,
    clean,
    sentence,
    too_late,
)

LOOPBACK = "127.0.0.1"
LARGEST = 65_536  # bytes of a body


class Endpoint(Channel):
    """Serves from the first request on until it is closed or the process ends."""

    name, takes_address = "http", True

    @classmethod
    def opened(cls, text: str, who: str, address: Path | None) -> Self:
        """The endpoint of http, or http:PORT."""
        if text and not (text.isascii() and text.isdigit() and len(text) <= 5):
            raise InvalidInput(f"The operator 'http' takes a port, as 'http:8080'. Got 'http:{text}' instead.")
        return cls(int(text or 0), who, address)

    def __init__(self, port: int, who: str, address: Path | None) -> None:
        check(port, PortNumber, "port of an operator")
        self._port, self._who, self._address = port, who, address
        self._board: _Board | None = None
        self._shut: weakref.finalize[Any, Any] | None = None

    def ask(self, request: Request, deadline: float | None) -> Answer:
        """Publish the request, and wait for the answer."""
        board, name = self._board or _Board(), secrets.token_hex(8)
        end = None if deadline is None else time.monotonic() + deadline
        board.put(as_json(request, name, deadline), end)
        if self._board is None:  # afterwards, so that the request is there once the address file is
            self._serve(board)
            self._board = board
        try:
            announce(f"{sentence(request)} Answer at {board.url}, with the token in '{board.address}'.")
            wait(board.answered.wait, deadline)
        finally:
            reply = board.take()  # an answer that came with the deadline still counts
        if reply is None:
            assert deadline is not None
            raise too_late(request, deadline)
        return accept(reply, self._who)

    def close(self) -> None:
        """Stop serving, and remove the address file."""
        if self._shut is not None:
            self._shut()
        self._board = self._shut = None

    def _serve(self, board: _Board) -> None:
        try:
            server = _Server(self._port, board)
        except OSError as error:
            raise InvalidInput(
                f"The operator's port {self._port} of {LOOPBACK} cannot be used: {error.strerror}."
            ) from error
        board.url = f"http://{LOOPBACK}:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(POLL,), name="resetfree-operator", daemon=True).start()
        own = self._address is None
        board.address = (self._address or Path(tempfile.mkdtemp(prefix="resetfree-")) / "operator.json").absolute()
        # Before the file is written: a signal may come right after it, and closing must remove it.
        self._shut = weakref.finalize(self, _close, server, board.address, os.getpid(), own=own)
        try:
            _write_address(board)
        except OSError as error:
            self.close()
            raise InvalidInput(f"The operator's address file cannot be written: {error.strerror}.") from error


class _Board:
    """Shared by run and server: at most one open request, and its answer."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self.url, self.address = "", Path()
        self.answered = threading.Event()
        self._lock = threading.Lock()
        self._open: dict[str, Any] | None = None
        self._end: float | None = None
        self._reply: dict[str, Any] | None = None

    def put(self, request: dict[str, Any], end: float | None) -> None:
        """Open a request; called by the run."""
        with self._lock:
            self._open, self._end, self._reply = request, end, None
            self.answered.clear()

    def take(self) -> dict[str, Any] | None:
        """Close the request and return its reply, if any; called by the run."""
        with self._lock:
            self._open = None
            return self._reply

    def show(self) -> dict[str, Any] | None:
        """The open request with the seconds that are left; called by the server."""
        with self._lock:
            if self._open is None or self._reply is not None:
                return None
            left = None if self._end is None else max(self._end - time.monotonic(), 0.0)
            return {**self._open, "seconds": left}

    def reply(self, data: Any) -> None:
        """Take the first good reply; raises ValueError or LookupError for any other. Called by the server."""
        with self._lock:
            if self._open is None or self._reply is not None:
                raise LookupError("No request is open at present.")
            self._reply = check_reply(data, self._open["id"], must_name=True)
            self.answered.set()


class _Server(LimitedServer):
    """The server of one board."""

    def __init__(self, port: int, board: _Board) -> None:
        self.board = board
        super().__init__(LOOPBACK, port, _Handler)


class _Handler(QuietHandler):
    server: _Server

    def do_GET(self) -> None:
        """Send the open request."""
        if self._accepts(self.path == "/request"):
            self._send(200, self.server.board.show())

    def do_POST(self) -> None:
        """Take an answer."""
        body = self._body()
        if body is None or not self._accepts(self.path == "/answer"):
            return
        try:
            self.server.board.reply(json.loads(body))
        except LookupError as error:
            self._send(409, {"error": error.args[0]})
        except (ValueError, RecursionError) as error:
            known = isinstance(error, ValueError) and not isinstance(error, json.JSONDecodeError | UnicodeError)
            self._send(400, {"error": str(error) if known else "The answer must be a JSON object."})
        else:
            self._send(200, {"ok": True})

    def _body(self) -> bytes | None:
        """Read the body before anything is refused, so that the sender can read the refusal."""
        try:
            chunked = "Transfer-Encoding" in self.headers
            size = body_size("" if chunked else self.headers.get("Content-Length", ""), LARGEST)
        except ValueError:
            self._send(411, {"error": "An answer needs its Content-Length."})
            return None
        if size is None:
            self._send(413, {"error": f"An answer has at most {LARGEST} bytes."})
            return None
        return self.rfile.read(size)

    def _accepts(self, known: bool) -> bool:
        """Whether host, origin, token and path of the request are right; sends the refusal otherwise."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        refusal = origin_refusal(headers, self.headers.get_all("Host", []))
        if refusal is not None:
            self._send(403, {"error": refusal})
        elif not has_token(headers, self.server.board.token):
            self._send(401, {"error": f"The header {TOKEN.title()} must carry the token."})
        elif not known:
            self._send(404, {"error": "There is GET /request and POST /answer."})
        else:
            return True
        return False

    def _send(self, status: int, data: Any) -> None:
        self.reply(status, json.dumps(data, allow_nan=False).encode() + b"\n", "application/json")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send the server's own errors in the same form."""
        self._send(code, {"error": "The request was not understood."})


def _write_address(board: _Board) -> None:
    """Write URL and token atomically to a file that only its owner can read."""
    file = board.address
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}.new")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW, 0o600)
        with os.fdopen(handle, "w") as out:
            out.write(json.dumps({"url": board.url, "token": board.token}) + "\n")
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _close(server: _Server, address: Path, process: int, *, own: bool) -> None:
    if os.getpid() != process:  # a fork has no serving thread and does not own the file
        return
    server.shutdown()
    server.server_close()
    with suppress(OSError):
        address.unlink(missing_ok=True)
        if own:
            address.parent.rmdir()


LONGEST_FORM = 16_384  # bytes of a form
PICTURE = "/picture.png"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>resetfree</title><style>body{{font:1.2em system-ui;max-width:32em;margin:2em auto;padding:0 1em}}
img{{max-width:100%}}button,input{{font:inherit;width:100%;padding:.6em;margin:.3em 0;box-sizing:border-box}}</style>
{body}</html>"""
FORM = """<p>{sentence}</p>{picture}<form method="post"><input name="note" maxlength="400" placeholder="a note, if any">
<button>It is back: go on</button></form>"""
DONE = "<p>Thank you: the run goes on.</p>"


class Confirmation:
    """One request that waits for its button; `path` is the secret part of its link."""

    def __init__(self, sentence: str, picture: bytes | None) -> None:
        self.sentence, self.picture = sentence, picture
        self.path = f"/{secrets.token_urlsafe(24)}"
        self.confirmed = threading.Event()
        self.note = ""

    def confirm(self, note: str = "") -> None:
        """The person has put it back; the first confirmation counts."""
        if not self.confirmed.is_set():
            self.note = clean(note)
            self.confirmed.set()


class ConfirmingServer(LimitedServer):
    """Serves the page of the open request; any other path does not exist."""

    def __init__(self, host: str, port: int) -> None:
        self.open: Confirmation | None = None
        super().__init__(host, port, _FormHandler)
        threading.Thread(target=self.serve_forever, args=(POLL,), name="resetfree-confirming", daemon=True).start()

    def find(self, path: str) -> tuple[Confirmation, str] | None:
        """The open request whose secret the path begins with, and the rest of the path."""
        now = self.open
        if now is None or not compare_digest(path[: len(now.path)].encode(), now.path.encode()):
            return None
        return now, path[len(now.path) :]


class _FormHandler(QuietHandler):
    server: ConfirmingServer

    def do_GET(self) -> None:
        """Show the request, or its picture."""
        found = self.server.find(urlsplit(self.path).path)
        if found is not None and found[1] == PICTURE and found[0].picture is not None:
            self._send(200, found[0].picture, "image/png")
        elif found is not None and found[1] == "":
            self._page(200, DONE if found[0].confirmed.is_set() else _form(found[0]))
        else:
            self._page(404, "<p>No reset is due at this link.</p>")

    def do_POST(self) -> None:
        """Take the confirmation."""
        try:
            size = body_size(self.headers.get("Content-Length", "0"), LONGEST_FORM)
        except ValueError:
            size = None
        if size is None:
            self._page(413, "<p>The form is too long.</p>")
            return
        form = parse_qs(self.rfile.read(size).decode(errors="replace"))
        found = self.server.find(urlsplit(self.path).path)
        if found is None or found[1]:
            self._page(404, "<p>No reset is due at this link.</p>")
        else:
            found[0].confirm(form.get("note", [""])[0])
            self._page(200, DONE)

    def _page(self, status: int, body: str) -> None:
        self._send(status, PAGE.format(body=body).encode(), "text/html; charset=utf-8")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.reply(status, body, kind, Referrer_Policy="no-referrer")  # the link is a secret


def _form(one: Confirmation) -> str:
    picture = "" if one.picture is None else f'<img alt="what it looks like" src="{one.path.lstrip("/")}{PICTURE}">'
    return FORM.format(sentence=html.escape(one.sentence), picture=picture)
