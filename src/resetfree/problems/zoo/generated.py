"""Problems that are drawn at random: `generated-v0`, `random-linear-v0` and `drifting-v0`.

`generated-v0` draws from seven families, each of which satisfies Assumption 1.
A draw has a number. Its family is the number modulo seven; sizes, slips, pits and rewards are drawn with it. A draw in
which some start admits no reset-free policy, or in which nothing is dangerous, is rejected, and the next one is made.

`random-linear-v0` is a linear MDP with features in the simplex, where the assumptions hold by construction;
`drifting-v0` is the same with dynamics that change with the step.

Legend: d features; nu [d, S] the measures they lead to, the last one the reset state; omega [d] their rewards.
"""

from collections.abc import Callable
from itertools import count, pairwise
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np

from resetfree.core import Bools, Count, Floats, Fraction, Ints, PositiveInt, Range
from resetfree.problems.finite.composed import with_contexts
from resetfree.problems.finite.mdp import FiniteMDP, GridLayout
from resetfree.problems.finite.safety import feasibility, unsafe_pairs
from resetfree.problems.finite.transitions import Horizon
from resetfree.problems.registry import LAYER, STEP, Size, register
from resetfree.problems.zoo.fields import MOVES, cell_names, grid_transitions
from resetfree.problems.zoo.tables import ANY, table_mdp, transitions

Rng = np.random.Generator
LONGEST = 14  # steps of an episode of any draw
SLIPS = (0.0, 0.05, 0.1, 0.2, 0.3)


class Drawn(NamedTuple):
    """A draw: its family, the problem, and how many were rejected before it."""

    family: str
    mdp: FiniteMDP
    rejected: int


@register(
    "generated-v0",
    "A problem drawn at random: pits, doors, chains, drift, contexts, factored tasks or linear features.",
    lambda draw, order: (500 + STEP + LAYER) * LONGEST,
)
def generated(draw: Count = 0, order: Count = 0) -> FiniteMDP:
    """Draw number `draw`; the same numbers give the same problem.

    order: of the actions, one at random for each number; 0 is that of the family, in which the first is often safe.
    """
    mdp = drawn_problem(draw).mdp
    return mdp if order == 0 else reordered(mdp, np.random.default_rng([draw, order]).permutation(mdp.n_actions))


def drawn_problem(draw: int) -> Drawn:
    """Draw number `draw`, with its family and the number of draws that were rejected for it.

    >>> family, mdp, rejected = drawn_problem(1)
    >>> family, mdp, rejected
    ('doors', FiniteMDP(10 states, 3 actions, horizon 10, 1 reset state), 0)
    """
    family = family_of(draw)
    for attempt in count():
        mdp = FAMILIES[family](np.random.default_rng([draw, attempt]))
        if acceptable(mdp):
            return Drawn(family, mdp.replace(name="generated-v0"), attempt)
    raise AssertionError("unreachable")


def family_of(draw: int) -> str:
    """The family of a draw.

    >>> [family_of(draw) for draw in range(8)]
    ['pits', 'doors', 'chain', 'drift', 'contexts', 'factored', 'features', 'pits']
    """
    return list(FAMILIES)[draw % len(FAMILIES)]


def reordered(mdp: FiniteMDP, order: Ints) -> FiniteMDP:
    """The same problem with its actions numbered anew: action i is what `order[i]` was.

    >>> mdp = drawn_problem(2).mdp
    >>> mdp.action_names, reordered(mdp, np.array([2, 0, 1])).action_names
    (('back', 'stay', 'on'), ('on', 'back', 'stay'))
    """
    alike = mdp.transition.stationary
    shape = (mdp.n_states, mdp.n_actions, mdp.n_states)
    rows = np.stack(
        [mdp.transition.matrix(h).toarray().reshape(shape)[:, order] for h in range(1 if alike else mdp.n_transitions)]
    )
    return mdp.replace(
        transition=rows[0] if alike else rows,
        reward=mdp.reward[0][:, order] if len(mdp.reward) == 1 else mdp.reward[:, :, order],
        phi=None if mdp.phi is None else mdp.phi[:, order],
        action_names=[mdp.action_names[a] for a in order],
    )


