"""Hostile input: no traceback, no signal, no code run, no more than 2 GB, each answer within 10 seconds.

A case that fails is named KIND:SEED:INDEX; `python -m tests.fuzz --case` shows it (with --full for the long part). The
short part has a fixed seed. The long part has a fresh one, which `make test-all` prints; RESETFREE_FUZZ_SEED=SEED
repeats it.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fuzz.campaign import LONG, SHORT, Found, campaign, distinct, table

Record = Callable[[str, object], None]


def test_hostile_input_is_answered(corpus: Path, tmp_path: Path, record_property: Record) -> None:
    _check(campaign(SHORT, corpus, tmp_path), "short part", record_property)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG)
def test_much_hostile_input_is_answered(
    kind: str, fresh_seed: int, full_corpus: Path, tmp_path: Path, record_property: Record
) -> None:
    """Another seed each time, and more files to spoil."""
    found = campaign({kind: LONG[kind]}, full_corpus, tmp_path, seed=fresh_seed)
    _check(found, f"long part, seed {fresh_seed}", record_property)


def _check(found: Found, part: str, record_property: Record) -> None:
    record_property("table", f"Fuzz, {part}: cases by kind and verdict\n{table(found)}")
    again = "Once more, in full: python -m tests.fuzz --case KIND:SEED:INDEX (with --full in the long part)"
    assert all(one.good for _, one in found), f"{part}\n{distinct(found)}\n{table(found)}\n{again}"
