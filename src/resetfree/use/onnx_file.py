"""A policy as an ONNX model, written without the onnx package: a few messages of protocol buffers.

The model has the inputs `observation` (double [N, D], or int64 [N] where observations are counted) and, for a policy
that depends on it, `step` (int64 [N], from 1), and the output `action` (N of the environment's own).

Legend: the numbers of fields are those of onnx.proto.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.problems.formula import Formula
from resetfree.use.portable import PortablePolicy

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