def acceptable(mdp: FiniteMDP) -> bool:
    """Whether every start that can come about admits a reset-free policy, and some pair is dangerous."""
    return bool(feasibility(mdp).holds) and unsafe_pairs(mdp) > 0


def _field(rng: Rng, n_rows: int, n_cols: int, density: float) -> Bools:
    """[R, C] the cells that are pits; never all of them."""
    pits = rng.random((n_rows, n_cols)) < density
    pits[rng.integers(n_rows), rng.integers(n_cols)] = False
    return pits


def _grid(
    rng: Rng, pits: Bools, slip: float, horizon: int, *, homes: Any, goals: Any, stay: bool
) -> tuple[FiniteMDP, GridLayout]:
    """A field with pits: acting on the first goal pays 1, on the second something, and each step may pay a little."""
    actions = tuple(move for move in MOVES if stay or move != "stay")
    transition, layout = grid_transitions(np.ones_like(pits), pits, slip, actions)
    pay = np.zeros(pits.size)
    pay[goals[1]] = rng.uniform(0.1, 0.6)
    pay[goals[0]] = 1.0
    home = np.zeros(pits.size)
    home[homes] = 1.0 / len(homes)
    mdp = FiniteMDP(
        transition,
        np.repeat(pay[:, None], len(actions), axis=1),
        pits.ravel(),
        horizon,
        start=home,
        restart=home,
        state_names=cell_names(layout),
        action_names=actions,
        layout=layout,
    )
    return mdp, layout


def _pits(rng: Rng) -> FiniteMDP:
    """Slippery pits: a field with a large and a small goal; with or without a move that stays."""
    n_rows, n_cols = rng.integers(3, 7, size=2)
    pits = _field(rng, n_rows, n_cols, rng.uniform(0.1, 0.35))
    slip, stay = float(rng.choice(SLIPS)), bool(rng.random() < 0.6)
    free = rng.permutation(np.flatnonzero(~pits.ravel()))
    if len(free) < 4:
        pits[:] = False  # rejected: nothing is dangerous
        free = rng.permutation(pits.size)
    homes = free[: rng.integers(1, 3)]
    mdp, _ = _grid(rng, pits, slip, int(rng.integers(6, LONGEST + 1)), homes=homes, goals=free[-2:], stay=stay)
    return mdp


def _doors(rng: Rng) -> FiniteMDP:
    """A fork with a loop that pays, and doors to chambers: some lead to a certain reset, the others back to the loop.

    A door opens only while the chamber can still be left within the episode.
    """
    n_actions = int(rng.integers(2, 5))
    actions = tuple(f"a{i}" for i in range(n_actions))
    lengths = rng.integers(1, 5, size=n_actions - 1)
    horizon = int(rng.integers(lengths.max() + 1, LONGEST - 3))
    fatal = rng.random(n_actions - 1) < 0.7
    home = rng.uniform(0.1, 0.7)
    chambers = [[f"d{i}c{j}" for j in range(1, n + 1)] for i, n in enumerate(lengths, 1)]
    states = ("fork", "loop", *(c for chamber in chambers for c in chamber), "pit")
    inside: dict[tuple[str, str], dict[str, float]] = {}
    pay: dict[tuple[str, str], float] = {("fork", actions[0]): home, ("loop", ANY): home}
    for chamber, deadly in zip(chambers, fatal, strict=True):
        inside |= {(c, ANY): {after: 1.0} for c, after in pairwise([*chamber, "pit" if deadly else "loop"])}
        value = float(rng.uniform(0.5, 1.0) if deadly else rng.uniform(0.0, 1.0))
        pay |= {(c, ANY): value for c in chamber}

    def layer(h: int) -> object:
        left = horizon - h  # steps of the episode that are left after this one, h from 1
        doors = {
            ("fork", a): {chamber[0] if len(chamber) <= left else "fork": 1.0}
            for a, chamber in zip(actions[1:], chambers, strict=True)
        }
        loop = {("loop", a): {"fork" if a == actions[1] else "loop": 1.0} for a in actions}
        return transitions(states, actions, {("fork", actions[0]): {"loop": 1.0}} | loop | doors | inside)

    layers = [layer(h) for h in range(1, horizon + 1)]
    return table_mdp("generated-v0", states, actions, layers, pay, horizon=horizon)


