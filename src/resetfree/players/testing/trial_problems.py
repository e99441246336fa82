"""What the contract battery plays: small problems, one per corner of the protocol, and scripted opponents."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats
from resetfree.core.state import dump, load, replay
from resetfree.game.contract import DualPlayer, Plan, PrimalPlayer, Round
from resetfree.game.delayed import Delay, DelayedGame, HeldPlan, begin_delayed, play_delayed
from resetfree.game.loop import Game, begin, play
from resetfree.problems import (
    ActionSpace,
    Box,
    Choices,
    FiniteMDP,
    GoalColumns,
    Guidance,
    Policy,
    Problem,
    State,
    model_behind,
)
from resetfree.problems.features import make_features
from resetfree.problems.finite.mdp import FiniteProblem
from resetfree.problems.knowledge import Demonstration
from resetfree.problems.stepping import Step, SteppedProblem
from resetfree.theory.assumptions import dual_class

PIT = 3  # the last of four states
VECTORS, BOX = "vectors", "box"  # corners whose states are vectors, and whose actions are too
PUSH = Box(0.0, 1.0)
_SHOWN = np.array([[-0.4, 0.0], [-0.2, 0.1], [0.0, -0.1]]), np.zeros((2, 1)), np.array([0.7, 1.0])


@cache
def corners() -> dict[str, Any]:
    """Problems by name, each a corner in which a player may stumble; action 0 is never reset in any of them.

    All are finite but the last two, whose states are vectors; the actions of the very last are a box.

    >>> list(corners())
    ['physical', 'literal', 'layered', 'one-step', 'one-action', 'no-reset-states', 'features', 'vectors', 'box']
    """
    rng = np.random.default_rng(20230718)
    reset = np.arange(4) == PIT
    move, pay = _moves(rng, (4, 2, 4)), rng.random((4, 2))
    made = {
        "physical": FiniteMDP(move, pay, reset, 3),
        "literal": FiniteMDP(move, pay, reset, 3, boundary="literal"),
        "layered": FiniteMDP(_moves(rng, (3, 4, 2, 4)), rng.random((3, 4, 2)), reset, 3, xi=np.eye(4)),
        "one-step": FiniteMDP(move, pay, reset, 1),
        "one-action": FiniteMDP(move[:, :1], pay[:, :1], reset, 3),
        "no-reset-states": FiniteMDP(move, pay, np.zeros(4, dtype=bool), 3),
        "features": _linear(rng),
    }
    finite = {name: mdp.replace(name=name).problem() for name, mdp in made.items()}
    planes: dict[str, ActionSpace | None] = {VECTORS: None, BOX: PUSH}
    return {**finite, **{name: Plane(name, 3, (0.3, 0.8), 1.5, actions) for name, actions in planes.items()}}


def bandit(paying: int) -> FiniteProblem:
    """One state, two actions: one pays 1, the other nothing; no resets."""
    pay = np.zeros((1, 2))
    pay[0, paying] = 1.0
    return FiniteMDP(np.ones((1, 2, 1)), pay, [False], 1, name="bandit").problem()


class Plane(SteppedProblem):
    """States (x, y): x is halved in each step, y is noise; a push in [0, 1] adds up to `danger` to x, x > 1 is a reset.

    The action is the push itself, or a choice between none and all of it; it pays between `pay[0]` and `pay[1]`.
    """

    step_uniforms = 2
    end_uniforms = 1

    def __init__(
        self, name: str, horizon: int, pay: tuple[float, float], danger: float, actions: ActionSpace | None = None
    ) -> None:
        self.name, self.horizon, self.actions, self.n_states = name, horizon, actions or Choices(2), None
        self.stationary, self.n_transitions, self.end_resets = True, horizon, False
        self.phi, self.xi = None, None
        self.features, self.low, self.high = make_features("polynomial"), np.array([-0.5, -1.0]), np.array([2.0, 1.0])
        self._pay, self._danger = pay, danger

    @property
    def guidance(self) -> Guidance | None:
        """To be near the middle, and to come back from there to x = -0.5; none where actions are a list."""
        if isinstance(self.actions, Choices):
            return None
        none = np.zeros((1, 0))
        return Guidance(
            goal=slice(2, 2),
            goals=none,
            starts=none,
            achieved=lambda states: states[:, 2:],
            reward=lambda states: np.exp(-8.0 * states[:, 0] ** 2),
            home=lambda states: np.asarray(states[:, 0] < 0.0, dtype=np.float64),
            onward=lambda states: np.zeros(len(states), dtype=np.int64),
            demonstrations=lambda seed, back: [] if back else [Demonstration(*_SHOWN)],
        )

    @cached_property
    def goal_columns(self) -> GoalColumns | None:
        """To bring x to where y is; none where actions are a list."""
        return None if isinstance(self.actions, Choices) else GoalColumns(np.array([0]), np.array([1]))

    def first_start(self, u: float) -> Floats:
        """Left or right of the middle."""
        return np.array([u - 0.5, 0.0])

    def step(self, h: int, state: State, action: Any, u: Floats) -> Step:
        """Push, then halve."""
        push = float(action if isinstance(self.actions, Choices) else action[0])
        x = state[0] / 2 + push * self._danger * u[0]
        paid = self._pay[0] * (1.0 - push) + self._pay[1] * push
        return Step(np.array([x, 2.0 * u[1] - 1.0]), paid, bool(x > 1.0))

    def leave(self, state: State, reset: bool, u: Floats) -> State:
        """The current state; a start after a reset."""
        return self.first_start(u[0]) if reset else state


def vector_bandit(paying: int, actions: ActionSpace | None = None) -> Plane:
    """One step from a state that means nothing: one action pays 1, the other nothing; no resets."""
    return Plane("vector-bandit", 1, (float(paying == 0), float(paying == 1)), danger=0.0, actions=actions)


def temptation() -> FiniteProblem:
    """One step: action 0 pays nothing, action 1 pays 1 and is reset; a multiplier of 1 takes the temptation away."""
    move = np.zeros((2, 2, 2))
    move[:, 0, 0] = move[:, 1, 1] = 1.0
    return FiniteMDP(move, [[0.0, 1.0], [0.0, 0.0]], [False, True], 1, name="temptation").problem()


def _moves(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Random rows; action 0 never enters the pit, the others often do."""
    rows = rng.dirichlet(np.full(4, 0.7), size=shape[:-1])
    rows[..., 1:, PIT] += 0.4
    rows[..., 0, PIT] = 0.0
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def _linear(rng: np.random.Generator) -> FiniteMDP:
    """P = phi nu and r = phi omega with three components, the last of which is the pit."""
    nu = np.zeros((3, 4))
    nu[:2, :3], nu[2, PIT] = rng.dirichlet(np.ones(3), size=2), 1.0
    phi = rng.dirichlet(np.ones(3), size=(4, 2))
    phi[:, 0, 2] = 0.0
    phi /= phi.sum(axis=2, keepdims=True)
    xi = np.stack([np.ones(4), np.linspace(0.0, 1.0, 4)], axis=1) / np.sqrt(2.0)
    return FiniteMDP(phi @ nu, phi @ np.array([0.2, 0.4, 1.0]), np.arange(4) == PIT, 3, phi=phi, xi=xi)


