"""Where the machines of a fleet are: in threads of this process, in other processes, or on a Ray cluster (extra ray).

A host holds some of the machines, and plays what it is given, one thing after the other. A host that dies takes nothing
with it but the episodes that were under way: the next host begins them again, or has its machines reset first if they
keep a state of their own.
"""

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from resetfree.core import EnvironmentFailed, Floats, ResetFreeError, RunError, one_line
from resetfree.core.extras import first_line, import_ray, joined
from resetfree.core.interrupts import SLICE
from resetfree.core.system import Child
from resetfree.game.fleet import Crew, UnderWay
from resetfree.problems import Episode, Intervention, Note, Problem, State, find_world
from resetfree.problems.contract import intervene
from resetfree.problems.operators import Operator, Request

Arrays = dict[str, NDArray[Any]]
MOST_DEATHS = 20  # of the process of a machine in a row, without an answer in between, after which the run ends


class CrewReply(NamedTuple):
    """What a host says of an episode or a reset."""

    found: Any  # an `Episode`, or where the machine stands
    notes: list[Note]
    performed: list[Intervention]
    saved: Arrays  # what the machine's problem has learned


class Host:
    """Some of the machines, each with a problem of its own.

    of_run: the problem of the run, if one of them is that: what it notes is where it belongs.
    """

    def __init__(self, problems: dict[int, Problem], of_run: Problem | None = None) -> None:
        self._problems, self._of_run = problems, of_run
        self._standing: set[int] = set()  # machines that were reset here: where others stand was lost with another host

    @classmethod
    def of(cls, name: str, options: dict[str, Any], machines: Sequence[int]) -> Self:
        """Machines that are made by name."""
        return cls({machine: find_world(name, options).problem for machine in machines})

    def play(self, machine: int, policy: Any, start: State, u: Floats, units: Any) -> CrewReply | None:
        """One episode; None if the machine must be reset first.  units: of rewards, as the first episode showed."""
        problem = self._problems[machine]
        if problem.persistent and machine not in self._standing:
            return None
        if problem.units is None and units is not None:
            problem.restore({**problem.saved(), "units": np.array(units)})
        return self._answer(problem, problem.rollout(policy, start, u))

    def reset(self, machine: int, u: float, why: str) -> CrewReply:
        """One reset."""
        problem = self._problems[machine]
        found = self._answer(problem, problem.perform_reset(u, why))
        self._standing.add(machine)
        return found

    def _answer(self, problem: Problem, found: Any) -> CrewReply:
        notes, performed = list[Note](), problem.interventions()
        if problem is not self._of_run:
            notes = list(problem.noted)
            problem.noted.clear()
        return CrewReply(found, notes, performed, problem.saved())


