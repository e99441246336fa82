"""The pictures that a followed run keeps beside its file, as data for the page."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any

from resetfree.core.errors import RunError
from resetfree.show.film.kept_pictures import beside, kept_scenes
from resetfree.show.studio import limits

JPEG = b"\xff\xd8\xff"
ONE = 100_000  # bytes of a picture


def stamp_of(file: Path) -> str:
    """What changes when the pictures of a run change; "" without any."""
    try:
        about = beside(file).lstat()
    except OSError:
        return ""
    return f"{about.st_mtime_ns}-{about.st_size}" if stat.S_ISREG(about.st_mode) else ""


def pictures(file: Path) -> list[dict[str, Any]]:
    """Scenes with their titles, steps and pictures as addresses of data; of long ones the last pictures only."""
    kept = kept_scenes(file) if stamp_of(file) else None
    if kept is None:
        return []
    for about, shown in kept.scenes:
        if len(shown) != len(about["steps"]) or any(len(one) > ONE or one[:3] != JPEG for one in shown):
            raise RunError(f"The pictures beside '{file.name}' cannot be shown.")
    each = limits.PICTURES // max(len(kept.scenes), 1)
    return [
        {**about, "steps": about["steps"][-n:], "pictures": [_address(one) for one in shown[-n:]]}
        for about, shown in kept.scenes
        if (n := _fitting(shown, each))
    ]


def _fitting(shown: list[bytes], most: int) -> int:
    """How many of the last pictures have at most so many bytes together."""
    total, n = 0, 0
    for one in reversed(shown):
        total += len(one)
        if total > most:
            break
        n += 1
    return n


def _address(picture: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(picture).decode()}"