@dataclass
class Turns:
    """How many rounds an opponent has seen."""

    k: int = 0


@dataclass(frozen=True)
class Scripted(DualPlayer[Turns]):
    """Goes through given multipliers, round by round."""

    name: ClassVar[str] = "scripted"
    multipliers: tuple[float, ...] = (0.0, 0.25, 1.0, 4.0)

    def init(self, problem: Problem, episodes: int, seed: int) -> Turns:
        """Begin with the first."""
        return Turns()

    def multiplier(self, state: Turns, s1: State, ask: Callable[[float], Plan]) -> float:
        """The next multiplier of the list."""
        return self.multipliers[state.k % len(self.multipliers)]

    def update(self, state: Turns, round: Round) -> Turns:
        """Move on by one multiplier."""
        state.k += 1
        return state


@dataclass
class Seat:
    """What an opponent must know of the problem: H, S (0 where not finite), A (0 where actions are a box)."""

    horizon: int
    n_states: int
    n_actions: int


@dataclass
class Constant(Policy):
    """One action of a box, everywhere."""

    action: Floats  # [A]

    def act(self, h: int, s: State, u: Any) -> Floats:
        """The same action in every state."""
        return self.action


@dataclass(frozen=True)
class Yielding(PrimalPlayer[Seat]):
    """Plays the actions after the first with a weight that falls with the multiplier; its estimates fall too."""

    name: ClassVar[str] = "yielding"
    action_spaces: ClassVar[tuple[type, ...]] = (Choices, Box)

    def init(self, problem: Problem, episodes: int, seed: int) -> Seat:
        """Sizes are all it needs."""
        return Seat(problem.horizon, problem.n_states or 0, problem.actions.n or 0)

    def plan(self, state: Seat, s1: State, lam: float) -> Plan:
        """Weights (1 + lam, 1, ..., 1); a push of 1 / (2 + lam) where actions are a box."""
        if not state.n_actions:
            return Plan(Constant(np.array([1.0 / (2.0 + lam)])), state.horizon / 2.0, 1.0 / (2.0 + lam))
        row = np.ones(state.n_actions)
        row[0] += lam
        risk = (state.n_actions - 1) / row.sum()
        row /= row.sum()
        policy = np.tile(row, (state.horizon, state.n_states, 1)) if state.n_states else lambda h, s: row
        return Plan(policy, state.horizon / 2.0, float(risk))

    def update(self, state: Seat, round: Round) -> Seat:
        """Nothing is learned."""
        return state


