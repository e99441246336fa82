"""The episodes at which a curve is kept: evenly spaced on a logarithmic axis, the same for every length of run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def marked(episodes: int, per_decade: int = 10) -> NDArray[np.int64]:
    """The rounded powers 10^(i / per_decade) up to `episodes`, each once, and `episodes` itself.

    >>> marked(100).tolist()
    [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 79, 100]
    >>> marked(7, per_decade=2).tolist()
    [1, 3, 7]
    """
    n = int(np.ceil(np.log10(max(episodes, 1)) * per_decade)) + 1
    found = np.unique(np.rint(10.0 ** (np.arange(n + 1) / per_decade)).astype(np.int64))
    return np.append(found[found < episodes], episodes)