def _chain(rng: Rng) -> FiniteMDP:
    """A walk along a chain with the pit at its end: the farther, the better it pays, and pushing on is risky.

    "on" goes a step on with some probability and else falls back to the base; "back" is safe, other actions stay.
    """
    m, horizon = int(rng.integers(3, 8)), int(rng.integers(5, LONGEST + 1))
    actions = ("back", "stay", "on") if rng.random() < 0.5 else ("back", "on")
    chain = [f"c{i}" for i in range(m)]
    states = (*chain, "pit")
    pay = np.zeros((m + 1, len(actions)))
    pay[:m] = np.sort(rng.random(m))[:, None] * rng.uniform(0.5, 1.0)
    pay[:m, actions.index("on")] = np.minimum(pay[:m, -1] + rng.uniform(0.0, 0.5), 1.0)
    moves: dict[tuple[str, str], dict[str, float]] = {}
    for i, (here, after) in enumerate(pairwise(states)):
        q = float(rng.uniform(0.3, 1.0))
        down = chain[max(i - int(rng.integers(1, m)), 0)]
        moves[here, "back"] = {down: 1.0}
        moves[here, "on"] = {after: q, down: 1.0 - q}
        if "stay" in actions:
            moves[here, "stay"] = {here: 1.0}
    return table_mdp("generated-v0", states, actions, moves, pay, horizon=horizon)


def _drift(rng: Rng) -> FiniteMDP:
    """Layered drift: a random linear MDP whose dynamics are drawn anew for each step; features are known or not."""
    mdp = drifting(
        n_states=int(rng.integers(6, 25)),
        n_actions=int(rng.integers(2, 5)),
        d=int(rng.integers(3, 8)),
        horizon=int(rng.integers(3, 8)),
        seed=int(rng.integers(2**31)),
        risk_pays=bool(rng.random() < 0.7),
    )
    return mdp if rng.random() < 0.5 else mdp.replace(phi=None, xi=None)


def _contexts(rng: Rng) -> FiniteMDP:
    """Contexts: two to four tasks on one field, whose goals differ, and now and then their pits."""
    n_rows, n_cols = rng.integers(3, 5, size=2)
    m, slip, horizon = int(rng.integers(2, 5)), float(rng.choice(SLIPS)), int(rng.integers(6, 11))
    pits, own = _field(rng, n_rows, n_cols, rng.uniform(0.1, 0.3)), bool(rng.random() < 0.2)
    tasks = []
    for _ in range(m):
        holes = _field(rng, n_rows, n_cols, 0.2) if own else pits
        free = rng.permutation(np.flatnonzero(~holes.ravel()))
        goals = free[[-1, -2 % len(free)]]
        tasks.append(_grid(rng, holes, slip, horizon, homes=free[:1], goals=goals, stay=True)[0])
    chain = np.roll(np.eye(m), 1, axis=1) if rng.random() < 0.5 else np.full((m, m), 1.0 / m)
    return with_contexts(tasks, chain)