@dataclass(frozen=True)
class Tempted(Yielding):
    """Takes action 1 unless the multiplier is 1 or more, and knows what follows: the best response in `temptation`."""

    name: ClassVar[str] = "tempted"

    def plan(self, state: Seat, s1: State, lam: float) -> Plan:
        """The risky action for multipliers below 1, with its exact values."""
        risky = int(lam < 1.0)
        return Plan(np.full((state.horizon, state.n_states), risky), float(risky), float(risky))


def has_bound(player: Any) -> bool:
    """Whether a player's settings have a bound `B` on the multipliers."""
    return is_dataclass(player) and any(f.name == "B" for f in fields(player))


def fill(player: Any, problem: Problem) -> Any:
    """The player with a `B` that is None replaced by the oracle's bound, or by H + 1 without an oracle."""
    if not has_bound(player) or player.B is not None:
        return player
    bound: float | None = problem.horizon + 1.0
    if isinstance(problem, FiniteProblem):
        detail = dual_class(model_behind(problem)).detail
        bound = detail.get("B") or detail.get("largest_lambda_star") or 1.0
    return replace(player, B=bound)


def played(problem: Problem, primal: Any, dual: Any, episodes: int, seed: int = 7) -> tuple[Game, list[Round]]:
    """A game and its rounds."""
    primal, dual = fill(primal, problem), fill(dual, problem)
    game = begin(problem, primal, dual, episodes=episodes, seed=seed)
    return game, list(play(problem, primal, dual, game, episodes=episodes))


def played_late(problem: Problem, primal: Any, dual: Any, episodes: int, delay: int) -> tuple[DelayedGame, list[Round]]:
    """A game whose plans rest on older rounds, and its rounds; raises InvalidInput if its policies hold code."""
    primal, dual = fill(primal, problem), fill(dual, problem)
    game = begin_delayed(problem, primal, dual, episodes=episodes, seed=7)
    return game, list(play_delayed(problem, primal, dual, game, episodes=episodes, schedule=Delay(delay)))


