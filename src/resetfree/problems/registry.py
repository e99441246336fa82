"""Problems by name: registered ones, and whatever else an argument names or is.

A registered problem is a function with the decorator `register` in a file of its own, found in the folder `zoo` and by
entry points. `find_world` takes a name, a model, an environment, or a problem; a name is a registered id, gym:ID or ID,
a machine's address, FAMILY:NAME, or module:factory.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

from resetfree.core import InvalidInput, NotCertifiable, ResetFreeError, UnknownName, expect, imported, shown, words
from resetfree.core.discovery import Registry, Unfit
from resetfree.core.settings import check_options, parameters
from resetfree.core.system import Closes
from resetfree.problems.blueprint import fingerprint
from resetfree.problems.contract import Problem
from resetfree.problems.finite.composed import with_help
from resetfree.problems.finite.mdp import FiniteMDP, model_behind
from resetfree.problems.gym import NAMES, from_options, of_adapter
from resetfree.problems.gym.making import is_registered, near_id
from resetfree.problems.remote.remote_machine import from_machine

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


GYM = "gym:"
WIRED = ("udp:", "serial:")  # addresses of machines


def _accept_family(name: str, found: Any) -> Callable[..., Any]:
    if not callable(found):
        raise Unfit(f"must be a function of the name of an environment, and is {shown(found)}")
    return cast("Callable[..., Any]", found)


# Prefixes of other packages besides `gym:`: a function of the text after the colon, and of options.
FAMILIES: Registry[Callable[..., Any]] = Registry("family", group="resetfree.families", accept=_accept_family)


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse KEY=VALUE pairs; a value becomes bool, int, float or text, the first that fits.

    >>> parse_options(["n=7", "slip=0.1", "risk_pays=false", "order=random"])
    {'n': 7, 'slip': 0.1, 'risk_pays': False, 'order': 'random'}
    """
    result = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        expect(key and equals, "'--set'", "be KEY=VALUE", got=f"'{pair}'")
        result[key] = _value(text)
    return result


def _value(text: str) -> bool | int | float | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def full_name(problem: str) -> str:
    """The name with its prefix: an id of Gymnasium that is no name of ours may be written without `gym:`.

    Only for text that the user typed: nothing is made because a file names it.

    >>> full_name("CartPole-v1"), full_name("grid-v0"), full_name("nothing-v0")
    ('gym:CartPole-v1', 'grid-v0', 'nothing-v0')
    """
    if ":" in problem or PROBLEMS.knows(problem) or not is_registered(problem):
        return problem
    return f"{GYM}{problem}"


def option_names(problem: str) -> list[str] | None:
    """The options that a problem takes, None if it takes any name.

    >>> option_names("grid-v0")
    ['slip', 'horizon', 'help']
    """
    problem = full_name(problem)
    if ":" not in problem:
        return list(dict.fromkeys([*_registered(problem).options, HELP]))
    if in_family(problem):
        return None
    takes = _parameters(_factory(problem))
    return None if takes is None else [*takes, *(name for name in NAMES if name not in takes)]


def _registered(problem: str) -> Any:
    """What is registered under this name; an environment of a similar name is suggested too."""
    if not PROBLEMS.knows(problem) and (near := near_id(problem)):
        raise UnknownName("problem", problem, [*PROBLEMS.own, near])
    return PROBLEMS.find(problem)


def resolve(problem: str, options: dict[str, Any]) -> Any:
    """Make the problem that `problem` names.

    A factory gets the options that it takes; if it returns an environment, the adapter gets the others.

    >>> resolve("grid-v0", {"horizon": 3}).horizon
    3
    >>> resolve("gym:FrozenLake-v1", {"horizon": 3, "map_name": "8x8"}).n_states
    65
    """
    problem = full_name(problem)
    if ":" not in problem:
        _registered(problem)
        return make(problem, **options)
    if problem.startswith(GYM):
        return from_options(problem, options)
    if is_machine(problem):
        return from_options(problem, options, build=from_machine)
    family = _family(problem)
    if family is not None:
        rest = {key: value for key, value in options.items() if of_adapter(key)}
        own = {key.removeprefix("make."): value for key, value in options.items() if key not in rest}
        return _adapted(partial(family, problem.partition(":")[2], **own), rest, problem)
    factory = _factory(problem)
    takes = _parameters(factory)
    own = {key: value for key, value in options.items() if takes is None or key in takes}
    rest = {key: value for key, value in options.items() if key not in own}
    return _adapted(partial(factory, **own), rest, problem, takes or ())


def _adapted(make: Callable[[], Any], rest: dict[str, Any], problem: str, takes: Sequence[str] = ()) -> Any:
    """Call a user's factory and adapt the result; `rest` are the options for the adapter of an environment."""
    try:
        made = make()
    except ResetFreeError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code may raise anything, and call exit
        raise InvalidInput(f"The factory '{problem}' must return a problem. It raised {error!r} instead.") from error
    if is_environment(made):
        try:
            adapted = from_options(made, rest, problem)
        except BaseException:
            if hasattr(made, "close"):
                made.close()
            raise
        adapted.remake = make
        return adapted
    if rest:
        raise UnknownName(f"option of factory '{problem}'", next(iter(rest)), takes)
    if not isinstance(made, Problem) and (not hasattr(made, "problem") or isinstance(made, type)):
        raise InvalidInput(
            f"The factory '{problem}' must return a FiniteMDP, a Problem or a gymnasium.Env. "
            f"It returned {type(made).__name__} instead."
        )
    return made


def resolve_model(problem: str, options: dict[str, Any]) -> Any:
    """The model of the problem that `problem` names, for oracles; of an environment, its transition table."""
    made = resolve(problem, options)
    if not isinstance(made, Problem):
        return made
    made.close()  # its table is read, and nothing is played
    no_table = getattr(made, "no_table", "")
    if no_table:
        raise NotCertifiable(no_table)
    return model_behind(made)


def is_environment(given: Any) -> bool:
    """Whether an object is an environment in the manner of Gymnasium, which the adapter then checks."""
    return hasattr(given, "step") and hasattr(given, "reset") and not isinstance(given, Problem | type)


def in_family(problem: str) -> bool:
    """Whether the text names an environment of Gymnasium, a machine, or an environment of another package's family."""
    return problem.startswith((GYM, *WIRED)) or FAMILIES.knows(problem.partition(":")[0])


def is_machine(problem: str) -> bool:
    """Whether the text is the address of a machine."""
    return problem.startswith(WIRED)


def _family(problem: str) -> Callable[..., Any] | None:
    """The function of another package's family, None if the text before the colon names no family."""
    return FAMILIES.find(problem.partition(":")[0]) if in_family(problem) else None


def _parameters(factory: Any) -> list[str] | None:
    """The options that a factory takes, None if it takes any name."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # a callable without a signature
        return None
    free = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return None if free else list(parameters)


def _factory(problem: str) -> Any:
    """Import module:factory."""
    expected = "A PROBLEM must be a registered id or module:factory."
    found = imported(problem, expected)
    if not callable(found):
        raise InvalidInput(
            f"{expected} Got '{problem}', which is {type(found).__name__} and cannot be called, instead."
        )
    return found


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
