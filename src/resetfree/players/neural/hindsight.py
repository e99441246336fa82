"""Learning to reach goals from what was reached (extra `neural`): an actor and two critics, relabelled in hindsight.

After Andrychowicz et al. (2017, "Hindsight experience replay") and, for the update, Fujimoto et al. (2018, TD3). Kept:
four of five transitions are learned from with another goal than the one that was requested, most of these reached later
in the same life; two critics with slow targets; values cut to what is possible. Adapted to a life without resets: later
means up to SPAN steps, over the ends of episodes.

Legend: s [D] a state; g [G] the goal in it, at columns `wanted`; its columns `achieved` say which goal it has reached;
z = (s - centre) / scale. A step costs c (1 - gamma) until the goal is reached, a reset c, as much as never reaching it:
    Q(z, a) = -c (1 - gamma) (hit ? 0 : 1) + gamma (ends ? 0 : min Q'(z', a')),   in [-c, 0].
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from resetfree.core.arrays import Bools, Floats
from resetfree.core.extras import Deferred, jitted
from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.players.neural.networks import Layers, Minibatch, forward, narrow, uniform_layers
from resetfree.problems.action_spaces import to_unit
from resetfree.problems.knowledge import GoalColumns

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
else:
    jax, jnp, optax = Deferred("jax"), Deferred("jax.numpy"), Deferred("optax")

Tree: TypeAlias = dict[str, Any]
LATER, ANY = 0.6, 0.2  # parts of a batch whose goal was reached later, or at any time
SPAN = 100  # steps within which a goal counts as reached later
NEAR = 0.1  # of the median distance between states and goals: radius of a goal while none was won
MOVED = 0.01  # of the radius, by which what is reached must change in a step to count as moving
SOON = 30  # steps before such steps
MOVING = 0.5  # part of a batch from before such steps: elsewhere a goal of later is reached already
WON = 5  # goals won from which on they say how near is near enough
POINTS, HOPS = 150, 4  # of ways between points, and how many of these to look ahead
TOUCHED = 0.2  # part of the steps that move what is reached, below which something must be touched for it
LINEAR = 2000  # latest steps that a linear model is fitted to
LEAST_SCALE = 1e-3  # of a number that hardly moves
GAMMA = 0.99
TAU = 0.005  # share by which targets follow
WORST = -10.0  # value of never reaching a goal: a step costs 1 - GAMMA of it
COPYING = 3.0  # weight of the squared distance to demonstrated actions
PUSH, FAR_PUSH = 1e-2, 1.5  # weight of the squared push before tanh beyond this, lest actions stay at the ends


class Reach(NamedTuple):
    """When a goal counts as reached, by what is known so far."""

    columns: GoalColumns
    radius: float  # distance, where the task does not say it
    stays: bool  # whether a goal stays when it is reached, so that being there goes on paying

    def hit(self, states: Floats, goals: Floats) -> Bools:
        """[...] whether states [..., D] have reached goals [..., G]."""
        reached = states[..., self.columns.achieved]
        if self.columns.reached is not None:
            size = goals.shape[-1]
            flat = self.columns.reached(reached.reshape(-1, size), goals.reshape(-1, size))
            return np.asarray(flat.reshape(reached.shape[:-1]), dtype=np.bool_)
        return np.asarray(np.linalg.norm(reached - goals, axis=-1) <= self.radius)


def won_steps(rows: ReplayBuffer, n: int) -> Bools:
    """[n] the steps that earned the larger of two rewards; none where there are others than two."""
    taken, reward = rows.taken(n), rows.reward[:n]
    earned = reward[taken]
    if not len(earned) or earned.min() == earned.max():
        return np.zeros(n, dtype=bool)
    top = earned.max()
    two = bool(((earned == top) | (earned == earned.min())).all())
    return np.asarray(taken & (reward == top) & two)


def reach_of(rows: ReplayBuffer, n: int, columns: GoalColumns) -> Reach:
    """What the first n rows say about when a goal counts as reached."""
    state, won = rows.state[:n], np.flatnonzero(won_steps(rows, n))
    at, wanted = state[:, columns.achieved], state[:, columns.wanted]
    radius = NEAR * float(np.median(np.linalg.norm(at - wanted, axis=1)))
    if columns.reached is not None:
        radius = columns.radius(np.median(wanted, axis=0), np.maximum(at.std(axis=0) + wanted.std(axis=0), LEAST_SCALE))
    elif len(won) >= WON:
        radius = float(np.quantile(np.linalg.norm(at[won + 1] - wanted[won], axis=1), 0.9))
    stays = len(won) >= WON and bool((wanted[won + 1] == wanted[won]).all(axis=1).mean() > 0.5)
    return Reach(columns, max(radius, 1e-9), stays)


def scales_of(rows: ReplayBuffer, n: int, columns: GoalColumns) -> tuple[Floats, Floats]:
    """[D] each: centre and scale of the first n rows; goals have those of what was reached and requested."""
    state = rows.state[:n]
    centre, scale = state.mean(axis=0), state.std(axis=0)
    both = np.concatenate([state[:, columns.achieved], state[:, columns.wanted]])
    for where in (columns.achieved, columns.wanted):
        centre[where], scale[where] = both.mean(axis=0), both.std(axis=0)
    return centre, np.maximum(scale, LEAST_SCALE * (1.0 + np.abs(centre)))


def life_ends(rows: ReplayBuffer, n: int) -> Bools:
    """[n] reset states, and rows without an action that the next one does not continue: of data, or before help."""
    apart = (rows.state[: n - 1] != rows.state[1:n]).any(axis=1)
    return np.asarray(rows.terminated[:n] | (np.append(apart, False) & ~rows.taken(n)))


class Hindsight:
    """Batches of transitions with goals of hindsight."""

    def __init__(self, rows: ReplayBuffer, reach: Reach, ends: tuple[Floats, Floats]) -> None:
        self._rows, self._reach, self._ends = rows, reach, ends
        self._taken, self._won = np.flatnonzero(rows.taken(rows.n)), won_steps(rows, rows.n)
        over = np.flatnonzero(life_ends(rows, rows.n))
        self._last = np.append(over, rows.n - 1)[np.searchsorted(over, np.arange(rows.n))]  # of each row's life
        count = np.append(0, np.cumsum(moving_rows(rows, rows.n, reach)))
        until = np.minimum(self._taken + SOON, self._last[self._taken])
        moves = self._taken[count[until] > count[self._taken]]  # what is reached changes after these
        self._moving = moves if len(moves) else self._taken

    def draw(
        self,
        shape: tuple[int, int],
        centre: Floats,
        scale: Floats,
        rng: np.random.Generator,
        shown: tuple[int, int] = (0, 0),
    ) -> Minibatch:
        """Batches [n, B, ...] on the scale of z.  shown: so many of each come from so many first rows."""
        rows, reach = self._rows, self._reach
        any_row, moving = (of[rng.integers(len(of), size=shape)] for of in (self._taken, self._moving))
        index = np.where(rng.random(shape) < MOVING, moving, any_row)
        copied, first = shown
        if copied:
            index[:, :copied] = rng.choice(self._taken[self._taken < first], (len(index), copied))
        at, wanted = reach.columns.achieved, reach.columns.wanted
        before, after = rows.state[index], rows.state[index + 1]
        own = before[..., wanted]
        ahead = np.minimum(index + 1 + rng.integers(SPAN, size=shape), self._last[index])
        kind = rng.random(shape)[..., None]
        kind[:, :copied][kind[:, :copied] >= LATER] = 1.0  # what is copied heads for its own goal, or one of later
        goals = np.where(kind < LATER, rows.state[np.maximum(ahead, index + 1)][..., at], own)
        anywhere = rows.state[rng.integers(rows.n, size=shape)][..., at]
        goals = np.where((kind >= LATER) & (kind < LATER + ANY), anywhere, goals)
        hit = reach.hit(after, goals) | (self._won[index] & (kind[..., 0] >= LATER + ANY))
        fell = rows.terminated[index + 1]
        before[..., wanted], after[..., wanted] = goals, goals
        cost = np.where(fell, 1.0, np.where(hit, 0.0, 1.0 - GAMMA))
        return Minibatch(
            state=narrow((before - centre) / scale),
            action=narrow(to_unit(rows.action[index], *self._ends)),
            reward=narrow(WORST * cost),
            next_state=narrow((after - centre) / scale),
            terminated=narrow(fell | (hit & (not reach.stays))),
        )


def fresh_reacher(size: int, n_actions: int, hidden: int, rng: np.random.Generator) -> Tree:
    """Networks before the first gradient step, their optimisers, and the scales of states."""
    networks: Tree = {
        "actor": uniform_layers((size, hidden, hidden, n_actions), rng),
        "critics": uniform_layers((size + n_actions, hidden, hidden, 1), rng, 2),
    }
    steps = {name: optax.adam(0.0).init(part) for name, part in networks.items()}
    late = {f"late_{name}": part for name, part in networks.items()}
    scales = {"centre": np.zeros(size), "scale": np.ones(size)}
    return {**networks, **late, "steps": steps, **scales}


def on_new_scales(tree: Tree, centre: Floats, scale: Floats) -> Tree:
    """The same functions of states that are not scaled, on other scales: first layers change."""
    ratio, shift = scale / tree["scale"], (centre - tree["centre"]) / tree["scale"]
    size = len(ratio)

    def moved(layers: Layers) -> Layers:
        (weight, bias), *rest = layers
        added = np.einsum("d,...dk->...k", shift, np.asarray(weight)[..., :size, :])
        bias = bias + (added[..., None, :] if np.ndim(bias) > 1 else added)
        weight = np.concatenate([weight[..., :size, :] * ratio[:, None], weight[..., size:, :]], axis=-2)
        return ((narrow(weight), narrow(bias)), *rest)

    names = ("actor", "critics", "late_actor", "late_critics")
    return {**tree, **{name: moved(tree[name]) for name in names}, "centre": centre, "scale": scale}


def acted(actor: Layers, z: Any) -> Any:
    """[..., A] what the actor pushes, before tanh."""
    return forward(actor, z, jax.nn.relu)


def valued(critics: Layers, z: Any, a: Any) -> Any:
    """[2, ...] the values of both critics."""
    return forward(critics, jnp.concatenate([z, a], axis=-1), jax.nn.relu)[..., 0]


@jitted("copied")
def improved(tree: Tree, batches: Minibatch, *, count: Any, rate: Any, copied: int = 0) -> Tree:
    """The networks after the first `count` of the batches [n, B, ...].

    copied: so many first transitions of each are demonstrations: the actor copies their actions where these are better.
    """

    def one(i: Any, tree: Tree) -> Tree:
        batch = jax.tree.map(lambda field: field[i], batches)
        later = valued(tree["late_critics"], batch.next_state, jnp.tanh(acted(tree["late_actor"], batch.next_state)))
        goal = batch.reward + GAMMA * (1.0 - batch.terminated) * jnp.clip(later.min(axis=0), WORST, 0.0)
        new, steps = dict(tree), dict(tree["steps"])

        def descend(name: str, loss: Any) -> None:
            update, steps[name] = optax.adam(rate).update(jax.grad(loss)(tree[name]), steps[name])
            new[name] = optax.apply_updates(tree[name], update)

        descend("critics", lambda q: ((valued(q, batch.state, batch.action) - goal) ** 2).mean(axis=1).sum())

        def loss(actor: Layers) -> Any:
            push = acted(actor, batch.state)
            far = jax.nn.relu(jnp.abs(push) - FAR_PUSH)
            value = valued(new["critics"], batch.state, jnp.tanh(push)).min(axis=0)
            found = (PUSH * far**2).mean() - value.mean()
            if not copied:
                return found
            shown = valued(new["critics"], batch.state[:copied], batch.action[:copied]).min(axis=0)
            apart = ((jnp.tanh(push[:copied]) - batch.action[:copied]) ** 2).sum(axis=1)
            return found + COPYING * ((shown > jax.lax.stop_gradient(value[:copied])) * apart).mean()

        descend("actor", loss)
        for name in ("actor", "critics"):
            new[f"late_{name}"] = optax.incremental_update(new[name], tree[f"late_{name}"], TAU)
        return {**new, "steps": steps}

    return dict(jax.lax.fori_loop(0, count, one, tree))


def frontier(rows: ReplayBuffer, n: int, columns: GoalColumns, rng: np.random.Generator) -> Floats:
    """[G] a goal that was reached, where little else was: the one of a few whose nearest others are farthest."""
    reached = rows.state[:n][:, columns.achieved]
    others, few = reached[rng.integers(n, size=1000)], reached[rng.integers(n, size=50)]
    scale = np.maximum(others.std(axis=0), 1e-12)
    away: NDArray[Any] = np.linalg.norm((few[:, None] - others[None]) / scale, axis=2)
    return np.asarray(few[np.sort(away, axis=1)[:, 10].argmax()])


@dataclass
class Ways:
    """Points that were reached, and how one led to another: which to head for on the way to a goal farther off."""

    points: Floats  # [K, G]
    costs: Floats  # [K, K] the distance of a step from one to another that was made; 0: none was

    def toward(self, at: Floats, goal: Floats) -> Floats:
        """[G] the point a few steps of the shortest way from `at` to `goal`; the goal itself where none is known."""
        key = goal.tobytes()
        if key not in self._next:
            last = self._nearest(goal)
            self._next[key] = last, dijkstra(self.costs.T, indices=last, return_predecessors=True)[1]
        (last, follows), node = self._next[key], self._nearest(at)
        for _ in range(HOPS):
            if node == last or follows[node] < 0:
                return goal
            node = int(follows[node])
        return np.asarray(self.points[node])

    def _nearest(self, at: Floats) -> int:
        return int(((self.points - at) ** 2).sum(axis=1).argmin())

    @cached_property
    def _next(self) -> dict[bytes, tuple[int, NDArray[np.int32]]]:
        """Of each goal so far: the point nearest to it, and which point follows each on the way there."""
        return {}


def ways_of(rows: ReplayBuffer, n: int, columns: GoalColumns, rng: np.random.Generator) -> Ways:
    """The ways between points of the first n rows: far apart from each other, and as many as POINTS."""
    reached = rows.state[:n][:, columns.achieved]
    some = reached[rng.integers(n, size=2000)]
    points, away = [some[0]], np.full(len(some), np.inf)
    for _ in range(POINTS - 1):
        away = np.minimum(away, ((some - points[-1]) ** 2).sum(axis=1))
        points.append(some[int(away.argmax())])
    nodes = np.unique(np.array(points), axis=0)
    nearest = cKDTree(nodes).query(reached)[1]
    led = np.flatnonzero(~rows.terminated[: n - 1] & (nearest[1:] != nearest[:-1]))
    costs, pairs = np.zeros((len(nodes), len(nodes))), (nearest[led], nearest[led + 1])
    costs[pairs] = np.linalg.norm(nodes[pairs[0]] - nodes[pairs[1]], axis=1)
    return Ways(nodes, costs)


@dataclass
class Return:
    """The way back to a state by a linear model of a step, s' = s + drift (s, 1) + what an action does."""

    target: Floats  # [D]
    gain: Floats  # [A, D] the action on [-1, 1] for a change of the state
    drift: Floats  # [D, D + 1] the change without any

    def push(self, s: Floats) -> Floats:
        """[A] the action that leads nearest to the target in one step."""
        return np.asarray(np.clip(self.gain @ (self.target - s - self.drift @ np.append(s, 1.0)), -1.0, 1.0))


