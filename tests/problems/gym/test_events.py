"""Words that say when a reset is called for mean what Python would mean by them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resetfree as rf
from resetfree.problems.gym.events import Condition, event, reward_function

numbers = st.sampled_from(["-100", "0", "0.5", "1e-3", "3", "+2.5"])
signs = st.sampled_from(["<=", ">=", "==", "!=", "<", ">"])
terms = st.one_of(
    st.sampled_from(["terminated", "not terminated", "info.hit", "not info.hit"]),
    st.builds(
        lambda subject, sign, value, gap: f"{subject}{gap}{sign}{gap}{value}",
        st.sampled_from(["reward", "not reward", "observation[0]", "observation[1]", "info.force"]),
        signs,
        numbers,
        st.sampled_from(["", " "]),
    ),
)
groups = st.lists(st.lists(terms, min_size=1, max_size=3).map(" and ".join), min_size=1, max_size=3)


@given(
    groups.map(" or ".join),
    st.tuples(st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([-100.0, 2.5])),
    st.sampled_from([-100.0, 0.0, 0.5]),
    st.booleans(),
    st.booleans(),
)
def test_words_mean_what_python_means(text: str, at: Any, reward: float, terminated: bool, hit: bool) -> None:
    class Info:
        force = 3.0

    Info.hit = hit  # type: ignore[attr-defined]
    observation = np.array(at)
    names = {"observation": observation, "reward": reward, "terminated": terminated, "info": Info}
    meant = bool(eval(text, {}, names))
    assert Condition.read(text, "x")(observation, reward, terminated, {"hit": hit, "force": 3.0}) == meant


def test_the_default_is_terminated_and_never_is_never() -> None:
    assert event(None, "x")(0, 0.0, True, {}) is True
    assert event(None, "x")(0, 0.0, False, {}) is False
    assert event("never", "x")(0, 0.0, True, {}) is False
    assert event("observation==36", "x")(36, 0.0, False, {}) is True


@pytest.mark.parametrize(
    "text",
    ["", "truncated", "reward", "terminated<=1", "reward<=", "reward<=x", "reward<=1.e.", "observation[a]>1",
     "reward=1", "terminated and", "__import__('os')", "observation", 5],
)  # fmt: skip
def test_other_words_are_refused(text: Any) -> None:
    with pytest.raises(rf.InvalidInput, match=r"^The 'reset_when' of 'x' must be a function .* Got .* instead\.$"):
        event(text, "x")


def test_functions_are_found_by_name() -> None:
    found = reward_function("math:fsum", "x")
    assert found is not None
    assert found([1.0, 2.0]) == 3.0  # type: ignore[call-arg]
    with pytest.raises(
        rf.InvalidInput, match=r"The 'reset_when' of 'x' must be .* Got 'math:nothing', which does not import"
    ):
        event("math:nothing", "x")
    with pytest.raises(rf.InvalidInput, match="Got 'math:pi', which is float, instead"):
        reward_function("math:pi", "x")
    with pytest.raises(rf.InvalidInput, match=r"The 'reward' of 'x' must be a function .* Got 3 instead"):
        reward_function(3, "x")  # type: ignore[arg-type]
