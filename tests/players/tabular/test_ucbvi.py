"""Value iteration on counts, optimistic or by noise: the formulas again, plainly, and what is promised."""

from collections.abc import Iterator
from math import sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.bank import game_of
from tests.property.random_mdps import closed_mdp

import resetfree as rf
from resetfree.game.loop import Game, begin, play
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.tabular.large_problems import LargeCounts
from resetfree.players.tabular.ucbvi import RLSVI, UCBVI
from resetfree.players.testing.trial_problems import Scripted
from resetfree.theory.oracle import Evaluator
from resetfree.theory.oracle.dynamic_programming import best_response

Floats = NDArray[np.float64]
Sample = tuple[int, int, float, int | None]  # state, action, reward, successor
BOUND = 38.8664632  # least B of grid-v0


class Book:
    """Every step of a game in a list, and which states turned out to be reset states."""

    def __init__(self, mdp: rf.FiniteMDP, pooled: bool) -> None:
        self.mdp, self.pooled = mdp, pooled
        self.steps: list[list[Sample]] = [[] for _ in range(mdp.horizon)]
        self.known: set[int] = set()
        self.known_last: set[int] = set()

    def note(self, episode: rf.Episode) -> None:
        for h, a in enumerate(episode.actions):
            after = int(episode.states[h + 1]) if h + 1 < len(episode.states) else None
            self.steps[h].append((int(episode.states[h]), int(a), float(episode.rewards[h]), after))
        if episode.reset:
            self.known_last.add(int(episode.states[-1]))
            ends = bool((self.mdp.last_reset != self.mdp.reset).any())
            if not ends or len(episode.actions) < self.mdp.n_transitions:
                self.known.add(int(episode.states[-1]))

    def samples(self, h: int, s: int, a: int) -> list[Sample]:
        layers = self.steps if self.pooled else [self.steps[h]]
        return [x for layer in layers for x in layer if x[:2] == (s, a)]


def width_of(player: UCBVI, L: float, rest: int, lam: float, x: dict[str, Floats]) -> float:
    """The bonus of one pair, from the values of its successors, sample by sample."""
    n, cost = len(x["v"]), lam * player.cost_part
    hoeffding = (rest + cost) * sqrt(L / (2 * n))
    if player.bonus == "hoeffding" or n == 1:
        return hoeffding
    if player.width == "tuned":
        q = x["c"].mean()
        sharp = sqrt(2 * x["r"].var() * L / n) + 7 * rest * L / (3 * (n - 1))
        sharp += cost * (sqrt(2 * max(q * (1 - q), 0.0) * L / n) + 7 * L / (3 * (n - 1)))
    else:
        gap = sqrt(((x["v"] - x["low"]) ** 2).sum() / (n - 1))
        sharp = sqrt(2 * L / n) * (x["v"].std(ddof=1) + gap) + 7 * (rest + lam) * L / (3 * (n - 1))
    return min(hoeffding, sharp)


