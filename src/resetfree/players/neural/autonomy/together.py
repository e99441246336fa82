"""Many learners at once on one accelerator: methods and seeds are rows of one compiled program (tabletop alone).

A block is an episode of the players: E steps with fixed policies, as many gradient steps of both agents of every row,
those of classifier, novelty and test, then the turns. Networks, contexts, rewards and turns are those of the players
beside this file, whose `traits` say which of them count in a row; random numbers are other ones, and a policy that
aborts goes by two critics. The dynamics are the environment's own (`problems.autonomy.plane`).

Legend: R rows; S rows of demonstrations, F of them of the way to the goals; n steps so far. A stored step is
(x [5], action [3], goal [4], x' [5], fell).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.extras import Deferred
from resetfree.players.neural.autonomy.leave_no_trace import LeaveNoTraceSAC
from resetfree.players.neural.autonomy.paint import ENOUGH, Paint
from resetfree.players.neural.autonomy.risc import RISC
from resetfree.players.neural.autonomy.turns import BACKWARD, FORWARD, LATEST, WIDE, TurnPlayer, fitted, fresh_part
from resetfree.players.neural.autonomy.vaprl import VaPRL
from resetfree.players.neural.networks import Minibatch, forward, uniform_layers
from resetfree.players.neural.sac import (
    Learning,
    Tree,
    draw_actions,
    fresh_actor_critic,
    gradient_step,
    normal_outputs,
    values,
)
from resetfree.problems.autonomy.plane import Tabletop, moved_mug, mug_at_goal, mug_is_lost

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
else:
    jax, jnp, optax = Deferred("jax"), Deferred("jax.numpy"), Deferred("optax")

FITS, FIT_RATE = 10, 3e-4  # gradient steps of classifier and of novelty in a block
LARGEST = 5.0  # reward of a second agent
FEATURES = 16  # outputs of the random network
COMPARED = 64  # states of demonstrations of which a start is chosen
STORED = 18
LOST = 64  # reset states that are kept
ABORTING, EARLY, CURRICULUM, TESTING = LeaveNoTraceSAC(), RISC(), VaPRL(), Paint()


class LearnerRow(NamedTuple):
    """What distinguishes one learner from the others: its seed, the flags of `turns.Traits`, and numbers."""

    seed: Any
    two: Any
    matches: Any
    perturbs: Any
    curriculum: Any
    graph: Any
    early: Any
    aborts: Any
    tests: Any
    rate: Any
    scale: Any
    relabelled: Any


class ProgramSizes(NamedTuple):
    """Constants of the program, which all rows share."""

    block: int  # E
    turn: int
    hold: int
    batch: int
    mixed: int  # of these, from demonstrations
    shown: int  # S
    forth: int  # F
    walls: bool
    size: float
    gamma: float
    tau: float
    begin: int  # steps with random actions


class TableGoals(NamedTuple):
    """Where the mug and the gripper are to be, and where they start."""

    goals: Any  # [n, 4]
    start: Any  # [4]


class Now(NamedTuple):
    """A row between two steps."""

    x: Any  # [5]
    goal: Any  # [4] that the environment requests
    left: Any  # steps until it changes
    agent: Any
    aim: Any  # [4]
    aimed: Any
    steps: Any  # of the turn
    counts: Any  # [5] resets, turns, time-outs, steps at the requested goal, requested help


class RowState(NamedTuple):
    """A row between two blocks."""

    agents: Tree  # [2, ...]
    classifier: Tree
    novelty: Tree
    random: Any
    usual: Any
    latest: Any  # [LATEST, 5]
    kept: Any
    test: Tree
    lost: Any  # [LOST, 5] the latest reset states
    fallen: Any
    now: Now
    store: Any  # [S + steps, STORED]
    order: Any  # [F] how far each row of the way to the goals is into its demonstration


def seen(x: Any, goal: Any) -> Any:
    """[..., 9] observations."""
    return jnp.concatenate([x, jnp.broadcast_to(goal, (*x.shape[:-1], 4))], axis=-1)


def share(critics: Any, s: Any, a: Any, row: LearnerRow, how: ProgramSizes) -> Any:
    """[n] the smallest critic's values as shares of the largest."""
    return jnp.clip((1.0 - how.gamma) / row.scale * values(critics, s, a).min(axis=0), 0.0, 1.0)


def mode(actor: Any, s: Any) -> Any:
    """[n, 3] the actions that are deployed."""
    return jnp.tanh(normal_outputs(actor, s)[0])


