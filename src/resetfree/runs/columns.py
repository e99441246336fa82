"""What a run keeps of each round, written once: the columns of a run file (docs/columns.md)."""

from __future__ import annotations

# What the ledger keeps of a round: v_r, v_c exact (nan without an oracle), v_r_hat, v_c_hat, upper the player's own.
COLUMNS = (
    "k", "s1", "lam", "v_r_hat", "v_c_hat", "upper", "cost_signal", "reward", "reset", "steps", "next_start",
    "v_r", "v_c", "original_return",
)  # fmt: skip
