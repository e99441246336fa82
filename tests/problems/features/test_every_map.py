"""Every feature map: its contract on random states, and functions of the user."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.features import kernel_table, table
from hypothesis import given
from hypothesis import strategies as st
from tests.problems.features.strategies import MAPS, Floats, World, examples, fitted, worlds

import resetfree as rf
from resetfree.core.state import dump, load
from resetfree.problems.blueprint import describe
from resetfree.problems.features import FeatureMap, Features, discover, make_features, settings
from resetfree.problems.features.basis import UserFeatures
from resetfree.problems.features.scaling import MOST_FEATURES

NAMES = {
    "aggregation", "fourier-basis", "one-hot", "polynomial", "radial-basis", "random-fourier", "simplex",
    "tile-coding", "user",
}  # fmt: skip
IDS = [f"{features.name}-{i}" for i, features in enumerate(MAPS)]
every_map = pytest.mark.parametrize("features", MAPS, ids=IDS)


def asked_of(features: FeatureMap, world: World) -> Floats:
    """Where infinities mean something: the user's own function gets only finite states."""
    return world.asked[np.isfinite(world.asked).all(axis=1)] if features.name == "user" else world.asked


@every_map
@examples
@given(world=worlds(), seed=st.integers(0, 99))
def test_norms_shapes_rows_and_chance(features: FeatureMap, world: World, seed: int) -> None:
    try:
        psi: Features = fitted(features, world, seed)
    except rf.InvalidInput as refused:  # a grid of many coordinates
        if "must have at most 2000 features" not in str(refused):
            raise
        return
    asked = asked_of(features, world)
    x = psi(asked)
    assert x.shape == (len(asked), psi.dimension)
    assert x.dtype == np.float64
    assert 1 <= psi.dimension <= MOST_FEATURES
    assert np.isfinite(x).all()
    if psi.norm_bound < math.inf:
        assert np.linalg.norm(x, axis=1).max() <= psi.norm_bound * (1 + 1e-9)
    if psi.non_negative:
        assert x.min() >= 0.0
    for i in range(len(asked)):  # bit for bit, and for any layout in memory
        np.testing.assert_array_equal(psi(asked[i : i + 1])[0], x[i])
    np.testing.assert_array_equal(psi(np.asfortranarray(asked)), x)
    assert psi(asked[:0]).shape == (0, psi.dimension)
    np.testing.assert_array_equal(fitted(features, world, seed)(asked), x)


@dataclass
class Holder:
    """As a player's state holds features."""

    psi: Any


@every_map
@examples
@given(both=st.integers(1, 4).flatmap(lambda D: st.tuples(worlds(D=D), worlds(D=D))))
def test_what_is_saved_comes_back_into_any_fresh_one(features: FeatureMap, both: tuple[World, World]) -> None:
    first, second = both
    try:
        psi, other = fitted(features, first), fitted(features, second, 1)
    except rf.InvalidInput:
        return
    asked = asked_of(features, first)
    x, saved = psi(asked), {key: value.copy() for key, value in dump(Holder(psi)).items()}
    load(Holder(other), saved)
    assert (other.dimension, other.norm_bound) == (psi.dimension, psi.norm_bound)
    np.testing.assert_array_equal(other(asked), x)
    np.testing.assert_array_equal(psi(asked), x)  # and nothing is shared between the two


@pytest.mark.parametrize("D", [1, 2, 3, 5, 8, 12, 20, 30])
@every_map
def test_many_numbers_work_or_are_refused_in_one_sentence(features: FeatureMap, D: int) -> None:
    rng = np.random.default_rng(D)
    states = rng.normal(size=(100, D))
    try:
        psi = features.fit(states, np.full(D, -np.inf), np.full(D, np.inf), 0)
    except rf.InvalidInput as refused:
        sentence = str(refused)
        assert f"The feature map {features.name} must have at most 2000 features. Got " in sentence
        assert sentence.count(". ") == 1
        assert features.name in ("aggregation", "simplex", "fourier-basis", "polynomial")
        assert D > 3
    else:
        x = psi(states)
        assert x.shape == (100, psi.dimension)
        assert psi.norm_bound == math.inf or np.linalg.norm(x, axis=1).max() <= psi.norm_bound * (1 + 1e-9)


def test_all_are_discovered() -> None:
    assert set(discover()) == NAMES
    for name, cls in discover().items():
        assert make_features(name) == cls()
        assert hash(make_features(name)) == hash(cls())
        assert make_features(name, settings(cls)) == cls()


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(rf.UnknownName, match=r"no feature map 'simplx'\. Did you mean 'simplex'\?"):
        make_features("simplx")
    with pytest.raises(rf.UnknownName, match=r"setting of feature map 'simplex' 'node'\. Did you mean 'nodes'\?"):
        make_features("simplex", {"node": 3})


