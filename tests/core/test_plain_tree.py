"""Plans as bytes: every policy of this package comes back bit for bit, and hostile bytes do no harm."""

import json
import tracemalloc
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import resetfree as rf
from resetfree.core.plain_tree import HEAD, MAGIC, by_name, decode, encode, plan_digest
from resetfree.players.model_based.model_search import LinearScores
from resetfree.players.neural.actor_critic import first_actor, skip_policy
from resetfree.players.neural.networks import policy_of, uniform_layers
from resetfree.problems import ChoicePolicy, find_world
from resetfree.problems.contract import Modal
from resetfree.problems.features import Features
from resetfree.problems.features.scaling import Scaling
from resetfree.problems.finite.tabular_policy import TabularPolicy
from resetfree.problems.formula import TanhPolicy
from resetfree.problems.stepping import FunctionPolicy, playable
from resetfree.runs.request import Who
from resetfree.runs.setup import prepare

RNG = np.random.default_rng(5)
BOX = rf.Box(np.array([-2.0, -1.0]), np.array([2.0, 3.0]))


def _policies() -> dict[str, Any]:
    linear = RNG.normal(size=(2, 4))
    actor = first_actor(linear, 8, RNG)
    return {
        "tanh": TanhPolicy(linear[:, :3], linear[:, 3], *BOX.ends),
        "scores": LinearScores(np.asfortranarray(linear), RNG.normal(size=2)),
        "network": policy_of(uniform_layers((3, 8, 8, 4), RNG), None, BOX),
        "skip": skip_policy(actor, Scaling(np.zeros(3), np.full(3, 2.0)), BOX, 0.1),
        "table": TabularPolicy(RNG.dirichlet(np.ones(2), size=(3, 4))),
        "modal": Modal(TanhPolicy(linear[:, :3], linear[:, 3], *BOX.ends)),
    }


class Pair(NamedTuple):
    """A named tuple with every kind of leaf."""

    first: Any
    second: Any = None


@dataclass(frozen=True)
class Kept:
    """A frozen dataclass with a field that `__init__` does not take."""

    rows: Any
    extra: Any = field(init=False, default=0)


CLASSES = by_name(rf.Policy, Features, Scaling, Pair, Kept)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | arrays.arrays(
        st.sampled_from(["<f8", "<i4", "|b1", "<c16"]), arrays.array_shapes(min_dims=0, min_side=0, max_side=3)
    )
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.builds(Pair, inner, inner)
        | st.builds(Kept, inner)
    ),
    max_leaves=8,
)


