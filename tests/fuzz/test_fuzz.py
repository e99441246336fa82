"""Hostile input: no traceback, no signal, no code run, no more than 2 GB, each answer within 10 seconds.

A case that fails is named KIND:SEED:INDEX; `python -m tests.fuzz --case` shows it (with --full for the long part).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fuzz.campaign import LONG, SHORT, Found, campaign, distinct, table

Record = Callable[[str, object], None]


def test_hostile_input_is_answered(corpus: Path, tmp_path: Path, record_property: Record) -> None:
    _check(campaign(SHORT, corpus, tmp_path), "short part", record_property)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG)
def test_much_hostile_input_is_answered(kind: str, full_corpus: Path, tmp_path: Path, record_property: Record) -> None:
    """Another seed than the short part has, and more files to spoil."""
    _check(campaign({kind: LONG[kind]}, full_corpus, tmp_path, seed=1), "long part", record_property)


def _check(found: Found, part: str, record_property: Record) -> None:
    record_property("table", f"Fuzz, {part}: cases by kind and verdict\n{table(found)}")
    assert all(one.good for _, one in found), f"\n{distinct(found)}\n{table(found)}"