def one_of(agents: Tree, agent: Any, name: str) -> Any:
    """The networks of one agent."""
    return jax.tree.map(lambda leaf: leaf[agent], agents[name])


def act(agents: Tree, row: LearnerRow, how: ProgramSizes, table: TableGoals, now: Now, at: Any) -> tuple[Now, Any]:
    """One step of a row; at: the steps so far, and a key."""
    goals, start = table
    n, key = at
    acting, helping, uniform, goal_key = jax.random.split(key, 4)
    s, home = seen(now.x, jnp.where(now.aimed, now.aim, now.goal))[None], seen(now.x, start)[None]
    a, _ = draw_actions(one_of(agents, now.agent, "actor"), s, jax.random.normal(acting, (1, 3), jnp.float32))
    back, _ = draw_actions(one_of(agents, BACKWARD, "actor"), home, jax.random.normal(helping, (1, 3), jnp.float32))
    lost_from = share(one_of(agents, BACKWARD, "critics"), home, a, row, how)[0] < ABORTING.q_min
    a = jnp.where(row.aborts & (n >= ABORTING.settled) & (now.agent == FORWARD) & lost_from, back, a)
    a = jnp.where(n < how.begin, jax.random.uniform(uniform, (1, 3), jnp.float32, -1.0, 1.0), a)
    x = moved_mug(now.x[None], a, how.walls, how.size, jnp).astype(jnp.float32)
    fell = mug_is_lost(x, how.size)[0]
    paid = mug_at_goal(seen(x, now.goal))[0] & ~fell
    step = jnp.concatenate([now.x, a[0], now.goal, x[0], fell[None].astype(jnp.float32)])
    changes = (now.left <= 1) | fell
    after = Now(
        x=jnp.where(fell, jnp.append(start, -1.0), x[0]),
        goal=jnp.where(changes, goals[jax.random.randint(goal_key, (), 0, len(goals))], now.goal),
        left=jnp.where(changes, how.hold, now.left - 1),
        agent=jnp.where(fell, FORWARD, now.agent),
        aim=now.aim,
        aimed=now.aimed & ~fell,
        steps=jnp.where(fell, 0, now.steps + 1),
        counts=now.counts + jnp.array([fell, fell, False, paid, False]),
    )
    return after, step


def contexts(one: RowState, row: LearnerRow, how: ProgramSizes, n: Any, table: TableGoals, key: Any) -> Minibatch:
    """[2, B, ...] a batch for each agent: see `TurnPlayer.context`."""
    goals, start = table
    lived, shown, which, other, demo, redrawn = jax.random.split(key, 6)
    shape = (2, how.batch)
    index = jax.random.randint(lived, shape, how.shown, how.shown + n)
    first = jax.random.randint(shown, (2, how.mixed), 0, how.shown)
    steps = one.store[index.at[:, : how.mixed].set(first)]
    x, a, own, after, fell = jnp.split(steps, (5, 8, 12, 17), axis=-1)
    fell = fell[..., 0]
    tasks = jnp.concatenate([goals, start[None]])
    drawn = tasks[jax.random.randint(other, (how.batch,), 0, len(goals) + row.graph)]
    goal = jnp.where(jax.random.uniform(which, (how.batch, 1)) < row.relabelled, drawn, own[0])
    reached = one.store[jax.random.randint(demo, (how.batch,), 0, how.shown)][:, :4]
    chance = jax.random.uniform(redrawn, (how.batch, 1))
    wider = jnp.where(chance < 0.5, goal, jnp.where(chance < 0.75, reached, start))
    goal = jnp.stack([jnp.where(row.curriculum, wider, goal), jnp.broadcast_to(start, goal.shape)])
    there = jax.vmap(mug_at_goal)(jnp.concatenate([after, goal], axis=-1)).astype(jnp.float32)
    odds = forward(one.classifier["network"], after[1], jax.nn.relu)[:, 0]
    new = novelty(one.random, one.novelty["network"], after[1]) / one.usual
    second = jnp.where(row.matches, jax.nn.softplus(odds), jnp.where(row.perturbs, new, there[1]))
    fell = jnp.maximum(fell, fails(one, row, after).astype(jnp.float32))
    reward = jnp.stack([there[0], jnp.minimum(second, LARGEST)]) * (1.0 - fell) * row.scale
    state, later = jnp.concatenate([x, goal], axis=-1), jnp.concatenate([after, goal], axis=-1)
    return Minibatch(state, a, reward, later, fell)


