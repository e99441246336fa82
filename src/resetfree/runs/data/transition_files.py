"""Files of transitions: .npz (plain arrays), .parquet (PyArrow) and Minari datasets; .csv is only read."""

import csv
import json
import math
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import InvalidInput, is_special, one_line
from resetfree.core.files import drafted
from resetfree.core.state import pack, unpack
from resetfree.problems import Episode
from resetfree.runs.data.all_transitions import NAMES, UNKNOWN, Columns, about_file, described, transitions
from resetfree.runs.file.runfile import BROKEN

KIND = "resetfree transitions 1"  # what such a file says it is
MOST_BYTES = 2**32  # of a file that is read
MINARI = "minari"
DELIMITERS = ",;\t"
WITHOUT_MINARI = "A dataset of Minari needs it: install resetfree with the extra 'minari', or write .npz."


def write_transitions(runfile: Path, out: Path) -> Columns:
    """Write the transitions of a run file; the ending of `out` is the format.  Returns the columns."""
    ending = out.suffix.lower()
    if ending not in WRITERS:
        raise InvalidInput(
            f"Transitions are written as {', '.join(WRITERS)}. Got '{out.name}' instead: name it data.npz, "
            "data.parquet or data.minari."
        )
    if is_special(out):
        raise InvalidInput(f"Transitions are written to a regular file. Got '{out}', a pipe or a device, instead.")
    columns, about = transitions(runfile), about_file(runfile)
    WRITERS[ending](columns, about, out)
    return columns


def _npz(columns: Columns, about: dict[str, Any], out: Path) -> None:
    if out.exists() and not _is_ours(out):
        raise InvalidInput(f"The file '{out}' exists and holds no transitions: it is not replaced. Name another file.")
    arrays = {"kind": np.array(KIND), "about": np.array(described(about)), **columns}
    with drafted(out) as draft:
        draft.write_bytes(pack(arrays))


def _parquet(columns: Columns, about: dict[str, Any], out: Path) -> None:
    arrow, parquet = _pyarrow("write .npz")
    if out.exists() and out.read_bytes()[:4] != b"PAR1":
        raise InvalidInput(f"The file '{out}' exists and is no .parquet file: it is not replaced. Name another file.")
    table = arrow.table({name: _arrow_column(arrow, column) for name, column in columns.items()})
    table = table.replace_schema_metadata({"resetfree": json.dumps({"kind": KIND, **about})})
    with drafted(out) as draft, draft.open("wb") as file:
        parquet.write_table(table, file)


def _pyarrow(otherwise: str) -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise InvalidInput(
            f"A .parquet file needs PyArrow: install resetfree with the extra 'sweep', or {otherwise}."
        ) from error


def _arrow_column(arrow: Any, column: NDArray[Any]) -> Any:
    """A column of numbers, or of lists of one length."""
    if column.ndim == 1:
        return arrow.array(column)
    flat = arrow.array(np.ascontiguousarray(column).ravel())
    return arrow.FixedSizeListArray.from_arrays(flat, math.prod(column.shape[1:]))


