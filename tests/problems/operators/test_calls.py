"""Calls to a person who is elsewhere, at servers on loopback: what they say, and servers that fail or hang."""

import base64
import contextlib
import email
import email.policy
import json
import re
import socket
import socketserver
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image
from tests.problems.operators.plant import Counter
from tests.waiting import LONG, until

import resetfree as rf
from resetfree.core import OperatorTimeout
from resetfree.problems.operators import Answer, Request, calls
from resetfree.problems.operators.calls import Mail, Ntfy, Webhook
from resetfree.show.cli import main

PNG = b"\x89PNG\r\n\x1a\n picture"
FELL = Request("cärt", "reset", "the pole fell", lambda: PNG)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are repeated soon."""
    monkeypatch.setattr(calls, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(calls, "POLL", 0.02)


class Got(NamedTuple):
    """A request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Sink(ThreadingHTTPServer):
    """A server that keeps what it gets; `failing` requests are answered with a failure, `hanging` ones not at all."""

    daemon_threads = True

    def __init__(self, failing: int = 0, hanging: int = 0) -> None:
        self.got: list[Got] = []
        self.failing, self.hanging = failing, hanging
        self.arrived, self.over = threading.Condition(), threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/robots"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def wait_for(self, n: int) -> list[Got]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.got) >= n, LONG)
            return list(self.got)

    def close(self) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Sink

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.arrived:
            self.server.got.append(Got(self.command, self.path, dict(self.headers), body))
            n = len(self.server.got)
            self.server.arrived.notify_all()
        if n <= self.server.hanging:
            self.server.over.wait(LONG)
            return
        self.send_response(500 if n <= self.server.failing else 200)
        answers = b"".join(
            json.dumps({"message": one.body.decode()}).encode() + b"\n"
            for one in self.server.got
            if one.path == "/answers"
        )
        reply = answers if self.command == "GET" else b"ok"
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


def asked(pool: ThreadPoolExecutor, channel: calls.Call, deadline: float | None = LONG) -> Future[Answer]:
    return pool.submit(rf.OperatorReset(channel, deadline).perform, FELL)


def press(link: str, **form: str) -> tuple[int, str]:
    """What the page says after its button."""
    body = "&".join(f"{name}={value}" for name, value in form.items()).encode()
    try:
        with urllib.request.urlopen(link, data=body, timeout=LONG) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_webhook_carries_the_request_a_picture_and_a_link_with_one_button(
    sink: Sink, pool: ThreadPoolExecutor
) -> None:
    channel = Webhook(url=sink.url, headers={"Authorization": "Bearer x"}, who="night shift")
    answer = asked(pool, channel)
    (one,) = sink.wait_for(1)
    data = json.loads(one.body)
    assert (one.headers["Authorization"], one.headers["Content-Type"]) == ("Bearer x", "application/json")
    assert base64.b64decode(data["picture"]) == PNG
    assert data["sentence"] == "'cärt' needs a reset: a reset state was entered (the pole fell)."
    link = data["link"]
    with urllib.request.urlopen(link, timeout=LONG) as page:
        shown = page.read().decode()
    assert "&#x27;cärt&#x27; needs a reset" in shown
    assert len(re.findall("<button>", shown)) == 1
    picture = re.search('src="([^"]+)"', shown)
    assert picture is not None
    with urllib.request.urlopen(f"{link.rpartition('/')[0]}/{picture[1]}", timeout=LONG) as found:
        assert found.read() == PNG
    assert not answer.done()  # opening the link, as mail programs do, confirms nothing
    assert press(f"{link[:-1]}{'a' if link[-1] != 'a' else 'b'}")[0] == 404  # another secret
    assert "the run goes on" in press(link, note="put+back")[1]
    assert answer.result(LONG) == Answer("night shift", "put back; called once")
    assert press(link)[0] == 404  # the link was for one request
    channel.close()