def _factored(rng: Rng) -> FiniteMDP:
    """Factored tasks: a place and a level. Moves change one of them; work pays by the place, and needs the right level.

    Work is fatal at some levels; one direction of moving is fatal at one level.  Rows of the layout are levels.
    """
    n_levels, n_places, horizon = int(rng.integers(2, 6)), int(rng.integers(3, 8)), int(rng.integers(5, LONGEST + 1))
    actions, n = ("left", "right", "lower", "raise", "work"), n_levels * n_places
    slip = float(rng.choice(SLIPS))
    value = rng.random(n_places) * (rng.random(n_places) < 0.5)
    value[rng.integers(n_places)] = 1.0
    bad_work = rng.random(n_levels) < 0.5
    bad_work[rng.integers(n_levels)] = False
    bad_move, bad_level = actions[int(rng.integers(2))], int(rng.integers(n_levels + 1))
    chance = float(rng.choice([1.0, 0.3]))
    transition, reward = np.zeros((n + 1, 5, n + 1)), np.zeros((n + 1, 5))
    for y in range(n_levels):
        for x in range(n_places):
            s = y * n_places + x
            for a, (dy, dx) in enumerate(((0, -1), (0, 1), (-1, 0), (1, 0), (0, 0))):
                to = min(max(y + dy, 0), n_levels - 1) * n_places + min(max(x + dx, 0), n_places - 1)
                falls = (actions[a] == "work" and bad_work[y]) or (actions[a] == bad_move and y == bad_level)
                p = chance if falls else 0.0
                transition[s, a, n] += p
                transition[s, a, to] += (1.0 - p) * (1.0 - slip)
                transition[s, a, s] += (1.0 - p) * slip
            reward[s, 4] = value[x]
    names = [f"place {x}, level {y}" for y in range(n_levels) for x in range(n_places)]
    layout = GridLayout(n_levels + 1, n_places, np.arange(n + 1))
    return FiniteMDP(
        transition,
        reward,
        np.arange(n + 1) == n,
        horizon,
        state_names=[*names, "pit"],
        action_names=actions,
        layout=layout,
    )


def _features(rng: Rng) -> FiniteMDP:
    """Linear features: a random linear MDP, now and then not quite linear."""
    return random_linear(
        n_states=int(rng.integers(6, 31)),
        n_actions=int(rng.integers(2, 5)),
        d=int(rng.integers(3, 8)),
        horizon=int(rng.integers(3, 9)),
        seed=int(rng.integers(2**31)),
        risk_pays=bool(rng.random() < 0.7),
        epsilon=float(rng.choice([0.0, 0.0, 0.05])),
    )


FAMILIES: dict[str, Callable[[Rng], FiniteMDP]] = {
    "pits": _pits,
    "doors": _doors,
    "chain": _chain,
    "drift": _drift,
    "contexts": _contexts,
    "factored": _factored,
    "features": _features,
}


CONCENTRATION = 0.2  # of features and measures: a pair mixes few features, each of which leads mostly to few states
RISKY_SHARE = 0.5  # of the pairs (state, action), action 0 aside
RISK = (0.1, 0.5)  # range of the reset probability of a risky pair

AtLeastTwo: TypeAlias = Annotated[int, Range(2)]  # states and features, of which one belongs to resets


def _size(n_states: int, n_actions: int, d: int, horizon: int, *, stationary: bool = True, **_: object) -> Size:
    n_layers = 1 if stationary else horizon
    numbers = n_layers * n_states * n_actions * n_states + (n_states * n_actions + n_layers * n_states) * d
    return Size(numbers, (n_states * n_actions + STEP) * horizon if stationary else LAYER * horizon)


