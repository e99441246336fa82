"""The page on which a person confirms a reset: one link with a secret, one button, and the picture if there is one.

Opening the link changes nothing (mail programs open links to look at them); only the button, which posts, does.
"""

import html
import secrets
import threading
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from resetfree.core.web_guard import body_size
from resetfree.problems.operators.channel import clean
from resetfree.problems.operators.limited_server import PATIENCE, POLL, LimitedServer

LARGEST = 16_384  # bytes of a form
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
        super().__init__(host, port, _Handler)
        threading.Thread(target=self.serve_forever, args=(POLL,), name="resetfree-confirming", daemon=True).start()

    def find(self, path: str) -> tuple[Confirmation, str] | None:
        """The open request whose secret the path begins with, and the rest of the path."""
        now = self.open
        if now is None or not compare_digest(path[: len(now.path)].encode(), now.path.encode()):
            return None
        return now, path[len(now.path) :]


class _Handler(BaseHTTPRequestHandler):
    server: ConfirmingServer
    timeout = PATIENCE
    server_version, sys_version = "resetfree", ""

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
            size = body_size(self.headers.get("Content-Length", "0"), LARGEST)
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
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")  # the link is a secret
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _form(one: Confirmation) -> str:
    picture = "" if one.picture is None else f'<img alt="what it looks like" src="{one.path.lstrip("/")}{PICTURE}">'
    return FORM.format(sentence=html.escape(one.sentence), picture=picture)
