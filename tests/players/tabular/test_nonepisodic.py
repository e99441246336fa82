"""One unbroken life: resets bounded on every path, the gain oracle, and regret that flattens out."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.property.random_mdps import rough_mdp

import resetfree as rf
from resetfree.players.nonepisodic import UnbrokenLife, live, optimal_core, optimal_gain, unsafe_pairs


def random_world(seed: int) -> rf.FiniteMDP:
    """Sparse random dynamics, stationary, with resets; starts and restarts in the largest closed set."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(3, 12)), int(rng.integers(2, 5))
    rows = rng.dirichlet(np.full(n, 0.5), size=(n, m)) * (rng.random((n, m, n)) < rng.uniform(0.15, 0.5))
    rows[..., 0] += 1e-3 * (rows.sum(axis=2) == 0)
    rows[0, 0] = np.eye(n)[0]
    reset = rng.random(n) < rng.choice([0.1, 0.3, 0.5])
    reset[0] = False
    mdp = rf.FiniteMDP(
        rows / rows.sum(axis=2, keepdims=True), rng.random((n, m)), reset, 5,
        noise="bernoulli" if seed % 3 == 0 else 0.0,
    )  # fmt: skip
    within, _ = optimal_core(mdp)
    homes = np.where(within, rng.random(n), 0.0)
    return mdp.replace(start=homes / homes.sum(), restart=homes / homes.sum())


def check_path(life: UnbrokenLife) -> None:
    """The life is a path of the model: successors are possible, and after a reset comes a restart."""
    t, mdp = life.mdp.transition, life.mdp
    for i in range(len(life.states) - 1):
        successors, _ = t.row(0, int(life.states[i]), int(life.actions[i]))
        after = int(life.states[i + 1])
        if life.reset[i]:
            assert mdp.reset[successors].any()
            assert mdp.restart[0, after] > 0
        else:
            assert after in successors
            assert not mdp.reset[after]


@pytest.mark.parametrize("width", ["tuned", "theory"])
def test_resets_are_bounded_on_every_path(width: Any) -> None:
    """60 random problems, 3000 steps each: never more resets than unsafe pairs, and nothing safe is ever ruled out."""
    attained = 0
    for seed in range(60):
        mdp = random_world(seed)
        life = live(mdp, 3000, seed=seed, width=width, scale=0.3)
        within, allowed = optimal_core(mdp)
        assert life.resets <= life.bound == unsafe_pairs(mdp).sum()
        assert life.safe[within].all()
        assert life.allowed[allowed].all()
        attained += 0 < life.resets == life.bound
        if seed < 5:
            check_path(life)
    assert attained > 0


def test_the_bound_holds_for_lives_cut_anywhere() -> None:
    """A longer life with the same seed begins with other random numbers: cut many short ones instead."""
    mdp = random_world(7)
    for steps in (1, 2, 5, 17, 100, 500):
        assert live(mdp, steps, seed=3).resets <= unsafe_pairs(mdp).sum()


def test_the_core_and_its_pairs_on_the_grid() -> None:
    mdp = rf.make("grid-v0")
    within, allowed = optimal_core(mdp)
    unsafe = unsafe_pairs(mdp)
    assert within.sum() == 10
    assert unsafe.sum() == 18
    assert not (unsafe & allowed).any()
    assert ((unsafe | allowed) == ~mdp.reset[:, None]).all()


def two_rooms(p: float) -> rf.FiniteMDP:
    """Room 0: stay (pays 0.4) or try the door (pays 0, opens with p). Room 1: work (pays 1, falls back with 1/2).

    Also in room 1: a jump that pays 1 and is reset. Trying the door takes 1/p steps and working lasts 2: the gain of
    going back and forth is 2 / (2 + 1/p), of staying 0.4.
    """
    move = np.zeros((3, 2, 3))
    move[0, 0, 0] = 1.0
    move[0, 1] = [1 - p, p, 0]
    move[1, 0] = [0.5, 0.5, 0]
    move[1, 1, 2] = 1.0
    return rf.FiniteMDP(move, [[0.4, 0.0], [1.0, 1.0], [0.0, 0.0]], [False, False, True], 4)


@pytest.mark.parametrize("p", [1.0, 0.6, 0.2])
def test_the_gain_of_a_case_solved_by_hand(p: float) -> None:
    found = optimal_gain(two_rooms(p))
    assert found.value == pytest.approx(max(0.4, 2 / (2 + 1 / p)), abs=1e-9)
    assert found.actions.tolist() == [[True, True], [True, False], [False, False]]


