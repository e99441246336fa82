"""Who may ask a server of ours, and how much: host, origin, token and size, for the operator's server and the studio.

A page of another origin cannot ask (its Origin is not ours, and our Host is not a name that points here), and another
user of a shared machine cannot where a token is set.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from resetfree.core.settings import Range

PortNumber: TypeAlias = Annotated[int, Range(0, 65_535)]  # 0 for any that is free
TOKEN = "x-resetfree-token"  # the header that carries it
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HOST = "The host must be 127.0.0.1 or localhost."
ORIGIN = "Pages of another origin may not ask."


def origin_refusal(headers: Mapping[str, str], hosts: Sequence[str], *, any_name: bool = False) -> str | None:
    """Why this request may not be made by whoever makes it; None where it may.

    headers: with names in any case.  hosts: every Host header.  any_name: whether we may be called by any name (a
    server that a token guards), or by those of loopback only.

    >>> origin_refusal({"origin": "http://evil.example"}, ["127.0.0.1:8000"])
    'Pages of another origin may not ask.'
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
    """Whether the token came along, compared in constant time; "" where none is needed."""
    given = headers.get(TOKEN, "")
    return not token or hmac.compare_digest(given.encode(errors="replace"), token.encode())


def body_size(length: str, most: int) -> int | None:
    """The bytes that a Content-Length announces, None if they are too many; refused with a ValueError if it is none.

    >>> body_size("12", 100), body_size("1000", 100), body_size("9" * 5000, 100)
    (12, None, None)
    """
    if not (length.isascii() and length.isdigit()):
        raise ValueError("A request needs its Content-Length.")
    return int(length) if len(length) <= 12 and int(length) <= most else None
