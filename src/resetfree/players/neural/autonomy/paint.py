"""PAINT: a learned test of irreversibility; what fails it is avoided, and help is requested where the test says so.

After Xie, Tajwar, Sharma and Finn (2022, "When to ask for help: proactive interventions in autonomous reinforcement
learning").
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.settings import Fraction, Range
from resetfree.players.neural.autonomy.turns import CHOOSING, WIDE, Traits, TurnPlayer, TurnState, fit, fresh_part
from resetfree.players.neural.networks import Minibatch, forward, narrow, rectified, uniform_layers
from resetfree.players.neural.sac import Tree
from resetfree.problems.contract import State

ENOUGH = 3  # labelled states before the test is used


@dataclass(frozen=True)
class Paint(TurnPlayer):
    """A forward and a backward policy that keep away from states that fail a learned test, and request help in them.

    Kept: a classifier of states that cannot be left without help, trained on labelled states; values of such states are
    the least possible, and nothing follows them; help is requested when the present state fails the test; otherwise
    forward and backward policies take turns. Departures: labels are the problem's reset states, which it reports by
    itself at once, and all others count as reversible, where the paper's agent stays stuck and finds the moment by a
    binary search of questions; so help that is requested comes before the problem would report; the test is looked at
    when an episode of the game ends; it is used from 3 labelled states on.

    test_steps: of the classifier, for each step of an episode.
    sure: the probability from which on a state fails the test.

    >>> Paint().sure
    0.5
    """

    name: ClassVar[str] = "paint"
    traits: ClassVar[Traits | None] = Traits(tests=True)
    baseline: ClassVar[bool] = True
    test_steps: Annotated[float, Range(above=0, most=100)] = 0.2
    sure: Fraction = 0.5

    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """Both agents, and the test."""
        agents = super().fresh(size, n_actions, rng)
        return {**agents, "test": fresh_part(uniform_layers((size, self.hidden, self.hidden, 1), rng))}

    def fails(self, state: TurnState, tree: Tree, s: Any) -> Any:
        """[n] whether states [n, D] fail the test; none does before there are labelled states."""
        if int(state.rows.terminated[: state.rows.n].sum()) < ENOUGH:
            return np.zeros(len(s), dtype=np.bool_)
        odds = forward(tree["test"]["network"], narrow(state.without_goal(s)), rectified)[:, 0]
        return odds > np.log(max(self.sure, 1e-9) / max(1.0 - self.sure, 1e-9))

    def context(
        self,
        state: TurnState,
        tree: Tree,
        agent: int,
        index: NDArray[np.int64],
        rng: np.random.Generator,
        *,
        lam: float,
    ) -> Minibatch:
        """As of all methods; nothing follows a state that fails the test, and it earns nothing."""
        batch = super().context(state, tree, agent, index, rng, lam=lam)
        failed = self.fails(state, tree, batch.next_state.reshape(-1, batch.next_state.shape[-1]))
        stops = failed.reshape(batch.reward.shape) & (batch.terminated == 0.0)
        lost = np.where(stops, 0.0, batch.reward)
        return batch._replace(reward=narrow(lost), terminated=narrow(np.maximum(batch.terminated, stops)))

    def fit_others(self, state: TurnState, tree: Tree, lived: NDArray[np.int64], m: int) -> Tree:
        """The test, on as many reset states as others."""
        stuck = np.flatnonzero(state.rows.terminated[: state.rows.n])
        if len(stuck) < ENOUGH:
            return tree
        rng, n = state.random(CHOOSING), max(1, round(self.test_steps * m))
        label = rng.random((n, WIDE, 1)) < 0.5
        index = np.where(label[..., 0], rng.choice(stuck, (n, WIDE)), rng.choice(lived, (n, WIDE)))
        x = narrow(state.without_goal(state.rows.state[index]))
        return {**tree, "test": fit(tree["test"], x, narrow(label), np.float32(1e-3), binary=True)}

    def needs_help(self, state: TurnState, s1: State) -> bool:
        """Whether the state in which an episode ended fails the test."""
        return s1 is not None and bool(self.fails(state, state.tree, np.asarray(s1, dtype=np.float64)[None])[0])