def fails(one: RowState, row: LearnerRow, x: Any) -> Any:
    """[...] whether states [..., 5] fail the test of irreversibility, where there is one: see `Paint.fails`."""
    odds = forward(one.test["network"], x, jax.nn.relu)[..., 0]
    return row.tests & (one.fallen >= ENOUGH) & (odds > np.log(TESTING.sure / (1.0 - TESTING.sure)))


def helped(one: RowState, row: LearnerRow, how: ProgramSizes, table: TableGoals, key: Any) -> Now:
    """At a start with another goal, if the present state fails the test."""
    goals, start = table
    now, needs = one.now, fails(one, row, one.now.x)
    return now._replace(
        x=jnp.where(needs, jnp.append(start, -1.0), now.x),
        goal=jnp.where(needs, goals[jax.random.randint(key, (), 0, len(goals))], now.goal),
        left=jnp.where(needs, how.hold, now.left),
        counts=now.counts + needs * jnp.array([0, 0, 0, 0, 1]),
    )


def novelty(random: Any, predicting: Any, x: Any) -> Any:
    """[n] the squared error with which the random network is predicted."""
    return ((forward(random, x, jax.nn.relu) - forward(predicting, x, jax.nn.relu)) ** 2).mean(axis=-1)


def fit_step(part: Tree, x: Any, y: Any, binary: bool, rate: float = FIT_RATE) -> Tree:
    """A network after one step."""
    gradient = jax.grad(fitted)(part["network"], x, y, binary=binary)
    update, steps = optax.adam(rate).update(gradient, part["steps"])
    return {"network": optax.apply_updates(part["network"], update), "steps": steps}


def fit_others(one: RowState, how: ProgramSizes, n: Any, key: Any) -> RowState:
    """Classifier, novelty and test after FITS steps each."""

    def step(now: tuple[Tree, Tree, Tree], key: Any) -> tuple[tuple[Tree, Tree, Tree], None]:
        a, b, c, d, e, f = jax.random.split(key, 6)
        shown = one.store[jax.random.randint(a, (WIDE,), 0, how.forth)][:, :5]
        met = one.latest[jax.random.randint(b, (WIDE,), 0, jnp.clip(one.kept, 1, LATEST))]
        label = jax.random.uniform(c, (WIDE, 1))
        lately = jax.random.randint(d, (WIDE,), how.shown + n - how.block, how.shown + n)
        x = one.store[lately][:, 12:17]
        wanted = forward(one.random, x, jax.nn.relu)
        mixed = label * shown + (1.0 - label) * met
        stuck = (jax.random.uniform(e, (WIDE, 1)) < 0.5).astype(jnp.float32)
        reset = one.lost[jax.random.randint(f, (WIDE,), 0, jnp.clip(one.fallen, 1, LOST))]
        states = jnp.where(stuck > 0, reset, one.store[jax.random.randint(e, (WIDE,), how.shown, how.shown + n)][:, :5])
        classifier, predicting = fit_step(now[0], mixed, label, True), fit_step(now[1], x, wanted, False)
        return (classifier, predicting, fit_step(now[2], states, stuck, True, 1e-3)), None

    keys = jax.random.split(key, FITS + 1)
    (classifier, predicting, test), _ = jax.lax.scan(step, (one.classifier, one.novelty, one.test), keys[1:])
    test = jax.tree.map(lambda new, old: jnp.where(one.fallen >= ENOUGH, new, old), test, one.test)
    classifier = jax.tree.map(lambda new, old: jnp.where(one.kept > 0, new, old), classifier, one.classifier)
    x = one.store[jax.random.randint(keys[0], (8 * WIDE,), how.shown, how.shown + n)][:, 12:17]
    usual = jnp.maximum(novelty(one.random, predicting["network"], x).mean(), 1e-12)
    return one._replace(classifier=classifier, novelty=predicting, usual=usual, test=test)


