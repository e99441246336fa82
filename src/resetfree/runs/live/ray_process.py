"""The process that talks to a learner on Ray (extra ray), in the place of one that learns here: it never computes long.

The process that acts starts and directs it, as a learner here, and it leaves the same messages beside the boards.
An actor that died, or hangs (`hanging`), is replaced by a new one. If the cluster is lost, this process ends and is
started again (Ray would end it anyway), and waits until the cluster answers. Sentences for the user go to its standard
output, each after the field `restart` of its note and a tab.
"""

import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from resetfree.core import InvalidInput, RunError
from resetfree.core.extras import check_reachable, first_line, import_ray, joined
from resetfree.core.plain_tree import decode
from resetfree.core.system import Activity, activity, take_low
from resetfree.runs.live.assignment import FIRST, PLAYERS, raw_message, receive
from resetfree.runs.live.board import TICK, Board, Progress, Vigil, given_up
from resetfree.runs.live.learner import AGAIN, CHECKPOINTS, CLASS, IDLE, PLANS, RAISED, SAID, Ear, leave, said
from resetfree.runs.live.learner_location import RayLearner
from resetfree.runs.live.remote_learner import LearnerRaised, Relay, RemoteLearner, this_machine

NICENESS = "RAY_worker_niceness"  # Ray's own name: that of its actors, if it is started here
LOST = 4  # exit status of this process when the cluster is lost, which it has said
STARTS = 3  # tries to start Ray on this machine
GONE = "lost.json"  # beside the boards while the cluster is lost
SLICE = 0.5  # seconds after which a wait looks whether the run has ended
LEAST_PAUSE, MOST_PAUSE = 0.05, 10.0  # seconds before an actor is replaced, or a cluster is looked for again
LONG = 60.0  # seconds without a node for the actor after which a message is due
PATIENCE = 300.0  # seconds that this process may wait for Ray in one piece: to be started, or joined
UNAVAILABLE = 60.0  # seconds in which an actor that cannot be reached may come back;
HEADLESS = 10.0  # the same if the head of its cluster could not be reached meanwhile, as after a power failure
SILENT = 10.0  # seconds without an answer after which a message is due; the next one is due after twice as long
PULSE = "pulse"  # the method that is answered while another one works, and its concurrency group
FAREWELL = 4.0  # seconds in which the cluster may be left


class Ended(BaseException):
    """The process that acts has ended."""


class Tell(Protocol):
    """Says a sentence to the user."""

    def __call__(self, sentence: str, restart: str = "") -> None:
        """Say it.  restart: of its `Note`."""


class ActorLost(Exception):
    """The actor died."""


class ActorHung(ActorLost):
    """The actor hangs."""


class ClusterLost(Exception):
    """The cluster cannot be reached any more.  since: when that began, on the monotonic clock; None: now."""

    def __init__(self, why: str, since: float | None = None) -> None:
        super().__init__(why)
        self.since = time.monotonic() if since is None else since


class RelayEar(Ear):
    """Listens to the process that acts; when that has ended, leaves some time to leave the cluster."""

    def __init__(self, stream: BinaryIO, folder: Path) -> None:
        super().__init__(stream, folder)
        self.closed = threading.Event()
        self.advance: Callable[[], object] = lambda: None  # called while this process waits: it does not hang

    def end(self) -> None:
        """Have this process end, soon."""
        self.closed.set()
        self.heard.set()
        time.sleep(FAREWELL)
        os._exit(0)

    def pause(self, seconds: float) -> None:
        """Wait, unless the process that acts has ended."""
        self.advance()
        if self.closed.wait(seconds):
            raise Ended


class Silence:
    """Says, at longer and longer distances, for how long the learner has been out of reach.  since: monotonic."""

    def __init__(self, since: float, tell: Tell) -> None:
        self.since, self._tell, self._due = since, tell, SILENT
        while self.seconds > self._due:  # which was said before
            self._due *= 2.0

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self.since

    def look(self) -> None:
        """Say so if it is time."""
        if self.seconds >= self._due:
            self._due *= 2.0
            self._tell(
                f"The learner on Ray has been out of reach for {self.seconds:.0f} s: acting goes on, and the learner "
                "too as soon as it is reached."
            )