class Hosts(Crew):
    """A crew of hosts, each with a thread here that waits for its answers.

    problem: of the run, which gets what the machines noticed.
    machines: how many.  hosts: on how many they are.
    operators: the people who perform resets; none: the machines reset themselves.
    """

    def __init__(self, problem: Problem, machines: int, hosts: int, operators: Sequence[Operator] = ()) -> None:
        self._problem, self._n, self._n_hosts, self._operators = problem, machines, min(hosts, machines), operators
        self._said: set[str] = set()
        self.performed: list[Intervention] = []
        self._threads = [ThreadPoolExecutor(1, thread_name_prefix="resetfree-host") for _ in range(self._n_hosts)]
        self._people = ThreadPoolExecutor(max(len(operators), 1), thread_name_prefix="resetfree-operator")
        self._open: dict[int, Future[CrewReply | None]] = {}  # by machine
        self._deaths = dict.fromkeys(range(1, machines + 1), 0)  # of the process of each machine, in a row
        self.broken: set[int] = set()

    @abstractmethod
    def _call(self, host: int, method: str, *arguments: Any) -> CrewReply | None:
        """The answer of a host; None if it died, and is there again. Raises what the machine raised."""

    def _host(self, machine: int) -> int:
        return (machine - 1) % self._n_hosts

    def machines_of(self, host: int) -> list[int]:
        """The machines that a host holds."""
        return [machine for machine in range(1, self._n + 1) if self._host(machine) == host]

    def _do(self, machine: int, method: str, *arguments: Any) -> "Future[CrewReply | None]":
        host = self._host(machine)
        return self._threads[host].submit(self._call, host, method, machine, *arguments)

    def begin(self, machine: int, one: UnderWay, u: Floats) -> None:
        """See `Crew`."""
        given = one.held.plan.policy, one.start, u, self._problem.units
        self._open[machine] = self._do(machine, "play", *given)

    def episode(self, machine: int) -> Episode | None:
        """See `Crew`."""
        return self._heard(machine, self._waited(self._open.pop(machine)))  # type: ignore[no-any-return]

    def reset(self, machine: int, u: float, why: str) -> State:
        """See `Crew`."""
        found = None
        while found is None and machine not in self.broken:
            found = self._heard(machine, self._waited(self._do(machine, "reset", u, why)))
        return found

    def begin_reset(self, machine: int, u: float, why: str, detail: str, who: int) -> None:
        """Have an operator, counted from 0, reset a machine; `next_one` gives where it stands then."""
        request = Request(f"{self._problem.name}, machine {machine}", why, detail)

        def perform() -> CrewReply | None:
            done = intervene(self._operators[who], request)
            found = self._do(machine, "reset", u, why).result()
            return None if found is None else found._replace(performed=[done])

        self._open[machine] = self._people.submit(perform)

    def next_one(self) -> tuple[int, Any]:
        """Wait for any machine: its number, and its episode, its start after a reset, or None if it was lost."""
        while True:
            done, _ = wait(self._open.values(), SLICE, FIRST_COMPLETED)
            for machine, future in self._open.items():
                if future in done:
                    return machine, self._heard(machine, self._open.pop(machine))

    def _waited(self, future: "Future[CrewReply | None]") -> "Future[CrewReply | None]":
        while not future.done():  # in slices, so that Ctrl-C is heard
            wait([future], SLICE)
        return future

    def _heard(self, machine: int, over: "Future[CrewReply | None]") -> Any:
        """The episode or the start in an answer; what else it says is passed on.  None: the machine was lost."""
        try:
            answer = over.result()
        except EnvironmentFailed as error:
            self._leave_out(machine, error)
            return None
        if answer is None:
            self._deaths[machine] += 1
            if self._deaths[machine] >= MOST_DEATHS:
                raise RunError(f"The process of machine {machine} died {MOST_DEATHS} times in a row.")
            then = "the machine is reset" if self._problem.persistent else "its episode is begun again"
            words = f"The process of machine {machine} ended; {then}."
            self._problem.noted.append(Note(0, words, restart="ended"))
            return None
        self._deaths[machine] = 0
        fresh = [one for one in answer.notes if one.what not in self._said]
        self._said.update(one.what for one in fresh)
        self._problem.noted.extend(fresh)
        self.performed += [replace(one, detail=f"machine {machine}: {one.detail}") for one in answer.performed]
        if self._problem.units is None and answer.saved:
            self._problem.restore(answer.saved)
        return answer.found

    def _leave_out(self, machine: int, error: EnvironmentFailed) -> None:
        """Go on without a machine that broke; raises the error if it was the last one."""
        self.broken.add(machine)
        if len(self.broken) == self._n or not self._problem.persistent:
            raise error
        self._problem.noted.append(Note(0, f"Machine {machine} is left out, until the run is resumed: {error}"))

    def interventions(self) -> list[Intervention]:
        """See `Crew`."""
        done, self.performed = self.performed, []
        return done

    def close(self) -> None:
        """End the threads; those that wait for an operator are left to themselves."""
        for one in [*self._threads, self._people]:
            one.shutdown(wait=False, cancel_futures=True)


