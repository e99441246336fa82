"""Faults happen as often as they are said to, by their seed, and never keep more than a bounded number of packets."""

from __future__ import annotations

from itertools import pairwise

import pytest

from resetfree.core.errors import InvalidInput
from resetfree.problems.remote.station import MOST, Faults, FaultyPath, Freezes

N = 20_000
MS = 1_000_000


def sent(faults: Faults, seed: int = 0) -> list[int]:
    """Which packets came out, in order, when one was sent each millisecond."""
    path, out = FaultyPath(faults, seed, MS), []
    for i in range(N):
        path.put(str(i).encode(), None, i * MS)
        out += [int(packet) for packet, _ in path.due(i * MS)]
    return out + [int(packet) for packet, _ in path.due(10 * N * MS)]


def test_loss_duplication_and_reordering_are_as_frequent_as_stated() -> None:
    assert len(sent(Faults(loss=0.1))) == pytest.approx(0.9 * N, rel=0.02)
    assert len(sent(Faults(duplicate=0.1))) == pytest.approx(1.1 * N, rel=0.02)
    out = sent(Faults(reorder=0.1))
    assert sorted(out) == list(range(N))
    assert sum(a > b for a, b in pairwise(out)) == pytest.approx(0.1 * N, rel=0.15)
    assert sent(Faults()) == list(range(N))


def test_a_seed_decides_everything() -> None:
    faults = Faults(loss=0.1, duplicate=0.1, reorder=0.1)
    assert sent(faults, 1) == sent(faults, 1) != sent(faults, 2)


def test_packets_are_late_by_the_delay() -> None:
    path = FaultyPath(Faults(delay_ms=5.0), 0, MS)
    path.put(b"x", "there", 0)
    assert path.next_due == 5 * MS
    assert list(path.due(5 * MS - 1)) == []
    assert list(path.due(5 * MS)) == [(b"x", "there")]
    assert path.next_due is None


def test_a_flood_is_not_kept() -> None:
    path = FaultyPath(Faults(delay_ms=5.0), 0, MS)
    for _ in range(3 * MOST):
        path.put(b"x", None, 0)
    assert len(list(path.due(5 * MS))) == MOST


def test_a_freeze_lasts_as_long_as_stated() -> None:
    freezes = Freezes(Faults(freeze=1.0, freeze_ms=3.0), 0)
    assert not freezes.frozen(0)
    freezes.tick(0)
    assert [freezes.frozen(ms * MS) for ms in range(5)] == [True, True, True, False, False]
    rare = Freezes(Faults(freeze=0.01, freeze_ms=0.0), 0)
    for i in range(N):
        rare.tick(i)
    assert rare.begun == pytest.approx(0.01 * N, rel=0.3)


@pytest.mark.parametrize("wrong", [{"loss": 1.5}, {"delay_ms": -1.0}, {"freeze": "often"}, {"freeze_ms": 1e9}])
def test_wrong_faults_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="of faults must be"):
        Faults(**wrong)
