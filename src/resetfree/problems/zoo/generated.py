"""`generated-v0`: problems drawn at random from seven families, each of which satisfies Assumption 1.

A draw has a number. Its family is the number modulo seven; sizes, slips, pits and rewards are drawn with it. A draw in
which some start admits no reset-free policy, or in which nothing is dangerous, is rejected, and the next one is made.
"""

from collections.abc import Callable
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools
from resetfree.core.settings import Count
from resetfree.problems.finite.composed import MOVES, cell_names, grid_transitions, with_contexts
from resetfree.problems.finite.mdp import FiniteMDP, GridLayout
from resetfree.problems.finite.safety import feasibility, unsafe_pairs
from resetfree.problems.registry import LAYER, STEP, register
from resetfree.problems.zoo.random_linear import drifting, random_linear
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


def reordered(mdp: FiniteMDP, order: NDArray[np.int64]) -> FiniteMDP:
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