def saved_and_loaded(
    problem: Problem, primal: Any, dual: Any, episodes: int, seed: int = 7, *, delay: int | None = None
) -> list[tuple[Game, list[Round]]]:
    """A game and its second half, played on; then the same game, saved in the middle, loaded into fresh states.

    delay: of its plans; None for the game without.
    """
    primal, dual = fill(primal, problem), fill(dual, problem)
    whole, parts = (
        (begin if delay is None else begin_delayed)(problem, primal, dual, episodes=episodes, seed=seed)
        for _ in range(2)
    )
    first = [this.episode for this in _goes_on(problem, primal, dual, whole, episodes // 2, delay=delay)]
    for side in ("primal", "dual"):
        replay(getattr(parts, side), first)
        setattr(parts, side, load(getattr(parts, side), snapshot(getattr(whole, side))))
    parts.k, parts.s1, parts.rng = whole.k, whole.s1, deepcopy(whole.rng)
    if isinstance(parts, DelayedGame) and isinstance(whole, DelayedGame):
        parts.fell, parts.life, parts.ahead = whole.fell, whole.life, whole.ahead
        parts.plans = {j: HeldPlan.read(held.data) for j, held in whole.plans.items()}
    return [(game, list(_goes_on(problem, primal, dual, game, episodes, delay=delay))) for game in (whole, parts)]


def _goes_on(problem: Problem, primal: Any, dual: Any, game: Game, episodes: int, delay: int | None) -> Iterator[Round]:
    if delay is None or not isinstance(game, DelayedGame):
        return play(problem, primal, dual, game, episodes=episodes)
    return play_delayed(problem, primal, dual, game, episodes=episodes, schedule=Delay(delay))


def snapshot(state: Any) -> dict[str, NDArray[Any]]:
    """What a checkpoint would hold, copied."""
    return {name: np.array(array) for name, array in dump(state).items()}


def same(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]]) -> bool:
    """Whether two snapshots agree, bit for bit."""
    return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)


def equal(one: Any, other: Any) -> bool:
    """Whether two arrays or numbers agree, type and not-a-numbers included."""
    a, b = np.asarray(one), np.asarray(other)
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def same_round(one: Round, other: Round) -> bool:
    """Whether two rounds agree in everything that can be compared."""
    names = "k s1 lam cost_signal plan.v_r plan.v_c plan.upper episode.states episode.actions episode.next_start"
    pairs = [(attrgetter(name)(one), attrgetter(name)(other)) for name in names.split()]
    if isinstance(one.plan.policy, Policy) and one.plan.policy.kind:
        pairs.append((True, one.plan.policy.same(other.plan.policy)))
    elif not is_function(one.plan.policy):
        pairs.append((one.plan.policy, other.plan.policy))
    elif equal(one.episode.states, other.episode.states):
        pairs.append((seen_rows(one.plan.policy, [one]), seen_rows(other.plan.policy, [one])))
    return all(equal(a, b) for a, b in pairs)


def seen_rows(policy: Any, rounds: list[Round]) -> Floats:
    """[n, A] a policy function's probabilities in every state in which the agent acted in these rounds.

    Of a policy that gives actions of a box, [3 n, A] those of three chances in each state.
    """
    visited = [(h + 1, this.episode.states[h]) for this in rounds for h in range(len(this.episode.actions))]
    if callable(policy):
        return np.array([policy(h, s) for h, s in visited], dtype=np.float64)
    sizes = [np.size(policy.mode(h, s)) for h, s in visited]
    actions = [
        policy.act(h, s, np.full(n, u)) for (h, s), n in zip(visited, sizes, strict=True) for u in (0.1, 0.5, 0.9)
    ]
    return np.array(actions, dtype=np.float64)


def is_function(policy: Any) -> bool:
    """Whether a policy is evaluated state by state: a function or a `Policy`, no array."""
    return callable(policy) or isinstance(policy, Policy)
