"""Memory that is used again: never while somebody has an array of it, and the same arrays as any other."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resetfree.core.plain_tree import decode, encode
from resetfree.core.reused_memory import ALIGNED, BLOCKS, LEAST, Pool, _Block, fresh

TREE = {
    "C": np.arange(12.0).reshape(3, 4),
    "F": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "b": np.array([True, False, True]),
    "text": np.array(["one", "three"]),
    "none": np.zeros((0, 4)),
    "single": np.float32(0.5),
    "point": np.array(7),
}


def where(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_arrays_are_the_same_in_memory_that_is_used_again() -> None:
    pool, data = Pool(), encode(TREE)
    for _ in range(3 * BLOCKS):
        usual, found = decode(data, {}), decode(data, {}, pool.lend(len(data)))
        assert usual.keys() == found.keys()
        for name, one in usual.items():
            other = found[name]
            np.testing.assert_array_equal(one, other, strict=True)
            assert type(one) is type(other)
            if isinstance(one, np.ndarray):
                assert (other.flags.c_contiguous, other.flags.f_contiguous) == (
                    one.flags.c_contiguous,
                    one.flags.f_contiguous,
                )
                assert other.flags.aligned
                assert other.flags.writeable
                assert not other.size or where(other) % ALIGNED == 0


def test_a_block_is_used_again_only_when_nothing_of_it_is_left() -> None:
    pool, data = Pool(), encode({"rows": np.ones(1000), "more": np.zeros((3, 5))})

    def made(value: float) -> Any:
        found = decode(data, {}, pool.lend(len(data)))
        found["rows"][:] = value
        return found

    first = made(1.0)
    part = first["rows"].reshape(10, 100).T[3:5]  # a view of a view
    at = where(first["rows"])
    del first
    others = [made(float(n)) for n in range(2, 20)]
    assert at not in [where(one["rows"]) for one in others]
    assert (part == 1.0).all()
    for value, one in enumerate(others, 2):
        assert (one["rows"] == value).all()  # what has no block is as good
    del part, others, one
    gc.collect()
    assert where(made(0.0)["rows"]) == at
    places = {where(made(0.0)["rows"]) for _ in range(20)}
    assert len(places) <= BLOCKS  # nothing new is allocated


def test_blocks_grow_with_what_is_decoded_and_stay_so() -> None:
    pool = Pool()
    places = set()
    for size in (10, LEAST, 10 * LEAST, 10 * LEAST, 10 * LEAST, 20):
        data = encode({"rows": np.full(size, 3.0)})
        found = decode(data, {}, pool.lend(len(data)))
        assert (found["rows"] == 3.0).all()
        places.add(where(found["rows"]))
    assert all(block.size > 10 * LEAST for block in pool._blocks if block.is_free)
    assert len(places) < 6


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2000)), max_size=30))
def test_whoever_keeps_what_finds_what_was_there(steps: list[tuple[int, int]]) -> None:
    pool = Pool()
    kept: dict[int, tuple[int, Any]] = {}
    for n, (slot, size) in enumerate(steps):
        lent = pool.lend(8 * size)
        array = lent(np.dtype("<f8"), (size,), "C")
        array[:] = n
        kept[slot] = (n, array)
        for value, one in kept.values():
            assert (one == value).all()


def test_more_than_there_is_room_for_is_made_as_usual() -> None:
    lent = Pool().lend(10)
    assert lent(np.dtype("<f8"), (LEAST,), "C").shape == (LEAST,)
    with pytest.raises(ValueError, match="negative"):
        fresh(np.dtype("<f8"), (-1,), "C")
    assert _Block(100).is_free