def next_turn(one: RowState, row: LearnerRow, how: ProgramSizes, table: TableGoals, key: Any) -> Now:
    """The turn after a block: see `TurnPlayer.next_turn` and what methods make of it."""
    goals, start = table
    now, (switching, choosing, drawing) = one.now, jax.random.split(key, 3)
    aim = jnp.where(now.aimed, now.aim, now.goal)
    s = seen(now.x, aim)[None]
    there = mug_at_goal(s)[0]
    a = mode(one_of(one.agents, now.agent, "actor"), s)
    competence = share(one_of(one.agents, now.agent, "critics"), s, a, row, how)[0]
    able = (now.steps >= EARLY.least) & (jax.random.uniform(switching) < EARLY.eagerness * competence)
    over = (now.steps >= how.turn) | (row.early & able)
    rows = jax.random.randint(choosing, (COMPARED,), 0, how.forth)
    states = one.store[rows]
    asks = jnp.concatenate([states[:, :5], states[:, 8:12]], axis=-1)
    actor, critics = one_of(one.agents, FORWARD, "actor"), one_of(one.agents, FORWARD, "critics")
    mastered = share(critics, asks, mode(actor, asks), row, how) >= CURRICULUM.threshold
    least = jnp.where(mastered, one.order[rows], jnp.inf).argmin()
    chosen = states[jnp.where(mastered.any(), least, one.order[rows].argmax()), :4]
    at_start = jnp.linalg.norm(now.x[:4] - start) < min(0.5, 0.5 * how.size)
    task = jnp.where(at_start, goals[jax.random.randint(drawing, (), 0, len(goals))], start)
    back = row.two & (now.agent == FORWARD)
    new_aim = jnp.where(row.graph, task, jnp.where(row.curriculum, chosen, start))
    new_aimed = row.graph | back | (row.curriculum & ~now.aimed)
    return now._replace(
        agent=jnp.where(over, jnp.where(back, BACKWARD, FORWARD), now.agent),
        aim=jnp.where(over, new_aim, now.aim),
        aimed=jnp.where(over, new_aimed, now.aimed),
        steps=jnp.where(over, 0, now.steps),
        counts=now.counts + over * jnp.array([0, 1, ~there, 0, 0]),
    )


def block(one: RowState, row: LearnerRow, number: Any, how: ProgramSizes, table: TableGoals) -> RowState:
    """A row after an episode, and what is learned from it."""
    keys = jax.random.split(jax.random.fold_in(jax.random.key(row.seed), number), 5)
    n, backward = number * how.block, one.now.agent == BACKWARD
    playing = partial(act, one.agents, row, how, table)
    now, steps = jax.lax.scan(playing, one.now, (n + jnp.arange(how.block), jax.random.split(keys[0], how.block)))
    at = (one.kept + jnp.arange(how.block)) % LATEST
    latest = jnp.where(backward, one.latest.at[at].set(steps[:, 12:17]), one.latest)
    store = jax.lax.dynamic_update_slice(one.store, steps, (how.shown + n, 0))
    fell = steps[:, 17] > 0.0
    positions = jnp.where(fell, (one.fallen + jnp.cumsum(fell) - 1) % LOST, LOST)
    lost, fallen = one.lost.at[positions].set(steps[:, 12:17], mode="drop"), one.fallen + fell.sum()
    one = one._replace(store=store, now=now, latest=latest, kept=one.kept + how.block * backward)
    one = one._replace(lost=lost, fallen=fallen)
    n, numbers = n + how.block, Learning(row.rate, how.gamma, how.tau)
    one = fit_others(one, how, n, keys[1])

    def learn(agents: Tree, key: Any) -> tuple[Tree, None]:
        batch = contexts(one, row, how, n, table, key=key)
        each = jax.random.split(jax.random.fold_in(key, 1), 2)
        return dict(jax.vmap(gradient_step, (0, 0, None, 0, None))(agents, batch, 0.0, each, numbers)), None

    agents, _ = jax.lax.scan(learn, one.agents, jax.random.split(keys[2], how.block))
    one = one._replace(agents=agents)
    one = one._replace(now=next_turn(one, row, how, table, keys[3]))
    return one._replace(now=helped(one, row, how, table, keys[4]))


def deployed(agents: Tree, how: ProgramSizes, table: TableGoals) -> Any:
    """The share of goals that the forward policy reaches from the start, within a turn of the environment."""
    goals, start = table
    actor = one_of(agents, FORWARD, "actor")

    def step(now: tuple[Any, Any, Any], _: Any) -> tuple[tuple[Any, Any, Any], None]:
        x, there, gone = now
        x = moved_mug(x, mode(actor, jnp.concatenate([x, goals], axis=-1)), how.walls, how.size, jnp).astype(
            jnp.float32
        )
        gone = gone | mug_is_lost(x, how.size)
        return (x, there | mug_at_goal(jnp.concatenate([x, goals], axis=-1)) & ~gone, gone), None

    none = jnp.zeros(len(goals), dtype=bool)
    x = jnp.broadcast_to(jnp.append(start, -1.0), (len(goals), 5))
    return jax.lax.scan(step, (x, none, none), None, length=how.hold)[0][1].mean()