def _minari(columns: Columns, about: dict[str, Any], out: Path) -> None:
    """A dataset of Minari, named after the file, in Minari's own folder."""
    try:
        minari, buffers = import_module(MINARI), import_module(f"{MINARI}.data_collector")
    except ImportError as error:
        raise InvalidInput(WITHOUT_MINARI) from error
    spaces = import_module("gymnasium.spaces")
    made = [
        buffers.EpisodeBuffer(
            observations=list(np.concatenate([one["state"], one["next_state"][-1:]])),
            actions=list(one["action"]),
            rewards=one["reward"].tolist(),
            terminations=one["reset"].tolist(),
            truncations=[False] * (len(one["reset"]) - 1) + [not bool(one["reset"][-1])],
        )
        for one in by_round(columns)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of every entry that describes an author or a repository
        try:
            minari.create_dataset_from_buffers(
                dataset_id=f"{out.stem}-v0",
                buffer=made,
                observation_space=_space(spaces, np.concatenate([columns["state"], columns["next_state"]])),
                action_space=_space(spaces, columns["action"]),
                algorithm_name="resetfree",
                description=described(about),
            )
        except ImportError as error:  # what it needs to write
            raise InvalidInput(WITHOUT_MINARI) from error
        except ValueError as error:  # a dataset of this name exists, or the name is none for it
            why = one_line(error).rstrip(".")
            raise InvalidInput(f"Minari does not write the dataset '{out.stem}-v0': {why}.") from error


def _space(spaces: Any, column: NDArray[Any]) -> Any:
    if column.dtype.kind in "iu" and column.ndim == 1:
        return spaces.Discrete(int(column.max()) - min(0, int(column.min())) + 1, start=min(0, int(column.min())))
    low, high = column.min(axis=0), column.max(axis=0)
    return spaces.Box(np.atleast_1d(low), np.atleast_1d(high), dtype=np.float64)


WRITERS = {".npz": _npz, ".parquet": _parquet, ".minari": _minari}


def by_round(columns: Columns) -> list[Columns]:
    """The columns of each episode."""
    ends = np.flatnonzero(np.diff(columns["round"])) + 1
    parts = {name: np.split(column, ends) for name, column in columns.items()}
    return [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]


def read_columns(path: Path) -> Columns:
    """The columns of a file of transitions or of a log, read as untrusted input; raises InvalidInput."""
    try:
        if is_special(path):
            raise ValueError("it is a pipe or a device")
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES:,} bytes")
        return READERS[path.suffix.lower()](path)
    except OSError as error:
        raise InvalidInput(f"The data '{path}' cannot be read: {error.strerror}.") from error
    except BROKEN as error:
        raise _unreadable(path, error) from error


def are_transitions(columns: Columns) -> bool:
    """Whether they are the columns that `transitions` writes, rather than those of a log."""
    return set(columns) == set(NAMES)


def episodes_in(columns: Columns, path: Path) -> list[Episode]:
    """The episodes of the columns of a file of transitions; raises InvalidInput."""
    try:
        return [_episode(one) for one in by_round(_checked(columns))]
    except BROKEN as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: BaseException) -> InvalidInput:
    return InvalidInput(f"The data '{path}' hold no transitions: {' '.join(str(error).split())}.")


def _from_npz(path: Path) -> Columns:
    arrays = unpack(path.read_bytes())
    if str(arrays.pop("kind", KIND)) != KIND:
        raise ValueError(f"it does not say that it holds '{KIND}'")
    arrays.pop("about", None)
    return arrays


