"""Where a run at a rate learns: in a process of this machine, or in an actor of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

from resetfree.core import InvalidInput, NonNegative, UnknownName, check
from resetfree.core.extras import check_reachable

LOWEST, USUAL = LEARNERS = ("lowest", "usual")  # scheduling classes of a process of this machine that learns
RAY = "ray"  # what the place of a learner on Ray begins with
NEEDS_RATE = "The learner '{}' needs a 'rate' (--rate HZ): without one, learning and acting take turns in one process."


@dataclass(frozen=True)
class RayLearner:
    """A learner on Ray: an actor, with what it needs of its node.

    >>> RayLearner.parse("ray:10.0.0.7:6379").address
    '10.0.0.7:6379'
    """

    address: str | None = None  # HOST:PORT, ray://HOST:PORT or "auto"; None: RAY_ADDRESS, else Ray is started here
    cpus: float = 1.0  # processors
    gpus: float = 0.0
    memory: float = 0.0  # bytes that must be free, 0: any
    priority: Literal["lowest", "usual"] = "lowest"  # its scheduling class if its node is this machine

    def __post_init__(self) -> None:
        check(self.address, str | None, "'address' of a learner on Ray")
        for name in ("cpus", "gpus", "memory"):
            check(getattr(self, name), NonNegative, f"'{name}' of a learner on Ray")
        check(self.priority, Literal["lowest", "usual"], "'priority' of a learner on Ray")

    @classmethod
    def parse(cls, text: str, settings: Mapping[str, Any] | None = None) -> RayLearner:
        """The learner that a text names: ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT.

        settings: its other fields.
        """
        known = [one.name for one in fields(cls) if one.name != "address"]
        for name in settings or {}:
            if name not in known:
                raise UnknownName("setting of a learner on Ray", name, known)
        address = None if text == RAY else text if text.startswith("ray://") else text.removeprefix("ray:")
        if address == "":
            raise InvalidInput(f"The learner must be ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT. Got '{text}'.")
        return cls(address, **(settings or {}))

    @property
    def cluster(self) -> str | None:
        """The address of the cluster, None for one that is started here."""
        found = self.address or os.environ.get("RAY_ADDRESS") or None
        return None if found == "local" else found

    @property
    def words(self) -> str:
        """What it needs of its node."""
        parts = [f"{self.cpus:g} CPU"] + [f"{self.gpus:g} GPU"] * (self.gpus > 0)
        return ", ".join(parts + [f"{self.memory:.3g} bytes of memory"] * (self.memory > 0))

    @property
    def needs(self) -> dict[str, float]:
        """What it needs of its node, by Ray's own names for resources."""
        return {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory}

    def check_there(self) -> None:
        """Raise what can be known at once: that Ray is not installed, or that nothing answers at the address."""
        if find_spec("ray") is None:
            raise InvalidInput("The learner 'ray' needs Ray: install resetfree with the extra 'ray'.")
        if self.cluster is not None:
            check_reachable(self.cluster)


LearnerLocation: TypeAlias = str | RayLearner


def is_on_ray(learner: Any) -> bool:
    """Whether an argument `learner` names a learner on Ray."""
    return isinstance(learner, RayLearner) or (isinstance(learner, str) and learner.split(":")[0] == RAY)


def checked_location(learner: Any, *, at_rate: bool) -> LearnerLocation:
    """The argument `learner` of a run, checked.  at_rate: whether the run has a rate."""
    if is_on_ray(learner):
        if not at_rate:
            raise InvalidInput(NEEDS_RATE.format(learner if isinstance(learner, str) else RAY))
        return learner if isinstance(learner, RayLearner) else RayLearner.parse(learner)
    if not isinstance(learner, str) or learner not in LEARNERS:
        raise UnknownName("learner", str(learner), (*LEARNERS, RAY))
    return learner


def is_lowest(learner: LearnerLocation) -> bool:
    """Whether it takes the lowest scheduling class on this machine."""
    return (learner.priority if isinstance(learner, RayLearner) else learner) == LOWEST
