"""Trimmed means of resamples: each resample is how often it drew each value, so values are sorted once for all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resetfree.core.compiled import jit


@jit
def trimmed_means(
    values: NDArray[np.float64], order: NDArray[np.int64], counts: NDArray[np.int32], cut: int, out: NDArray[np.float64]
) -> None:
    """out[r]: mean of resample r of n values without its `cut` least and its `cut` largest.

    values, order: [n] sorted, and where each stood before.  counts: [R, n] how often a resample drew each, by where it
    stood before; every row adds up to n.
    """
    n = len(values)
    for r in range(len(out)):
        drawn, total = 0, 0.0
        for i in range(n):
            after = drawn + counts[r, order[i]]
            kept = min(after, n - cut) - max(drawn, cut)
            if kept > 0:
                total += kept * values[i]
            drawn = after
            if drawn >= n - cut:
                break
        out[r] = total / (n - 2 * cut)