def moving_rows(rows: ReplayBuffer, n: int, reach: Reach) -> Bools:
    """[n] the steps in which what is reached changes."""
    moved = np.linalg.norm(np.diff(rows.state[:n][:, reach.columns.achieved], axis=0), axis=1)
    return np.append(moved > MOVED * reach.radius, False) & rows.taken(n)


def last_touch(rows: ReplayBuffer, n: int, reach: Reach, ends: tuple[Floats, Floats]) -> Return | None:
    """Back to where what is reached moved last, if it rarely does: something must be touched for it. Else None."""
    moving = np.flatnonzero(moving_rows(rows, n, reach))
    if not len(moving) or len(moving) > TOUCHED * n:
        return None
    taken = np.flatnonzero(rows.taken(n))[-LINEAR:]
    s, a = rows.state[taken], to_unit(rows.action[taken], *ends)
    inputs = np.concatenate([s, np.ones((len(s), 1)), a], axis=1)
    ridge = 1e-6 * len(s) * np.eye(inputs.shape[1])
    fit = np.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ (rows.state[taken + 1] - s)).T  # [D, D + 1 + A]
    size = s.shape[1]
    weight = 1.0 / np.maximum(rows.state[:n].std(axis=0), LEAST_SCALE)
    weight[reach.columns.achieved] = weight[reach.columns.wanted] = 0.0
    by = weight[:, None] * fit[:, size + 1 :]
    gain = np.linalg.solve(by.T @ by + 1e-9 * np.eye(by.shape[1]), by.T * weight)
    return Return(rows.state[moving[-1] + 1].copy(), gain, fit[:, : size + 1])
