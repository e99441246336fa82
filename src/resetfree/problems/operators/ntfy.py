"""Calls to a phone by ntfy, or a server that takes the same requests, as ntfy:https://SERVER/TOPIC or ntfy:FILE.

The message has one button. With `answers`, a second topic, the button writes there and the run reads it: then nothing
needs to reach the machine from outside.
"""

import json
from dataclasses import dataclass, field
from email.header import Header
from hmac import compare_digest
from typing import Annotated, ClassVar

from resetfree.core.settings import Range
from resetfree.problems.operators.calls import Call, Message, Url, post

BUTTON = "It is back"


@dataclass(kw_only=True)
class Ntfy(Call):
    """POST to a topic, with the picture as its attachment and a button that confirms.

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
