"""Calls to a person who is elsewhere: sent in a thread of their own, again until they arrive, and confirmed by a link.

The run waits for the confirmation and never for the call: a server that hangs or fails delays nothing else. The ways:
a POST to a web address, e-mail, and ntfy (or a server that takes the same requests).
"""

import base64
import contextlib
import http.client
import json
import os
import smtplib
import ssl
import threading
import time
import tomllib
import urllib.error
import urllib.request
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from email.header import Header
from email.message import EmailMessage
from hmac import compare_digest
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias
from urllib.parse import urlsplit

from resetfree.core import InvalidInput, Positive, Range, Rule, check_fields, check_names, one_line
from resetfree.core.interrupts import wait
from resetfree.problems.operators.channel import Answer, Channel, Request, announce, as_json, clean, sentence, too_late
from resetfree.problems.operators.http import Confirmation, ConfirmingServer

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between a call that failed and the next one, doubled each time
FAILURES = (
    OSError,
    http.client.HTTPException,
    smtplib.SMTPException,
    ValueError,
)  # of a call, after which it is repeated
POLL = 2.0  # seconds between two looks whether a call was confirmed elsewhere
LONGEST_ANSWER = 2**20  # bytes
WEB = ("http", "https")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in WEB and bool(parts.hostname) and text.isascii() and text.isprintable()
    except ValueError:
        return False


def _is_place(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon) and port.isascii() and port.isdigit() and int(port) < 65_536


Url: TypeAlias = Annotated[str, Rule(_is_url, "an address that begins with http:// or https://")]
Place: TypeAlias = Annotated[str, Rule(_is_place, "HOST:PORT")]
Line: TypeAlias = Annotated[str, Rule(lambda text: text == clean(text) and bool(text), "one line of text")]


class Message(NamedTuple):
    """What a call says."""

    title: str
    text: str
    link: str  # where the person confirms
    picture: bytes | None  # PNG
    data: Mapping[str, Any]  # the request for programs