class InThreads(Hosts):
    """Each machine in a thread of this process: environments that are given as objects, and machines over a wire."""

    def __init__(self, problems: Sequence[Problem], operators: Sequence[Operator] = ()) -> None:
        super().__init__(problems[0], len(problems), len(problems), operators)
        self._hosts = [Host({machine: problem}, problems[0]) for machine, problem in enumerate(problems, 1)]

    def _call(self, host: int, method: str, *arguments: Any) -> CrewReply | None:
        return getattr(self._hosts[host], method)(*arguments)  # type: ignore[no-any-return]


class InProcesses(Hosts):
    """The machines in other processes, made there by name."""

    def __init__(
        self, problem: Problem, made: tuple[str, dict[str, Any]], sizes: tuple[int, int], operators: Sequence[Operator]
    ) -> None:
        super().__init__(problem, *sizes, operators)
        self._made = made
        self._children: list[Child | None] = [None] * self._n_hosts

    @property
    def pids(self) -> list[int | None]:
        """The processes that run."""
        return [None if one is None else one.process.pid for one in self._children]

    def _call(self, host: int, method: str, *arguments: Any) -> CrewReply | None:
        child = self._children[host]
        if child is None:
            child = self._children[host] = Child(_serve, *self._made, self.machines_of(host))
        try:
            child.pipe.send((method, arguments))
            kind, found = child.pipe.recv()
        except (EOFError, OSError):
            self._children[host] = None
            child.kill()
            return None
        if kind == "raised":
            raise found
        return found  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the processes."""
        super().close()
        for one in self._children:
            if one is not None:
                one.kill()


def _serve(pipe: Connection, name: str, options: dict[str, Any], machines: list[int]) -> None:
    """The life of a host in another process."""
    host = None
    with suppress(EOFError, ConnectionError):
        while True:
            method, arguments = pipe.recv()
            try:
                host = Host.of(name, options, machines) if host is None else host
                answer: tuple[str, Any] = "answer", getattr(host, method)(*arguments)
            except ResetFreeError as error:
                answer = "raised", error
            except Exception as error:  # of a user's own code
                answer = "raised", RunError(f"A machine raised {one_line(error)}.")
            pipe.send(answer)


class RayHosts(Hosts):
    """The machines in actors of a Ray cluster, made there by name."""

    def __init__(
        self, problem: Problem, made: tuple[str, dict[str, Any]], sizes: tuple[int, int], address: str | None
    ) -> None:
        super().__init__(problem, *sizes)
        self._ray, self._made = import_ray("A fleet on Ray"), made
        self._stack = ExitStack()
        self._stack.enter_context(joined(self._ray, self._n_hosts, address))
        self._actors: list[Any] = [None] * self._n_hosts

    def _call(self, host: int, method: str, *arguments: Any) -> CrewReply | None:
        if self._actors[host] is None:
            actor = self._ray.remote(num_cpus=1)(_Actor)
            self._actors[host] = actor.remote(*self._made, self.machines_of(host))
        try:
            return self._ray.get(self._actors[host].do.remote(method, *arguments))  # type: ignore[no-any-return]
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, ResetFreeError) else RunError(first_line(error))) from None
        except self._ray.exceptions.RayError:  # the actor died, or its node
            self._actors[host] = None
            return None

    def close(self) -> None:
        """Leave the cluster."""
        super().close()
        self._stack.close()


class _Actor:
    """A host in an actor."""

    def __init__(self, name: str, options: dict[str, Any], machines: list[int]) -> None:
        self._made, self._host = (name, options, machines), None

    def do(self, method: str, *arguments: Any) -> CrewReply | None:
        """What a host does."""
        self._host = Host.of(*self._made) if self._host is None else self._host  # type: ignore[assignment]
        return getattr(self._host, method)(*arguments)  # type: ignore[no-any-return]
