"""When a search explores, and rare prizes: where the reward has not risen for long, and as far as resets allow.

What counts are the transitions alone, so a resumed run decides the same. Where nothing has ever been a reset, it is
free to explore from FREE steps without a rise on. After R resets, it is less cautious after PATIENCE (1 + R) steps
without a reset or a rise: so in n steps, at most about sqrt(2 n / PATIENCE) resets end such a time. A machine that
earns as much as in the best of its steps is as little cautious, since these may all be poor, but only tries what earns
more by the mean of the model, again and again as long as that comes true.

A prize is rare where a few steps earn the same, and all others one and the same. No smooth function fits such rewards:
what it says elsewhere sums up to more than the prize. So it is expected where the nearest known state won it.

Legend: z [D] a scaled state.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from resetfree.core.arrays import Bools, Floats
from resetfree.game.capabilities import Decision
from resetfree.game.replay_buffer import ReplayBuffer

RARE = 0.05  # part of the steps up to which those that pay more than all others are a prize
LATEST = 50  # of them, near which a prize is expected
NEIGHBOURS = 10  # states beside each that paid, that decide how far it reaches
SOONER = 0.5  # how much more a prize at once counts than one at the end of a rollout


class Prize(NamedTuple):
    """Where a prize is expected."""

    near: cKDTree  # states that paid, then the nearest others
    n_paid: int
    height: float

    def wins(self, z: Floats) -> Bools:
        """[n] whether a step from z [n, D] is expected to win it."""
        return np.asarray(self.near.query(z)[1] < self.n_paid)


def prizes(earned: Floats) -> Bools:
    """[n] the steps that earned the same rare prize, where all others earned one and the same; else none.

    >>> [int(prizes(np.array([0.0] * 30 + more)).sum()) for more in ([1.0], [0.5, 1.0])]
    [1, 0]
    """
    won = np.asarray(earned == earned.max(initial=-np.inf))
    rest = earned[~won]
    return won & bool(len(rest) and rest.min() == rest.max() and won.sum() <= max(1.0, RARE * len(earned)))


def expected_prize(z: Floats, won: Bools, height: float) -> Prize | None:
    """Where a prize is expected after steps from z [n, D], some of which won it; None if none did."""
    if not won.any() or won.all():
        return None
    paid, others = z[won][-LATEST:], z[~won]
    beside = cKDTree(others).query(paid, k=min(NEIGHBOURS, len(others)))[1]
    return Prize(cKDTree(np.concatenate([paid, others[np.unique(beside)]])), len(paid), height)


BLOCK = 250  # steps whose mean reward is compared
BLOCKS = 4  # latest of them, the best of which counts: a trial that earns less makes what was found no poorer
RISEN = 0.05  # of the range of rewards seen, or of SPREAD if that is more: a rise that counts
WITHIN = 0.1  # of that range: a reward that near to the best steps leaves nothing to look for
SPREAD = 0.1  # of rewards, a part of which a rise is at least
WIDE = 0.5  # range of rewards seen, without which the best of them may be poor, where nothing has ever been a reset
FREE = 500  # steps without a rise after which it explores, where nothing has ever been a reset
PATIENCE = 1000  # the same where resets are known, times one more than there were
TRIAL = 250  # steps of a policy that is tried while it explores
LASTING = 4000  # steps without a rise after which trials are as rare as plans are elsewhere
BRAVE = 0.3  # part of the caution that is left where resets are known


class Exploring(NamedTuple):
    """How it explores."""

    stalled: int  # steps since the reward has risen
    caution: float  # part of the initial caution that is left
    seeks: bool  # whether this trial looks for unseen states
    trials: bool  # whether a new plan follows each trial
    bold: bool  # whether anything is tried that may earn more; else only what earns more by the mean of the model


def stalled(reward: Floats) -> tuple[int, int]:
    """Steps since the mean reward of a block was last higher than that of all blocks before, and the most there were.

    >>> stalled(np.concatenate([np.zeros(BLOCK), np.ones(3 * BLOCK)])) == (2 * BLOCK, 2 * BLOCK)
    True
    """
    n = len(reward) // BLOCK
    if n == 0:
        return 0, 0
    means, least = reward[: n * BLOCK].reshape(n, BLOCK).mean(axis=1), RISEN * max(float(np.ptp(reward)), SPREAD)
    best, at, longest = float(means[0]), 0, 0
    for i, mean in enumerate(means.tolist()):
        longest = max(longest, i - at)
        if mean > best + least:
            best, at = mean, i
    now = len(reward) - (at + 1) * BLOCK
    return now, max(now, longest * BLOCK)


def block_means(reward: Floats) -> Floats:
    """[n] of the blocks that end with the last step."""
    n = len(reward) // BLOCK
    return np.asarray(reward[len(reward) - n * BLOCK :].reshape(n, BLOCK).mean(axis=1))


def _has_lost(reward: Floats) -> bool:
    """Whether no block of late earned half as much above the poorest as the best one did."""
    means = block_means(reward)
    return bool(means[-BLOCKS:].max() < 0.5 * (means.max() + means.min()))


def exploring(rows: ReplayBuffer, n: int, *, stated: bool = False, given: int = 0) -> Exploring | None:
    """How to explore with the first n rows; None: not at all.

    stated: whether it is known that nothing can be a reset.
    given: rows that are data: a log without a reset shows how careful its controller was, and not that there is none;
      what begins with it is as careful, so that resets are taken for known.
    """
    taken = rows.taken(n)
    reward, fell = rows.reward[:n][taken], np.flatnonzero(rows.terminated[:n])
    own = reward if stated else reward[int(taken[:given].sum()) :]
    if len(own) < BLOCK:
        return None
    low, high = np.quantile(reward, (0.0, 0.99))
    bar = high - WITHIN * (high - low) if high > low else 1.0 - WITHIN
    content = block_means(reward)[-BLOCKS:].max() >= bar  # as much as the best steps that were seen, or as can be
    since, longest = stalled(own)
    if len(fell) or len(own) < len(reward):
        since = min(since, n - int(fell[-1]) - 1) if len(fell) else since
        needed = PATIENCE * (1 + len(fell))
        tries = not content and since < needed + LASTING
        return None if since < needed else Exploring(since, caution=BRAVE, seeks=False, trials=tries, bold=tries)
    if (won := prizes(reward)).any():
        since = len(reward) - 1 - int(np.flatnonzero(won)[-1])  # won lately: there is nothing to seek
        stated, longest = since >= BLOCK, 0
    in_turn = (n // TRIAL) % 2 == 1 or not np.ptp(reward)  # where all rewards are the same, there is nothing else to do
    tries = (since < LASTING or _has_lost(own)) and not (content and high - low > WIDE)
    found = Exploring(since, caution=0.0, seeks=in_turn and tries, trials=tries or since < FREE, bold=tries)
    return found if stated or longest >= FREE else None


def trial_is_over(rows: ReplayBuffer, at: int, now: Exploring | None) -> bool:
    """Whether the policy that was planned with `at` rows was tried for long enough."""
    return now is not None and now.trials and rows.n - at >= TRIAL


def explored(rows: ReplayBuffer, *, stated: bool, given: int = 0) -> list[Decision]:
    """When it began to explore, and why; episodes of data count as rounds."""
    ends = np.flatnonzero(~rows.taken(rows.n) | rows.terminated[: rows.n]) + 1
    found, before = list[Decision](), False
    for k, n in enumerate(ends.tolist(), 1):
        if n // BLOCK == (n - 1 if k == 1 else ends[k - 2]) // BLOCK:
            continue  # no block is complete that was not before
        now = exploring(rows, n, stated=stated, given=given)
        if now is not None and not before and now.stalled and now.bold:
            how = "as no state was ever a reset" if not now.caution else "with less caution"
            found.append(Decision(k, f"exploring, {how}: reward has not risen for {now.stalled:,} steps"))
        before = now is not None and now.bold
    return found