def stored(env: Tabletop, seeds: Sequence[int]) -> tuple[list[Floats], list[Floats], int, int]:
    """Of each seed the steps of demonstrations, and how far each is into its own; as many of all; S and F."""
    both = [[env.demonstrations(seed, back) for back in (False, True)] for seed in seeds]
    rows: list[list[Floats]] = []
    orders = []
    for ways in both:
        made = []
        for way in ways:
            parts = [
                np.concatenate([d.states[:-1, :5], d.actions, d.states[:-1, 5:], d.states[1:, :5]], axis=1) for d in way
            ]
            whole = np.concatenate(parts)
            made.append(np.concatenate([whole, np.zeros((len(whole), 1))], axis=1))
        rows.append(made)
        orders.append(np.concatenate([np.arange(len(d.actions)) for d in ways[0]]).astype(np.float64))
    forth, back = (min(len(made[i]) for made in rows) for i in (0, 1))
    return [np.concatenate([a[:forth], b[:back]]) for a, b in rows], [o[:forth] for o in orders], forth + back, forth


def row_of(player: TurnPlayer, seed: int) -> LearnerRow:
    """The row of a player and a seed."""
    assert player.traits is not None
    numbers = player.learning_rate, player.reward_scale, player.relabelled
    return LearnerRow(np.uint32(seed), *map(np.bool_, player.traits), *map(np.float32, numbers))


def fresh_learner(player: TurnPlayer, seed: int, shown: Floats, order: Floats, start: Floats, steps: int) -> RowState:
    """A row before its first step."""
    rng = np.random.default_rng([seed, 1])
    agents = [fresh_actor_critic(9, 3, player.hidden, False, rng) for _ in range(2)]
    sizes = 5, player.hidden, player.hidden
    none = np.zeros(4, np.float32)
    now = Now(np.append(start, -1.0), none, 1, FORWARD, none, aimed=False, steps=0, counts=np.zeros(5, np.int32))
    return RowState(
        agents=jax.tree.map(lambda *leaves: np.stack(leaves), *agents),
        classifier=fresh_part(uniform_layers((*sizes, 1), rng)),
        novelty=fresh_part(uniform_layers((*sizes, FEATURES), rng)),
        random=uniform_layers((*sizes, FEATURES), rng),
        usual=np.ones((), np.float32),
        latest=np.zeros((LATEST, 5), np.float32),
        kept=np.int32(0),
        test=fresh_part(uniform_layers((*sizes, 1), rng)),
        lost=np.zeros((LOST, 5), np.float32),
        fallen=np.int32(0),
        now=Now(*(np.asarray(part, np.float32 if np.asarray(part).dtype.kind == "f" else None) for part in now)),
        store=np.concatenate([shown, np.zeros((steps, STORED))]).astype(np.float32),
        order=order.astype(np.float32),
    )


def train(
    trials: Sequence[tuple[TurnPlayer, int]], env: Tabletop, steps: int, every: int, episode: int = 50
) -> Iterator[tuple[int, Floats, Floats]]:
    """Train all (player, seed) at once; yields the steps so far, [R] deployed success and [R, 5] `Now.counts`.

    every: steps between two evaluations, a multiple of `episode`.
    """
    first, start = trials[0][0], env.starts[0].astype(np.float32)
    shown, order, both, forth = stored(env, [seed for _, seed in trials])
    how = ProgramSizes(
        block=episode,
        turn=first.turn,
        hold=env.hold,
        batch=first.batch,
        mixed=round(first.demonstrated * first.batch),
        shown=both,
        forth=forth,
        walls=env.walls,
        size=env.size,
        gamma=first.gamma,
        tau=first.tau,
        begin=first.learning_starts,
    )
    rows = jax.tree.map(lambda *parts: np.stack(parts), *(row_of(*one) for one in trials))
    made = (
        fresh_learner(player, seed, a, b, start=start, steps=steps + every)
        for (player, seed), a, b in zip(trials, shown, order, strict=True)
    )
    learners: Any = jax.tree.map(lambda *leaves: np.stack(leaves), *made)
    table = TableGoals(jnp.asarray(env.goals.astype(np.float32)), jnp.asarray(start))
    each = jax.vmap(partial(block, how=how, table=table), in_axes=(0, 0, None))
    tested = jax.vmap(partial(deployed, how=how, table=table))

    def chunk(learners: Any, begin: Any) -> Any:
        learners = jax.lax.fori_loop(begin, begin + every // episode, lambda i, one: each(one, rows, i), learners)
        return learners, tested(learners.agents), learners.now.counts

    program = jax.jit(chunk, donate_argnums=0)
    for n in range(0, steps, every):
        learners, success, counts = program(learners, np.int32(n // episode))
        yield n + every, np.asarray(success, dtype=np.float64), np.asarray(counts, dtype=np.float64)