def naive(player: UCBVI, book: Book, prefer: Floats, L: float, lam: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Q [H, S, A], and V_r, V_c of the greedy policy on the data at step 1, and the tries [H, S, A]."""
    mdp = book.mdp
    H, S, A = mdp.horizon, mdp.n_states, mdp.n_actions
    Q, tries = np.zeros((H, S, A)), np.zeros((H, S, A))
    after = {name: np.zeros(S) for name in ("v", "r", "c", "low")}
    for h in reversed(range(H)):
        for t in book.known_last if h == mdp.n_transitions - 1 else book.known:
            after["v"][t], after["r"][t], after["c"][t], after["low"][t] = -lam, 0.0, 1.0, -lam
        now = {name: np.zeros(S) for name in after}
        for s in set(range(S)) - book.known:
            q_r, q_c, low = np.full(A, float(H - h)), np.zeros(A), np.full(A, -lam)
            for a in range(A):
                data = book.samples(h, s, a)
                tries[h, s, a] = len(data)
                if not data:
                    Q[h, s, a] = H - h
                    continue
                pay = sum(x[2] for x in data) / len(data)
                moved = np.array([x[3] for x in data if x[3] is not None], dtype=int)
                b = player.noise * sqrt(2 * L / len(data))
                mean = {name: 0.0 for name in after}
                if h < mdp.n_transitions and len(moved) == 0:
                    mean = {"v": H - h - 1.0, "r": H - h - 1.0, "c": 0.0, "low": -lam}
                elif h < mdp.n_transitions:
                    x = {name: after[name][moved] for name in after}
                    mean = {name: float(x[name].mean()) for name in after}
                    b += width_of(player, L, H - h - 1, lam, x)
                Q[h, s, a] = max(min(H - h, pay + mean["v"] + b), -lam)
                q_r[a], q_c[a], low[a] = min(pay + mean["r"], H - h), mean["c"], pay + mean["low"] - b
            near = np.flatnonzero(Q[h, s] >= Q[h, s].max() - 1e-9)
            near = near[tries[h, s, near] == tries[h, s, near].max()]
            best = near[np.argmax(prefer[s, near])]
            now["v"][s], now["r"][s], now["c"][s] = Q[h, s].max(), q_r[best], q_c[best]
            now["low"][s] = max(float(low.max()), -lam)
        after = now
    return Q, after["r"], after["c"], tries


CASES: dict[str, tuple[rf.FiniteMDP, dict[str, Any]]] = {
    "per step": (rf.make("grid-v0"), {}),
    "pooled": (rf.make("grid-v0"), {"pooled": True}),
    "cost part": (rf.make("grid-v0"), {"pooled": True, "cost_part": True}),
    "bernstein": (rf.make("grid-v0"), {"bonus": "bernstein", "pooled": True}),
    "bernstein, cost part": (rf.make("grid-v0"), {"bonus": "bernstein", "pooled": True, "cost_part": True}),
    "bernstein, proved": (rf.make("grid-v0"), {"bonus": "bernstein", "width": "theory", "cost_part": True}),
    "proved": (rf.make("pits-v0", slip=0.2), {"width": "theory", "pooled": True}),
    "literal, pooled": (rf.make("grid-v0").replace(boundary="literal"), {"pooled": True}),
    "literal": (rf.make("grid-v0").replace(boundary="literal"), {"bonus": "bernstein"}),
    "layered": (rf.make("doors-v0"), {"cost_part": True}),
    "ends reset": (rf.make("pits-v0", slip=0.2), {"pooled": True, "bonus": "bernstein"}),
    "noise": (rf.make("grid-v0").replace(noise="bernoulli"), {"noise": 0.5}),
    "contexts": (rf.make("contexts-v0"), {"pooled": True}),
    "one action": (rf.make("edge-one-action-v0"), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_fast_player_is_the_pseudocode(case: str) -> None:
    """Every fourth plan of 60 episodes, from the data of the very same game."""
    mdp, settings = CASES[case]
    player, episodes = UCBVI(**settings), 60
    game, rounds = game_of(mdp, player, Scripted((0.0, 0.3, 2.0, 7.0)), episodes)
    L, book, prefer = game.primal.log_term, Book(mdp, player.pooled), game.primal.prefer.copy()
    for this in rounds:
        if this.k % 4 == 3:
            Q, v_r, v_c, tries = naive(player, book, prefer, L, this.lam)
            s1, live = this.s1, [s for s in range(mdp.n_states) if s not in book.known]
            assert this.plan.upper == pytest.approx(Q[0, s1].max(), abs=1e-9)
            assert (this.plan.v_r, this.plan.v_c) == pytest.approx((v_r[s1], v_c[s1]), abs=1e-9)
            chosen = this.plan.policy.argmax(axis=2)
            for h in range(mdp.horizon):
                for s in live:
                    a = chosen[h, s]
                    near = Q[h, s] >= Q[h, s].max() - 1e-9
                    assert near[a]
                    assert tries[h, s, a] == tries[h, s, near].max()
                    near &= tries[h, s] == tries[h, s, a]
                    assert prefer[s, a] == prefer[s, near].max()
        book.note(this.episode)
        prefer = game.primal.prefer.copy()


@pytest.mark.parametrize("settings", [{}, {"cost_part": True}, {"pooled": True}, {"bonus": "bernstein"}], ids=str)
def test_proved_optimism_holds_in_all_rounds(settings: dict[str, Any]) -> None:
    """`upper` >= V* in every round of 24 games; each may fail with probability p = 0.05, so 6 fail with 1 in 10^3."""
    failed = 0
    for seed in range(12):
        mdp = closed_mdp(seed)
        if settings.get("pooled") and not mdp.stationary:
            continue
        both = {**settings, "cost_part": True} if "bonus" in settings else settings
        dual: rf.DualPlayer[Any] = ConstantPenalty(C=2.0) if "bonus" in settings else Scripted()
        value = rf.solve(mdp, starts=[]).value
        for run in range(2):
            player = UCBVI(width="theory", p=0.05, **both)
            assert player.statement(mdp.problem(), 300).covered
            _, rounds = game_of(mdp, player, dual, 300, seed=run)
            failed += any(this.plan.upper < value[this.s1] - 1e-9 for this in rounds)
    assert failed <= 5


@pytest.mark.parametrize("noise", ["bernoulli", 0.2])
def test_proved_optimism_holds_with_noisy_rewards(noise: Any) -> None:
    mdp = rf.make("grid-v0").replace(noise=noise)
    value = rf.solve(mdp, starts=[]).value
    failed = 0
    for seed in range(4):
        player = UCBVI(width="theory", noise=0.5 if noise == "bernoulli" else noise, pooled=True)
        _, rounds = game_of(mdp, player, ConstantPenalty(C=BOUND), 400, seed)
        failed += any(this.plan.upper < value[this.s1] - 1e-9 for this in rounds)
    assert failed <= 2


def test_two_sided_optimism_holds_against_every_policy() -> None:
    """The proved Bernstein width is optimistic for the best composite value, not only for that of pi*."""
    mdp = rf.make("grid-v0")
    best = best_response(mdp, 3.0)
    _, rounds = game_of(
        mdp, UCBVI("bernstein", width="theory", cost_part=True, pooled=True), ConstantPenalty(C=3.0), 2000
    )
    for this in rounds:
        assert this.plan.upper >= best.v_r[this.s1] - 3.0 * best.v_c[this.s1] - 1e-9


def test_bernstein_is_never_above_hoeffding() -> None:
    """The same data, the other width."""
    mdp = rf.make("grid-v0")
    plain, sharp = (
        UCBVI(scale=0.3, cost_part=True, pooled=True),
        UCBVI("bernstein", scale=0.3, cost_part=True, pooled=True),
    )
    game, rounds = game_of(mdp, sharp, ConstantPenalty(C=2.0), 500)
    for this in rounds:
        for s in np.flatnonzero(~mdp.reset):
            bounds = (
                [player.plan(game.primal, s, 2.0).upper for player in (sharp, plain)] if this.k % 50 == 0 else [0, 0]
            )
            assert bounds[0] <= bounds[1] + 1e-9


@pytest.mark.parametrize("width", ["tuned", "theory"])
def test_bernstein_is_far_below_hoeffding_where_nothing_varies(width: Any) -> None:
    """One state that pays 1/2: what is left of the widths above 5 after 20,000 steps."""
    mdp = rf.FiniteMDP(np.ones((1, 1, 1)), [[0.5]], [False], 10)
    over = []
    for bonus in ("hoeffding", "bernstein"):
        player = UCBVI(bonus, width=width, scale=0.5, cost_part=True, pooled=True)
        _, rounds = game_of(mdp, player, ConstantPenalty(C=2.0), 2000)
        over.append(list(rounds)[-1].plan.upper - 5.0)
    assert 0.0 < over[1] < 0.5 * over[0]


def test_estimates_are_those_of_the_policy_once_everything_is_known() -> None:
    """On deterministic dynamics the counts are the truth along the policy."""
    mdp = rf.make("pits-v0")
    _, rounds = game_of(mdp, UCBVI(pooled=True), ConstantPenalty(C=1.0), 300)
    for this in rounds:
        if this.k > 200:
            truth = rf.evaluate(mdp, this.plan.policy)
            assert (this.plan.v_r, this.plan.v_c) == pytest.approx((truth.v_r[this.s1], truth.v_c[this.s1]), abs=1e-9)


def test_a_monotone_multiplier_never_falls() -> None:
    mdp = rf.make("grid-v0")
    player = UCBVI(pooled=True, monotone=True)
    game, rounds = game_of(mdp, player, Scripted((5.0, 0.0)), 40)
    list(rounds)
    plans = [UCBVI(pooled=True).plan(game.primal, 0, 5.0), player.plan(game.primal, 0, 0.0)]
    assert plans[0].upper == plans[1].upper
    assert player.plan(game.primal, 0, 9.0).upper <= plans[0].upper


def preference(rounds: list[rf.Round], n_states: int, n_actions: int, jitter: Floats) -> Floats:
    """New states less fatal pairs per pair tried, and a tenth of chance, written out."""
    visited, found = set(), np.zeros(n_actions)
    pairs: set[tuple[int, int]] = set()
    fatal: set[tuple[int, int]] = set()
    for this in rounds:
        states, last = this.episode.states.tolist(), len(this.episode.actions) - 1
        visited.add(states[0])
        for h, a in enumerate(this.episode.actions.tolist()):
            pairs.add((states[h], a))
            if this.episode.reset and h == last:
                fatal.add((states[h], a))
            elif h + 1 < len(states) and states[h + 1] not in visited:
                found[a] += 1
                visited.add(states[h + 1])
    tried = np.array([sum(p[1] == a for p in pairs) for a in range(n_actions)])
    fell = np.array([sum(p[1] == a for p in fatal) for a in range(n_actions)])
    return np.asarray((found - fell) / (1 + tried) + 0.1 * jitter)


@pytest.mark.parametrize("boundary", ["physical", "literal"])
def test_ties_are_learned_from_all_episodes(boundary: Any) -> None:
    mdp = rf.make("grid-v0").replace(boundary=boundary)
    game, rounds = game_of(mdp, UCBVI(), Scripted(), 80)
    played = list(rounds)
    state = game.primal
    np.testing.assert_allclose(state.prefer, preference(played, 12, 5, state.jitter), atol=1e-12)


def test_how_ties_are_broken_decides_what_is_risked() -> None:
    """The field without slip, 16 seeds: chance is better than always the first action, experience better still."""
    mdp = rf.make("pits-v0")
    resets: dict[str, float] = {}
    for ties in ("first", "random", "learned"):
        games = [
            game_of(mdp, UCBVI(pooled=True, ties=ties), ConstantPenalty(C=1.0), 200, seed)[1] for seed in range(16)
        ]
        resets[ties] = float(np.mean([sum(this.episode.reset for this in rounds) for rounds in games]))
    assert resets["learned"] + 2 < resets["random"] < resets["first"] - 2


def test_rows_grow_with_the_successors_that_are_seen() -> None:
    rng = np.random.default_rng(0)
    mdp = rf.FiniteMDP(rng.dirichlet(np.ones(12), size=(12, 2)), rng.random((12, 2)), np.zeros(12), 5)
    game, rounds = game_of(mdp, UCBVI(pooled=True), ConstantPenalty(C=1.0), 200)
    n = sum(len(this.episode.actions) for this in rounds)
    state = game.primal
    assert state.seen.shape[3] >= 12
    assert state.tried.sum() == state.seen.sum() == n


def test_what_is_proved_is_said_and_nothing_else() -> None:
    problem = rf.make("grid-v0").problem()
    covered = {
        "theory": UCBVI(width="theory"),
        "theory, cost": UCBVI(width="theory", cost_part=True),
        "bernstein": UCBVI("bernstein", width="theory", cost_part=True),
    }
    said = {name: player.statement(problem, 100) for name, player in covered.items()}
    assert all(s.covered for s in said.values())
    assert "feasible" in said["theory"].why
    assert "never changes" in said["bernstein"].why
    assert not UCBVI().statement(problem, 100).covered
    assert said["theory, cost"].constants["L"] == pytest.approx(np.log(2 * 12 * 5 * 8 * 100 / 0.05))
    pooled = UCBVI(width="theory", pooled=True, noise=0.5).statement(problem, 100)
    assert pooled.constants["L"] == pytest.approx(np.log(2 * 12 * 5 * 8 * 8 * 100 / 0.05))


def test_problems_that_do_not_fit_are_refused() -> None:
    with pytest.raises(rf.InvalidInput, match="'cost_part' of ucbvi must be true"):
        UCBVI(bonus="bernstein", width="theory")
    assert isinstance(UCBVI().init(rf.make("pits-v0", n=150, horizon=400).problem(), 10, 0), LargeCounts)


def rlsvi_game(
    mdp: rf.FiniteMDP, player: Any, C: float, episodes: int, seed: int = 0
) -> tuple[Game, Iterator[rf.Round]]:
    problem, dual = mdp.problem(), ConstantPenalty(C=C)
    game = begin(problem, player, dual, episodes=episodes, seed=seed)
    return game, play(problem, player, dual, game, episodes=episodes, feedback="realised", oracle=Evaluator(mdp))


def naive_q(state: Any, mdp: rf.FiniteMDP, scale: float, cost_part: bool, lam: float) -> Any:
    """Q [H, S, A] from the counts of a pooled game, with the draw of its episode, written out."""
    z = np.random.default_rng([state.seed, state.k]).standard_normal(state.tried.shape)[0]
    H, S, A = mdp.horizon, mdp.n_states, mdp.n_actions
    n = np.maximum(state.tried[0], 1)
    P = np.zeros((S, A, S))
    for s, a, j in np.argwhere(state.seen[0] > 0):
        P[s, a, state.successor[0, s, a, j]] += state.seen[0, s, a, j] / n[s, a]
    Q, V = np.zeros((H, S, A)), np.zeros(S)
    for h in reversed(range(H)):
        V[state.known_last if h == H - 1 else state.known] = -lam
        sigma = scale * (H - h - 1 + cost_part * lam) / np.sqrt(n)
        Q[h] = np.clip(state.earned[0] / n + P @ V + sigma * z, -lam, H - h)
        Q[h][state.tried[0] == 0] = H - h
        V = Q[h].max(axis=1)
    return Q


@pytest.mark.parametrize("cost_part", [False, True])
def test_the_plan_is_greedy_on_the_perturbed_composite(cost_part: bool) -> None:
    mdp = rf.make("grid-v0")
    player = RLSVI(scale=0.3, pooled=True, cost_part=cost_part)
    game, rounds = rlsvi_game(mdp, player, 4.0, 60)
    for _ in rounds:
        Q = naive_q(game.primal, mdp, 0.3, cost_part, 4.0)
        chosen = player.plan(game.primal, game.s1, 4.0).policy.argmax(axis=2)
        live = ~game.primal.known
        got = np.take_along_axis(Q, chosen[..., None], axis=2)[..., 0]
        np.testing.assert_allclose(got[:, live], Q.max(axis=2)[:, live], atol=1e-8)


def test_the_draw_comes_from_seed_and_episode_alone() -> None:
    mdp = rf.make("grid-v0")
    player = RLSVI(scale=1.0, cost_part=True)
    game, rounds = rlsvi_game(mdp, player, 4.0, 200)
    list(rounds)
    state = game.primal
    first = player.plan(state, 0, 4.0).policy
    np.random.default_rng().random()
    assert (player.plan(state, 0, 4.0).policy == first).all()
    state.k += 1
    later = player.plan(state, 0, 4.0).policy
    state.k -= 1
    state.seed += 1
    other = player.plan(state, 0, 4.0).policy
    assert not (later == first).all()
    assert not (other == first).all()


def test_without_noise_it_is_ucbvi_without_bonus() -> None:
    mdp = rf.make("grid-v0")
    games = [
        [this.episode.states.tolist() for this in rlsvi_game(mdp, player, 10.0, 100)[1]]
        for player in (RLSVI(scale=0.0, pooled=True), UCBVI(scale=0.0, pooled=True))
    ]
    assert games[0] == games[1]


def test_nothing_is_claimed_and_bad_settings_are_refused() -> None:
    problem = rf.make("grid-v0").problem()
    assert not RLSVI().statement(problem, 10).covered
    assert np.isnan(RLSVI().plan(RLSVI().init(problem, 10, 0), 0, 1.0).upper)
    with pytest.raises(rf.InvalidInput, match="seed"):
        RLSVI().init(problem, 10, -1)
