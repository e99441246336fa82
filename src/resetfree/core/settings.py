"""One validator for hyperparameters, options and files: a field is declared by its annotation and checked here.

    scale: NonNegative = 0.1
    rounds: Annotated[int, Range(1, 1000)] = 8
    width: Literal["tuned", "theory"] = "tuned"

A declaration is a type: int, float, bool, str, None, Literal, unions, list[...], dict[str, ...], a TypedDict for the
tables of a file, a class, and Annotated with a `Range` or a `Rule` for what a type cannot express.
"""

import dataclasses
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from typing import Annotated, Any, Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np

from resetfree.core.errors import InvalidInput, UnknownName

SHOWN = 80  # characters of a value in a message


def shown(value: Any) -> str:
    """Any value as a message quotes it: short and on one line.

    >>> shown("x" * 300)[-9:], shown([1, 2])
    ('xxxxxx...', '[1, 2]')
    """
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of a foreign class, or an integer of too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def is_whole(value: Any) -> bool:
    """Whether it is an integer of Python or NumPy; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_float(value: Any) -> bool:
    """Whether it is an integer or float of Python or NumPy that a float can hold, infinite or not."""
    try:
        return (is_whole(value) or isinstance(value, float | np.floating)) and float(value) is not None
    except OverflowError:
        return False


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
LEAST = 1e-150  # the least number whose square is not 0
LARGEST_WHOLE = 2**53  # integers up to here are exact as floats

COMMON: dict[tuple[Any, ...], str] = {  # ranges with a name of their own: (of integers, *ends)
    (True, ("from", 1)): "a positive integer",
    (False, ("from", 0)): "a finite number that is not negative",
    (False, ("above", 0)): "a positive number",
    (False, ("above", 0), ("below", 1)): "a number between 0 and 1",
}


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `least` to `most`, or strictly `above` and `below`; infinity only if it is one of the ends.

    unbounded: whether numbers whose square overflows are accepted.

    >>> check(0, Annotated[int, Range(1)], "'horizon' of FiniteMDP")
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'horizon' of FiniteMDP must be a positive integer. Got 0 instead.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    unbounded: bool = False

    def __call__(self, value: Any) -> bool:
        """Whether the range contains the number."""
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (math.inf in (self.most, self.least) or abs(value) < math.inf)
        )

    def expected(self, kind: Any) -> str:
        """The range in words; `kind` is int or float."""
        finite = None if self.most == math.inf else self.most
        ends = (
            ("from", self.least),
            ("above", self.above),
            ("to" if self.least is not None else "at most", finite),
            ("below", self.below),
        )
        given = [(word, end) for word, end in ends if end is not None]
        between = " " if self.least is not None else " and "
        limits = between.join(f"{word} {end:.15g}" for word, end in given)
        text = f"{'an integer' if kind is int else 'a number'} {limits}".rstrip()
        text = COMMON.get((kind is int, *given), text)
        if self.most != math.inf:
            return text
        return text.replace("finite ", "") if "finite " in text else f"{text} or infinity"


@dataclass(frozen=True, slots=True)
class Rule:
    """A test, with a description of what passes it."""

    test: Callable[[Any], bool]
    words: str

    def __call__(self, value: Any) -> bool:
        """Whether the value passes."""
        return self.test(value)

    def expected(self, kind: Any) -> str:
        """The description."""
        return self.words


Positive: TypeAlias = Annotated[float, Range(above=0)]
NonNegative: TypeAlias = Annotated[float, Range(0)]
Fraction: TypeAlias = Annotated[float, Range(0, 1)]  # with both ends
Probability: TypeAlias = Annotated[float, Range(above=0, below=1)]  # of a failure: without both ends
PositiveInt: TypeAlias = Annotated[int, Range(1)]
Count: TypeAlias = Annotated[int, Range(0)]
# A bound on multipliers may be very large: it is one over the least probability of a reset.
Bound: TypeAlias = Annotated[float, Range(0, unbounded=True)]
PositiveBound: TypeAlias = Annotated[float, Range(above=0, unbounded=True)]


def check(value: Any, declared: Any, what: str) -> None:
    """Raise InvalidInput for a value that does not fit its declaration.

    what: how the message names the setting.

    >>> check(-1.0, NonNegative | None, "'reg' of my-player")
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'reg' of my-player must be a finite number that is not negative, or None.
    Got -1.0 instead.
    """
    if not accepts(value, declared):
        expect(False, what, f"be {expected(declared)}", value)


def expect(good: Any, what: str, must: str, value: Any = None, *, got: str | None = None) -> None:
    """Raise InvalidInput unless `good`: for what no declaration can express.

    got: a description in place of the value.

    >>> expect(False, "'starts' of simulate", "name a state for each of 3 episodes", [0, 1])
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'starts' of simulate must name a state for each of 3 episodes. Got [0, 1]
    instead.
    """
    if not good:
        raise InvalidInput(f"The {what} must {must}. Got {shown(value) if got is None else got} instead.")


def check_fields(record: Any, owner: str) -> None:
    """Check every field of a dataclass against its annotation, and that its numbers can be calculated with.

    >>> @dataclass
    ... class Player:
    ...     rounds: PositiveInt = 8
    >>> check_fields(Player(rounds=0), "my-player")
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'rounds' of my-player must be a positive integer. Got 0 instead.
    """
    if dataclasses.is_dataclass(record):
        cls: Any = type(record)
        declared = declarations(cls)
        for field in (one for one in dataclasses.fields(record) if one.init):
            value, kind, what = getattr(record, field.name), declared.get(field.name, Any), f"'{field.name}' of {owner}"
            check(value, kind, what)
            if not _unbounded(kind):
                _check_size(value, what)
            elif is_whole(value) and abs(value) > LARGEST_WHOLE:  # compiled code takes integers of 64 bits only
                object.__setattr__(record, field.name, float(value))


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: each argument is checked against its annotation.

    >>> @checked
    ... def live(steps: PositiveInt) -> int:
    ...     return steps
    >>> live(0)
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'steps' of live must be a positive integer. Got 0 instead.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        declared = declarations(function)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            check(value, declared.get(name, Any), f"'{name}' of {function.__name__}")
        return function(*args, **kwargs)

    return call


def record(cls: type[T], given: Any, what: str) -> T:
    """A dataclass made from a table of a file: its keys must be fields, and its values fit their declarations.

    >>> @dataclass
    ... class Grid:
    ...     rows: str
    ...     horizon: PositiveInt = 12
    >>> record(Grid, {"rows": "S.G"}, "grid")
    Grid(rows='S.G', horizon=12)
    >>> record(Grid, {"rows": "S.G", "slip": 1}, "grid")
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The grid must have no other keys than rows, horizon. Got 'slip' instead.
    >>> record(Grid, {}, "grid")
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'rows' of the grid must be text. Got none instead.
    """
    expect(isinstance(given, Mapping), what, "be a table of keys and values", given)
    owner: Any = cls
    fields, declared = {field.name: field for field in dataclasses.fields(owner)}, declarations(owner)
    for key, value in given.items():
        expect(key in fields, what, f"have no other keys than {', '.join(fields)}", key)
        check(value, declared[key], f"'{key}' of the {what}")
    for key, field in fields.items():
        if key not in given and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            expect(False, f"'{key}' of the {what}", f"be {expected(declared[key])}", got="none")
    return cls(**given)


def check_options(function: Callable[..., Any], options: Mapping[str, Any], owner: str) -> None:
    """Check options by name and value against the parameters of the function that takes them."""
    defaults, declared = parameters(function), declarations(function)
    check_names(options, defaults, f"option of {owner}")
    for name, value in options.items():
        default = defaults[name]
        check(value, declared.get(name, Any if default is None else type(default)), f"option '{name}' of {owner}")


def check_names(given: Iterable[Any], known: Iterable[str], kind: str) -> None:
    """Raise UnknownName, with the nearest known name, for a name that is not known."""
    known = list(known)
    for name in given:
        if name not in known:
            raise UnknownName(kind, str(name), known)


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Names and defaults of a function's parameters."""
    return {name: p.default for name, p in inspect.signature(function).parameters.items()}


