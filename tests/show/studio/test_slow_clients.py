"""Slow clients: cut off after a while, without effect on others."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.requests import Request
from tests.show.studio.serving import Here
from tests.waiting import LONG

import resetfree as rf
from resetfree.show.studio import limits
from resetfree.show.studio.web import TooLarge, body_of


def request(messages: list[dict[str, Any]], **headers: str) -> Request:
    """A request whose body comes as these messages, and then not at all."""

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        await asyncio.sleep(LONG)

    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": sent}, receive)


def answered(asked: Request) -> Any:
    """What `body_of` says, in a thread of its own: a browser that another test drives may have a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(body_of(asked))).result()


def part(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATIENCE", 0.05)
    with pytest.raises(rf.InvalidInput, match="did not arrive"):
        answered(request([part(b"{")], content_type="application/json"))


def test_a_body_is_counted_as_it_comes() -> None:
    pieces = [part(b" " * 400_000) for _ in range(200)]
    with pytest.raises(TooLarge):
        answered(request(pieces, content_type="application/json"))
    assert len(pieces) == 197  # three were too much, and the others were never read
    whole = [part(b'{"a"'), part(b": 1}", more=False)]
    assert answered(request(whole, content_type="application/json; charset=utf-8")) == {"a": 1}


@pytest.mark.parametrize(
    "words", [b"", b"GET / HTTP/1.1\r\nHost: 127", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET"]
)
def test_who_does_not_finish_a_request_is_cut_off(here: Here, monkeypatch: pytest.MonkeyPatch, words: bytes) -> None:
    monkeypatch.setattr(limits, "PATIENCE", 0.3)
    with socket.create_connection(("127.0.0.1", here.served().port), timeout=LONG) as connection:
        connection.sendall(words)
        said = b""
        try:
            while more := connection.recv(65_536):
                said += more
        except ConnectionResetError:
            pass
    assert said.startswith(b"HTTP/1.1 200") == words.endswith(b"GET")
