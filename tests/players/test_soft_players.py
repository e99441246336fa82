"""Soft actor-critics: their targets by hand, what ends a life, exact resume, and that they learn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from tests.players.small_networks import small

import resetfree as rf
from resetfree.core import state as saving
from resetfree.core.errors import InvalidInput
from resetfree.game.contract import Plan, Round
from resetfree.players.baselines.sac import SAC
from resetfree.players.baselines.sac_lagrangian import SACLagrangian
from resetfree.players.dual.constant_penalty import ConstantPenalty
from resetfree.players.shared.actor_critic import Learning, squashed_log, target, wanted_values
from resetfree.players.shared.networks import NetworkPolicy, forward, rectified
from resetfree.players.shared.replay_batches import Batch, replayed
from resetfree.players.shared.stored_transitions import no_rows
from resetfree.players.testing.trial_problems import PUSH, Plane, played
from resetfree.problems.contract import Episode
from resetfree.problems.stepping import Step
from resetfree.use import read_policy

HOW = Learning(1e-3, 0.9, 0.01)
ENDS = (np.array([0.0]), np.array([1.0]))


class Target(Plane):
    """Pushes move x, which is paid for being near 0.4 and falls beyond 1."""

    def __init__(self) -> None:
        super().__init__("target", 10, (0.0, 1.0), 0.0, PUSH)

    def step(self, h: int, state: Any, action: Any, u: Any) -> Step:
        x = state[0] + 0.4 * (float(action[0]) - 0.5) + 0.1 * (u[0] - 0.5)
        return Step(np.array([x, 2.0 * u[1] - 1.0]), float(np.exp(-8.0 * (x - 0.4) ** 2)), bool(abs(x) > 1.0))


def episode(reset: bool, reward: float = 1.0) -> Episode:
    states = np.array([[0.1, 0.0], [0.2, 0.0], [0.3, 0.0]])
    return Episode(states, np.array([[0.25], [1.0]]), np.full(2, reward), reset, states[-1])


def feed(player: Any, state: Any, one: Episode, k: int, lam: float = 0.0) -> Any:
    return player.update(state, Round(k, one.start, lam, Plan(None, 0.0, 0.0), one, 0.0, None))


def test_only_a_fall_is_an_end() -> None:
    """The last step of an episode that did not fall leads on: its target has a future."""
    rows = no_rows(Target())
    rows.add(episode(False))
    rows.add(episode(True))
    batch = replayed(rows, np.flatnonzero(rows.taken(rows.n)), ENDS)
    assert batch.dead.tolist() == [0.0, 0.0, 0.0, 1.0]
    np.testing.assert_allclose(batch.after[:, 0], [0.2, 0.3, 0.2, 0.3])
    np.testing.assert_allclose(batch.action[:, 0], [-0.5, 1.0, -0.5, 1.0])
    assert all(field.dtype == np.float32 for field in batch)


def constant(value: float, copies: int | None = None, outputs: int = 1) -> Any:
    """A network whose outputs do not depend on its input."""
    many = () if copies is None else (copies,)
    offset = np.full((*many, 1, outputs) if many else (outputs,), value, dtype=np.float32)
    return ((np.zeros((*many, 3 if many else 2, outputs), dtype=np.float32), offset),)


def test_targets_by_hand() -> None:
    """Critics say 4 and 3, costs 0.2 and 0.5; the actor is standard normal; temperature 0.5, discount 0.9."""
    critics, costs = constant(4.0, 2), constant(0.2, 2)
    critics[0][1][1], costs[0][1][1] = 3.0, 0.5
    tree = {"actor": constant(0.0, outputs=2), "late_critics": critics, "late_costs": costs}
    tree["log_alpha"] = jnp.log(0.5)
    batch = Batch(np.zeros((2, 2)), np.zeros((2, 1)), np.array([1.0, -7.0]), np.zeros((2, 2)), np.array([0.0, 1.0]))
    x = 0.6
    density = -0.5 * x**2 - 0.5 * np.log(2 * np.pi) - np.log(1 - np.tanh(x) ** 2)
    noise = jnp.full((2, 1), x)
    assert float(squashed_log(noise, jnp.zeros(()), noise)[0]) == pytest.approx(density, rel=1e-5)
    wanted, risk = wanted_values(tree, batch, noise, HOW)
    np.testing.assert_allclose(wanted, [1.0 + 0.9 * (3.0 - 0.5 * density), -7.0], rtol=1e-5)  # the smaller critic
    np.testing.assert_allclose(risk, [0.9 * 0.5, 1.0], rtol=1e-5)  # the worse critic
    del tree["late_costs"]
    assert wanted_values(tree, batch, noise, HOW)[1] is None
    assert target(1.0, 0.0, 2.0, 0.9) == pytest.approx(2.8)


def test_a_fall_costs_its_price() -> None:
    state = (player := small(SAC, price=5.0, reward_scale=2.0)).init(Target(), 5, 0)
    state.rows.add(episode(True, reward=0.5))
    np.testing.assert_allclose(player.priced(state, state.taken()).reward, [1.0, 2.0 * (0.5 - 5.0)])


def test_the_value_of_an_endless_life_is_not_that_of_an_episode() -> None:
    """Two paid steps an episode, for ever: 1 / (1 - 0.8) = 5 and some entropy, where an end would make it 2."""
    player = small(SAC, gamma=0.8, tau=0.05, updates=10)
    state = player.init(Target(), 100, 0)
    for k in range(60):
        state = feed(player, state, episode(False), k)
    assert state.updates == 20 * (60 - 4)  # none in the first ten steps
    assert 4.0 < last_value(state) < 8.0
    state = player.init(Target(), 100, 0)
    for k in range(60):
        state = feed(player, state, episode(True), k)
    assert last_value(state) == pytest.approx(1.0, abs=0.1)  # one step, and then nothing


def last_value(state: Any) -> float:
    """What the critics say about the last step of `episode`."""
    return float(forward(state.tree["critics"], np.array([0.2, 0.0, 1.0]), rectified).min())


def test_it_learns_where_it_is_paid() -> None:
    _, rounds = played(Target(), small(SAC, gamma=0.9), ConstantPenalty(C=0.0), 120, seed=1)
    earned = [this.episode.total_reward / 10.0 for this in rounds]
    assert np.mean(earned[:20]) < 0.55
    assert np.mean(earned[-20:]) > 0.75


def test_the_multiplier_keeps_the_actor_from_what_falls() -> None:
    """A push pays, and a strong one falls; at the price of 100 it is not worth it."""

    class Tempting(Plane):
        def step(self, h: int, state: Any, action: Any, u: Any) -> Step:
            push = float(action[0])
            return Step(np.array([push, u[1]]), 0.3 + 0.7 * push, bool(push > 0.7))

    pushes = {}
    for C in (0.0, 100.0):
        problem = Tempting("tempting", 3, (0.0, 1.0), 0.0, PUSH)
        dual = ConstantPenalty(C=C)
        game, _ = played(problem, small(SACLagrangian, gamma=0.0, updates=5), dual, 150, seed=2)
        plan = small(SACLagrangian).plan(game.primal, np.zeros(2), C)
        pushes[C] = float(plan.policy.mode(1, np.zeros(2))[0])
        assert 0.0 <= plan.v_c <= 1.0
    assert pushes[0.0] > 0.7 > pushes[100.0]


@pytest.mark.parametrize("cls", [SAC, SACLagrangian])
def test_a_run_is_resumed_bit_for_bit_and_exported(cls: Any, tmp_path: Path) -> None:
    def learned(path: Path, **options: Any) -> rf.Run:
        asked: dict[str, Any] = {"episodes": 30, "seed": 5, "path": path, **options}
        return rf.learn(Target(), small(cls), **asked)

    whole = learned(tmp_path / "whole.rfrun")
    parts = tmp_path / "parts.rfrun"
    assert len(learned(parts, max_resets=2)) < 30
    again = learned(parts, resume=True)
    for name in ("reward", "reset", "v_r_hat", "v_c_hat", "lam"):
        assert again.columns[name].tolist() == whole.columns[name].tolist(), name
    assert whole.spec["statements"]["primal"]["covered"] is False
    assert "no theorem" in whole.spec["statements"]["primal"]["why"]
    policy, x = whole.policy, np.random.default_rng(0).normal(size=(20, 2))
    assert isinstance(policy.rule, NetworkPolicy)
    file = read_policy(policy.export(tmp_path / "policy.npz"))
    assert np.array_equal(file.predict(x)[0], policy.predict(x)[0])
    assert np.array_equal(rf.load(tmp_path / "whole.rfrun", Target()).policy.predict(x)[0], policy.predict(x)[0])


def test_what_a_file_holds_must_be_networks() -> None:
    player = small(SAC)
    state = player.init(Target(), 5, 0)
    for k in range(7):
        state = feed(player, state, episode(k == 3), k)
    saved = saving.dump(state)
    assert state.updates > 0
    for key, array in saved.items():
        if not key.startswith("learned."):
            continue
        wrong = [array[None], array.astype(np.int64 if array.dtype.kind == "f" else np.float32)]
        if array.dtype.kind == "f":
            wrong.append(np.full_like(array, np.nan))
        for other in wrong:
            fresh = player.init(Target(), 5, 0)
            fresh.rows.n = state.rows.n
            with pytest.raises(InvalidInput, match=f"The checkpoint's '{key}'"):
                saving.load(fresh, {**saved, key: other})


def test_networks_that_grow_without_bound_are_reported() -> None:
    player = small(SAC, learning_rate=1.0, price=1e6, reward_scale=1e6, gamma=0.999999, tau=1.0, updates=1000)
    state = player.init(Target(), 5, 0)
    for k in range(4):
        state = feed(player, state, episode(True), k)
    with pytest.raises(InvalidInput, match=r"The networks of 'sac' must be finite.*'learning_rate'"):
        feed(player, state, episode(True), 5)


@pytest.mark.parametrize("missing", ["jax", "optax"])
def test_what_is_not_installed_is_named_with_the_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "resetfree.players.shared.actor_critic")
    with pytest.raises(InvalidInput, match=r'needs JAX and optax.*pip install "resetfree\[neural\]"'):
        SAC().init(Target(), 5, 0)


def test_players_are_listed_without_an_import_of_jax() -> None:
    code = (
        "import sys; from resetfree.players import discover; print('sac' in discover('primal'), 'jax' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "False"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("hidden", 0), ("hidden", 10**6), ("batch", 0), ("gamma", 1.0), ("tau", 0.0), ("updates", 0), ("price", 1e300)],
)
def test_settings_are_refused_with_one_sentence(setting: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=f"The '{setting}' of sac must be"):
        SAC(**{setting: value})  # type: ignore[arg-type]
