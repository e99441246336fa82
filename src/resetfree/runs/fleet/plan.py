"""What is requested of a fleet (how many machines, where they are, who resets them), and its schedules in `runs`.

`game.fleet` has the schedule of machines that reset themselves. Here are two more: with people who perform the resets,
in real time, and of rounds on record. In real time a machine is over with its episode when it says so, and people are
waited for: time is in seconds.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from resetfree.core import InvalidInput, expect, real, whole
from resetfree.core.extras import CLIENT
from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.game.fleet import Crew, Fleet, FleetGame, HereCrew, UnderWay
from resetfree.game.loop import Game
from resetfree.problems import Problem, World, find_world
from resetfree.problems.operators import Operator
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.recorded import FLEET, MOST_MACHINES, RecordedRound, checked
from resetfree.runs.fleet.crews import Hosts, InProcesses, InThreads, RayHosts
from resetfree.runs.setup import Setup, fleet_of, rounds_of
from resetfree.theory.oracle import evaluator_of

WHERE = ("auto", "here", "threads", "processes", "ray", "ray:ADDRESS")


class WithPeople(Fleet):
    """The schedule of a fleet in real time.  before: seconds of earlier sessions."""

    def start_clock(self, before: float) -> None:
        """Begin."""
        self._zero = time.monotonic() - before
        self._busy: dict[int, tuple[int, float]] = {}  # by machine: its operator, and since when

    def _now(self) -> float:
        return time.monotonic() - self._zero

    def before(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> None:
        """Have machines reset and begin, until an episode is over."""
        assert isinstance(game, FleetGame)
        crew = self.crew
        assert isinstance(crew, Hosts)
        self._plans.clear()
        while True:
            game.now = self._now()
            self._help(game)
            self._begin(primal, dual, game)
            machine, found = crew.next_one()
            game.now, one = self._now(), game.machines[machine - 1]
            if machine in self._busy:
                who, since = self._busy.pop(machine)
                game.busy[who] += game.now - since
                game.free[who] = 0.0
                one.start, one.waits, one.ready = found, found is None, game.now
            elif found is None and self._problem.persistent:
                game.lose(machine)
            elif found is None:
                crew.begin(machine, game.under_way[machine], self._chance(game, machine, again=True))
            else:
                self._results[machine] = found
                game.last = machine, game.under_way.pop(machine)
                game.s1 = game.last[1].start
                return

    def _help(self, game: FleetGame) -> None:
        """See `Fleet`; also before the first episodes."""
        for i, one in self._whole(game):
            if one.start is None and not one.waits and i not in game.under_way and i not in self._busy:
                one.waits = True
        waiting = [(-one.pay, one.ready, i) for i, one in self._whole(game) if one.waits]
        for who, free in enumerate(game.free):
            if free > 0.0 or not waiting:
                continue
            waiting.remove(first := min(waiting))
            machine, one = first[2], game.machines[first[2] - 1]
            self._busy[machine], game.free[who] = (who, game.now), 1.0
            one.waits, one.waited, one.operator = False, game.now - one.ready, who + 1
            one.ready = inf  # until it is performed
            words = f"episode {one.begun} of machine {machine} ended in a reset state" if one.begun else "it begins"
            self.crew.begin_reset(machine, game.chance(machine, 1).random(), one.why, words, who)  # type: ignore[attr-defined]

    def _take(self, game: FleetGame, machine: int) -> None:
        """Its end is heard of later."""


class FleetRecord(NamedTuple):
    """A round of a fleet on record."""

    round: RecordedRound
    machine: int
    number: int
    began: float
    ended: float
    waited: float
    operator: int


class RecordedFleet(Fleet):
    """The schedule of rounds on record, from the one after the checkpoint on: their plans are made again."""

    def replays(self, game: FleetGame, rounds: Sequence[FleetRecord]) -> None:
        """Say which rounds they are."""
        self._rows, self._first, self._begun = rounds, game.k, game.begun
        self._made: dict[int, UnderWay] = {one.number: one for one in game.under_way.values()}  # by number

    def before(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> None:
        """Make the plans that rest on the present states, and take the next round."""
        assert isinstance(game, FleetGame)
        self._plans.clear()
        for row in self._rows[game.k - self._first :]:
            if row.round.based_on == game.k:
                held, tries = self._planned(primal, dual, game, row.round.s1)
                rest = row.began, row.waited, row.operator
                self._made[row.number] = UnderWay(row.number, row.round.s1, *rest, held, tries)
        row = self._rows[game.k - self._first]
        if row.number not in self._made:
            raise InvalidInput(f"round {row.round.k} rests on a round that was over before the checkpoint")
        machine = game.machines[row.machine - 1]
        machine.begun += row.number > self._begun
        machine.waits = False
        game.begun, game.now = max(game.begun, row.number), row.ended
        game.under_way.pop(row.machine, None)
        game.last = row.machine, self._made.pop(row.number)
        game.s1 = row.round.s1
        self._results[row.machine] = row.round.episode


def go_on_as_fleet(setup: Setup, ledger: Ledger, schedule: Fleet) -> None:
    """Put the game after the last round of its file, from that of its checkpoint.

    Machines that keep a state of their own must be reset first. All others go on where they stand: with the episodes
    that were under way at the checkpoint, or with new ones.
    """
    game, problem = setup.game, setup.world.problem
    assert isinstance(game, FleetGame)
    if game.k < ledger.last:
        columns = ledger.contents().columns
        played = checked(problem, ledger.played(game.k + 1, ledger.last))
        rows = [FleetRecord(one, *(columns[name][one.k - 1].item() for name in FLEET)) for one in played]
        replayed = RecordedFleet(problem, HereCrew([problem]), episodes=ledger.last)
        replayed.replays(game, rows)
        for one in ledger.played(1, game.k) if problem.n_states is not None else ():
            replayed.learned(one.episode)
        oracle = evaluator_of(setup.world.mdp, problem) if setup.spec["feedback"] == "exact" else None
        for _ in rounds_of(setup, episodes=ledger.last, oracle=oracle, schedule=replayed):
            pass
    if problem.n_states is not None:
        for played_before in ledger.played(1, ledger.last):
            schedule.learned(played_before.episode)
    if isinstance(schedule, WithPeople):  # what they were doing is begun again
        schedule.start_clock(game.now)
        game.free = [0.0] * len(game.free)
        for being_reset in (one for one in game.machines if one.ready == inf):
            being_reset.waits, being_reset.ready = True, game.now
    if problem.persistent:
        for machine in range(1, len(game.machines) + 1):
            game.lose(machine)
        game.s1 = None


@dataclass(frozen=True)
class FleetPlan:
    """The fleet of a run.

    others: the problems of the machines after the first, where they are given as objects.
    operators: how many there are, or the people themselves.
    """

    machines: int
    operators: int | Sequence[Operator] = 1
    reset_time: float = 0.0
    risk: float = 1.0
    where: str = "auto"
    others: tuple[Problem, ...] = field(default=())

    def __post_init__(self) -> None:
        whole(self.machines, "'machines' of a fleet", 1, MOST_MACHINES)
        if isinstance(self.operators, int):
            whole(self.operators, "'operators' of a fleet", 1, MOST_MACHINES)
        else:
            several = isinstance(self.operators, Sequence) and len(self.operators) > 0
            good = several and all(hasattr(one, "perform") for one in self.operators)
            expect(good, "'operators' of a fleet", "be a number, or a list of operators", self.operators)
        real(self.reset_time, "'reset_time' of a fleet")
        real(self.risk, "'risk' of a fleet")
        known = isinstance(self.where, str) and (self.where in WHERE[:5] or self.where.startswith("ray:"))
        expect(known, "'where' of a fleet", f"be one of {', '.join(WHERE)}", self.where)

    @classmethod
    def of(cls, problem: Any, machines: int | None, options: dict[str, Any], **how: Any) -> tuple[World, "FleetPlan"]:
        """The problem of the run, which is that of the first machine, and the plan.

        problem: one for all machines, or a list with one for each.
        """
        if isinstance(problem, Sequence) and not isinstance(problem, str):
            expect(len(problem) > 0, "machines of a fleet", "be a list of problems", problem)
            if machines not in (None, len(problem)):
                raise InvalidInput(f"A list of {len(problem)} machines is a fleet of as many. Got {machines} instead.")
            each, machines = list(problem), len(problem)
        else:
            each = [problem]
        world = find_world(each[0], options)
        machines = 16 if machines is None else machines
        alike = all(isinstance(one, str) and one == each[0] for one in each)
        others = () if alike else tuple(find_world(one, options).problem for one in each[1:])
        plan = cls(machines, others=others, **how)
        plan.check(world, named=isinstance(each[0], str))
        return world, plan

    def check(self, world: World, *, named: bool) -> None:
        """Refuse machines of several kinds, and those that cannot be made several times."""
        print_ = world.fingerprint
        for i, one in enumerate(self.others, 2):
            if World(one, None, world.name, {}).fingerprint != print_:
                raise InvalidInput(
                    f"The machines of a fleet must be of one kind. Got '{one.name}' as machine {i}, which is not as "
                    f"'{world.name}', instead."
                )
        if world.problem.renumbered({}) is not None:
            raise InvalidInput(
                f"The states of a fleet must have the same numbers on all machines. Got '{world.name}', which numbers "
                "them as they appear, instead: learn from features of its observations (observe=f)."
            )
        if world.problem.persistent and not self.others and not named and self.machines > 1:
            raise InvalidInput(
                "A fleet needs an environment for each machine. Got one instead: give a list of them, or an id."
            )

    @property
    def people(self) -> Sequence[Operator]:
        """Those who perform the resets; none if the machines reset themselves."""
        return () if isinstance(self.operators, int) else self.operators

    @property
    def timing(self) -> dict[str, Any]:
        """What the spec says of it."""
        n = self.operators if isinstance(self.operators, int) else len(self.operators)
        sizes = {"machines": int(self.machines), "operators": int(n)}
        rest = {"reset_time": float(self.reset_time), "risk": float(self.risk), "in_steps": not self.people}
        return {**sizes, **rest}

    def crew(self, world: World) -> Crew:
        """Its machines, where they are requested to be."""
        problem, where, people = world.problem, self.where, self.people
        if where == "auto":
            named = world.made_here and not self.others
            where = "here" if not problem.persistent and not people else "processes" if named else "threads"
        if where in ("here", "threads"):
            each = [problem, *self.others]
            if len(each) < self.machines:
                more = range(self.machines - 1) if problem.persistent else []
                each = [problem, *(find_world(world.name, world.options).problem for _ in more)]
                each = each if problem.persistent else [problem] * self.machines
            return HereCrew(each) if where == "here" and not people else InThreads(each, people)
        if not world.made_here or self.others:
            raise InvalidInput(f"Machines in other processes are made there by name. Got objects with where={where!r}.")
        made, sizes = (world.name, world.options), (self.machines, max(os.cpu_count() or 1, 1))
        if where == "processes":
            return InProcesses(problem, made, sizes, people)
        if people:
            raise InvalidInput("A fleet on Ray resets itself. Got operators who are people instead.")
        address = where.removeprefix("ray").removeprefix(":")
        return RayHosts(problem, made, sizes, (CLIENT + address[2:] if address.startswith("//") else address) or None)

    def schedule(self, setup: Setup, episodes: int, before: float) -> Fleet:
        """The schedule of its rounds, with its machines.  before: seconds of earlier sessions."""
        crew = self.crew(setup.world)
        if not self.people:
            return fleet_of(setup, crew, episodes)
        made = WithPeople(setup.world.problem, crew, episodes=episodes, risk=self.risk)
        made.start_clock(before)
        return made
