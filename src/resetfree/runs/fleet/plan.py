"""What is requested of a fleet: how many machines, where they are, and who resets them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from resetfree.core.arguments import real, whole
from resetfree.core.errors import InvalidInput
from resetfree.core.extras import CLIENT
from resetfree.core.settings import expect
from resetfree.game.fleet import Crew, Fleet, HereCrew
from resetfree.problems.contract import Problem
from resetfree.problems.operators import Operator
from resetfree.problems.registry import World, find_world
from resetfree.runs.file.recorded import MOST_MACHINES
from resetfree.runs.fleet.crews import InProcesses, InThreads, RayHosts
from resetfree.runs.fleet.schedules import WithPeople
from resetfree.runs.setup import Setup, fleet_of

WHERE = ("auto", "here", "threads", "processes", "ray", "ray:ADDRESS")


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
