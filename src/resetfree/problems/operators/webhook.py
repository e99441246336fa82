"""Calls by POST to a web address, as webhook:URL or webhook:FILE: JSON with the request, the link and the picture."""

import base64
import json
from dataclasses import dataclass, field
from typing import ClassVar

from resetfree.problems.operators.calls import Call, Message, Url, post


@dataclass(kw_only=True)
class Webhook(Call):
    """POST of JSON: `id`, `problem`, `why`, `detail`, `sentence`, `link`, `title`, and `picture` (PNG in base64).

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
