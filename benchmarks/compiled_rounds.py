"""Algorithm 1 on small finite problems in compiled code: the rounds of `game.loop.play`, in a fraction of the time."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from resetfree.core.arrays import Bools, Floats, Ints
from resetfree.core.compiled import jit
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import PositiveInt, check
from resetfree.game.loop import FEEDBACK, Game
from resetfree.players.dual import MultiplierLine
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.linear.intervals import IntervalState, interval_plan
from resetfree.players.linear.linear_ucb import LinearState, LinearUCB
from resetfree.players.linear.regression import DeterminantState
from resetfree.players.linear.ridge import Regression, learn_counted, softmax_plan
from resetfree.players.tabular.counts import Counts, count
from resetfree.problems.contract import Problem
from resetfree.problems.finite.backward import Model, evaluate
from resetfree.problems.finite.mdp import FiniteProblem, model_behind, roll
from resetfree.theory.proved_widths import DeterminantWidth, IntervalWidth

# Rounds of Algorithm 1 on a small finite problem: planned, played, evaluated and learned in compiled code.
#
# Legend: as in `game.loop`, whose rounds these are number by number; theta the parameter of the dual player's function
# xi(s) theta; signal what the dual player learns from.

OPTIMISTIC, REALISED, EXACT = range(3)


class Setting(NamedTuple):
    """What stays the same in a game: the problem, the temperature, the dual player and its feedback."""

    model: Model
    restarts: Floats  # [S] cumulative
    coins: bool  # whether rewards are tosses of a coin
    end_resets: bool
    caps: Floats  # [H] the largest Q_r of each step
    alpha: float  # or its factor before k
    anytime: bool
    xi: Floats  # [S]
    low: float  # of theta
    high: float
    cap: float  # B
    feedback: int


class Columns(NamedTuple):
    """What becomes of the rounds, an entry each."""

    s1: Ints
    lam: Floats
    v_r: Floats  # the plan's estimates
    v_c: Floats
    exact_r: Floats  # of the policy
    exact_c: Floats
    reset: Bools


class Trace(NamedTuple):
    """Room for a round: an episode, and the values of its policy."""

    states: Ints  # [H + 1]
    actions: Ints  # [H]
    rewards: Floats  # [H]
    true_r: Floats  # [S]
    true_c: Floats  # [S]


@jit
def room(horizon: int, n_states: int) -> Trace:
    """Room for the episodes of a problem."""
    states, actions = np.empty(horizon + 1, np.int64), np.empty(horizon, np.int64)
    return Trace(states, actions, np.empty(horizon), np.empty(n_states), np.empty(n_states))


@jit
def multiplier(g: Setting, theta: float, s1: int) -> float:
    """clip(xi(s1) theta, 0, B)."""
    return float(min(max(g.xi[s1] * theta, 0.0), g.cap))


@jit
def drawn(cumulative: Floats, u: float) -> int:
    """As `problems.contract.draw`."""
    last = len(cumulative) - 1
    while last > 0 and cumulative[last - 1] == cumulative[last]:
        last -= 1
    i = 0
    while i < last and cumulative[i] <= u:
        i += 1
    return i


@jit
def play_round(
    g: Setting, k: int, policy: Floats, theta: float, u: Floats, t: Trace, out: Columns, i: int
) -> tuple[float, int, int, int]:
    """Round k of a plan whose start, multiplier and estimates are in row i of `out`: fills the rest of it.

    Returns theta after it, the number of actions and of states of the episode, and the next start.
    """
    horizon, s1 = len(t.actions), out.s1[i]
    n, reset = roll(g.model, policy, s1, u, t.states, t.actions, t.rewards)
    seen = n + 1 if reset or n == g.model.n_transitions else n
    if g.coins:
        for j in range(n):
            t.rewards[j] = 1.0 if u[2 * horizon + j] < t.rewards[j] else 0.0
    after = drawn(g.restarts, u[3 * horizon]) if reset else t.states[seen - 1]
    evaluate(g.model, policy, t.true_r, t.true_c)
    out.exact_r[i], out.exact_c[i], out.reset[i] = t.true_r[s1], t.true_c[s1], reset
    signal = out.v_c[i] if g.feedback == OPTIMISTIC else out.exact_c[i]
    if g.feedback == REALISED:
        signal = 1.0 if reset else 0.0
    signal = min(max(signal, 0.0), 1.0)  # it leaves [0, 1] by rounding at most
    if signal > 0.0:
        theta = min(max(theta + g.cap / sqrt(k) * signal * g.xi[s1], g.low), g.high)
    return theta, n, seen, after


@jit
def remember(g: Setting, known: Bools, known_last: Bools, where: int, n: int) -> None:
    """Note the state in which an episode of n actions was reset: see `counts.mark_reset`."""
    known_last[where] = True
    if not g.end_resets or n < g.model.n_transitions:
        known[where] = True


@jit
def interval_rounds(
    g: Setting,
    c: Counts,  # with room for every successor
    width: IntervalWidth,
    first: int,  # the number of the first round
    s1: int,
    theta: float,
    u: Floats,  # [n, 3H + 2] uniforms
    out: Columns,
) -> tuple[int, float]:
    """As many rounds as `out` has rows, with intervals of all sets; returns the next start and theta."""
    horizon, n_states, n_actions = len(g.caps), len(c.known), c.tried.shape[2]
    policy, q_r, q_c = np.empty((3, horizon, n_states, n_actions))
    v_r, v_c, every = np.empty(n_states), np.empty(n_states), np.empty((0, 0, 0), dtype=np.bool_)
    t = room(horizon, n_states)
    for i in range(len(out.lam)):
        k, lam = first + i, multiplier(g, theta, s1)
        alpha = g.alpha * k if g.anytime else g.alpha
        interval_plan(c, g.model.n_transitions, width, alpha, lam, g.caps, every, policy, q_r, q_c, v_r, v_c)
        out.s1[i], out.lam[i], out.v_r[i], out.v_c[i] = s1, lam, v_r[s1], v_c[s1]
        theta, n, seen, s1 = play_round(g, k, policy, theta, u[i], t, out, i)
        count(c, 0, t.states[:seen], t.actions[:n], t.rewards[:n])
        if out.reset[i]:
            remember(g, c.known, c.known_last, t.states[seen - 1], n)
    return s1, theta


@jit
def ridge_rounds(
    g: Setting,
    r: Regression,
    phi: Floats,
    layer_of_step: Ints,
    log_det: Floats,  # [L] log det Lam, less its value without data
    known: Bools,  # [S]
    known_last: Bools,  # [S]
    width: DeterminantWidth,
    first: int,
    s1: int,
    theta: float,
    u: Floats,  # [n, 3H + 2] uniforms
    out: Columns,
) -> tuple[int, float]:
    """The same with a regression, and widths that grow with its determinants."""
    horizon, n_states, n_pairs = len(g.caps), len(known), r.width2.shape[1]
    policy = np.empty((horizon, n_states, n_pairs // n_states))
    q_r, q_c = np.empty((horizon, n_pairs)), np.empty((horizon, n_pairs))
    v_r, v_c, old = np.empty(n_states), np.empty(n_states), np.empty((0, 0, 0))
    t = room(horizon, n_states)
    for i in range(len(out.lam)):
        k, lam = first + i, multiplier(g, theta, s1)
        alpha = g.alpha * k if g.anytime else g.alpha
        growth = log_det[layer_of_step]
        off = sqrt((k - 1) * horizon // len(log_det))
        beta_r = width.sigma_r * np.sqrt(growth + 2 * width.log_r) + width.ridge_r + width.z_r * off
        beta_c = width.sigma_c * np.sqrt(growth + 2 * width.log_c) + width.ridge_c + width.z_c * off
        softmax_plan(
            r, phi, layer_of_step, g.model.n_transitions, beta_r, beta_c, width.z_r, width.z_c, alpha, lam,
            known, known_last, g.caps, old, policy, q_r, q_c, v_r, v_c,
        )  # fmt: skip
        out.s1[i], out.lam[i], out.v_r[i], out.v_c[i] = s1, lam, v_r[s1], v_c[s1]
        theta, n, seen, s1 = play_round(g, k, policy, theta, u[i], t, out, i)
        learn_counted(r, phi, log_det, layer_of_step, policy.shape[2], t.states[:seen], t.actions[:n], t.rewards[:n])
        if out.reset[i]:
            remember(g, known, known_last, t.states[seen - 1], n)
    return s1, theta


# --------------------------------------------------------------------------------------------------------------------

SIGNALS = {"optimistic": OPTIMISTIC, "realised": REALISED, "exact": EXACT}
AT_ONCE = 50_000  # rounds whose uniforms are drawn at once
WHAT = "compiled rounds of Algorithm 1"


def compiled_rounds(
    problem: Problem,
    primal: LinearUCB,
    dual: ProjectedGradient,
    game: Game,
    *,
    episodes: int,
    feedback: str = "optimistic",
) -> Columns:
    """Play until `episodes` rounds are played, as `game.loop.play` does, and return what became of these rounds.

    `game` is then where `play` would have brought it, bit for bit, so that both can go on with it. Refused: what
    is not the plain algorithm on a finite problem (contexts, Gaussian noise, operators, `lagged`, features xi of more
    than one number, problems so large that only what was seen is kept).

    >>> import resetfree as rf
    >>> from resetfree.game.loop import begin
    >>> from resetfree.players.linear.algorithm1 import algorithm1
    >>> problem, (primal, dual) = rf.make("ledge-v0").problem(), algorithm1(B=2.0, width="proved")
    >>> game = begin(problem, primal, dual, episodes=1000, seed=0)
    >>> rounds = compiled_rounds(problem, primal, dual, game, episodes=1000)
    >>> game.k, int(rounds.reset.sum()) < 100
    (1000, True)
    """
    check(episodes, PositiveInt, f"'episodes' of {WHAT}")
    setting = _setting(problem, primal, dual, game, feedback)
    n = max(episodes - game.k, 0)
    numbers: list[Any] = [np.empty(n) for _ in range(5)]
    out = Columns._make([np.empty(n, np.int64), *numbers, np.empty(n, np.bool_)])
    for i in range(0, n, AT_ONCE):
        part = Columns._make(column[i : i + AT_ONCE] for column in out)
        u = game.rng.random((len(part.lam), problem.n_uniforms))
        given = (game.k + 1, int(game.s1), float(game.dual.theta), u, part)
        game.s1, game.dual.theta = _play(setting, game.primal, given)
        game.k, game.primal.k, game.why = game.k + len(u), game.primal.k + len(u), "reset"
    return out


def _play(setting: Setting, state: Any, given: tuple[Any, ...]) -> tuple[int, float]:
    """Rounds with the state of a primal player, which learns in place."""
    if isinstance(state, IntervalState):
        missing = len(state.known) - state.seen.shape[3]
        if missing > 0:  # there may be as many successors as states
            more = ((0, 0), (0, 0), (0, 0), (0, missing))
            state.successor, state.seen = np.pad(state.successor, more), np.pad(state.seen, more)
        return interval_rounds(setting, state.counts, state.width, *given)
    data = state.data if isinstance(state, DeterminantState) else state
    if isinstance(state, DeterminantState):
        data.k += len(given[-1].lam)
        width, log_det = state.width, data.log_det
    else:  # constant widths, whatever the determinants are
        zeros, (beta_r, beta_c) = np.zeros(data.shape[0]), state.betas
        width = DeterminantWidth(zeros, zeros, zeros, zeros, ridge_r=beta_r, ridge_c=beta_c, z_r=zeros, z_c=zeros)
        log_det = np.zeros(len(data.regression.pay))
    phi = np.array(data.phi)  # one that may be written to: compiled code is then one for all features
    fitted = (data.regression, phi, data.layer_of_step, log_det, data.known, data.known_last)
    return ridge_rounds(setting, *fitted, width, *given)


def _setting(problem: Problem, primal: LinearUCB, dual: ProjectedGradient, game: Game, feedback: str) -> Setting:
    """What the kernels need of a game, or a refusal."""
    state = game.primal
    plain = isinstance(problem, FiniteProblem) and not problem.persistent and problem.n_contexts == 1
    _expect(plain, "a finite problem without contexts and operators", problem.name)
    mdp = model_behind(problem)
    _expect(mdp.noise in ("bernoulli", 0.0), "rewards without Gaussian noise", f"noise {mdp.noise}")
    known = isinstance(state, IntervalState | LinearState | DeterminantState)
    _expect(known, "a problem of which all pairs are kept", type(state).__name__)
    _expect(state.k == game.k, "no data from before the first episode", f"{state.k - game.k} episodes of data")
    _expect(not primal.lagged, "a player that is not lagged", "lagged=True")
    among = getattr(game.dual, "among", None)
    _expect(
        isinstance(dual, ProjectedGradient) and isinstance(among, MultiplierLine),
        "projected-gradient on a line",
        dual.name,
    )
    _expect(feedback in FEEDBACK, f"a feedback among {', '.join(FEEDBACK)}", repr(feedback))
    assert isinstance(among, MultiplierLine)
    return Setting(
        model=mdp.model,
        restarts=mdp.restart.cumsum(axis=1)[0],
        coins=mdp.noise == "bernoulli",
        end_resets=problem.end_resets,
        caps=primal.caps(problem.horizon),
        alpha=float(state.alpha),
        anytime=primal.anytime,
        xi=np.ones(mdp.n_states) if among.xi is None else np.array(among.xi),
        low=float(among.low),
        high=float(among.high),
        cap=float(among.cap),
        feedback=SIGNALS[feedback],
    )


def _expect(holds: bool, what: str, got: str) -> None:
    if not holds:
        raise InvalidInput(f"The {WHAT} must have {what}. Got {got} instead.")
