"""What goes wrong on the way of a packet: loss, delay, duplicates, reordering, and machines that freeze."""

import heapq
import random
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Annotated, TypeAlias

from resetfree.core import Fraction, Range, check_fields

Milliseconds: TypeAlias = Annotated[float, Range(0, 60_000)]
MOST = 4096  # packets under way; what comes on top is lost
OVERTAKEN = 2.0  # periods by which a packet that is overtaken comes later


@dataclass(frozen=True)
class Faults:
    """How often packets of either direction suffer what, each on its own.

    >>> Faults(loss=0.01).any, Faults().any
    (True, False)
    """

    loss: Fraction = 0.0  # share of packets that are lost
    delay_ms: Milliseconds = 0.0  # how late every packet is
    duplicate: Fraction = 0.0  # share that comes twice
    reorder: Fraction = 0.0  # share that is overtaken by later ones
    freeze: Fraction = 0.0  # chance per tick that the machine stops sending and reading for a while
    freeze_ms: Milliseconds = 200.0  # how long that lasts

    def __post_init__(self) -> None:
        check_fields(self, "faults")

    @property
    def any(self) -> bool:
        """Whether packets can suffer at all."""
        return bool(self.loss or self.delay_ms or self.duplicate or self.reorder)


class FaultyPath:
    """One direction of a wire: packets go in, and come out when they are due, if ever.

    period: ns between two packets, by which "overtaken" is measured.

    >>> path = FaultyPath(Faults(duplicate=1.0), seed=0, period=10)
    >>> path.put(b"sensors", "here", now=0)
    >>> list(path.due(now=0)), list(path.due(now=9))
    ([(b'sensors', 'here'), (b'sensors', 'here')], [])
    """

    def __init__(self, faults: Faults, seed: int, period: int) -> None:
        self._faults, self._chance = faults, random.Random(seed)
        self._late, self._behind = int(faults.delay_ms * 1e6), int(OVERTAKEN * period)
        self._under_way: list[tuple[int, int, bytes, Hashable]] = []
        self._order = count()

    def put(self, packet: bytes, address: Hashable, now: int) -> None:
        """A packet is sent."""
        lost, twice, overtaken = (self._chance.random() for _ in range(3))
        if lost < self._faults.loss:
            return
        due = now + self._late + (self._behind if overtaken < self._faults.reorder else 0)
        for _ in range(2 if twice < self._faults.duplicate else 1):
            if len(self._under_way) < MOST:
                heapq.heappush(self._under_way, (due, next(self._order), packet, address))

    def due(self, now: int) -> Iterator[tuple[bytes, Hashable]]:
        """The packets that arrive by now, in order."""
        while self._under_way and self._under_way[0][0] <= now:
            _, _, packet, address = heapq.heappop(self._under_way)
            yield packet, address

    @property
    def next_due(self) -> int | None:
        """When the next packet arrives, None if none is under way."""
        return self._under_way[0][0] if self._under_way else None


class Freezes:
    """When the machine neither sends nor reads, while its physics go on."""

    def __init__(self, faults: Faults, seed: int) -> None:
        self._chance, self._share = random.Random(seed), faults.freeze
        self._length, self._until = int(faults.freeze_ms * 1e6), 0
        self.begun = 0

    def tick(self, now: int) -> None:
        """A freeze may begin."""
        if self._share and not self.frozen(now) and self._chance.random() < self._share:
            self._until = now + self._length
            self.begun += 1

    def frozen(self, now: int) -> bool:
        """Whether it is frozen."""
        return now < self._until
