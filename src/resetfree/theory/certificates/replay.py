"""The dual player of a run, played again alone on what the run recorded, and what its online regret is at most.

Legend: g_k in [0, 1] the cost signal of round k, x_k = xi(s_1^k) g_k its gradient, theta_k what the player held, U its
set, u a comparator in U with the multiplier function lambda_c(s) = <xi(s), u>; D_k = max_{i <= k} |theta_i - u|;
online regret = sum_{i <= k} (lambda_c(s_1^i) - lambda^i) g_i, which knows the signals only and not V_c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import hypot
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.certificate import Certificate, Status, over_rounds
from resetfree.core.errors import NotCertifiable, ResetFreeError
from resetfree.game.contract import DualPlayer, Plan, Round
from resetfree.problems.contract import Episode, Problem
from resetfree.problems.finite.transitions import Floats
from resetfree.theory.assumptions import dual_class, reachable_starts
from resetfree.theory.certificates.record import Record
from resetfree.theory.regret import Rounds, dual_regret
from resetfree.theory.theorems import SIGNS

ALGEBRA = "holds for any multipliers, signals and policies: a check of arithmetic"
SLACK = 1e-9  # relative, what rounding may do to a norm


@dataclass(frozen=True, eq=False)
class Comparator:
    """A multiplier function that the dual player is measured against."""

    name: str
    u: Any  # its parameter: a number or [d'], as the player's own theta
    at_starts: Floats  # [K] lambda_c(s_1^k)
    largest: float  # over all starts that can come about

    @property
    def size(self) -> float:
        """|u|."""
        return hypot(*np.ravel(self.u))  # finite where the squares are not


class Seat(NamedTuple):
    """The dual player of a run before its first round."""

    problem: Problem
    player: DualPlayer[Any]
    state: Any


@dataclass(frozen=True, eq=False)
class Replay:
    """What the dual player does on the recorded signals."""

    player: DualPlayer[Any]
    state: Any  # where it ended
    lam: Floats  # [K] the multipliers it plays
    distance: dict[str, Floats]  # by comparator, [K] D_k; of players that have a theta
    squares: Floats  # [K] |x_k|^2
    misses: Floats  # [K] |x_k - hint|^2, nan for players without hints


def seat(run: Record) -> Seat:
    """The dual player as it began. Nothing that a run file names is imported: see `statements`."""
    problem: Problem = run.problem_again()
    player: DualPlayer[Any] = run.player_again("dual")
    return Seat(problem, player, player.init(problem, run.spec["episodes"], run.spec["seed"]))


def comparators(run: Record, state: Any, lambda_hat: Floats | str) -> dict[str, Comparator | str]:
    """The multiplier functions 0 and lambda* by name, or why it cannot be one.

    state: the dual player's.  lambda_hat: [K] at the starts, or why it is not known.

    lambda* is the function of least norm in the player's class that is at least lambda_hat + 1 at every feasible start
    that any behaviour can bring about. It depends on the problem alone: one that is fitted to the starts that occurred
    would be chosen after the fact, and what holds with a stated probability holds for a comparator chosen before.
    """
    among = getattr(state, "among", None)  # players of one multiplier for all starts have no such class
    zero = 0.0 if among is None else among.zero()
    found: dict[str, Comparator | str] = {"0": Comparator("0", zero, np.zeros(len(run)), 0.0)}
    if isinstance(lambda_hat, str) or run.mdp is None:
        return {**found, "lambda*": str(lambda_hat)}
    s1 = run.columns["s1"].astype(np.int64)
    possible = reachable_starts(run.mdp).states
    if not possible[s1].all():
        k = int(np.argmin(possible[s1]))
        where = f"round {k + 1} starts in state {run.mdp.state_names[s1[k]]}"
        return {**found, "lambda*": f"{where}, where no behaviour starts an episode: lambda* is not known there"}
    finding = dual_class(run.mdp)
    if "largest_lambda_star" not in finding.detail:
        n, work = finding.detail["starts"], finding.detail["kernel_steps"]
        why = f"lambda* must cover all {n} starts that can come about, which would take about {work:.0e} steps"
        return {**found, "lambda*": why if n else finding.sentence}
    top = float(finding.detail["largest_lambda_star"])
    if among is None:
        return {**found, "lambda*": Comparator("lambda*", top, np.full(len(run), top), top)}
    if not finding.holds:
        return {**found, "lambda*": finding.sentence}
    theta = np.asarray(finding.detail["theta"], dtype=np.float64)
    u: Any = float(theta[0]) if isinstance(zero, float) else theta
    size = float(np.linalg.norm(theta))
    if np.linalg.norm(np.subtract(among.moved(u, int(s1[0]), 0.0), u)) > SLACK * size:  # P_U(u) is not u
        return {**found, "lambda*": f"lambda* needs |theta| = {size:.6g}, which is outside of the dual player's set"}
    values = np.full(len(possible), top) if run.mdp.xi is None else run.mdp.xi @ theta
    return {**found, "lambda*": Comparator("lambda*", u, values[s1], float(values[possible].max()))}


def replay(run: Record, begun: Seat, against: list[Comparator]) -> Replay:
    """Play the dual player on the recorded starts, signals and resets; raises NotCertifiable if that is not enough."""
    problem, player, state = begun
    c, n, finite = run.columns, len(run), begun.problem.n_states is not None
    lam, hints = np.empty(n), np.full(n, np.nan)
    away = {comparator.name: np.empty(n) for comparator in against}
    farthest, last = dict.fromkeys(away, 0.0), None
    no_action: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    names = ("s1", "reset", "next_start", "reward", "v_r_hat", "v_c_hat", "upper", "cost_signal", "v_r", "v_c")
    for k, (s1, reset, end, reward, v_r_hat, v_c_hat, upper, signal, v_r, v_c) in enumerate(
        zip(*(c[name].tolist() for name in names), strict=True)
    ):
        played = player.multiplier(state, s1, _nobody)
        lam[k] = played
        theta = getattr(state, "theta", None)
        for comparator in against:
            if theta is not None and theta is not last:
                distance = hypot(*np.ravel(np.subtract(theta, comparator.u)))
                farthest[comparator.name] = max(farthest[comparator.name], distance)
            away[comparator.name][k] = farthest[comparator.name]
        last = theta
        if hasattr(state, "hint"):
            hints[k] = state.hint.item(s1 if finite else 0)
        episode = Episode(np.array([s1]), no_action, np.array([reward]), bool(reset), end)
        exact = (v_r, v_c) if np.isfinite(v_r) else None
        plan = Plan(None, v_r_hat, v_c_hat, upper)
        state = player.update(state, Round(k + 1, s1, played, plan, episode, signal, exact))
    xi2 = np.ones(n) if problem.xi is None or not finite else (problem.xi**2).sum(axis=1)[c["s1"].astype(np.int64)]
    g = c["cost_signal"]
    return Replay(player, state, lam, away, xi2 * g**2, xi2 * (g - hints) ** 2)


def _nobody(lam: float) -> Plan:
    raise NotCertifiable("The dual player asks what the primal player would plan; a record of rounds cannot tell.")


def online_bound(run: Record, again: Replay | str, against: Comparator) -> Floats:
    """[K] what the online regret of the dual player against a comparator is at most after k rounds.

    Paper: regret of the dual player under projected gradient (lemma).

    projected-gradient, eta_k = B / sqrt(k)   (D_k^2 / (2B) + B G^2) sqrt(k), G = max |x_k|
    constant-step                             |u|^2 / (2 eta) + (eta / 2) sum |x|^2
    adagrad-norm                              (D_k^2 / (2 gamma) + gamma) sqrt(sum |x|^2)
    optimistic-gradient                       |u|^2 / (2 eta) + (eta / 2) sum |x - hint|^2
    coin-betting                              u sqrt(N ln(1 + 24 N^2 u^2 / eps^2)) + eps, N rounds with a signal
    constant-penalty                          0 if C is at least the comparator everywhere
    search, told v_c of its plans             B tol k

    Raises NotCertifiable where there is no such bound.
    """
    name = run.spec["dual"]["name"]
    if name not in BOUNDS:
        raise NotCertifiable(f"No bound on the online regret of the dual player '{name}' is known.")
    if name == "search":
        return _search(run, against)
    if isinstance(again, str):
        raise NotCertifiable(again)
    among = getattr(again.state, "among", None)
    if among is not None and among.largest_xi > 1.0 + SLACK:
        raise NotCertifiable("Some |xi(s)| is larger than 1, so the multiplier played is not <xi(s), theta>.")
    bound = BOUNDS[name](again, against, np.arange(1, len(run) + 1, dtype=np.float64), run.columns["cost_signal"])
    return np.asarray(bound)


def _square_over(x: Any, y: float) -> Any:
    """x^2 / y where it fits into a float and x^2 does not, as for the multiplier of a reset probability of 1e-300."""
    return x / y * x


def _projected_gradient(again: Replay, against: Comparator, k: Floats, g: Floats) -> Floats:
    B = again.state.among.cap
    largest = np.maximum.accumulate(again.squares)
    return np.asarray((_square_over(again.distance[against.name], 2 * B) + B * largest) * np.sqrt(k))


def _constant_step(again: Replay, against: Comparator, k: Floats, g: Floats) -> Floats:
    eta = again.state.eta
    return np.asarray(_square_over(against.size, 2 * eta) + eta / 2 * np.cumsum(again.squares))


def _adagrad(again: Replay, against: Comparator, k: Floats, g: Floats) -> Floats:
    gamma = again.state.gamma
    away = _square_over(again.distance[against.name], 2 * gamma)
    return np.asarray((away + gamma) * np.sqrt(np.cumsum(again.squares)))


def _optimistic(again: Replay, against: Comparator, k: Floats, g: Floats) -> Floats:
    eta = again.state.eta
    return np.asarray(_square_over(against.size, 2 * eta) + eta / 2 * np.cumsum(again.misses))


def _coin_betting(again: Replay, against: Comparator, k: Floats, g: Floats) -> Floats:
    eps, u, n = again.player.eps, against.size, np.cumsum(g > 0)  # type: ignore[attr-defined]
    if u > again.player.ceiling:  # type: ignore[attr-defined]
        raise NotCertifiable(f"The comparator {u:.6g} is above the ceiling of the multiplier.")
    return np.asarray(u * np.sqrt(n * np.log1p(24.0 * (n * u / eps) ** 2)) + eps)


def _constant_penalty(again: Replay, against: Comparator, k: Floats, g: Floats) -> Floats:
    if (against.at_starts > again.lam).any():
        raise NotCertifiable(f"The penalty {again.lam[0]:.6g} is below the comparator {against.at_starts.max():.6g}.")
    return np.zeros(len(k))


def _search(run: Record, against: Comparator) -> Floats:
    constants = run.statements["dual"]["constants"]
    if run.spec["feedback"] != "optimistic":
        raise NotCertifiable("The bound of 'search' is about the costs of its plans, and it was told others.")
    if against.size > constants["B"]:
        raise NotCertifiable(f"The comparator {against.size:.6g} is above B = {constants['B']:.6g}.")
    return np.asarray(constants["B"] * constants["tolerance"] * np.arange(1, len(run) + 1))


BOUNDS: dict[str, Callable[..., Floats]] = {
    "projected-gradient": _projected_gradient, "constant-step": _constant_step, "adagrad-norm": _adagrad,
    "optimistic-gradient": _optimistic, "coin-betting": _coin_betting, "constant-penalty": _constant_penalty,
    "search": _search,
}  # fmt: skip


class DualSide(NamedTuple):
    """What is known of the dual player: its replay, the comparators and the bounds, or why there is none."""

    again: Replay | str
    against: dict[str, Comparator | str]
    bounds: dict[str, Floats | str]


def dual_side(run: Record, lambda_hat: Floats | str) -> DualSide:
    """Replay, comparators and bounds of the dual player.

    lambda_hat: [K] at the starts, or why it is not known.
    """
    try:
        begun = seat(run)
        against = comparators(run, begun.state, lambda_hat)
    except ResetFreeError as error:
        why = str(error)
        return DualSide(why, {"0": why, "lambda*": why}, {"0": why, "lambda*": why})
    again: Replay | str
    try:
        again = replay(run, begun, [c for c in against.values() if isinstance(c, Comparator)])
    except ResetFreeError as error:
        again = str(error)
    bounds: dict[str, Floats | str] = {}
    for name, c in against.items():
        try:
            bounds[name] = c if isinstance(c, str) else online_bound(run, again, c)
        except NotCertifiable as error:
            bounds[name] = str(error)
    return DualSide(again, against, bounds)


def dual_claims(run: Record, side: DualSide) -> list[Certificate]:
    """The multipliers are the dual player's, and its online regret is within its bound.

    Paper: regret of the dual player under projected gradient (lemma).
    """
    lam = run.columns["lam"]
    claim = "the multipliers are those of the dual player on the recorded signals, bit for bit (rounds that differ)"
    if isinstance(side.again, str):
        found = [Certificate.not_applicable(claim, side.again)]
    else:
        differ = np.flatnonzero(side.again.lam != lam)
        where = f"round {differ[0] + 1}" if len(differ) else None
        found = [Certificate(claim, len(differ), 0.0, 0.0, "==", where)]
    for name, c in side.against.items():
        claim = f"the dual player's online regret against {name} is at most its bound"
        bound = side.bounds[name]
        if isinstance(bound, str) or isinstance(c, str):
            found.append(Certificate.not_applicable(claim, str(bound)))
            continue
        online = np.cumsum((c.at_starts - lam) * run.columns["cost_signal"])
        status, why = _standing(name)
        detail = {"comparator": c.size}
        found.append(over_rounds(claim, online, bound, _rounding(run, c), detail=detail, status=status, why=why))
        if run.spec["dual"]["name"] == "projected-gradient" and not isinstance(side.again, str):
            found.append(_printed(run, side.again, c, online))
    return found


def _printed(run: Record, again: Replay, against: Comparator, online: Floats) -> Certificate:
    """1.5 B sqrt(k), the constant that the paper prints: proved while no theta_k is farther than B from u (A14)."""
    claim = f"the dual player's online regret against {against.name} is at most 1.5 B sqrt(k)"
    B, farthest = again.state.among.cap, float(again.distance[against.name][-1])
    if farthest > B * (1 + SLACK):
        why = f"1.5 is proved where |theta_k - u| is at most B = {B:.6g}, and here it reaches {farthest:.6g}"
        return Certificate.not_applicable(claim, why)
    bound = 1.5 * B * np.sqrt(np.arange(1, len(run) + 1))
    status, words = _standing(against.name)
    return over_rounds(claim, online, bound, _rounding(run, against), status=status, why=words)


def _standing(name: str) -> tuple[Status, str]:
    """Status of a bound on the regret against a comparator: against 0 it is at most zero whatever was played."""
    return ("identity", SIGNS) if name == "0" else ("proved", "")


def dual_lemma(run: Record, rounds: Rounds | str, side: DualSide) -> list[Certificate]:
    """R_d(lambda_c) <= online bound + sum (lam - lambda_c)(g - V_c), and the identity behind it.

    Paper: regret of the dual player under projected gradient (lemma).

    rounds: with exact values, or why there are none.
    """
    found = []
    for name, c in side.against.items():
        same = f"R_d({name}) equals the online regret + sum of (lam - {name})(signal - V_c)"
        most = f"R_d({name}) is at most the dual player's bound + sum of (lam - {name})(signal - V_c)"
        if isinstance(rounds, str) or isinstance(c, str):
            why = rounds if isinstance(rounds, str) else str(c)
            found += [Certificate.not_applicable(claim, why) for claim in (same, most)]
            continue
        g, bound = run.columns["cost_signal"], side.bounds[name]
        exact = dual_regret(rounds, at_starts=c.at_starts)
        online = np.cumsum((c.at_starts - rounds.lam) * g)
        mismatch = np.cumsum((rounds.lam - c.at_starts) * (g - rounds.v_c))
        found.append(
            over_rounds(same, exact, online + mismatch, _rounding(run, c), "==", status="identity", why=ALGEBRA)
        )
        if isinstance(bound, str):
            found.append(Certificate.not_applicable(most, bound))
        else:
            status, why = _standing(name)
            found.append(over_rounds(most, exact, bound + mismatch, _rounding(run, c), status=status, why=why))
    return found


def _rounding(run: Record, against: Comparator) -> Floats:
    """[K] what rounding may do to the sums."""
    return np.asarray(SLACK * np.cumsum(np.abs(run.columns["lam"]) + np.abs(against.at_starts) + 1.0))