@dataclass(kw_only=True)
class Call(Channel):
    """A way to call a person; its settings are its fields, in Python or in a TOML file.

    serve: HOST:PORT where the page with the button is served (port 0: any that is free).
    link: how the person's device reaches that place, if not by the same name: the address of a proxy or a tunnel.
    repeat: seconds after which a call that is not confirmed is made again; None: once it has arrived, not.
    timeout: seconds that one attempt may take.  log: a file to which a line per attempt is appended.
    """

    serve: Place = "127.0.0.1:0"
    link: Url | None = None
    repeat: Positive | None = None
    timeout: Positive = 10.0
    log: str | None = None
    who: Line = "operator"
    attempts: int = field(init=False, default=0, repr=False, compare=False)
    _server: ConfirmingServer | None = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, str) and value.startswith("$"):  # a secret, from the environment of the process
                setattr(self, one.name, os.environ.get(value[1:], value))
        check_fields(self, f"operator '{self.name}'")

    @classmethod
    def opened(cls, text: str, who: str, address: Path | None) -> Self:
        """The channel for NAME:FILE, with a TOML file of its settings; NAME:URL where an address is all it needs."""
        own = {one.name: one for one in fields(cls) if one.init}
        if "url" in own and text.startswith(tuple(f"{scheme}:" for scheme in WEB)):
            only: dict[str, Any] = {"url": text, "who": who}
            return cls(**only)
        if not text:
            ways = f"{cls.name}:FILE" + (f" or {cls.name}:URL" if "url" in own else "")
            raise InvalidInput(f"The operator '{cls.name}' needs its settings: {ways}. Got '{cls.name}' alone instead.")
        try:
            with Path(text).open("rb") as file:
                given = tomllib.load(file)
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise InvalidInput(
                f"The settings '{text}' of the operator '{cls.name}' cannot be read: {one_line(error)}."
            ) from error
        check_names(given, own, f"setting of the operator '{cls.name}'")
        try:
            return cls(**{"who": who, **given})
        except TypeError as error:  # one is missing
            raise InvalidInput(
                f"The settings '{text}' of the operator '{cls.name}' are not complete: {one_line(error)}."
            ) from error

    @abstractmethod
    def send(self, message: Message) -> None:
        """Send it once; raises one of FAILURES if it did not arrive."""

    def poll(self, message: Message) -> bool:
        """Look elsewhere whether it was confirmed; called every few seconds once it was sent."""
        return False

    def ask(self, request: Request, deadline: float | None) -> Answer:
        """Call the person, and return when the reset is confirmed."""
        server = self._served()
        said, picture = sentence(request), _picture(request)
        open_ = server.open = Confirmation(said, picture)
        host, port = server.server_address[:2]
        link = (self.link.rstrip("/") if self.link else f"http://{host!s}:{port}") + open_.path
        data = {**as_json(request, open_.path[1:], deadline), "sentence": said, "link": link}
        message = Message(f"{clean(request.problem)} needs a reset", said, link, picture, data)
        self.attempts = 0
        over = threading.Event()
        caller = threading.Thread(target=self._call, args=(message, open_, over), name="resetfree-call", daemon=True)
        caller.start()
        try:
            announce(f"{said} Calling by {self.name}; confirm at {link}.")
            confirmed = wait(open_.confirmed.wait, deadline)
        finally:
            over.set()
            server.open = None
        if not confirmed:
            assert deadline is not None
            raise too_late(request, deadline)
        calls = f"called {self.attempts} times" if self.attempts != 1 else "called once"
        return Answer(self.who, f"{open_.note}; {calls}" if open_.note else calls)

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _served(self) -> ConfirmingServer:
        if self._server is None:
            host, _, port = self.serve.rpartition(":")
            try:
                self._server = ConfirmingServer(host, int(port))
            except OSError as error:
                raise InvalidInput(
                    f"The page of the operator cannot be served at {self.serve}: {error.strerror}."
                ) from error
        return self._server

    def _call(self, message: Message, open_: Confirmation, over: threading.Event) -> None:
        """Send until it arrives, and again after `repeat`, until it is confirmed or the request is over."""
        pause, arrived = FIRST_PAUSE, False
        while not over.is_set():
            self.attempts += 1
            try:
                self.send(message)
                self._record("sent")
                arrived, pause = True, FIRST_PAUSE
            except FAILURES as error:
                why = clean(one_line(error), 300)
                self._record(f"failed: {why}")
                if not over.is_set():
                    announce(f"The call by {self.name} did not arrive ({why}); again in {pause:g} s.")
                arrived = False
            if arrived and self._polled(message, open_, over):
                return
            if not arrived:
                over.wait(pause)
                pause = min(2.0 * pause, LONGEST_PAUSE)

    def _polled(self, message: Message, open_: Confirmation, over: threading.Event) -> bool:
        """Wait until the next call is due, and look meanwhile whether it was confirmed elsewhere; True if none is."""
        left = self.repeat
        while not over.wait(pause := min(POLL, POLL if left is None else left)):
            with contextlib.suppress(*FAILURES):
                if self.poll(message):
                    open_.confirm()
                    return True
            if left is not None and (left := left - pause) <= 0.0:
                return False
        return True

    def _record(self, what: str) -> None:
        """Append a line to the log."""
        if self.log is not None:
            line = f"{datetime.now(UTC).isoformat(timespec='seconds')} {self.name} {self.attempts} {what}\n"
            with contextlib.suppress(OSError), Path(self.log).open("a") as file:
                file.write(line)


