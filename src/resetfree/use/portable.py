"""A policy as a program for where Python is not: one C file, or an ONNX model.

C: C99, no dependencies but the mathematical library, no memory that is allocated.
ONNX: written without the onnx package, a few messages of protocol buffers. The model has the inputs `observation`
(double [N, D], or int64 [N] where observations are counted) and,
for a policy that depends on it, `step` (int64 [N], from 1), and the output `action` (N of the environment's own); the
numbers of fields are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import InvalidInput
from resetfree.problems import Box
from resetfree.problems.formula import Formula, HasFormula
from resetfree.use.predictor import Predictor, size

OBSERVATION = "observation"


@dataclass(frozen=True, eq=False)
class PortablePolicy:
    """The mode of a policy from the environment's observation to its own action."""

    formula: Formula  # an action of a box, or the number of a choice
    kind: str
    horizon: int
    stationary: bool
    inputs: list[str]  # what the numbers of an observation are called
    first: int | None  # the least observation of those that are counted; None for vectors
    count: int  # how many observations are counted
    actions: NDArray[Any] | None  # [n, ...] the environment's own; None for a box

    @classmethod
    def of(cls, policy: Predictor) -> PortablePolicy:
        """The program of a policy; raises InvalidInput for one that only Python can compute."""
        sensor, rule = policy.sensor, policy.rule
        plain = sensor.to_plain()  # raises if there is a function in between
        if sensor.kind == "numbered" or not isinstance(rule, HasFormula):
            what = "its states are numbered as they appeared" if sensor.kind == "numbered" else f"it is a '{rule.kind}'"
            raise InvalidInput(
                f"Only tables, linear policies and networks are written as C or ONNX, and this policy is none: {what}. "
                "Name the file policy.npz instead, which read_policy reads."
            )
        counted = sensor.kind == "number"
        n = 1 if counted or sensor.kind == "scalar" else size(plain["space"])
        own = None if isinstance(policy.actions, Box) else np.asarray(policy.actions)
        if own is not None and own.dtype.kind not in "biuf":
            raise InvalidInput(
                "The actions of this policy are not numbers of one shape, and C and ONNX take no others."
            )
        if own is not None:
            own = own.astype(np.float64 if own.dtype.kind == "f" else np.int64)
        names = [OBSERVATION] if counted or sensor.kind == "scalar" else _names(plain["space"], "")
        return cls(
            rule.formula(Formula("observation", n)),
            rule.kind,
            policy.horizon,
            policy.stationary,
            names,
            first=sensor.first if counted else None,
            count=sensor.count,
            actions=own,
        )

    @property
    def n_actions(self) -> int:
        """How many numbers an action has."""
        return self.formula.size if self.actions is None else int(np.prod(self.actions.shape[1:]))

    @property
    def whole(self) -> bool:
        """Whether actions are whole numbers."""
        return self.actions is not None and self.actions.dtype.kind == "i"


def _names(space: dict[str, Any], name: str) -> list[str]:
    """What the numbers of an observation are called, in the order in which they are concatenated.

    >>> _names({"names": ["arm", "lamp"], "parts": [{"shape": [2]}, {"shape": []}]}, "")
    ['arm[0]', 'arm[1]', 'lamp']
    """
    if "parts" in space:
        keys = space.get("names", [f"{i}" for i in range(len(space["parts"]))])
        made = [f"{name}.{key}" if name else str(key) for key in keys]
        return [found for key, part in zip(made, space["parts"], strict=True) for found in _names(part, key)]
    n = size(space)
    return [f"{name or OBSERVATION}[{i}]" for i in range(n)] if space["shape"] else [name or OBSERVATION]


IR_VERSION, OPERATORS = 8, 13  # of the format, and of the operators: read by onnxruntime from 1.10 on
PRODUCER = "resetfree"
ELEMENT = {"f": 11, "i": 7}  # double, int64
INTEGER = 2  # the kind of an attribute
BATCH = "N"


def onnx_bytes(program: PortablePolicy) -> bytes:
    """The model of a program."""
    graph = _Graph(program)
    domain = _text(1, "") + _number(2, OPERATORS)
    about = f"a policy of kind {program.kind}; observation: {', '.join(program.inputs)}"
    model = _number(1, IR_VERSION) + _text(2, PRODUCER) + _text(6, about) + _part(7, graph.written()) + _part(8, domain)
    for key, value in (("kind", program.kind), ("horizon", str(program.horizon))):
        model += _part(14, _text(1, key) + _text(2, value))
    return model


