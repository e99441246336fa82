"""Calls by e-mail (SMTP), as mail:FILE: the request, the link, and the picture as an attachment."""

import smtplib
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Annotated, ClassVar, Literal

from resetfree.core.settings import Range
from resetfree.problems.operators.calls import Call, Line, Message


@dataclass(kw_only=True)
class Mail(Call):
    """One e-mail per call.

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
