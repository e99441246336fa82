"""The page on features is true: its errors are those that are measured, and it names every map."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.features import kernel_table, table

from resetfree.problems.features import discover

PAGE = (Path(__file__).parents[3] / "docs" / "features.md").read_text()


def rows(lines: list[str]) -> dict[str, list[float]]:
    """Numbers of each line of a table by its first cell."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: [float(x) for cell in rest for x in re.findall(r"[\d.]+", cell)] for name, *rest in cells[2:]}


def written(first: str) -> list[str]:
    """The table of the page whose first line begins so."""
    part = PAGE[PAGE.index(first) :].split("\n\n")[0]
    return part.strip().splitlines()


@pytest.mark.parametrize(("first", "measured"), [("| map | smooth", table), ("| d | root", kernel_table)])
def test_the_tables_are_what_is_measured(first: str, measured: object) -> None:
    assert callable(measured)
    lines = measured()
    there, now = rows(written(first)), rows(lines)
    assert written(first)[0] == lines[0]
    assert list(there) == list(now)
    for name, numbers in now.items():  # the last digit may differ between linear algebra libraries
        assert there[name] == pytest.approx(numbers, rel=0.02, abs=0.0021)


def test_every_map_has_a_line() -> None:
    lines = written("| map | take it when")
    assert sorted(line.split("`")[1] for line in lines[2:]) == list(discover())


def test_the_map_with_the_smallest_error_is_not_a_constant() -> None:
    """Each column has a map that is much better than a constant, and none of the smooth ones is told by one-hot."""
    errors = {name: numbers[0::2] for name, numbers in rows(written("| map | smooth")).items()}
    best = [min(column) for column in zip(*errors.values(), strict=True)]
    assert max(best) < 0.6
    assert min(errors["one-hot"]) >= 1.0
