"""Small problems from tables of names: each makes one point, and can be checked by hand."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, TypeAlias

import numpy as np
from scipy import sparse

from resetfree.core import Floats, Fraction, PositiveInt, Range, expect
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.transitions import Horizon
from resetfree.problems.registry import LAYER, STEP, Size, register

LAYERS = 10_000  # steps of a problem with a table for each
ANY = "*"  # in place of an action: every action
Moves: TypeAlias = Mapping[tuple[str, str], Mapping[str, float]]
Pay: TypeAlias = Mapping[tuple[str, str], float]


def table_mdp(
    name: str, states: Sequence[str], actions: Sequence[str], moves: Moves | list[Any], pay: Pay | Floats, **rest: Any
) -> FiniteMDP:
    """The problem of these tables, or of transitions for each step, or rewards; "pit" is reset, `rest` is as usual."""
    return FiniteMDP(
        transitions(states, actions, moves) if isinstance(moves, Mapping) else moves,
        rewards(states, actions, pay) if isinstance(pay, Mapping) else pay,
        reset=[state == "pit" for state in states],
        name=name,
        state_names=states,
        action_names=actions,
        **rest,
    )


def transitions(states: Sequence[str], actions: Sequence[str], moves: Moves) -> Any:
    """Sparse [S*A, S] from {(state, action): {next state: probability}}; states that are left out get empty rows.

    >>> transitions(["home", "pit"], ["safe", "risky"], {("home", "safe"): {"home": 1}, ("home", "risky"): {"pit": 1}})
    <Compressed Sparse Row sparse array of dtype 'float64'
        with 2 stored elements and shape (4, 2)>
    """
    number = {name: i for i, name in enumerate(states)}
    rows, cols, prob = [], [], []
    for (state, action), successors in moves.items():
        for a, name in enumerate(actions):
            if action in (ANY, name):
                rows += [number[state] * len(actions) + a] * len(successors)
                cols += [number[after] for after in successors]
                prob += [float(p) for p in successors.values()]
    return sparse.csr_array((prob, (rows, cols)), shape=(len(states) * len(actions), len(states)))


def rewards(states: Sequence[str], actions: Sequence[str], pay: Pay) -> Floats:
    """[S, A] from {(state, action): reward}; pairs that are left out pay 0."""
    reward = np.zeros((len(states), len(actions)))
    for (state, action), amount in pay.items():
        reward[states.index(state), slice(None) if action == ANY else actions.index(action)] = amount
    return reward


@register("edge-first-step-v0", "The first action of the first episode may already cause a reset.")
def first_step() -> FiniteMDP:
    """At home "safe" pays 0 and stays, "risky" pays 1 and resets; three steps."""
    moves = {("home", "safe"): {"home": 1.0}, ("home", "risky"): {"pit": 1.0}}
    return table_mdp(
        "edge-first-step-v0", ("home", "pit"), ("safe", "risky"), moves, {("home", "risky"): 1.0}, horizon=3
    )


@register("edge-one-step-v0", "An episode is one action.")
def one_step() -> FiniteMDP:
    """At home "safe" pays 1/2 and stays, "risky" pays 1 and resets half of the time."""
    moves = {("home", "safe"): {"home": 1.0}, ("home", "risky"): {"pit": 0.5, "home": 0.5}}
    pay = {("home", "safe"): 0.5, ("home", "risky"): 1.0}
    return table_mdp("edge-one-step-v0", ("home", "pit"), ("safe", "risky"), moves, pay, horizon=1)


@register("edge-one-action-v0", "There is nothing to choose.")
def one_action() -> FiniteMDP:
    """From idle half of the time to busy, which pays 1 and goes back to idle; two steps."""
    moves = {("idle", "wait"): {"idle": 0.5, "busy": 0.5}, ("busy", "wait"): {"idle": 1.0}}
    return table_mdp(
        "edge-one-action-v0", ("idle", "busy", "pit"), ("wait",), moves, {("busy", "wait"): 1.0}, horizon=2
    )


@register("edge-all-safe-v0", "There is a reset state that cannot be reached.")
def all_safe() -> FiniteMDP:
    """Two rooms, "stay" and "go", being in the right one pays 1; four steps."""
    return table_mdp(
        "edge-all-safe-v0", ("left", "right", "pit"), ("stay", "go"), _ROOMS, {("right", ANY): 1.0}, horizon=4
    )


@register("edge-no-reset-v0", "The reset set is empty.")
def no_reset() -> FiniteMDP:
    """Two rooms, "stay" and "go", being in the right one pays 1; four steps."""
    return table_mdp("edge-no-reset-v0", ("left", "right"), ("stay", "go"), _ROOMS, {("right", ANY): 1.0}, horizon=4)


_ROOMS = {
    ("left", "stay"): {"left": 1.0},
    ("left", "go"): {"right": 1.0},
    ("right", "stay"): {"right": 1.0},
    ("right", "go"): {"left": 1.0},
}


ACTIONS = ("safe", "risky")


@register(
    "coin-chain-v0",
    "The smallest risk is 2^-m, so the smallest optimal multiplier is 2^m.",
    lambda m, horizon: Size(2 * (m + 1) * max(horizon, m), (32 * (m + 1) + LAYER) * max(horizon, m)),
)
def coin_chain(m: Annotated[int, Range(1, 1000)] = 6, horizon: Annotated[int, Range(0, LAYERS)] = 0) -> FiniteMDP:
    """At the base "safe" pays 0 and stays; "risky" pays 1 and sets off along a chain towards the pit.

    Each step of the chain, the first included, goes on with probability 1/2 and else falls back to the base. The m-th
    success is the pit. "risky" is open at steps h <= H - m + 1 only (after that it pays 0 and stays), so every attempt
    is decided within its episode and each episode ends at the base or in the pit.

    horizon: H; 0 means H = m, which leaves room for one attempt.
    """
    # 2^1000 is still a float, and so is 2^-1000.
    what = "option 'horizon' of problem 'coin-chain-v0'"
    expect(horizon == 0 or horizon >= m, what, f"be 0 or at least 'm' ({m})", horizon)
    steps = horizon or m
    chain = [f"c{i}" for i in range(1, m)]
    states = ("base", *chain, "pit")
    flips = {(c, ANY): {after: 0.5, "base": 0.5} for c, after in pairwise([*chain, "pit"])}
    shut = {("base", ANY): {"base": 1.0}} | flips
    opened = {("base", "safe"): {"base": 1.0}, ("base", "risky"): {states[1]: 0.5, "base": 0.5}} | flips
    n_open = steps - m + 1
    reward = np.zeros((steps, len(states), len(ACTIONS)))
    reward[:n_open] = rewards(states, ACTIONS, {("base", "risky"): 1.0})
    layers = [transitions(states, ACTIONS, opened)] * n_open + [transitions(states, ACTIONS, shut)] * (m - 1)
    return table_mdp("coin-chain-v0", states, ACTIONS, layers, reward, horizon=steps)


WAYS = ("left", "right")


@register(
    "doors-v0",
    "A door whose reset comes many steps later: looking one step ahead does not help.",
    lambda length, horizon: Size(2 * (length + 3) * horizon, LAYER * horizon),
)
def doors(length: PositiveInt = 3, horizon: Annotated[int, Range(1, LAYERS)] = 10) -> FiniteMDP:
    """At the fork "left" pays 0 and enters a chamber that pays 1 for `length` = L steps and then resets for certain;
    "right" pays 1/2 and leads to a loop that pays 1/2 for ever, and "left" in the loop leads back to the fork.

    The door opens at steps h <= H - L only (after that "left" pays 0 and stays), so an agent that enters is reset in
    the same episode, and no episode ends inside the chamber: every start admits a reset-free policy.
    """
    what = "option 'horizon' of problem 'doors-v0'"
    expect(horizon > length, what, f"be larger than 'length' ({length})", horizon)
    chamber = [f"c{i}" for i in range(1, length + 1)]
    states = ("fork", "loop", *chamber, "pit")
    inside = {(c, ANY): {after: 1.0} for c, after in pairwise([*chamber, "pit"])}

    def layer(door: str) -> object:
        moves = {
            ("fork", "left"): {door: 1.0},
            ("fork", "right"): {"loop": 1.0},
            ("loop", "left"): {"fork": 1.0},
            ("loop", "right"): {"loop": 1.0},
        }
        return transitions(states, WAYS, moves | inside)

    pay = {("fork", "right"): 0.5, ("loop", ANY): 0.5} | {(c, ANY): 1.0 for c in chamber}
    layers = [layer("c1")] * (horizon - length) + [layer("fork")] * length
    return table_mdp("doors-v0", states, WAYS, layers, pay, horizon=horizon)


FOOTNOTE_STATES = ("home", "bad", "pit")
FOOTNOTE_HORIZON = 4
MOST_ACTIONS = 1000  # actions


@register(
    "footnote-v0",
    "Fails Assumption 1: a reset puts the agent where every action leads to the next reset.",
    lambda n_actions: 1000 * n_actions,
)
def footnote(n_actions: Annotated[int, Range(1, MOST_ACTIONS)] = 4) -> FiniteMDP:
    """One of `n_actions` actions stays at home and pays 1; each of the others falls into the pit, and from there on
    the agent starts in `bad`, where everything falls into the pit.

    Paper: an assumption on only the first start is not enough (footnote).

    A learner whose first action is uniform has at least (1 - 1/n_actions) K expected resets in K episodes.
    """
    actions = ("stay", *(f"leap {i}" for i in range(1, n_actions)))
    moves = {("home", "stay"): {"home": 1.0}, ("bad", ANY): {"pit": 1.0}}
    moves |= {("home", leap): {"pit": 1.0} for leap in actions[1:]}
    restart = FOOTNOTE_STATES.index("bad")
    return table_mdp(
        "footnote-v0",
        FOOTNOTE_STATES,
        actions,
        moves,
        {("home", "stay"): 1.0},
        horizon=FOOTNOTE_HORIZON,
        restart=restart,
    )


PACES = ("careful", "hasty")


@register(
    "ledge-v0",
    "A ledge of a few places, where haste pays more and may fall: so small that proved bounds say something.",
    lambda places, horizon, fall: Size(6 * places, (STEP + 2 * places) * horizon),
)
def ledge(
    places: Annotated[int, Range(1, 1000)] = 1,
    horizon: Horizon = 1,
    fall: Annotated[float, Range(above=0, most=1)] = 0.5,
) -> FiniteMDP:
    """A step that is "careful" pays 0.5 and stays; "hasty" pays 1 and falls, or arrives at the next place.

    Never falling has the value H/2, and the best that a fall can bring is 0.5 in the last step, so that the multiplier
    is 0.5 / fall at every place.

    places: states outside the pit.  fall: the probability of a hasty fall.
    """
    names = [f"place {i}" for i in range(places)]
    moves: dict[tuple[str, str], dict[str, float]] = {}
    pay: dict[tuple[str, str], float] = {}
    for i, here in enumerate(names):
        after = {"pit": fall} | ({names[(i + 1) % places]: 1.0 - fall} if fall < 1 else {})
        moves |= {(here, "careful"): {here: 1.0}, (here, "hasty"): after}
        pay |= {(here, "careful"): 0.5, (here, "hasty"): 1.0}
    start = [1.0 / places] * places + [0.0]
    return table_mdp("ledge-v0", (*names, "pit"), PACES, moves, pay, horizon=horizon, start=start)


@register(
    "no-multiplier-v0",
    "A linear problem whose optimal multiplier grows with the square of the number of bins.",
    lambda bins, gap: Size((bins + 2) ** 2),
)
def no_multiplier(bins: PositiveInt = 10, gap: Fraction = 0.0) -> FiniteMDP:
    """From s1 to a uniform x; there "safe" pays 0 and draws a new x, "risky" pays 1 and resets with probability q(x).

    q(x) = max(x^2, gap) at the middle of each bin; without a reset "risky" goes back to s1. Two actions per episode.
    lambda_hat = 1 / min q = min(4 bins^2, 1 / gap) at every state: it grows with `bins` unless there is a gap.
    Linear with d = 3: phi(x, risky) = (q, 1 - q, 0), all else (0, 0, 1); the pit, without actions, has zeros.
    """
    odd = 2 * np.arange(bins) + 1
    square = odd**2 / (4 * bins**2)  # one division: the float nearest to the fraction
    rest = (4 * bins**2 - odd**2) / (4 * bins**2)
    q, not_q = np.maximum(square, gap), np.where(square >= gap, rest, 1.0 - gap)
    pit = bins + 1
    measures = np.zeros((3, bins + 2))  # where each feature leads: the pit, s1, a uniform x
    measures[0, pit] = measures[1, 0] = 1.0
    measures[2, 1:pit] = 1.0 / bins
    phi = np.zeros((bins + 2, 2, 3))
    phi[:pit, :, 2] = 1.0
    phi[1:pit, 1] = np.stack([q, not_q, np.zeros(bins)], axis=1)
    return FiniteMDP(
        sparse.csr_array(phi.reshape(-1, 3)) @ sparse.csr_array(measures),
        phi @ np.array([1.0, 1.0, 0.0]),
        reset=np.arange(bins + 2) == pit,
        horizon=2,
        start=0,
        phi=phi,
        name="no-multiplier-v0",
        state_names=["s1", *(f"x={i}/{2 * bins}" for i in odd), "pit"],
        action_names=ACTIONS,
    )


TRAP_STATES = ("A", "s", "B", "b2", "pit")


@register("politex-trap-v0", "Frequent harmless starts outvote a rare dangerous one in any player that sums values.")
def politex_trap() -> FiniteMDP:
    """Episodes from A meet s, where "risky" pays 1 and resets; episodes from B never do, and are ten times as frequent.

    With one-hot xi the multiplier of B stays 0, so a sum over episodes of Q_r - lambda(s_1) Q_c favours "risky" at s.
    """
    moves = {
        ("A", ANY): {"s": 1.0},
        ("s", "safe"): {"B": 1.0},
        ("s", "risky"): {"pit": 1.0},
        ("B", ANY): {"b2": 1.0},
        ("b2", ANY): {"B": 0.9, "A": 0.1},
    }
    pay, home = {("s", "risky"): 1.0}, TRAP_STATES.index("B")
    return table_mdp(
        "politex-trap-v0",
        TRAP_STATES,
        ACTIONS,
        moves,
        pay,
        horizon=2,
        start=home,
        restart=home,
        xi=np.eye(len(TRAP_STATES)),
    )


THRESHOLD_STATES = ("A", "B", "s", "end", "pit")


@register(
    "thresholds-v0", "Two starts share one risky state: only the budget of no resets at all has one policy for both."
)
def thresholds() -> FiniteMDP:
    """A leads to s for certain, B half of the time; at s the risky action pays 1 and resets.

    With a budget of 1/2 resets per episode the best probability of "risky" at s is 1/2 from A and 1 from B: no Markov
    policy is optimal for both. With a budget of zero "safe" is optimal for both, at the multiplier 1.
    """
    half = {"A": 0.5, "B": 0.5}
    moves = {
        ("A", ANY): {"s": 1.0},
        ("B", ANY): {"s": 0.5, "end": 0.5},
        ("s", "safe"): {"end": 1.0},
        ("s", "risky"): {"pit": 1.0},
        ("end", ANY): half,
    }
    start = [half.get(name, 0.0) for name in THRESHOLD_STATES]
    return table_mdp("thresholds-v0", THRESHOLD_STATES, ACTIONS, moves, {("s", "risky"): 1.0}, horizon=2, start=start)
