"""Building blocks that every other room uses and that know nothing of learning; nothing here imports another room.

The words that all rooms use can be imported from here: exceptions, array types, checks and declared types.

Read `errors` and `settings` first: every message to a user and every declared option comes from there.

input        settings (one validator for declared fields), arguments (checks of single values), discovery (names to
             classes: files of this package, entry points of others), extras (optional libraries, imported when used)
numbers      arrays (types), compiled (the decorator of every kernel: the same bits everywhere), certificate (a claim
             with both of its sides computed), readable (numbers and durations as people write them)
saving       state (a player's state as arrays and back), plain_tree (plans as bytes and back), files (atomic writes,
             locks); none of them pickles
the system   system (processes, priorities), interrupts (Ctrl-C and SIGTERM), ticks (loops at a fixed rate), web (which
             requests a server accepts)
"""

from resetfree.core.arguments import as_array, flag, is_function, is_sequence, is_special, real, whole, words
from resetfree.core.arrays import Bools, Floats, Ints, longer
from resetfree.core.compiled import jit
from resetfree.core.errors import (
    AssumptionViolated,
    EnvironmentFailed,
    InvalidInput,
    NotCertifiable,
    Notice,
    OperatorTimeout,
    ResetFreeError,
    RunError,
    UnknownName,
    imported,
    one_line,
)
from resetfree.core.settings import (
    Bound,
    Count,
    Fraction,
    NonNegative,
    Positive,
    PositiveBound,
    PositiveInt,
    Probability,
    Range,
    Rule,
    check,
    check_fields,
    check_names,
    checked,
    expect,
    record,
    shown,
)
from resetfree.core.state import require, within

__all__ = [
    "AssumptionViolated", "Bools", "Bound", "Count", "EnvironmentFailed", "Floats", "Fraction", "Ints",
    "InvalidInput", "NonNegative", "NotCertifiable", "Notice", "OperatorTimeout", "Positive", "PositiveBound",
    "PositiveInt", "Probability", "Range", "ResetFreeError", "Rule", "RunError", "UnknownName", "as_array", "check",
    "check_fields", "check_names", "checked", "expect", "flag", "imported", "is_function", "is_sequence",
    "is_special", "jit", "longer", "one_line", "real", "record", "require", "shown", "whole", "within", "words",
]  # fmt: skip
