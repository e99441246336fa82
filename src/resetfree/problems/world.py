"""The problem that an argument names or is: a name, a model, an environment, or a problem."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from resetfree.core.errors import InvalidInput, NotCertifiable
from resetfree.core.settings import expect, shown
from resetfree.core.system import Closes
from resetfree.problems.blueprint import fingerprint
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import FiniteMDP, model_behind
from resetfree.problems.gym.options import from_options
from resetfree.problems.resolve import full_name, is_environment, resolve


@dataclass(frozen=True)
class World(Closes):
    """A problem, its model if that is known, and the name and options that make it again.

    As a context manager it closes a problem that was made by name, and none that was passed as an object.
    """

    problem: Problem
    mdp: FiniteMDP | None
    name: str
    options: dict[str, Any]
    made_here: bool = False

    def close(self) -> None:
        """Close the problem, if it was made here."""
        if self.made_here:
            self.problem.close()

    @cached_property
    def fingerprint(self) -> str:
        """The problem's SHA-256, see `fingerprint.fingerprint`."""
        return fingerprint(self.problem)


def find_world(problem: Any, options: Mapping[str, Any] | None = None) -> World:
    """The problem for an argument; `options` are for one that is given by name, and for an environment.

    >>> world = find_world("grid-v0", {"horizon": 4})
    >>> world.problem.horizon, world.mdp
    (4, FiniteMDP(12 states, 5 actions, horizon 4, 2 reset states))
    """
    given = problem
    if isinstance(problem, World) and not options:  # its maker closes it
        given = dataclasses.replace(problem, made_here=False)
    elif isinstance(problem, str):
        problem = full_name(problem)
        given = resolve(problem, dict(options or {}))
    elif is_environment(problem):
        given = from_options(problem, dict(options or {}))
    elif options:
        raise InvalidInput(
            "Only an environment, or a problem that is given by name, takes options. Got another problem instead."
        )
    if isinstance(given, World):
        return given
    if not isinstance(given, Problem):
        makes = hasattr(given, "problem") and not isinstance(given, type)  # a class is no problem yet
        must = "be a name, a FiniteMDP, a Problem, a gymnasium.Env or something with a method problem()"
        expect(makes, "'problem'", must, got=shown(given) if isinstance(given, type) else type(given).__name__)
        given = given.problem()
    try:
        mdp = model_behind(given)
    except NotCertifiable:
        mdp = None
    name = problem if isinstance(problem, str) else given.name
    return World(given, mdp, name, dict(options or {}), made_here=isinstance(problem, str))