def test_the_gain_is_the_best_of_all_stationary_policies() -> None:
    """By enumeration: the largest average reward over long runs of the exact chain, from each state of the core."""
    checked = 0
    for seed in range(40):
        mdp = random_world(seed)
        found = optimal_gain(mdp)
        inside = np.flatnonzero(found.states)
        choices = [np.flatnonzero(found.actions[s]) for s in inside]
        if np.prod([len(c) for c in choices]) > 300:
            continue
        dense = mdp.transition.matrix().toarray().reshape(mdp.n_states, mdp.n_actions, -1)
        best = np.full(len(inside), -np.inf)
        for actions in product(*choices):
            chain = dense[inside, actions][:, inside]
            lazy = np.linalg.matrix_power(0.5 * (chain + np.eye(len(inside))), 2**20)
            best = np.maximum(best, lazy @ mdp.reward[0, inside, actions])
        np.testing.assert_allclose(found.gain[inside], best, atol=1e-6)
        assert np.isnan(found.gain[~found.states]).all()
        checked += 1
    assert checked >= 10


def test_regret_flattens_out() -> None:
    """The grid, 40,000 steps: the second half adds almost nothing, as UCRL2 has found the way and stays."""
    for seed in range(3):
        life = live(rf.make("grid-v0"), 40_000, seed=seed)
        assert life.resets <= 18
        assert life.regret[-1] - life.regret[19_999] < 0.02 * 20_000
        assert life.regret[-1] < 0.1 * 40_000


def test_sublinear_with_proved_balls_where_they_are_small_enough() -> None:
    life = live(two_rooms(0.6), 60_000, seed=1, width="theory")
    thirds = [float(life.regret[i]) for i in (14_999, 59_999)]
    assert thirds[1] < 3.0 * max(thirds[0], 100.0)  # four times the steps, about twice the regret
    assert life.resets <= 1


def test_noise_in_rewards_is_seen() -> None:
    coins = live(rf.make("grid-v0").replace(noise="bernoulli"), 2000, seed=0, noise=0.5)
    assert set(np.unique(coins.rewards)) <= {0.0, 1.0}
    shaken = live(rf.make("grid-v0").replace(noise=0.1), 2000, seed=0, noise=0.1)
    assert len(np.unique(shaken.rewards)) == 2000


def test_what_has_episodes_is_refused() -> None:
    for mdp, why in (
        (rf.make("doors-v0"), "change with the step"),
        (rf.make("contexts-v0"), "contexts"),
        (rf.make("grid-v0").replace(end_reset=np.eye(12)[5]), "end of episodes"),
    ):
        with pytest.raises(rf.InvalidInput, match=why):
            live(mdp, 10)
    wrong: dict[str, Any] = {"steps": 0, "seed": -1, "width": "paper", "scale": -1.0, "noise": -1.0, "p": 0.0}
    for name, value in wrong.items():
        settings: dict[str, Any] = {"steps": 10, name: value}
        with pytest.raises(rf.InvalidInput, match=f"The '{name}' of live must be .* Got {value!r} instead"):
            live(rf.make("grid-v0"), **settings)


def test_what_cannot_be_promised_is_refused() -> None:
    move = np.zeros((3, 1, 3))
    move[0, 0, 1] = move[1, 0, 2] = 1.0
    doomed = rf.FiniteMDP(move, np.zeros((3, 1)), [False, False, True], 2)
    with pytest.raises(rf.AssumptionViolated, match="cannot be avoided for ever"):
        live(doomed, 10)
    with pytest.raises(rf.AssumptionViolated, match="No state admits"):
        optimal_gain(doomed).value  # noqa: B018
    apart = rf.FiniteMDP(np.eye(2)[:, None], [[0.0], [1.0]], [False, False], 2)
    assert optimal_gain(apart).gain.tolist() == [0.0, 1.0]
    with pytest.raises(rf.AssumptionViolated, match="weakly communicating"):
        live(apart, 10).regret  # noqa: B018


def test_random_problems_of_the_episodic_kind_live_too() -> None:
    for seed in range(30):
        mdp = rough_mdp(seed)
        if not mdp.stationary or mdp.contexts is not None:
            continue
        mdp = mdp.replace(end_reset=None, start=0, restart=0)
        assert live(mdp, 1000, seed=seed).resets <= unsafe_pairs(mdp).sum()