def _from_csv(path: Path) -> Columns:
    """The columns of a text file: numbers, or text where one of its cells is none."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        head = file.readline()
        file.seek(0)
        rows = csv.reader(file, delimiter=max(DELIMITERS, key=head.count))
        try:
            names, cells = next(rows, []), [row for row in rows if row]
        except csv.Error as error:
            raise ValueError(f"it is no CSV ({error})") from error
    for i, row in enumerate(cells, 2):
        if len(row) != len(names):
            raise ValueError(f"its line {i} has {len(row)} cells for {len(names)} columns")
    return {
        name: np.array(column, dtype=np.str_) for name, column in zip(names, zip(*cells, strict=True), strict=False)
    }


def _from_parquet(path: Path) -> Columns:
    """The columns of a .parquet file; another program may have written it again, without what it says of itself."""
    arrow, parquet = _pyarrow("give the run file")
    try:
        with parquet.ParquetFile(path) as file:
            size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
            if max(size, file.metadata.num_rows) > MOST_BYTES:
                raise ValueError(f"it holds more than {MOST_BYTES:,} bytes")
            about = (file.schema_arrow.metadata or {}).get(b"resetfree")
            if about is not None and json.loads(about).get("kind") != KIND:
                raise ValueError(f"it does not say that it holds '{KIND}'")
            table = file.read()
        if set(table.column_names) != set(NAMES):  # a log, whose columns are checked where they are used
            return {name: table[name].to_pylist() for name in table.column_names}
        return {name: _numpy_column(arrow, name, table[name]) for name in table.column_names}
    except (arrow.ArrowException, AttributeError, OSError) as error:
        raise ValueError(one_line(error)) from error


def _numpy_column(arrow: Any, name: str, column: Any) -> NDArray[Any]:
    """A column of numbers as an array, one of lists of the same length as a matrix."""
    are, whole = arrow.types, column.combine_chunks()
    lists = are.is_fixed_size_list(column.type) or are.is_list(column.type) or are.is_large_list(column.type)
    flat = whole.flatten() if lists else whole
    numbers = are.is_integer(flat.type) or are.is_floating(flat.type) or are.is_boolean(flat.type)
    ragged = lists and len(set(whole.value_lengths().to_pylist())) > 1
    if not numbers or column.null_count or flat.null_count or ragged:
        raise ValueError(f"its column '{name}' is of another kind or length")
    found = flat.to_numpy(zero_copy_only=False)
    return found.reshape(len(column), -1) if lists and len(column) else np.asarray(found)


READERS: dict[str, Callable[[Path], Columns]] = {
    ".npz": _from_npz,
    ".parquet": _from_parquet,
    ".csv": _from_csv,
    ".tsv": _from_csv,
    ".txt": _from_csv,
}


def minari_dataset(name: str) -> Any:
    """A dataset of Minari that is on this machine; raises InvalidInput."""
    try:
        return import_module(MINARI).load_dataset(name)
    except ImportError as error:
        raise InvalidInput(WITHOUT_MINARI) from error
    except Exception as error:  # it raises many kinds for a name that it does not know
        why = one_line(error).rstrip(".")
        raise InvalidInput(
            f"Minari does not load the dataset '{name}' (get it by 'minari download'): {why}."
        ) from error


def _checked(arrays: Columns) -> Columns:
    """The columns, if they are those of a file of transitions; raises ValueError."""
    if set(arrays) != set(NAMES):
        raise ValueError(f"its arrays must be {', '.join(NAMES)}, and are {', '.join(sorted(arrays))[:100]}")
    n = len(arrays["round"]) if arrays["round"].ndim else 0
    kinds = {"round": "i", "step": "i", "reset": "b", "reward": "f"}
    for name, column in arrays.items():
        if column.ndim < 1 or len(column) != n or n == 0 or column.dtype.kind not in kinds.get(name, "if"):
            raise ValueError(f"its column '{name}' is of another kind or length")
    if arrays["state"].shape != arrays["next_state"].shape or arrays["state"].dtype != arrays["next_state"].dtype:
        raise ValueError("its states and next states are not of one kind")
    if not np.isfinite(arrays["reward"]).all():
        raise ValueError("a reward in it is not a finite number")
    return arrays


def _episode(one: Columns) -> Episode:
    """An episode of its columns, whose steps must follow each other; raises ValueError."""
    n, after = len(one["step"]), one["next_state"]
    where = f"round {int(one['round'][0])}"
    if not np.array_equal(one["step"], np.arange(1, n + 1)):
        raise ValueError(f"the steps of {where} are not numbered from 1")
    if not np.array_equal(after[:-1], one["state"][1:]) or one["reset"][:-1].any():
        raise ValueError(f"the steps of {where} do not follow each other")
    last = after[-1:]
    moved = not ((last == UNKNOWN).all() if last.dtype.kind == "i" else np.isnan(last).all())
    states = np.concatenate([one["state"], last]) if moved else one["state"]
    return Episode(states, one["action"], one["reward"].astype(np.float64), bool(one["reset"][-1]), None)


def _is_ours(path: Path) -> bool:
    try:
        return str(unpack(path.read_bytes()).get("kind", "")) == KIND
    except (OSError, *BROKEN):
        return False