def test_a_call_that_fails_is_repeated_and_logged(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    sink, log = Sink(failing=2), tmp_path / "calls.log"
    answer = asked(pool, Webhook(url=sink.url, log=str(log)))
    found = sink.wait_for(3)
    assert len({one.body for one in found}) == 1
    press(json.loads(found[-1].body)["link"])
    assert answer.result(LONG).note == "called 3 times"
    said = [line.split(" ", 1)[1] for line in log.read_text().splitlines()]
    failed = "failed: ValueError: HTTP 500 Internal Server Error"
    assert said[:2] == [f"webhook 1 {failed}", f"webhook 2 {failed}"]
    sink.close()


def test_a_server_that_hangs_or_does_not_exist_delays_nothing(pool: ThreadPoolExecutor, capfd: Any) -> None:
    sink = Sink(hanging=10)
    with pytest.raises(OperatorTimeout, match=r"within 0\.2 seconds"):  # not as long as the call may take
        rf.OperatorReset(Webhook(url=sink.url, timeout=LONG), 0.2).perform(FELL)

    def confirmed_by_hand(channel: Webhook, words: str) -> None:
        """By the link that was written to standard error, after these words were."""
        answer, said = asked(pool, channel), list[str]()

        def heard() -> bool:
            said.append(capfd.readouterr().err)
            return re.search(words, "".join(said)) is not None

        until(heard)
        until(lambda: channel._server is not None and channel._server.open is not None)
        channel._server.open.confirm("by hand")  # type: ignore[union-attr]
        assert answer.result(LONG).note.startswith("by hand; called ")

    confirmed_by_hand(
        Webhook(url=sink.url, timeout=LONG), r"Calling by webhook; confirm at http://127\.0\.0\.1:\d+/\S+\."
    )
    sink.close()
    confirmed_by_hand(Webhook(url=sink.url), r"The call by webhook did not arrive \(")


class Trickling(socketserver.StreamRequestHandler):
    """Says that all is well, and then never comes to an end."""

    def handle(self) -> None:
        self.rfile.readline()
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"x")
                time.sleep(0.02)


def test_an_answer_that_never_ends_is_not_waited_for(pool: ThreadPoolExecutor) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Trickling) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        assert pool.submit(calls.post, url, b"{}", {}, 0.5).result(LONG) == b""
        with pytest.raises(TimeoutError, match="takes too long"):
            pool.submit(calls.post, url, b"", {}, 0.5, method="GET").result(LONG)
        server.shutdown()


def test_a_call_that_is_not_confirmed_is_made_again(sink: Sink, pool: ThreadPoolExecutor) -> None:
    answer = asked(pool, Webhook(url=sink.url, repeat=0.05))
    press(json.loads(sink.wait_for(3)[-1].body)["link"])
    assert answer.result(LONG).note.startswith("called ")


def test_ntfy_has_a_picture_and_one_button(sink: Sink, pool: ThreadPoolExecutor) -> None:
    channel = Ntfy(url=sink.url, token="secret", link="https://plant.example/robot/")
    answer = asked(pool, channel)
    (one,) = sink.wait_for(1)
    assert (one.body, one.headers["Filename"], one.headers["Authorization"]) == (PNG, "picture.png", "Bearer secret")
    assert str(email.header.make_header(email.header.decode_header(one.headers["Title"]))) == "cärt needs a reset"
    actions = one.headers["Actions"]
    button = re.fullmatch(
        r"http, It is back, https://plant\.example/robot/([\w-]{32}), method=POST, clear=true", actions
    )
    assert button is not None
    assert channel._server is not None
    assert press(f"http://127.0.0.1:{channel._server.server_port}/{button[1]}")[0] == 200  # where the proxy leads to
    assert answer.result(LONG) == Answer("operator", "called once")


def test_ntfy_with_answers_needs_no_way_in_from_outside(sink: Sink, pool: ThreadPoolExecutor) -> None:
    topic = sink.url.replace("/robots", "/answers")
    plain = Request("cart", "stuck", "at [0.1]")
    answer = pool.submit(rf.OperatorReset(Ntfy(url=sink.url, answers=topic), LONG).perform, plain)
    (one, *_) = sink.wait_for(1)
    assert one.body.decode() == "'cart' needs a reset: the run is stuck and earns nothing (at [0.1])."
    button = re.fullmatch(r"http, It is back, (\S+), method=POST, clear=true, body=(\S+)", one.headers["Actions"])
    assert button is not None
    assert button[1] == topic
    press(topic, another="secret")
    time.sleep(0.1)
    assert not answer.done()
    urllib.request.urlopen(topic, data=button[2].encode(), timeout=LONG).close()
    assert answer.result(LONG) == Answer("operator", "called once")


class Post(socketserver.StreamRequestHandler):
    """As much of SMTP as a client needs; the first connections of `refusing` are told to come back."""

    server: Any

    def handle(self) -> None:
        self.server.connections += 1
        if self.server.connections <= self.server.refusing:
            self.wfile.write(b"421 busy\r\n")
            return
        self.wfile.write(b"220 sink\r\n")
        reading, lines = False, []
        for raw in self.rfile:
            line = raw.decode().rstrip("\r\n")
            if reading and line != ".":
                lines.append(line)
                continue
            if reading:
                self.server.mails.append("\n".join(lines))
                self.server.arrived.set()
            verb = line[:4].upper()
            reading = verb == "DATA"
            self.wfile.write(b"354 go\r\n" if reading else b"250 ok\r\n" if verb != "QUIT" else b"221 bye\r\n")
            if verb == "QUIT":
                return