class RayLink:
    """An actor of a cluster that was joined."""

    def __init__(self, ray: Any, options: RayLearner, ear: RelayEar, tell: Tell, vigil: Vigil) -> None:
        self._ray, self._ear, self._vigil = ray, ear, vigil
        self._reached = False
        self._address = options.address
        vigil.begin()
        self._pulse: Any = None  # the reference of an answer that has not come
        self._silence = Silence(time.monotonic(), tell)
        self._count = 0  # its progress, by the newest answer
        self._pid = 0  # of its process, if that is on this machine
        kind = ray.remote(
            num_cpus=options.cpus,
            num_gpus=options.gpus,
            memory=options.memory or None,
            max_restarts=0,
            concurrency_groups={PULSE: 1},
        )(RemoteLearner)
        try:
            self._actor = kind.remote()
        except (ray.exceptions.RayError, ConnectionError) as error:
            raise ClusterLost(first_line(error)) from error
        self._waiting = f"No node of the Ray cluster has room for the learner yet ({options.words}): it waits."
        self._tell = tell

    def call(self, method: str, *arguments: Any) -> bytes:
        """The answer of the actor; asks again while it cannot be reached. Raises ActorLost or ClusterLost."""
        errors, since, headless = self._ray.exceptions, None, False
        while True:
            try:
                return self._answer(getattr(self._actor, method).remote(*arguments))
            except errors.ActorUnavailableError as error:  # the call may have arrived or not: a second one does no harm
                since = time.monotonic() if since is None else since
                headless = headless or not self._has_head()
                if time.monotonic() - since > (HEADLESS if headless else UNAVAILABLE):
                    if headless:
                        raise ClusterLost(f"its head did not answer for {HEADLESS:g} s", since) from error
                    raise ActorLost("it could not be reached for too long") from error
                self._silence.look()
                self._ear.pause(SLICE)
            except errors.RayActorError as error:
                raise ActorLost(_last_line(error)) from error
            except errors.RayTaskError as error:
                raise RunError(f"The learner on Ray raised {_last_line(error)}.") from error
            except (errors.RayError, ConnectionError) as error:
                raise ClusterLost(first_line(error)) from error

    def _answer(self, reference: Any) -> bytes:
        """Wait for an answer, for as long as the learner computes."""
        long = time.monotonic() + LONG
        while not self._ray.wait([reference], timeout=SLICE)[0]:
            self._ear.pause(0.0)
            if self._reached:
                self._watch()
            if not self._reached and time.monotonic() > long:
                long = float("inf")
                self._tell(self._waiting)
        answer: bytes = self._ray.get(reference)
        self._reached, self._silence = True, Silence(time.monotonic(), self._tell)
        return answer

    def _watch(self) -> None:
        """Look whether the actor goes on with its call; raises ActorHung."""
        if self._pulse is None:
            self._pulse = self._actor.pulse.options(concurrency_group=PULSE).remote()
        doing = activity(self._pid) if self._pid else None
        if self._ray.wait([self._pulse], timeout=TICK)[0]:
            reference, self._pulse = self._pulse, None
            try:
                found = decode(self._ray.get(reference), {})
            except self._ray.exceptions.RayError:  # which the answer that is waited for will say too
                return
            self._silence = Silence(time.monotonic(), self._tell)
            if (one := found["activity"]) is not None:
                doing = Activity(frozenset(one["states"]), one["seconds"])
            self._count = found["progress"]
        self._silence.look()
        if (why := self._vigil.see(time.monotonic(), self._count, doing)) is not None:
            raise ActorHung(why if doing is not None else f"it did not answer for {self._silence.seconds:.0f} s")

    def about(self) -> dict[str, Any]:
        """Where the actor is, and which version it has."""
        found: dict[str, Any] = decode(self.call("about"), {})
        if found["machine"] == this_machine():
            with suppress(OSError):  # another container on this machine has other numbers
                is_one = Path(f"/proc/{found['pid']}/cmdline").read_bytes().startswith(b"ray::")
                self._pid = found["pid"] if is_one else 0
        return found

    def _has_head(self) -> bool:
        """Whether the head of the cluster answers, as far as that can be known."""
        try:
            if self._address is not None:
                check_reachable(self._address)
        except RunError:
            return False
        return True

    def close(self) -> None:
        """End the actor, if it can be reached; one that is not busy removes what it has written first."""
        with suppress(Exception):
            self._ray.wait([self._actor.close.remote()], timeout=SLICE)
            self._ray.kill(self._actor)