@register("drifting-v0", "A random linear MDP whose dynamics are drawn anew for each step of the episode.", _size)
def drifting(
    n_states: AtLeastTwo = 30,
    n_actions: PositiveInt = 4,
    d: AtLeastTwo = 6,
    horizon: Horizon = 6,
    seed: Count = 1,
    risk_pays: bool = True,
    stationary: bool = False,
) -> FiniteMDP:
    """Rows of phi in the simplex, nu_1..nu_{d-1} Dirichlet on the live states, nu_d the reset state: P_h = phi nu_h.

    Start in state 0, restart anywhere; the last state is the reset state. Action 0 never has weight on nu_d, so it is
    safe everywhere and Assumption 1 holds. Of the other pairs half are risky, with weight 0.1 to 0.5 on nu_d.
    ||phi|| <= 1, and the measures have total variation sqrt(d).

    risk_pays: if True, omega_d = 1, more than any safe action pays. If False, omega_d = 0 and a risky pair is action 0
    with a risk: phi(s, a) = (1 - p) phi(s, 0) + p e_d, so Q(s, a) = (1 - p) Q(s, 0) and every multiplier is 0.
    stationary: whether all steps have nu_1: the twin, a test of pooling.
    """
    rng = np.random.default_rng(seed)
    n_live = n_states - 1
    mixture = rng.dirichlet(np.full(d - 1, CONCENTRATION), size=(n_live, n_actions))
    risky = rng.random((n_live, n_actions)) < RISKY_SHARE
    risky[:, 0] = False
    risk = np.where(risky, rng.uniform(*RISK, size=(n_live, n_actions)), 0.0)
    omega = np.append(rng.random(d - 1), 1.0 if risk_pays else 0.0)
    if not risk_pays:
        mixture = np.where(risky[:, :, None], mixture[:, :1], mixture)
    phi = np.zeros((n_states, n_actions, d))  # zeros in the reset state, which has no actions
    phi[:n_live, :, :-1] = mixture * (1.0 - risk)[:, :, None]
    phi[:n_live, :, -1] = risk
    restart = np.full(n_states, 1.0 / n_live)
    restart[-1] = 0.0
    return FiniteMDP(
        np.stack([_transition(phi, _measures(rng, d, n_live)) for _ in range(1 if stationary else horizon)]),
        np.minimum(phi @ omega, 1.0),  # against rounding
        reset=np.arange(n_states) == n_live,
        horizon=horizon,
        start=0,
        restart=restart,
        phi=phi,
        xi=np.ones((n_states, 1)),
        name="drifting-v0",
        state_names=[*(f"s{i}" for i in range(n_live)), "reset"],
        action_names=["safe", *(f"a{i}" for i in range(1, n_actions))],
    )


@register("random-linear-v0", "A random linear MDP with simplex features: P = phi nu and r = phi omega exactly.", _size)
def random_linear(
    n_states: AtLeastTwo = 30,
    n_actions: PositiveInt = 4,
    d: AtLeastTwo = 6,
    horizon: Horizon = 6,
    seed: Count = 1,
    risk_pays: bool = True,
    epsilon: Fraction = 0.0,
) -> FiniteMDP:
    """As `drifting-v0`, with the same dynamics at every step.

    epsilon: the share of dynamics and rewards that is drawn for each pair alone, and so is not linear in phi. Rows move
    within the live states: what is safe stays safe. P is within 2 epsilon of a linear one (sum over s'), r within
    epsilon; `theory.assumptions.linearity` measures both.
    """
    twin = drifting(n_states, n_actions, d, horizon, seed, risk_pays=risk_pays, stationary=True)
    if epsilon == 0.0:
        return twin.replace(name="random-linear-v0")
    n_live, rng = n_states - 1, np.random.default_rng([seed, 1])
    alone = np.zeros((n_states, n_actions, n_states))
    alone[:n_live, :, :n_live] = rng.dirichlet(np.full(n_live, CONCENTRATION), size=(n_live, n_actions))
    linear = twin.transition.matrix(0).toarray().reshape(alone.shape)
    falls = linear[:, :, -1:]  # kept as it is
    transition = (1.0 - epsilon) * linear + epsilon * (1.0 - falls) * alone
    transition[:, :, -1:] = falls
    reward = (1.0 - epsilon) * twin.reward[0] + epsilon * rng.random(twin.reward[0].shape)
    total = transition.sum(axis=2, keepdims=True)
    rows = transition / np.where(total > 0, total, 1.0)
    return twin.replace(transition=rows, reward=reward, name="random-linear-v0")


def _measures(rng: np.random.Generator, d: int, n_live: int) -> Floats:
    nu = np.zeros((d, n_live + 1))
    nu[:-1, :-1] = rng.dirichlet(np.full(n_live, CONCENTRATION), size=d - 1)
    nu[-1, -1] = 1.0
    return nu


def _transition(phi: Floats, nu: Floats) -> Floats:
    """P = phi nu, each row divided by its sum, which is 1 up to rounding (the reset state keeps its zeros)."""
    transition = phi @ nu
    total = transition.sum(axis=2, keepdims=True)
    return np.asarray(transition / np.where(total > 0, total, 1.0))