def test_mail_arrives_with_the_picture_after_a_server_was_busy(pool: ThreadPoolExecutor) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Post) as sink:
        server: Any = sink
        server.mails, server.connections, server.refusing, server.arrived = [], 0, 1, threading.Event()
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        port = server.server_address[1]
        channel = Mail(
            to="shift@plant.example", sender="robot@plant.example", host="127.0.0.1", port=port, security="none"
        )
        answer = asked(pool, channel)
        assert server.arrived.wait(LONG)
        mail: Any = email.message_from_string(server.mails[0], policy=email.policy.default)
        assert (mail["To"], mail["Subject"]) == ("shift@plant.example", "cärt needs a reset")
        (picture,) = mail.iter_attachments()
        assert picture.get_content() == PNG
        link = re.search(r"http://\S+", mail.get_body().get_content())
        assert link is not None
        press(link[0])
        assert answer.result(LONG).note == "called 2 times"
        server.shutdown()


def test_a_run_calls_by_the_settings_of_a_file(
    sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment's own picture goes with the call; the answer is part of the record."""
    file = tmp_path / "call.toml"
    monkeypatch.setenv("HOOK", sink.url)
    file.write_text('url = "$HOOK"\nwho = "night shift"\n')

    def confirm() -> None:
        for n in (1, 2):
            press(json.loads(sink.wait_for(n)[n - 1].body)["link"])

    thread = threading.Thread(target=confirm)
    thread.start()
    lake = rf.from_gym("gym:FrozenLake-v1", horizon=20, reset_when="terminated", render_mode="rgb_array")
    with rf.OperatorReset(f"webhook:{file}", LONG) as operator:
        run = rf.learn(lake, Counter(), "counting", feedback="realised", episodes=9, max_resets=2, operator=operator)
    thread.join()
    lake.close()
    assert [(one.why, one.who) for one in run.interventions] == [("start", "night shift"), ("reset", "night shift")]
    assert "called once" in run.interventions[0].detail
    pictures = [json.loads(one.body)["picture"] for one in sink.got]
    assert Image.open(BytesIO(base64.b64decode(pictures[1]))).size > (50, 50)
    assert main(["list", "operators", "--json"]) == 0
    names = {row["name"] for row in json.loads(capsys.readouterr().out)["operators"]}
    assert {"webhook", "mail", "ntfy", "http", "terminal"} <= names


@pytest.mark.parametrize(
    ("by", "sentence"),
    [
        ("webhook", "The operator 'webhook' needs its settings: webhook:FILE or webhook:URL. Got 'webhook' alone"),
        ("mail", "needs its settings: mail:FILE. Got 'mail' alone"),
        ("ntfy:https://", "The 'url' of operator 'ntfy' must be an address that begins with http:// or https://"),
        ("mail:none.toml", "The settings 'none.toml' of the operator 'mail' cannot be read: .*No such file"),
        ("mail:bad.toml", "cannot be read: "),
        ("mail:less.toml", "are not complete: .*sender"),
        ("mail:more.toml", "There is no setting of the operator 'mail' 'recipient'"),
        ("mail:port.toml", "The 'port' of operator 'mail' must be an integer from 1 to 65535. Got 'x' instead"),
        ("webhook:serve.toml", "The 'serve' of operator 'webhook' must be HOST:PORT. Got '8080' instead"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(
    by: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text("to = ")
    Path("less.toml").write_text('to = "a@b.example"\n')
    Path("more.toml").write_text('recipient = "a@b.example"\n')
    Path("port.toml").write_text('to = "a@b.example"\nsender = "c@d.example"\nport = "x"\n')
    Path("serve.toml").write_text('url = "http://127.0.0.1/x"\nserve = "8080"\n')
    with pytest.raises((rf.InvalidInput, LookupError), match=sentence) as caught:
        rf.OperatorReset(by)
    assert "\n" not in str(caught.value)


def test_a_place_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        channel = Webhook(url="http://127.0.0.1:9/", serve=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(rf.InvalidInput, match="The page of the operator cannot be served at 127"):
            channel.ask(FELL, 1.0)