BAD: list[tuple[str, dict[str, Any]]] = [
    ("one-hot", {"capacity": 0}), ("one-hot", {"capacity": 2000}), ("aggregation", {"cells": 0}),
    ("aggregation", {"cells": 2.5}), ("aggregation", {"cells": True}), ("tile-coding", {"tilings": 0}),
    ("tile-coding", {"tiles": -1}), ("tile-coding", {"at_most": 7}), ("tile-coding", {"at_most": 5000}),
    ("fourier-basis", {"order": 0}), ("fourier-basis", {"mixed": 0}), ("radial-basis", {"d": 0}),
    ("radial-basis", {"d": 2001}), ("radial-basis", {"width": 0.0}), ("radial-basis", {"normalised": 1}),
    ("random-fourier", {"d": "many"}), ("random-fourier", {"bandwidth": -1.0}),
    ("random-fourier", {"bandwidth": math.nan}), ("random-fourier", {"bandwidth": math.inf}),
    ("polynomial", {"degree": -1}), ("simplex", {"nodes": 1}), ("user", {"function": 3}), ("user", {"bound": 0.0}),
    ("user", {"batched": None}), ("user", {"function": "no_such_module:psi"}), ("user", {"function": "math:pi"}),
    ("user", {"function": "math"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), BAD, ids=str)
def test_settings_that_make_no_sense_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(rf.InvalidInput, match=f"^The '{next(iter(options))}' of {name} must be .*Got "):
        make_features(name, options)


@every_map
def test_states_that_are_none_are_refused(features: FeatureMap) -> None:
    low, high = np.zeros(2), np.full(2, 3.0)
    good = np.array([[1.0, 2.0]])
    with pytest.raises(rf.InvalidInput, match=f"The states for {features.name} must be numbers. Got one with a nan"):
        features.fit(np.array([[1.0, np.nan]]), low, high, 0)
    with pytest.raises(rf.InvalidInput, match=f"The states for {features.name} must be numbers of shape"):
        features.fit(np.zeros((3, 1)), low, high, 0)
    with pytest.raises(rf.InvalidInput, match=f"The bounds for {features.name} must be"):
        features.fit(good, high, low, 0)
    psi = features.fit(good, low, high, 0)
    with pytest.raises(rf.InvalidInput, match=r"nan instead|finite numbers per state"):
        psi(np.array([[1.0, 2.0], [np.nan, 1.0]]))
    with pytest.raises(rf.InvalidInput, match=r"must have shape \[n, 2\]. Got|finite numbers per state"):
        psi(np.zeros((4, 3)))


@every_map
def test_whole_numbers_and_arrays_that_cannot_be_written_are_fine(features: FeatureMap) -> None:
    states = np.array([[0, 3], [1, 2], [2, 2]])
    low, high = np.zeros(2), np.full(2, 3.0)
    x = features.fit(states, low, high, 0)(states)
    frozen = states.astype(np.float64)
    frozen.setflags(write=False)
    np.testing.assert_array_equal(features.fit(frozen, low, high, 0)(frozen), x)


@every_map
def test_a_seed_may_be_any_whole_number_and_matters_only_where_something_is_drawn(features: FeatureMap) -> None:
    states = np.random.default_rng(0).normal(size=(300, 3))
    low, high = np.full(3, -np.inf), np.full(3, np.inf)
    try:
        one, two = (features.fit(states, low, high, seed)(states) for seed in (0, 2**60))
    except rf.InvalidInput:
        pytest.skip("refused for three numbers")
    drawn = features.name in ("random-fourier", "radial-basis")
    assert np.array_equal(one, two) is not drawn


DOCS = Path(__file__).parents[3] / "docs"
PAGE = "\n\n".join((DOCS / name).read_text() for name in ("features.md", "results/features.md"))


def rows(lines: list[str]) -> dict[str, list[float]]:
    """Numbers of each line of a table by its first cell."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: [float(x) for cell in rest for x in re.findall(r"[\d.]+", cell)] for name, *rest in cells[2:]}


def written(first: str) -> list[str]:
    """The table of the page whose first line begins so."""
    part = PAGE[PAGE.index(first) :].split("\n\n")[0]
    return part.strip().splitlines()


@pytest.mark.parametrize(("first", "measured"), [("| map | smooth", table), ("| d | root", kernel_table)])
def test_the_tables_are_what_is_measured(first: str, measured: object) -> None:
    assert callable(measured)
    lines = measured()
    there, now = rows(written(first)), rows(lines)
    assert written(first)[0] == lines[0]
    assert list(there) == list(now)
    for name, numbers in now.items():  # the last digit may differ between linear algebra libraries
        assert there[name] == pytest.approx(numbers, rel=0.02, abs=0.0021)


def test_every_map_has_a_line() -> None:
    lines = written("| map | take it when")
    assert sorted(line.split("`")[1] for line in lines[2:]) == list(discover())


def test_the_map_with_the_smallest_error_is_not_a_constant() -> None:
    """Each column has a map that is much better than a constant, and none of the smooth ones is told by one-hot."""
    errors = {name: numbers[0::2] for name, numbers in rows(written("| map | smooth")).items()}
    best = [min(column) for column in zip(*errors.values(), strict=True)]
    assert max(best) < 0.6
    assert min(errors["one-hot"]) >= 1.0


LOW, HIGH = np.full(2, -np.inf), np.full(2, np.inf)
NOTHING = np.empty((0, 2))


def radius(s: Floats) -> list[float]:
    return [math.hypot(s[0], s[1]), 1.0]


def radii(states: Floats) -> Floats:
    return np.stack([np.hypot(states[:, 0], states[:, 1]), np.ones(len(states))], axis=1)


def test_without_a_function_it_is_the_state_and_a_constant() -> None:
    psi = UserFeatures().fit(NOTHING, LOW, HIGH, 0)
    np.testing.assert_array_equal(psi(np.array([[2.0, -3.0]])), [[2.0, -3.0, 1.0]])
    assert (psi.dimension, psi.norm_bound, psi.non_negative) == (3, math.inf, False)


def test_one_state_at_a_time_and_many_at_once_are_the_same() -> None:
    states = np.random.default_rng(0).normal(size=(20, 2))
    one = UserFeatures(radius).fit(NOTHING, LOW, HIGH, 0)
    many = UserFeatures(radii, batched=True).fit(states, LOW, HIGH, 0)
    np.testing.assert_array_equal(one(states), many(states))
    assert one(states[:0]).shape == many(states[:0]).shape == (0, 2)


def test_promises_are_held() -> None:
    psi = UserFeatures(radius, bound=5.0).fit(NOTHING, LOW, HIGH, 0)
    assert psi.norm_bound == 5.0
    psi(np.array([[3.0, 3.0]]))
    with pytest.raises(
        rf.InvalidInput, match=r"The 'bound' of user must be at least every .* Got 5 and a norm of 5.09902"
    ):
        psi(np.array([[3.0, 3.0], [3.0, 4.0]]))
    psi = UserFeatures(non_negative=True).fit(NOTHING, LOW, HIGH, 0)
    assert psi.non_negative
    with pytest.raises(rf.InvalidInput, match="must not be negative with 'non_negative'"):
        psi(np.array([[1.0, -1.0]]))
    psi = UserFeatures(lambda s: s[: 1 + int(s[0] > 0)]).fit(NOTHING, LOW, HIGH, 0)
    with pytest.raises(rf.InvalidInput, match=r"must give 1 finite numbers per state. Got"):
        psi(np.array([[1.0, 1.0]]))
    with pytest.raises(rf.InvalidInput, match="must give at least one number"):
        UserFeatures(lambda s: []).fit(NOTHING, LOW, HIGH, 0)
    with pytest.raises(rf.InvalidInput, match=r"at most 2000 features. Got 3000 for states of 2 numbers"):
        UserFeatures(lambda s: np.zeros(3000)).fit(NOTHING, LOW, HIGH, 0)


def test_a_function_by_name_is_the_function() -> None:
    states = np.array([[1.0, 4.0]])
    psi = UserFeatures("numpy:sqrt").fit(NOTHING, LOW, HIGH, 0)
    np.testing.assert_array_equal(psi(states), [[1.0, 2.0]])
    assert describe(UserFeatures("numpy:sqrt"))["function"] == "numpy:sqrt"


def test_the_run_names_the_function_and_saves_no_code() -> None:
    assert describe(UserFeatures(radius))["function"].endswith("test_every_map.radius")
    psi, fresh, other = (UserFeatures(radius, bound=b).fit(NOTHING, LOW, HIGH, 0) for b in (5.0, 5.0, 7.0))
    saved = dump(psi)
    assert "function" not in saved
    with pytest.raises(rf.InvalidInput, match="'bound' must be what its player makes it"):
        load(other, saved)  # it is a setting, and a file cannot change it
    load(fresh, saved)
    np.testing.assert_array_equal(fresh(np.array([[3.0, 3.0]])), psi(np.array([[3.0, 3.0]])))