@cache
def declarations(owner: Any) -> dict[str, Any]:
    """The annotation of each field of a class or parameter of a function; empty if a name cannot be resolved."""
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except (NameError, TypeError):  # names that only a type checker sees
        return {}


def accepts(value: Any, declared: Any) -> bool:
    """Whether a value fits its declaration; a declaration of another kind accepts everything."""
    origin, parts = typing.get_origin(declared), typing.get_args(declared)
    if origin is Annotated:
        return accepts(value, parts[0]) and all(rule(value) for rule in declared.__metadata__)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if origin in (typing.Union, types.UnionType):
        return any(accepts(value, part) for part in parts)
    if origin is list:
        return isinstance(value, list) and all(accepts(item, parts[0]) for item in value)
    if origin is dict:
        pairs = isinstance(value, dict) and value.items()
        return pairs is not False and all(accepts(k, parts[0]) and accepts(v, parts[1]) for k, v in pairs)
    if typing.is_typeddict(declared):
        fields = declarations(declared)
        return (
            isinstance(value, dict)
            and set(value) == set(fields)
            and all(accepts(value[name], field) for name, field in fields.items())
        )
    if origin is Callable:
        return callable(value)
    if declared in PLAIN:
        return PLAIN[declared][0](value)
    return not isinstance(declared, type) or isinstance(value, declared)


