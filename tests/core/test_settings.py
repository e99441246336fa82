"""Every kind of declaration, with values that are just inside and just outside; players and problems go through it."""

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
import pytest

import resetfree as rf
from resetfree.core import (
    Bound,
    Count,
    Fraction,
    NonNegative,
    Positive,
    PositiveInt,
    Probability,
    Range,
    Rule,
    check,
    check_fields,
)
from resetfree.core.settings import check_options, expected
from resetfree.game.contract import Player
from resetfree.players import discover
from resetfree.players.controlled import Controlled
from resetfree.problems.features import discover as maps


class Entry(TypedDict):
    name: str
    count: PositiveInt


EVEN = Annotated[int, Rule(lambda n: n % 2 == 0, "an even integer")]
CASES: list[tuple[Any, list[Any], list[Any], str]] = [
    (int, [0, -3, np.int32(4)], [1.0, True, "1", None], "an integer"),
    (float, [0, 1.5, np.float32(2), math.inf, math.nan], [True, "1", None, [1.0]], "a number"),
    (bool, [True, np.False_], [0, 1.0, "yes"], "True or False"),
    (str, ["", "x"], [1, None, b"x"], "text"),
    (Positive, [5e-324, 1], [0, 0.0, -1, math.inf, math.nan, True], "a positive number"),
    (NonNegative, [0, 0.0, 1e300], [-5e-324, math.inf, math.nan], "a finite number that is not negative"),
    (Fraction, [0, 1, 0.5], [-0.1, 1.1, math.nan], "a number from 0 to 1"),
    (Probability, [0.5], [0, 1, math.nan], "a number between 0 and 1"),
    (PositiveInt, [1, 10**9], [0, 1.0, True], "a positive integer"),
    (Count, [0], [-1, 0.5], "an integer from 0"),
    (Annotated[int, Range(2, 10**9)], [2, 10**9], [1, 10**9 + 1], "an integer from 2 to 1000000000"),
    (Annotated[float, Range(above=0, most=1)], [1, 0.1], [0, 1.1], "a number above 0 and at most 1"),
    (Annotated[float, Range(above=1)], [1.1], [1, math.inf], "a number above 1"),
    (Annotated[float, Range(above=0, most=math.inf)], [math.inf], [0, math.nan], "a positive number or infinity"),
    (Positive | None, [None, 1.0], [0.0, "1"], "a positive number or None"),
    (NonNegative | None, [None, 0.0], [-1], "a finite number that is not negative, or None"),
    (Literal["first", "random", "learned"], ["first"], ["last", 1, ["first"]], "first, random or learned"),
    (Literal[1], [1], [True, 1.0], "1"),
    (EVEN, [0, -2], [1, 2.0], "an even integer"),
    (list[PositiveInt], [[], [1, 2]], [[0], (1,), 1], "a list of which each is a positive integer"),
    (dict[str, float], [{}, {"a": 1}], [{"a": "x"}, {1: 1.0}, []], "a table of which each entry is a number"),
    (Entry, [{"name": "a", "count": 1}], [{"name": "a"}, []], "a table with the keys count, name"),
    (Callable[[int], int], [abs], [1, "abs"], "a function"),
    (np.ndarray, [np.zeros(1)], [[0.0]], "a ndarray"),
    (Any, [None, 1, "x"], [], "anything"),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "good", "bad", "words"), CASES)
def test_what_is_declared_is_what_is_taken(declared: Any, good: list[Any], bad: list[Any], words: str) -> None:
    assert expected(declared) == words
    for value in good:
        check(value, declared, "'x' of y")
    for value in bad:
        with pytest.raises(rf.InvalidInput) as caught:
            check(value, declared, "'x' of y")
        assert str(caught.value) == f"The 'x' of y must be {words}. Got {value!r} instead."


def kinds_of(cls: Any) -> set[Any]:
    """The classes that are made from a class, and that players can be made of."""
    whole = dataclasses.is_dataclass(cls) and not inspect.isabstract(cls) and hasattr(cls, "name")
    made = {cls} if whole else set()
    return made.union(*(kinds_of(sub) for sub in cls.__subclasses__()))


def test_every_player_and_feature_map_checks_every_field_of_its_own() -> None:
    """No field is left without a declaration that can refuse something, and none takes just any object."""
    assert len(discover("primal")) + len(discover("dual")) > 15  # all are imported
    ours = [cls for cls in kinds_of(Player) if cls.__module__.startswith("resetfree.players.")]
    ours.remove(Controlled)  # `learn` makes it, around a player and a function that were checked
    classes = [*(cls for cls in ours if "testing" not in cls.__module__), *maps().values()]
    assert len(classes) > 40
    for cls in classes:
        for field in dataclasses.fields(cls):
            with pytest.raises(rf.InvalidInput, match=f"The '{field.name}' of .* must be .* Got <object"):
                cls(**{field.name: object()})


def test_every_option_of_every_registered_problem_is_checked() -> None:
    for id, spec in rf.problems().items():
        for name in spec.options:
            with pytest.raises(rf.InvalidInput, match=f"The option '{name}' of problem '{id}' must be .* Got <object"):
                rf.make(id, **{name: object()})


def test_numbers_must_have_squares_unless_they_are_declared_to_have_none() -> None:
    @dataclasses.dataclass
    class Mine:
        scale: NonNegative = 0.0
        B: Bound | None = None
        n: int = 0

    check_fields(Mine(scale=1e-150, B=1e200, n=2**53), "mine")
    for value in (1e-151, 1e151):
        with pytest.raises(rf.InvalidInput, match=r"'scale' of mine must be 0 or lie between 1e-150 and 1e[+]150, for"):
            check_fields(Mine(scale=value), "mine")
    with pytest.raises(rf.InvalidInput, match="'n' of mine must be an integer within 9007199254740992"):
        check_fields(Mine(n=2**53 + 1), "mine")


def test_a_player_of_another_package_is_checked_by_its_annotations() -> None:
    @dataclasses.dataclass(frozen=True)
    class Theirs(Player):
        name = "theirs"
        rounds: PositiveInt = 1

    with pytest.raises(rf.InvalidInput, match=r"The 'rounds' of theirs must be a positive integer. Got 0 instead."):
        Theirs(rounds=0)


def test_options_without_an_annotation_take_the_type_of_their_default() -> None:
    def factory(n=3, name=None):  # type: ignore[no-untyped-def]
        return n

    check_options(factory, {"n": 4, "name": 1}, "problem 'x'")
    with pytest.raises(rf.InvalidInput, match=r"The option 'n' of problem 'x' must be an integer. Got 'a' instead."):
        check_options(factory, {"n": "a"}, "problem 'x'")
    with pytest.raises(rf.UnknownName, match="There is no option of problem 'x' 'nn'"):
        check_options(factory, {"nn": 1}, "problem 'x'")
