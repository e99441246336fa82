"""Registered problems: a decorator in one file per problem, found in the folder and by entry points."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from resetfree.core.arguments import shown, words
from resetfree.core.discovery import Registry, Unfit
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import check_options, parameters
from resetfree.problems.finite.composed import with_help

F = TypeVar("F", bound=Callable[..., Any])
HELP = "help"  # an option of every registered problem: the price of asking for a reset
LARGEST = 30_000_000  # numbers in the arrays of a registered problem: a field of a million cells has 12 million

STEP, LAYER = 400, 8000  # work of a step besides its states; with its own layer


class Size(NamedTuple):
    """The size of a problem, estimated from its options before it is made."""

    numbers: int  # in its arrays
    rest: int = 0  # work besides: about H S A to solve it

    @property
    def work(self) -> int:
        """The work to make and to solve the problem: sixteen for each number, and the rest."""
        return 16 * self.numbers + self.rest


@dataclass(frozen=True, slots=True)
class ProblemSpec:
    """A registered problem: its versioned id, its purpose in one sentence, and its factory."""

    id: str
    summary: str
    factory: Callable[..., Any]
    size: Callable[..., Size | int] | None = None  # of its options; an integer is the work alone

    @property
    def options(self) -> dict[str, Any]:
        """Names and defaults of its options."""
        return parameters(self.factory)

    def sized(self, options: Mapping[str, Any]) -> Size:
        """The size of the problem with these options, which are checked, those of others aside; 0 if none changes it.

        >>> problems()["pits-v0"].sized({"n": 3000}).work
        216576000000
        """
        if self.size is None:
            return Size(0)
        given = {name: options.get(name, default) for name, default in self.options.items()}
        check_options(self.factory, given, f"problem '{self.id}'")
        found = self.size(**given)
        return found if isinstance(found, Size) else Size(0, found)


def register(id: str, summary: str, size: Callable[..., Size | int] | None = None) -> Callable[[F], F]:
    """Register a factory whose keyword arguments, all with defaults, are the problem's options.

    size: options -> `Size`, or the work alone; needed if the size depends on an integer or text option.
    """

    def mark(factory: F) -> F:
        factory.registered = ProblemSpec(id, summary, factory, size)  # type: ignore[attr-defined]
        return factory

    return mark


def _look(module: ModuleType) -> dict[str, ProblemSpec]:
    """The registered factories that a module defines."""
    own = [one for one in vars(module).values() if getattr(one, "__module__", None) == module.__name__]
    return {spec.id: spec for one in own if isinstance(spec := getattr(one, "registered", None), ProblemSpec)}


def _accept(name: str, found: Any) -> ProblemSpec:
    """The spec of an entry point's factory; raises Unfit if it is not registered."""
    spec = getattr(found, "registered", None)
    if not isinstance(spec, ProblemSpec):
        raise Unfit(f"must be a function with @register(id, summary) above it, and is {shown(found)}")
    if spec.id != name:
        raise Unfit(f"is registered as '{spec.id}' and its entry point is called '{name}': give both one name")
    for option, parameter in inspect.signature(spec.factory).parameters.items():
        if parameter.default is parameter.empty:
            raise Unfit(f"must have a default for its option '{option}'")
    return spec


PROBLEMS: Registry[ProblemSpec] = Registry(
    "problem", group="resetfree.problems", accept=_accept, folders=("resetfree.problems.zoo",), look=_look
)


def problems() -> Mapping[str, ProblemSpec]:
    """Every registered problem by id.

    >>> "grid-v0" in problems()
    True
    """
    return PROBLEMS


def make(id: str, **options: Any) -> Any:
    """Make a registered problem; the option `help` of any of them is a price at which it may ask for a reset.

    >>> make("pits-v0", n=7, slip=0.1).n_states
    49
    >>> make("pits-v0", help=0.5).action_names[-1]
    'ask for help'
    >>> make("grid-v1")
    Traceback (most recent call last):
    resetfree.core.errors.UnknownName: There is no problem 'grid-v1'. Did you mean 'grid-v0'?
    >>> make("pits-v0", n=10**9)
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The problem 'pits-v0' must have at most 30000000 numbers.
    Got 4000000000000000000 instead: lower its options.
    """
    spec = PROBLEMS.find(words(id, "id of a problem"))
    if HELP in options and HELP not in spec.options:
        return with_help(make(id, **{name: value for name, value in options.items() if name != HELP}), options[HELP])
    check_options(spec.factory, options, f"problem '{id}'")
    if (numbers := spec.sized(options).numbers) > LARGEST:
        raise InvalidInput(
            f"The problem '{id}' must have at most {LARGEST} numbers. Got {numbers} instead: lower its options."
        )
    return spec.factory(**options)
