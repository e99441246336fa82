"""What all players with networks share: exact resume, files that are checked, sentences, and a late import of JAX."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.players.neural.small_networks import Target, episode, feed, small

import resetfree as rf
from resetfree.core import state as saving
from resetfree.players.neural.mbpo import MBPO
from resetfree.players.neural.networks import NetworkPolicy
from resetfree.players.neural.ppo import PPO
from resetfree.players.neural.sac import SAC, SACLagrangian
from resetfree.use import read_policy

PLAYERS = [SAC, SACLagrangian, PPO, MBPO]


@pytest.mark.parametrize("cls", PLAYERS)
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
    assert state.gradient_steps > 0
    for key, array in saved.items():
        if not key.startswith("learned."):
            continue
        wrong = [array[None], array.astype(np.int64 if array.dtype.kind == "f" else np.float32)]
        if array.dtype.kind == "f":
            wrong.append(np.full_like(array, np.nan))
        for other in wrong:
            fresh = player.init(Target(), 5, 0)
            fresh.rows.n = state.rows.n
            with pytest.raises(rf.InvalidInput, match=f"The checkpoint's '{key}'"):
                saving.load(fresh, {**saved, key: other})


def test_networks_that_grow_without_bound_are_reported() -> None:
    player = small(SAC, learning_rate=1.0, price=1e6, reward_scale=1e6, gamma=0.999999, tau=1.0, gradient_steps=1000)
    state = player.init(Target(), 5, 0)
    for k in range(4):
        state = feed(player, state, episode(True), k)
    with pytest.raises(rf.InvalidInput, match=r"The networks of 'sac' must be finite.*'learning_rate'"):
        feed(player, state, episode(True), 5)


@pytest.mark.parametrize("missing", ["jax", "optax"])
def test_what_is_not_installed_is_named_with_the_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(rf.InvalidInput, match=r'needs JAX and optax.*pip install "resetfree\[neural\]"'):
        SAC().init(Target(), 5, 0)


def test_players_are_listed_without_an_import_of_jax() -> None:
    code = (
        "import sys; from resetfree.players import discover; print('sac' in discover('primal'), 'jax' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "False"]
