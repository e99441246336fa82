"""Ready callbacks for `learn(callbacks=[...])`: stop when good enough, evaluate on a copy, log.

A callback is a function of the `Session`, called after every round. None or False goes on; True, or a text as the
reason, ends the run: it is saved, says why it ended, and can be resumed. Methods `begin` and `end` are called too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from resetfree.core.arguments import real, whole, words
from resetfree.core.errors import InvalidInput, UnknownName
from resetfree.core.settings import check, expect
from resetfree.game.contract import MOST_EPISODES
from resetfree.problems.contract import Problem
from resetfree.runs.file.recorded import COLUMNS, GOALS
from resetfree.runs.session import Session, background
from resetfree.use.evaluating import Evaluation, Starts

MEASURES = tuple(name for name in (*COLUMNS, GOALS) if name not in ("k", "s1", "next_start"))


class StopWhen:
    """End the run when the mean of a column over the last episodes is good enough.

    column: a name of docs/columns.md: "reward", "original_return" (in the environment's own rewards), "reset", ...
    at_least, at_most: what is good enough; one of them, or both.
    over: the number of latest episodes over which the mean is taken, all of them played since `learn` was called.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", episodes=2000, seed=1, callbacks=[StopWhen("reset", at_most=0, over=200)])
    >>> run.ended.why
    'reset is 0 on average over 200 episodes, at most 0 was the aim'
    >>> bool(run.columns["reset"][-200:].any()), len(run) < 2000
    (False, True)
    """

    def __init__(
        self, column: str = "reward", *, at_least: float | None = None, at_most: float | None = None, over: int = 100
    ) -> None:
        if words(column, "'column' of StopWhen") not in MEASURES:
            raise UnknownName("column", column, MEASURES)
        if at_least is None and at_most is None:
            raise InvalidInput("A StopWhen must have an aim. Got none instead: give at_least=... or at_most=...")
        self.column, self.over = column, whole(over, "'over' of StopWhen", 1, MOST_EPISODES)
        self.at_least = None if at_least is None else real(at_least, "'at_least' of StopWhen")
        self.at_most = None if at_most is None else real(at_most, "'at_most' of StopWhen")
        self._last: deque[float] = deque(maxlen=self.over)

    def begin(self, session: Session) -> None:
        """Forget what another run played."""
        self._last.clear()

    def __call__(self, session: Session) -> str | None:
        """The reason to stop, None before that."""
        self._last.append(_value(session, self.column))
        if len(self._last) < self.over:
            return None
        mean = float(np.mean(self._last))
        low = self.at_least is None or mean >= self.at_least
        if not (low and (self.at_most is None or mean <= self.at_most)):
            return None
        aims = [f"at least {self.at_least:g}"] if self.at_least is not None else []
        aims += [f"at most {self.at_most:g}"] if self.at_most is not None else []
        return f"{self.column} is {mean:g} on average over {self.over} episodes, {' and '.join(aims)} was the aim"


class EvaluateEvery:
    """Evaluate the policy learned so far every n episodes, on a copy of the problem: the run does not change by it.

    episodes: of each evaluation, see `DeployedPolicy.evaluate`; its seed is the same each time.
    on: where to evaluate, if not on a copy: a name, an environment, a problem. Needed if an operator performs resets.
    stop_at: end the run when the mean return, in the environment's own rewards, is at least that.

    `results` are the pairs (episode, `Evaluation`) so far, `best` the one with the greatest mean.

    >>> import resetfree as rf
    >>> watch = EvaluateEvery(100, episodes=50)
    >>> run = rf.learn("grid-v0", episodes=300, seed=1, callbacks=[watch])
    >>> [(k, round(found.mean, 2), found.resets) for k, found in watch.results]
    [(100, 0.58, 0), (200, 0.58, 0), (300, 0.58, 0)]
    """

    def __init__(
        self,
        n: int,
        *,
        episodes: int = 20,
        on: Any = None,
        starts: Starts = "fresh",
        seed: int = 0,
        stop_at: float | None = None,
    ) -> None:
        self.n, self.on = whole(n, "'n' of EvaluateEvery", 1), on
        self.stop_at = None if stop_at is None else real(stop_at, "'stop_at' of EvaluateEvery")
        check(starts, Starts, "'starts' of EvaluateEvery")
        self._options: dict[str, Any] = {
            "episodes": whole(episodes, "'episodes' of EvaluateEvery", 1),
            "starts": starts,
            "seed": whole(seed, "'seed' of EvaluateEvery", 0),
        }
        self._twin: Problem | None = None
        self.results: list[tuple[int, Evaluation]] = []

    @property
    def best(self) -> tuple[int, Evaluation]:
        """The evaluation with the greatest mean return, in the environment's own rewards."""
        expect(bool(self.results), "'best' of EvaluateEvery", "be read after an evaluation", got="none so far")
        return max(self.results, key=lambda one: one[1].original_mean)

    def begin(self, session: Session) -> None:
        """Make the copy before the first round, so that a problem without one is refused then."""
        self._twin = session.twin() if self.on is None else None

    def __call__(self, session: Session) -> str | None:
        """Evaluate if it is time; the reason to stop if that is good enough."""
        if session.k % self.n:
            return None
        where = self.on
        if self._twin is not None:
            self._twin.restore(session.world.problem.saved())
            where = self._twin
        with background():
            found = session.policy.evaluate(where, **self._options)
        self.results.append((session.k, found))
        if self.stop_at is None or found.original_mean < self.stop_at:
            return None
        return f"the evaluation earned {found.original_mean:g} per {found.unit}, {self.stop_at:g} was the aim"

    def end(self, session: Session) -> None:
        """Close the copy."""
        if self._twin is not None:
            self._twin.close()


class LogEvery:
    """Say in one line every n episodes how the run goes.

    to: a function of the line: `print`, or the method of a logger, as logging.getLogger("robot").info.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", episodes=100, seed=1, callbacks=[LogEvery(50)])
    episode 50 of 100: 3 resets in the last 50, reward 2.07 per episode
    episode 100 of 100: 0 resets in the last 50, reward 6.84 per episode
    """

    def __init__(self, n: int = 100, to: Callable[[str], object] = print) -> None:
        self.n, self._to = whole(n, "'n' of LogEvery", 1), to
        expect(callable(to), "'to' of LogEvery", "be a function of a text", to)
        self._paid, self._resets, self._rounds = 0.0, 0, 0

    def begin(self, session: Session) -> None:
        """Count from here on."""
        self._paid, self._resets, self._rounds = 0.0, 0, 0

    def __call__(self, session: Session) -> None:
        """Count the round, and write a line if it is time."""
        self._paid += _value(session, "original_return")
        self._resets += session.round.episode.reset
        self._rounds += 1
        if session.k % self.n:
            return
        self._to(
            f"episode {session.k} of {session.spec['episodes']}: {self._resets} resets in the last {self._rounds}, "
            f"reward {self._paid / self._rounds:.2f} per episode"
        )
        self.begin(session)


def _value(session: Session, column: str) -> float:
    """The last round's value."""
    return float(session.row[column])
