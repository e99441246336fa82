"""Settings of small networks, in one place so that tests share compiled programs."""

from __future__ import annotations

from typing import Any

SOFT: dict[str, Any] = {"hidden": 16, "batch": 16, "learning_rate": 3e-3, "warmup": 10}
SMALL: dict[str, dict[str, Any]] = {"sac": SOFT, "sac-lagrangian": SOFT}


def small(cls: Any, **options: Any) -> Any:
    """A player with small networks; any other player as it is."""
    return cls(**{**SMALL.get(cls.name, {}), **options})
