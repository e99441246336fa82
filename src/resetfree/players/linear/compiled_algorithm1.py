"""Algorithm 1 on small finite problems in compiled code: the rounds of `game.loop.play`, in a fraction of the time."""

from __future__ import annotations

from typing import Any

import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.core.settings import PositiveInt, check
from resetfree.game.loop import FEEDBACK, Game
from resetfree.players.dual.multiplier_functions import Line
from resetfree.players.dual.projected_gradient import ProjectedGradient
from resetfree.players.linear.compiled_rounds import (
    EXACT,
    OPTIMISTIC,
    REALISED,
    Columns,
    Setting,
    interval_rounds,
    ridge_rounds,
)
from resetfree.players.linear.determinant_states import DeterminantState
from resetfree.players.linear.interval_states import IntervalState
from resetfree.players.linear.linear_ucb import LinearState, LinearUCB
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import FiniteProblem, model_behind
from resetfree.theory.proved_widths import DeterminantWidth

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
    >>> from resetfree.players.algorithm1 import algorithm1
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
    _expect(isinstance(dual, ProjectedGradient) and isinstance(among, Line), "projected-gradient on a line", dual.name)
    _expect(feedback in FEEDBACK, f"a feedback among {', '.join(FEEDBACK)}", repr(feedback))
    assert isinstance(among, Line)
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