def post(url: str, body: bytes, headers: Mapping[str, str], timeout: float, method: str = "POST") -> bytes:
    """The answer to a GET; raises one of FAILURES, also for a status that is no success.

    Of other requests the answer is not read, and what comes slowly is not waited for.
    """
    request = urllib.request.Request(url, data=body or None, headers=dict(headers), method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            found, until = b"", time.monotonic() + timeout
            while method == "GET" and len(found) < LONGEST_ANSWER and (part := answer.read1(LONGEST_ANSWER)):
                found += part
                if time.monotonic() > until:
                    raise TimeoutError("the answer takes too long")
    except urllib.error.HTTPError as error:
        with error:
            raise ValueError(f"HTTP {error.code} {error.reason}") from error
    return found


def _picture(request: Request) -> bytes | None:
    """The picture of a request; None where there is none, or it fails: a call without one is better than none."""
    if request.picture is None:
        return None
    try:
        return request.picture()
    except Exception:  # of the user's environment
        return None


@dataclass(kw_only=True)
class Webhook(Call):
    """Calls by POST to a web address, as webhook:URL or webhook:FILE: JSON with the request, the link and the picture.

    Its keys: `id`, `problem`, `why`, `detail`, `sentence`, `link`, `title`, and `picture` (PNG in base64).

    url: where to.  headers: further ones, such as {"Authorization": "Bearer ..."}.
    """

    name: ClassVar[str] = "webhook"
    url: Url
    headers: dict[str, str] = field(default_factory=dict, repr=False)

    def send(self, message: Message) -> None:
        """Post it."""
        picture = None if message.picture is None else base64.b64encode(message.picture).decode()
        body = json.dumps({**message.data, "title": message.title, "picture": picture}, allow_nan=False)
        post(self.url, body.encode(), {"Content-Type": "application/json", **self.headers}, self.timeout)


@dataclass(kw_only=True)
class Mail(Call):
    """Calls by e-mail (SMTP), as mail:FILE: the request, the link, and the picture as an attachment.

    to, sender: addresses.  host, port: of the server; security: how the connection is protected.
    user, password: to log in, if it must be ("$NAME" takes either from the environment variable NAME).
    """

    name: ClassVar[str] = "mail"
    to: Line
    sender: Line
    host: Line = "localhost"
    port: Annotated[int, Range(1, 65_535)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def send(self, message: Message) -> None:
        """Send it."""
        mail = EmailMessage()
        mail["Subject"], mail["From"], mail["To"] = message.title, self.sender, self.to
        mail.set_content(f"{message.text}\n\nWhen it is back where it may start, confirm here:\n{message.link}\n")
        if message.picture is not None:
            mail.add_attachment(message.picture, maintype="image", subtype="png", filename="picture.png")
        with self._connected() as server:
            if self.user is not None:
                server.login(self.user, self.password or "")
            server.send_message(mail)

    def _connected(self) -> smtplib.SMTP:
        if self.security == "tls":
            return smtplib.SMTP_SSL(self.host, self.port, timeout=self.timeout, context=ssl.create_default_context())
        server = smtplib.SMTP(self.host, self.port, timeout=self.timeout)
        if self.security == "starttls":
            server.starttls(context=ssl.create_default_context())
        return server


BUTTON = "It is back"


@dataclass(kw_only=True)
class Ntfy(Call):
    """Calls to a phone by ntfy, or a server that takes the same requests, as ntfy:https://SERVER/TOPIC or ntfy:FILE.

    The message has the picture as its attachment and one button that confirms. With `answers`, a second topic, the
    button writes there and the run reads it: then nothing needs to reach the machine from outside.

    url: of the topic.  answers: of a second topic, for the button; None: the button opens `link` by itself.
    token: of an account, for topics that need one.  priority: 1 to 5.
    """

    name: ClassVar[str] = "ntfy"
    url: Url
    answers: Url | None = None
    token: str | None = field(default=None, repr=False)
    priority: Annotated[int, Range(1, 5)] = 4

    def send(self, message: Message) -> None:
        """Publish it."""
        secret = message.data["id"]
        to, body = (message.link, "") if self.answers is None else (self.answers, f", body={secret}")
        headers = {
            "Title": message.title,
            "Priority": str(self.priority),
            "Tags": "warning",
            "Actions": f"http, {BUTTON}, {to}, method=POST, clear=true{body}",
        }
        if self.answers is None:
            headers["Click"] = message.link
        if message.picture is not None:
            headers |= {"Filename": "picture.png", "Message": message.text}
        content = message.text.encode() if message.picture is None else message.picture
        post(self.url, content, {name: _plain(text) for name, text in headers.items()} | self._login(), self.timeout)

    def poll(self, message: Message) -> bool:
        """Whether the button has written to the topic of answers."""
        if self.answers is None:
            return False
        found = post(f"{self.answers}/json?poll=1&since=1h", b"", self._login(), self.timeout, method="GET")
        texts = [
            json.loads(line).get("message") for line in found.decode(errors="replace").splitlines() if line.strip()
        ]
        return any(
            isinstance(one, str) and compare_digest(one.strip().encode(), message.data["id"].encode()) for one in texts
        )

    def _login(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


def _plain(text: str) -> str:
    """A header as it is sent: ASCII, encoded as in mail where it is not."""
    return text if text.isascii() else Header(text, "utf-8", maxlinelen=10**6).encode()
