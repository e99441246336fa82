"""Algorithm 1 of the paper: the game between `linear-ucb` and `projected-gradient`."""

from __future__ import annotations

from typing import Any

from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.linear.linear_ucb import LinearUCB


def algorithm1(B: float | None = None, **settings: Any) -> tuple[LinearUCB, ProjectedGradient]:
    """The two players of Algorithm 1, for `learn` or `play`.

    Paper: Algorithm 1.

    B: the bound of Assumption 3 that both players know (None: taken from the oracle, if the problem has one).
    settings: options of the primal player (`width`, `lagged`, `anytime`, ...).

    As analysed (the default): plan at the start of an episode with the multiplier of that start; values under the
    softmax of the same Q; costs on arrival; eta_k = B / sqrt(k); the dual's feedback is V_c^k(s_1^k), optimistic. As
    printed: `lagged=True`, and a problem with `boundary="literal"`.

    The paper's constants: alpha, eta_k, the caps. Tuned, unless `width` is set: beta_r = 0.1 H and beta_c = 0.1
    (the paper's beta has a factor that it leaves open) and the ridge 0.01 (its proofs have 1). `width="theory"` is what
    the theorem is about, with ridge 1; `width="paper"` is the printed formula, with `constant` for its factor and
    ridge 1.

    >>> primal, dual = algorithm1(B=5.0, width="theory")
    >>> primal.name, dual.name
    ('linear-ucb', 'projected-gradient')
    """
    return LinearUCB(B=B, **settings), ProjectedGradient(B=B)