class _Graph:
    """The nodes of a model, and its arrays."""

    def __init__(self, program: PortablePolicy) -> None:
        self._program = program
        self._nodes: list[bytes] = []
        self._arrays: list[bytes] = []
        self._named: dict[Formula, str] = {}
        for one in program.formula.in_order():
            self._named[one] = self._result(one)
        last = self._named[program.formula]
        if program.actions is not None:
            last = self._node("Gather", last, self._array(program.actions), swap=True)
        self._nodes.append(_node("Identity", [last], "action"))

    def written(self) -> bytes:
        """The message GraphProto."""
        program = self._program
        counted, shape = program.first is not None, () if program.actions is None else program.actions.shape[1:]
        inputs = [_value("observation", "i" if counted else "f", [] if counted else [len(program.inputs)])]
        inputs += [] if program.stationary else [_value("step", "i", [])]
        action = [program.n_actions] if program.actions is None else list(shape)
        parts: tuple[tuple[int, Iterable[bytes]], ...] = (
            (1, self._nodes),
            (2, [b"policy"]),
            (5, self._arrays),
            (11, inputs),
            (12, [_value("action", "i" if program.whole else "f", action)]),
        )
        return b"".join(_part(field, one) for field, found in parts for one in found)

    def _result(self, one: Formula) -> str:
        """The name of what a formula gives, whose parts are there already."""
        of = [self._named[part] for part in one.of]
        if one.operation == "observation":
            first = self._program.first
            return "observation" if not first else self._node("Sub", "observation", self._array(np.array([first])))
        if one.operation == "affine":
            product = self._node("MatMul", of[0], self._array(one.arrays[0]))
            return self._node("Add", product, self._array(one.arrays[1]))
        if one.operation == "scale":
            return self._node("Add", self._node("Mul", of[0], self._array(one.arrays[0])), self._array(one.arrays[1]))
        if one.operation == "clip":  # the operator Clip takes the same ends for all
            return self._node("Min", self._node("Max", of[0], self._array(one.arrays[0])), self._array(one.arrays[1]))
        if one.operation == "add":
            return self._node("Add", *of)
        if one.operation == "argmax":
            return self._node("ArgMax", of[0], attributes={"axis": 1, "keepdims": 0})
        if one.operation == "lookup":
            return self._lookup(of[0], one.arrays[0])
        return self._node({"tanh": "Tanh", "relu": "Relu"}[one.operation], of[0])

    def _lookup(self, state: str, table: NDArray[Any]) -> str:
        """The entry table[(step - 1) mod L, state]."""
        layers, states = table.shape
        if layers > 1:
            since = self._node("Sub", "step", self._array(np.array([1])))
            layer = self._node("Mod", since, self._array(np.array([layers])))
            state = self._node("Add", state, self._node("Mul", layer, self._array(np.array([states]))))
        return self._node("Gather", state, self._array(table.ravel()), swap=True)

    def _array(self, array: NDArray[Any]) -> str:
        """The name of an array that the model holds: a message TensorProto."""
        name, kind = f"a{len(self._arrays)}", "f" if array.dtype.kind == "f" else "i"
        plain = np.ascontiguousarray(array, dtype=np.dtype("<f8" if kind == "f" else "<i8"))
        dims = b"".join(_number(1, n) for n in plain.shape)
        self._arrays.append(dims + _number(2, ELEMENT[kind]) + _text(8, name) + _part(9, plain.tobytes()))
        return name

    def _node(self, operator: str, *inputs: str, attributes: dict[str, int] | None = None, swap: bool = False) -> str:
        """The name of what an operator gives."""
        name = f"x{len(self._nodes)}"
        self._nodes.append(_node(operator, list(reversed(inputs) if swap else inputs), name, attributes or {}))
        return name


def _node(operator: str, inputs: list[str], output: str, attributes: dict[str, int] | None = None) -> bytes:
    """A message NodeProto."""
    found = b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(4, operator)
    for name, value in (attributes or {}).items():
        found += _part(5, _text(1, name) + _number(3, value) + _number(20, INTEGER))
    return found