class RayProcess:
    """The work of this process.  first, players: the messages of its assignment."""

    def __init__(self, first: bytes, players: bytes, ear: RelayEar, tell: Tell) -> None:
        about = decode(first, {})
        self._assignment = raw_message(FIRST, first) + raw_message(PLAYERS, players)
        self._file, self._folder = Path(about["file"]), Path(about["boards"])
        self._options = RayLearner(**about["ray"])
        self._lowest: bool = about["lowest"]
        self._ear, self._tell, self._vigil = ear, tell, Vigil(about["patience"])

    @property
    def _cluster(self) -> str:
        address = self._options.address
        return "on this machine" if address is None else f"at '{address}'"

    def run(self) -> None:
        """Talk to learners until the run ends; raises Ended, ClusterLost or what is wrong for good."""
        before = (self._folder / CLASS).exists()  # whether a learner was reached in this run
        if before:
            self._await_cluster()
        ray = import_ray("The learner 'ray'")
        with ExitStack() as cluster:
            try:
                self._join(ray, cluster)
            except RunError as error:
                if before:
                    raise ClusterLost(str(error)) from error
                raise
            if self._lowest:
                take_low()  # not before: Ray gives its own processes little time to start
            if not before:
                self._check_room(ray)
            self._keep(ray)

    def _join(self, ray: Any, cluster: ExitStack) -> None:
        """Join the cluster; one that is started here may need several tries on a busy machine."""
        for left in reversed(range(STARTS if self._options.address is None else 1)):
            try:
                cluster.enter_context(joined(ray, max(1, math.ceil(self._options.cpus)), self._options.address))
                return
            except RunError:
                if not left:
                    raise

    def _await_cluster(self) -> None:
        """Wait until the address answers, if it is one of a port."""
        pause, silence = LEAST_PAUSE, Silence(self._lost_since(), self._tell)
        while self._options.address is not None:
            silence.look()
            try:
                return check_reachable(self._options.address)
            except RunError:
                pause = min(2.0 * pause, MOST_PAUSE)
                self._ear.pause(pause)

    def _lost_since(self) -> float:
        """When the cluster was lost, on the monotonic clock."""
        try:
            return float(json.loads((self._folder / GONE).read_text())["since"])
        except OSError:  # it was this process that was lost
            return time.monotonic()

    def _check_room(self, ray: Any) -> None:
        """Refuse what the whole cluster does not have: Ray would wait for it without a word."""
        there = ray.cluster_resources()
        for name, needed in self._options.needs.items():
            if needed > (has := there.get(name, 0.0)):
                raise InvalidInput(
                    f"The learner needs {self._options.words}, and the Ray cluster {self._cluster} has {has:g} "
                    f"{name} in all: give learner.cpus, learner.gpus and learner.memory that it has."
                )

    def _keep(self, ray: Any) -> None:
        """Replace the actor whenever it died."""
        pause = LEAST_PAUSE
        while True:
            link = RayLink(ray, self._options, self._ear, self._tell, self._vigil)
            try:
                self._serve(link)
            except ActorHung as error:
                if not self._vigil.hung():
                    raise RunError(given_up(str(error))) from error
                self._tell(f"The learner on Ray hung ({error}) and was killed: {AGAIN}", "hung")
            except ActorLost as error:
                if not (self._folder / CLASS).exists():
                    raise RunError(f"The learner cannot start on the Ray cluster {self._cluster}: {error}.") from error
                self._tell(f"The learner on Ray ended ({error}): {AGAIN}", "ended")
            finally:
                link.close()
            self._ear.pause(pause)
            pause = min(2.0 * pause, MOST_PAUSE)

    def _serve(self, link: RayLink) -> None:
        """Send rounds to one actor, and post what comes back, until it dies."""
        self._introduce(link.about())
        with (
            Board.join(self._folder / PLANS) as plans,
            Board.join(self._folder / CHECKPOINTS) as checkpoints,
            Relay(self._file, plans, checkpoints, link.call) as relay,
        ):
            relay.assign(self._assignment)
            while True:
                self._ear.heard.clear()
                self._ear.pause(0.0)
                self._vigil.planned(plans.newest().number)
                if not relay.exchange(self._ear.start_of_first, ending=self._ear.ending):
                    self._ear.heard.wait(IDLE)

    def _introduce(self, about: dict[str, Any]) -> None:
        """Say where the learner is; a node with another version is refused."""
        if about["version"] != (ours := version("resetfree")):
            raise InvalidInput(
                f"The nodes of the Ray cluster {self._cluster} must have resetfree {ours}, as this machine. Got "
                f"{about['version']} on '{about['node']}' instead."
            )
        words = f"It is an actor of the Ray cluster {self._cluster}, on node '{about['node']}' ({self._options.words})."
        leave(self._folder / CLASS, {"name": "ray", "words": words, "pid": about["pid"]})
        if (self._folder / GONE).exists():
            seconds = time.monotonic() - self._lost_since()
            (self._folder / GONE).unlink()
            self._tell(f"The learner on Ray is reached again, after {seconds:.0f} s.")


def main() -> None:
    """Relay until the process that acts has ended."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # for what Ray prints, here and in the processes that it starts
    stream: BinaryIO = sys.stdin.buffer
    try:
        (_, first), (_, players) = receive(stream), receive(stream)
    except EOFError:
        return

    def tell(sentence: str, restart: str = "") -> None:
        with suppress(OSError):
            out.write(f"{restart}\t{' '.join(sentence.split())}\n".encode())

    about = decode(first, {})
    folder, ear = Path(about["boards"]), RelayEar(stream, Path(about["boards"]))
    ear.start()
    try:
        if not about["lowest"]:
            os.environ.setdefault(NICENESS, "0")
        ear.advance = Progress(folder).advance
        RayProcess(first, players, ear, tell).run()
    except Ended:
        os._exit(0)
    except ClusterLost as error:
        if not (folder / GONE).exists():
            leave(folder / GONE, {"words": str(error), "since": error.since})
            tell(
                f"The Ray cluster is lost ({error}): acting goes on, and rounds wait in the run file until it is back.",
                "ended",
            )
        os._exit(LOST)
    except BaseException as error:
        leave(folder / SAID, found := error.said if isinstance(error, LearnerRaised) else said(error))
        print(found["trace"], end="", file=sys.stderr, flush=True)
        os._exit(RAISED)


def _last_line(error: BaseException) -> str:
    """The sentence of a message of Ray that names the cause: the first one of its last line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1].partition(". ")[0].rstrip(".")