def expected(declared: Any) -> str:
    """A declaration in words.

    >>> expected(Literal["tuned", "theory", "paper"]), expected(float | None), expected(Annotated[int, Range(2, 9)])
    ('tuned, theory or paper', 'a number or None', 'an integer from 2 to 9')
    """
    origin, parts = typing.get_origin(declared), typing.get_args(declared)
    if origin is Annotated:
        return str(declared.__metadata__[0].expected(parts[0]))
    if origin is Literal:
        return either([str(part) for part in parts])
    if origin in (typing.Union, types.UnionType):
        *others, last = (expected(part) for part in parts)
        comma = "," if any(" that " in word or " and " in word for word in others) else ""
        return f"{', '.join(others)}{comma} or {last}"
    if origin is list:
        return f"a list of which each is {expected(parts[0])}"
    if origin is dict:
        return f"a table of which each entry is {expected(parts[1])}"
    if typing.is_typeddict(declared):
        return f"a table with the keys {', '.join(sorted(declarations(declared)))}"
    if origin is Callable:
        return "a function"
    return PLAIN[declared][1] if declared in PLAIN else f"a {getattr(declared, '__name__', declared)}"


def plain_parts(declared: Any) -> list[Any]:
    """The types that a declaration is a union of, without their rules.

    >>> plain_parts(Positive | None)
    [<class 'float'>, <class 'NoneType'>]
    """
    if typing.get_origin(declared) is Annotated:
        return plain_parts(typing.get_args(declared)[0])
    if typing.get_origin(declared) in (typing.Union, types.UnionType):
        return [one for part in typing.get_args(declared) for one in plain_parts(part)]
    return [declared]


def either(words: Iterable[str]) -> str:
    """Alternatives in words: "first, random or learned"."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _check_size(value: Any, what: str) -> None:
    if isinstance(value, float) and math.isfinite(value) and value:
        limits = f"be 0 or lie between {LEAST:g} and {1 / LEAST:g}, for its square is taken"
        expect(LEAST <= abs(value) <= 1 / LEAST, what, limits, value)
    if isinstance(value, int):
        expect(abs(value) <= LARGEST_WHOLE, what, f"be an integer within {LARGEST_WHOLE}", value)


def _unbounded(declared: Any) -> bool:
    rules = getattr(declared, "__metadata__", ())
    return any(getattr(rule, "unbounded", False) for rule in rules) or any(map(_unbounded, typing.get_args(declared)))


PLAIN: dict[Any, tuple[Callable[[Any], bool], str]] = {
    Any: (lambda value: True, "anything"),
    int: (is_whole, "an integer"),
    float: (is_float, "a number"),
    bool: (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    str: (lambda value: isinstance(value, str), "text"),
    type(None): (lambda value: value is None, "None"),
}
