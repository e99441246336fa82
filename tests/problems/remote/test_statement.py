"""What a machine says of itself is read as it was said, and refused in one sentence if it cannot be."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resetfree as rf
from resetfree.problems.machines import MACHINES, switch_on
from resetfree.problems.remote.packets import LONGEST, MachineStatement, Signal

FORM = json.loads(switch_on("cartpole")[1].text)


@pytest.mark.parametrize("name", MACHINES)
def test_a_statement_is_read_as_it_was_said(name: str) -> None:
    machine, says = switch_on(name, rate=123.0)
    assert MachineStatement.read(says.text.encode()) == says
    assert machine.dt == 1 / 123.0
    assert says.action_space == machine.action_space
    assert (says.observation_space.low == getattr(machine.observation_space, "low")).all()  # noqa: B009
    assert says.observation_space.names == MACHINES[name].sensors
    assert len(says.text) < LONGEST - 100


def test_a_sensor_may_have_no_bounds() -> None:
    says = MachineStatement.read(json.dumps({**FORM, "sensors": [{"name": "heat", "low": None, "high": 5}]}).encode())
    assert says.sensors == (Signal("heat", -math.inf, 5.0),)
    assert MachineStatement.read(says.text.encode()) == says


ACTION = {"name": "force", "low": -1.0, "high": 1.0, "neutral": 0.0}
SENSOR = {"name": "angle", "low": -1.0, "high": 1.0}


@pytest.mark.parametrize(
    "change",
    [
        {"rate": 0},
        {"rate": "fast"},
        {"rate": 10**400},
        {"name": "a\nb"},
        {"name": ""},
        {"lockstep": 1},
        {"watchdog_ms": -1},
        {"actions": []},
        {"actions": [ACTION] * 2},
        {"actions": [{**ACTION, "low": None}]},
        {"actions": [{**ACTION, "neutral": 2.0}]},
        {"actions": [{**ACTION, "high": -2.0}]},
        {"sensors": [{**SENSOR, "high": -2.0}]},
        {"sensors": [{**SENSOR, "name": f"s{i}"} for i in range(65)]},
        {"sensors": [{**SENSOR, "low": 10**400}]},
        {"reward": {"low": 1, "high": 1}},
        {"fall": "x" * 1000},
        {"more": 1},
    ],
    ids=str,
)
def test_a_wrong_statement_is_refused_in_one_sentence(change: dict[str, Any]) -> None:
    with pytest.raises(rf.InvalidInput, match="statement of the machine"):
        MachineStatement.read(json.dumps({**FORM, **change}).encode())


def test_what_lacks_a_key_or_is_no_json_is_refused() -> None:
    for key in FORM:
        with pytest.raises(rf.InvalidInput):
            MachineStatement.read(json.dumps({name: value for name, value in FORM.items() if name != key}).encode())
    for text in (b"", b"{", b"[" * 5000, b"NaN", b"\xff", json.dumps(FORM).replace("50.0", "NaN").encode()):
        with pytest.raises(rf.InvalidInput):
            MachineStatement.read(text)


@given(st.binary(max_size=200))
def test_random_bytes_are_no_statement(junk: bytes) -> None:
    with pytest.raises(rf.InvalidInput):
        MachineStatement.read(junk)
