"""A certificate holds exactly when its numbers say so."""

import json
import math

import numpy as np
import pytest

import resetfree as rf
from resetfree.core.certificate import plain


@pytest.mark.parametrize(
    ("lhs", "kind", "rhs", "holds"),
    [
        (1.0, "<=", 2.0, True),
        (2.0, "<=", 2.0, True),
        (2.0 + 5e-10, "<=", 2.0, True),
        (2.0 + 5e-9, "<=", 2.0, False),
        (1.0, "<", 2.0, True),
        (2.0, "<", 2.0, False),
        (2.0, "<", 2.0 + 5e-10, False),  # strict means by more than rounding
        (2.0, "==", 2.0 + 5e-10, True),
        (2.0, "==", 2.1, False),
        (2.1, "==", 2.0, False),
        (1.0, "<=", math.inf, True),
        (math.inf, "==", math.inf, True),
        (math.nan, "<=", 1.0, False),
        (1.0, "<", math.nan, False),
        (math.nan, "==", math.nan, False),
    ],
)
def test_holds(lhs: float, kind: str, rhs: float, holds: bool) -> None:
    assert rf.Certificate("claim", lhs, rhs, kind=kind).holds is holds  # type: ignore[arg-type]


def test_slack_is_negative_in_the_direction_of_failing() -> None:
    assert rf.Certificate("claim", 1.0, 3.5).slack == 2.5
    assert rf.Certificate("claim", 3.5, 1.0).slack == -2.5
    assert rf.Certificate("claim", 3.5, 1.0, kind="==").slack == -2.5
    assert rf.Certificate("claim", 1.0, 3.5, kind="==").slack == -2.5


def test_it_becomes_json_whatever_it_holds() -> None:
    certificate = rf.Certificate(
        "claim", np.float64(1), math.inf, witness="s0", detail={"a": np.arange(2), "b": math.nan, "c": {3: np.True_}}
    )
    data = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert data == {
        "claim": "claim", "lhs": 1.0, "kind": "<=", "rhs": None, "tolerance": 1e-9, "slack": None, "holds": True,
        "witness": "s0", "detail": {"a": [0, 1], "b": None, "c": {"3": True}}, "status": "proved", "why": "",
    }  # fmt: skip


def test_plain_keeps_what_json_knows() -> None:
    assert plain([1, 2.5, "x", None, True, (np.int32(4), object)]) == [1, 2.5, "x", None, True, [4, "<class 'object'>"]]
    assert plain(np.array(2.0)) == 2.0


def test_it_reads_as_a_sentence() -> None:
    assert str(rf.Certificate("Resets are few", 1.0, 2.0)) == "holds: Resets are few: 1 <= 2 (slack 1)"
    assert str(rf.Certificate("Resets are few", 2.0, 1.0, witness="round 3")).startswith(
        "FAILS: Resets are few: 2 <= 1"
    )


@pytest.mark.parametrize(
    "changes",
    [{"kind": ">="}, {"tolerance": -1.0}, {"tolerance": math.nan}, {"status": "guessed"}, {"status": "not applicable"}],
)
def test_what_it_must_be(changes: dict[str, object]) -> None:
    with pytest.raises(rf.InvalidInput, match="of Certificate must"):
        rf.Certificate("claim", 1.0, 2.0, **changes)  # type: ignore[arg-type]


def test_what_does_not_apply_carries_no_numbers() -> None:
    certificate = rf.Certificate.not_applicable("Resets are few", "needs an oracle")
    assert not certificate.applies
    assert not certificate.holds
    assert str(certificate) == "not applicable: Resets are few: needs an oracle"
    data = certificate.to_dict()
    assert {data[key] for key in ("lhs", "rhs", "slack", "holds")} == {None}
    assert (data["status"], data["why"]) == ("not applicable", "needs an oracle")


def test_what_is_tuned_says_so() -> None:
    assert str(rf.Certificate("Resets are few", 2.0, 1.0, status="tuned")).startswith("FAILS (tuned): Resets are few")
