"""A state of any shape goes into a file and comes back, bit for bit; one that was damaged is refused."""

import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import resetfree as rf
from resetfree.core.state import check_arrays, dump, is_replayed, load, pack, replay, unpack


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Record:
    first: Any
    second: Any = None


@dataclass(frozen=True)
class Frozen:
    only: Any


numbers = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.complex_numbers(), st.text(max_size=6)
)
dtypes = st.sampled_from(["<f8", "<f4", "<f2", ">f8", ">i4", "<i8", "|i1", "|u1", "<u2", "|b1", "<c8", "<U3", "|S4"])
tables = dtypes.flatmap(lambda dtype: arrays.arrays(np.dtype(dtype), arrays.array_shapes(min_dims=0, min_side=0)))
scalars = st.sampled_from(["f4", "f8", "i2", "u4", "c8"]).flatmap(lambda kind: arrays.from_dtype(np.dtype(kind)))
keys = st.text(alphabet="abc_/~", min_size=1, max_size=3)
trees = st.recursive(
    st.one_of(numbers, tables, scalars),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(keys, inner, max_size=3),
        st.builds(Pair, inner, inner), st.builds(Record, inner, inner), st.builds(Frozen, inner),
    ),
    max_leaves=12,
)  # fmt: skip


def bits(tree: Any) -> Any:
    """Everything about a tree, types included, so that == says whether two are the same."""
    if isinstance(tree, Record):
        return ("Record", bits(tree.first), bits(tree.second))
    if isinstance(tree, Frozen):
        return ("Frozen", bits(tree.only))
    if isinstance(tree, tuple | list):
        return (type(tree).__name__, [bits(one) for one in tree])
    if isinstance(tree, dict):
        return {key: bits(value) for key, value in tree.items()}
    if isinstance(tree, np.ndarray | np.generic):
        return (type(tree).__name__, tree.dtype.newbyteorder("<").str, tree.shape, tree.tolist().__repr__())
    return (type(tree).__name__, repr(tree))


def blank(tree: Any) -> Any:
    """The same tree with other values in its leaves."""
    if isinstance(tree, Record):
        return Record(blank(tree.first), blank(tree.second))
    if isinstance(tree, Frozen):
        return Frozen(blank(tree.only))
    if isinstance(tree, Pair):
        return Pair(*map(blank, tree))
    if isinstance(tree, tuple | list):
        return type(tree)(map(blank, tree))
    if isinstance(tree, dict):
        return {key: blank(value) for key, value in tree.items()}
    if isinstance(tree, np.ndarray):
        return np.zeros_like(tree)
    return None if tree is None else type(tree)()


@settings(max_examples=300)
@given(trees)
def test_any_tree_comes_back_bit_for_bit(tree: Any) -> None:
    before = bits(tree)
    saved = unpack(pack(dump(tree, "primal.")))
    assert bits(load(blank(tree), saved, "primal.")) == before
    assert bits(tree) == before  # saving changes nothing


@settings(max_examples=150)
@given(trees, st.data())
def test_a_damaged_tree_is_refused_or_is_of_the_same_kinds(tree: Any, data: Any) -> None:
    """A leaf is gone, or a number has become text: one sentence, and nothing else."""
    saved = dump(tree)
    if not saved:
        return
    name = data.draw(st.sampled_from(sorted(saved)))
    with pytest.raises(rf.InvalidInput, match=r"has no '.*': it belongs to another player or version"):
        load(blank(tree), {key: array for key, array in saved.items() if key != name})
    if saved[name].dtype.kind in "biufc":
        with pytest.raises(rf.InvalidInput, match=r"must be .*\. Got <U3 instead"):
            load(blank(tree), {**saved, name: np.full(saved[name].shape, "abc")})


def test_what_has_no_form_is_refused_with_its_name() -> None:
    for value, sentence in (
        (object(), "Got object in 'a.0'"), (2**70, "Got object in 'a.0'"), (np.array([None]), "Got object in 'a.0'"),
        (np.datetime64("2020"), "in 'a.0'"), (np.longdouble(1), "in 'a.0'"), ({1, 2}, "Got set in 'a.0'"),
    ):  # fmt: skip
        with pytest.raises(rf.InvalidInput, match=sentence):
            check_arrays(dump({"a": [value]}))
    with pytest.raises(rf.InvalidInput, match=r"must have text as keys\. Got 3"):
        dump({3: 1.0})
    with pytest.raises(rf.InvalidInput, match=r"must differ. Got 'a\.b' twice"):
        dump({"a": {"b": 1}, "a.b": 2})


def test_none_may_become_a_leaf_and_an_array_another_shape_in_a_users_state() -> None:
    saved = dump({"best": np.arange(3.0), "name": "x", "loss": 0.5, "gone": None, "w": np.ones((2, 3))})
    fresh = {"best": None, "name": None, "loss": None, "gone": np.zeros(2), "w": np.zeros((0, 3))}
    found = load(fresh, saved)
    assert found["best"].tolist() == [0.0, 1.0, 2.0]
    assert (found["name"], found["loss"], found["gone"], found["w"].shape) == ("x", 0.5, None, (2, 3))


def test_arrays_are_filled_where_they_are() -> None:
    shared = np.zeros(3)
    state = Record(shared, Pair(shared[:2], 1))
    found = load(state, dump(Record(np.arange(3.0), Pair(np.arange(2.0), 7))))
    assert found is state
    assert found.first is shared
    assert found.second.right == 7


@dataclass
class Log:
    n: int = 0
    rows: list[int] = field(default_factory=list, metadata={"replayed": True})

    def replay(self, episode: int) -> None:
        self.rows.append(episode)
        self.n += 1


def test_what_repeats_the_episodes_is_not_saved_and_gets_them_again() -> None:
    state = {"log": Log(), "k": 1}
    assert is_replayed(state)
    assert not is_replayed({"k": 1})
    replay(state, iter([3, 1, 4]))
    assert list(dump(state)) == ["log.n", "k"]
    again = {"log": Log(), "k": 0}
    replay(again, [3, 1, 4])
    assert load(again, dump(state))["log"].rows == [3, 1, 4]


def test_arrays_of_jax_come_back_as_such() -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    state = {
        "params": {"w": jnp.arange(6, dtype=jnp.float32).reshape(2, 3), "b": jnp.zeros(3, dtype=jnp.bfloat16) + 1.5},
        "key": jax.random.key_data(jax.random.key(3)), "step": jnp.int32(4), "own": np.ones(2),
    }  # fmt: skip
    fresh = jax.tree.map(lambda leaf: leaf * 0, state)
    found = load(copy.copy(fresh), unpack(pack(dump(state))))
    assert jax.tree.structure(found) == jax.tree.structure(state)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(state), strict=True):
        assert type(a) is type(b)
        assert a.dtype == b.dtype
        assert bool((a == b).all())
    with pytest.raises(rf.InvalidInput, match=r"plain numbers. Got key<fry> in 'key' instead"):
        dump({"key": jax.random.key(0)})