def _value(name: str, kind: str, shape: list[int]) -> bytes:
    """A message ValueInfoProto: an array of N rows."""
    dims = _part(1, _text(2, BATCH)) + b"".join(_part(1, _number(1, n)) for n in shape)
    return _text(1, name) + _part(2, _part(1, _number(1, ELEMENT[kind]) + _part(2, dims)))


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _part(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _part(field, text.encode())


MARK = "/* A policy of resetfree"  # what such a file begins with
PER_LINE = 4
MAIN = """
#ifdef POLICY_MAIN /* cc -DPOLICY_MAIN policy.c -lm: from observations, one per line, to actions */
#include <stdio.h>
int main(void) {{
    {type_in} observation[POLICY_OBSERVATION];
    {type_out} action[POLICY_ACTION];
    long step = 1;
    for (;;) {{
        for (int i = 0; i < POLICY_OBSERVATION; i++)
            if (scanf("{read}", &observation[i]) != 1) return 0;
        if (policy_act(observation, step++, action)) return 1;
        for (int i = 0; i < POLICY_ACTION; i++) printf("{write}%c", action[i], i + 1 < POLICY_ACTION ? ' ' : '\\n');
    }}
}}
#endif
"""


def c_text(program: PortablePolicy) -> str:
    """The C of a program."""
    steps = program.formula.in_order()
    names = {one: "x" if one.operation == "observation" else f"v{i}" for i, one in enumerate(steps)}
    arrays: list[str] = []
    body: list[str] = []
    counted = program.first is not None
    type_in, type_out = "long" if counted else "double", "long" if program.whole else "double"
    if counted:
        body += [f"long x = observation[0] - ({program.first}L);", f"if (x < 0 || x >= {program.count}L) return 1;"]
    else:
        body += ["const double *x = observation;", "for (int i = 0; i < POLICY_OBSERVATION; i++)"]
        body += ["    if (!isfinite(x[i])) return 1;"]
    for one in steps[1:]:
        held = [f"a{len(arrays) + i}" for i in range(len(one.arrays))]
        arrays += [_array(name, array) for name, array in zip(held, one.arrays, strict=True)]
        body += _step(one, names[one], [names[part] for part in one.of], held)
    last = names[program.formula]
    if program.actions is not None:
        arrays.append(_array("actions", program.actions))
        last = f"(actions + {last} * POLICY_ACTION)"
    body += [f"for (int i = 0; i < POLICY_ACTION; i++) action[i] = {last}[i];", "return 0;"]
    if program.stationary:
        body.insert(0, "(void)step; /* the same at every step */")
    about = [
        f"{MARK} (kind {program.kind}, episodes of {program.horizon} steps).",
        f" * observation: {', '.join(program.inputs)}",
        " * step: from 1, the step of the episode; action: as the environment takes it.",
        " * Returns 0, or 1 for an observation that is no number or none of those that are counted. */",
    ]
    sizes = (("OBSERVATION", len(program.inputs)), ("ACTION", program.n_actions), ("HORIZON", program.horizon))
    takes = f"const {type_in} observation[POLICY_OBSERVATION], long step, {type_out} action[POLICY_ACTION]"
    lines = [
        *about,
        "#include <math.h>",
        "",
        *(f"#define POLICY_{name} {n}" for name, n in sizes),
        "",
        *arrays,
        f"int policy_act({takes}) {{",
        *(f"    {line}" for line in body),
        "}",
    ]
    read, write = "%ld" if counted else "%lf", "%ld" if program.whole else "%.17g"
    return "\n".join(lines) + "\n" + MAIN.format(type_in=type_in, type_out=type_out, read=read, write=write)


def _step(one: Formula, name: str, of: list[str], held: list[str]) -> list[str]:
    """The lines that compute one operation."""
    n, x = one.size, of[0]
    each = f"double {name}[{n}]; for (int i = 0; i < {n}; i++) {name}[i] = "
    if one.operation == "affine":
        return [
            f"double {name}[{n}];",
            f"for (int i = 0; i < {n}; i++) {{",
            f"    {name}[i] = {held[1]}[i];",
            f"    for (int j = 0; j < {one.of[0].size}; j++) {name}[i] += {x}[j] * {held[0]}[j * {n} + i];",
            "}",
        ]
    if one.operation == "argmax":
        return [
            f"int {name} = 0;",
            f"for (int i = 1; i < {one.of[0].size}; i++)",
            f"    if ({x}[i] > {x}[{name}]) {name} = i;",
        ]
    if one.operation == "lookup":
        layers, states = one.arrays[0].shape
        at = x if layers == 1 else f"((step - 1) % {layers}) * {states}L + {x}"
        return [*(["if (step < 1) return 1;"] if layers > 1 else []), f"long {name} = {held[0]}[{at}];"]
    formulas = {
        "scale": lambda: f"{held[0]}[i] * {x}[i] + {held[1]}[i];",
        "clip": lambda: f"fmin(fmax({x}[i], {held[0]}[i]), {held[1]}[i]);",
        "add": lambda: f"{x}[i] + {of[1]}[i];",
        "tanh": lambda: f"tanh({x}[i]);",
        "relu": lambda: f"fmax({x}[i], 0.0);",
    }
    return [each + formulas[one.operation]()]


def _array(name: str, array: NDArray[Any]) -> str:
    """An array as C: floats by their shortest text that reads back the same."""
    kind = "double" if array.dtype.kind == "f" else "long"
    cells = [repr(float(x)) if kind == "double" else f"{int(x)}L" for x in np.asarray(array).ravel()]
    rows = [", ".join(cells[i : i + PER_LINE]) for i in range(0, len(cells), PER_LINE)]
    return f"static const {kind} {name}[{len(cells)}] = {{\n    " + ",\n    ".join(rows) + "\n};"