def _same(one: Any, other: Any) -> bool:
    """Equal in type and in every bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, Kept):
        return _same(one.rows, other.rows) and _same(one.extra, other.extra)
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


@given(TREES)
def test_every_tree_comes_back_bit_for_bit_and_with_the_same_digest(tree: Any) -> None:
    data = encode(tree)
    back = decode(memoryview(data), CLASSES)
    assert _same(back, tree)
    assert encode(back) == data


@pytest.mark.parametrize("name", sorted(_policies()))
def test_every_policy_plays_the_same_action(name: str) -> None:
    policy = _policies()[name]
    back = decode(encode(policy), CLASSES)
    assert type(back) is type(policy)
    for u in (0.0, 0.3, 0.99):
        s = 2 if name == "table" else np.array([0.1, -0.4, 2.0, 0.7][: 4 if name == "scores" else 3])
        assert np.array_equal(back.act(2, s, u), policy.act(2, s, u))
    plan = {"based_on": 3, "lam": 0.5, "policy": policy, "v_r": 1.0, "v_c": 0.0, "upper": float("nan")}
    assert plan_digest(encode(plan)) == plan_digest(encode(decode(encode(plan), CLASSES)))


@pytest.mark.parametrize(
    ("name", "primal"),
    [
        *(("grid-v0", primal) for primal in ("greedy-composite", "linear-ucb", "ucbvi", "stored-linear", "uniform")),
        *(("gym:CartPole-v1", primal) for primal in ("model-search", "stored-linear")),
    ],
)
def test_the_first_plan_of_a_player_comes_back(name: str, primal: str) -> None:
    with find_world(name, {"horizon": 5}) as world:
        setup = prepare(world, Who(primal, B=1.0), episodes=10, seed=0)
        s1 = 0 if world.problem.n_states else np.array([0.1, 0.0, -0.2, 0.3])
        plan = setup.primal.plan(setup.game.primal, s1, 0.5)
        classes = by_name(rf.Policy, Features, Scaling)  # now: modules of features are imported on request
        ours, back = (
            cast(ChoicePolicy, playable(one, world.problem))
            for one in (plan.policy, decode(encode(plan.policy), classes))
        )
        for h in range(1, 6):
            assert np.array_equal(ours(h, s1), back(h, s1))


def test_what_is_computed_on_request_or_lives_on_a_device_becomes_an_array() -> None:
    class Lazy:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.eye(3)

    assert np.array_equal(decode(encode(Lazy()), {}), np.eye(3))
    jax = pytest.importorskip("jax")
    back = decode(encode({"w": jax.numpy.arange(3.0)}), {})["w"]
    assert type(back) is np.ndarray
    assert back.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "value",
    [FunctionPolicy(lambda h, s: [1.0], "p", 1), print, {"f": lambda: 0}, {1: 2}, object(), np.array([object()]), b"x"],
    ids=["function-policy", "builtin", "lambda", "number-key", "object", "objects", "bytes"],
)
def test_what_cannot_be_handed_over_is_refused_in_one_sentence(value: Any) -> None:
    with pytest.raises(rf.InvalidInput, match=r"^A plan (for another process )?must hold"):
        encode(value)


def test_endless_nesting_is_refused() -> None:
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(rf.InvalidInput, match="nested"):
        encode(tree)


def _bytes(head: Any, data: bytes = b"") -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return MAGIC + len(text).to_bytes(4, "little") + text + data


HOSTILE = {
    "empty": b"",
    "long-head": MAGIC + b"\xff\xff\xff\xff{}",
    "deep-json": _bytes(b"[" * 200_000),
    "deep-tree": _bytes(b'["list",' * 100 + b"0" + b"]" * 100),
    "large-array": _bytes(["array", "<f8", "C", 2**60]),
    "large-empty": _bytes(["array", "<f8", "C", 2**62, 0, 2**62]),
    "negative": _bytes(["array", "<f8", "C", -1]),
    "many-axes": _bytes(["array", "<f8", "C", *[1] * 40], b"\0" * 8),
    "no-width": _bytes(["array", "<U0", "C", 2**40]),
    "wide-text": _bytes(["array", "<U999999999", "C", 1]),
    "objects": _bytes(["array", "|O", "C", 1], b"\0" * 8),
    "booleans": _bytes(["array", "|b1", "C", 1], b"\2"),
    "unknown-class": _bytes(["class", "os:system", {}]),
    "other-fields": _bytes(["class", f"{__name__}:Pair", {"first": 1}]),
    "no-kind": _bytes([]),
    "object": _bytes({}),
    "left-over": _bytes(0, b"x"),
    "not-a-distribution": _bytes(
        ["class", "resetfree.problems.finite.tabular_policy:TabularPolicy", {"probabilities": 3}]
    ),
    "long-number": _bytes(b"9" * 10_000),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_bytes_are_refused_before_memory_is_allocated(name: str) -> None:
    tracemalloc.start()
    with pytest.raises(rf.InvalidInput, match="The bytes of a plan must be"):
        decode(HOSTILE[name], CLASSES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


WHOLE = encode(_policies()["skip"])


@given(st.data())
def test_damaged_bytes_give_a_tree_or_one_sentence(data: st.DataObject) -> None:
    whole = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, HEAD + 200) | st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for damaged in (bytes(whole), bytes(whole[:cut])):
        with suppress(rf.InvalidInput):
            decode(damaged, CLASSES)


def test_a_class_of_ours_is_found_where_it_lies_now() -> None:
    data = encode(Scaling(np.zeros(2), np.ones(2)))
    moved = data.replace(b"features.scaling:", b"features.someday:")
    assert moved != data
    assert isinstance(decode(moved, by_name(Scaling)), Scaling)
    with pytest.raises(rf.InvalidInput, match="not known here"):
        decode(data.replace(b"resetfree.", b"elsewhere."), by_name(Scaling))
