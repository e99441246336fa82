"""A policy as one C file: C99, no dependencies but the mathematical library, no memory that is allocated."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.problems.formula import Formula
from resetfree.use.portable import PortablePolicy

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
        body += [
            f"long x = observation[0] - ({program.first}L);",
            f"if (x < 0 || x >= {program.count}L) return 1;",
        ]
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
