"""The player with networks: what it learns from, strives for and plays by hand; exact resume; policies without JAX."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tests.players.neural.small_networks import Target, episode, small

import resetfree as rf
from resetfree.core.state import load, replay
from resetfree.game.replay_buffer import empty_buffer
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.neural import actor_critic as ac
from resetfree.players.neural import neural_search as word
from resetfree.players.neural.experience import ScaledRows, bounded, found_scales, thresholds
from resetfree.players.neural.neural_search import NeuralSearch
from resetfree.players.neural.planning import NoisePolicy, PlannedPolicy, plan_from, values_of
from resetfree.players.neural.schedule import LearningProgress, Schedule, aimed, progressed
from resetfree.players.neural.world_model import StepRows, first_scales, predict, rescaled, stepped
from resetfree.players.testing.trial_problems import played, same, same_round, saved_and_loaded, snapshot
from resetfree.problems.features.scaling import Scaling
from resetfree.problems.stepping import Step
from resetfree.use import read_policy

PRICE = ConstantPenalty(C=20.0)
SIZES = ac.PlanSizes(16, 4, 4, 2, 64, 2)
AIM = ac.Objective(*map(np.float32, (0.2, 2.0, 1.5, 1.2, 10.0, 1.0, 0.5, 0.1)))


class NeverFalls(Target):
    """The same, with a wall in place of the fall."""

    def step(self, h: int, state: Any, action: Any, u: Any) -> Step:
        after, reward, *_ = super().step(h, state, action, u)
        return Step(np.clip(after, -1.0, 1.0), reward, False)


def f32(*numbers: Any) -> Any:
    return np.array(numbers, dtype=np.float32)


@cache
def learner() -> Any:
    """D = 2, A = 1: fresh networks whose last layers are not 0, on scales that are not 1."""
    rng = np.random.default_rng(3)
    tree = ac.fresh_learner(rng.normal(size=(1, 3)), 16, 3, 8, rng)
    noisy = lambda part: part + 0.2 * rng.normal(size=part.shape).astype(np.float32)  # noqa: E731
    tree = {**tree, **{name: jax.tree.map(noisy, tree[name]) for name in ("model", "actor", "critics", "targets")}}
    scales = first_scales(2)._replace(centre=f32(1, -2), scale=f32(0.5, 3), mean=f32(0.1, 0.2, 0.3))
    return {**tree, "scales": scales._replace(deviation=f32(0.5, 2, 3), high=f32(1.0, 1e6), least=f32(-9, -9))}


def test_thresholds_cover_falls_and_no_survivor() -> None:
    falls = np.array([[3.0, 0.0], [2.0, 0.0], [0.0, -5.0], [0.5, 0.5]])
    low, high, left = thresholds(-np.ones(2), np.ones(2), falls)
    np.testing.assert_allclose(high, [1.5, 1e6])  # half way to the nearer of the two that the first sensor explains
    np.testing.assert_allclose(low, [-1e6, -3.0])
    assert left.tolist() == [False, False, False, True]  # amid the survivors


def test_what_is_learned_from_by_hand() -> None:
    rows, box = empty_buffer(Target()), Target().actions
    assert isinstance(box, rf.Box)
    for one in (episode(False), episode(True)):
        rows.add(one)
    scales = bounded(rows, rows.n, found_scales(rows, rows.n, first_scales(2)))
    stored = ScaledRows()
    stored.add(rows, 3, scales, box)
    assert stored.n == 2
    stored.add(rows, 6, scales, box)
    z = (np.array([0.1, 0.2, 0.1, 0.2]) - scales.centre[0]) / scales.scale[0]
    np.testing.assert_allclose(stored.rows.z[:4, 0], z, rtol=1e-5)
    np.testing.assert_allclose(stored.rows.action[:4, 0], [-0.5, 1.0, -0.5, 1.0])  # in a box from 0 to 1
    assert stored.rows.fell[:4].tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(stored.rows.change[:4, 0], 0.1 / scales.scale[0], rtol=1e-5)


def test_new_scales_change_no_function_of_states() -> None:
    tree, rng = learner(), np.random.default_rng(0)
    new = tree["scales"]._replace(centre=f32(-1, 4), scale=f32(2, 0.7), mean=f32(0, 1, 0), deviation=f32(1, 3, 0.5))
    other, s, a = rescaled(tree, new), rng.normal(size=(3, 5, 2)), rng.normal(size=(3, 5, 1)).astype(np.float32)
    found = []
    for one in (tree, other):
        scales = one["scales"]
        z = ((s - scales.centre) / scales.scale).astype(np.float32)
        y = np.asarray(predict(one["model"], z, a)[0]) * scales.deviation + scales.mean
        raw = np.append(scales.scale, 1.0)  # changes in the units of the machine
        found.append([y * raw, ac.action_of(one["actor"], z), *ac.worst_values(one["critics"], z)])
    for before, after in zip(*found, strict=True):
        np.testing.assert_allclose(before, after, rtol=2e-3, atol=2e-4)


def test_a_step_falls_beyond_a_threshold() -> None:
    tree, a = learner(), np.zeros((3, 4, 1), np.float32)
    z = np.zeros((3, 4, 2), np.float32)
    z[:, 2:, 0] = 50.0
    after, _, fall = (np.asarray(part) for part in stepped(tree["model"], tree["scales"], z, a, 0.0))
    beyond = after[..., 0] - 1.0
    np.testing.assert_allclose(fall, 1 / (1 + np.exp(-np.clip(beyond / 0.05, -12, 12))), rtol=1e-3, atol=1e-6)
    assert (fall[:, 2:] > 0.99).all()


def test_utility_by_hand() -> None:
    np.testing.assert_allclose(ac.utility(f32(0.2, 1.2, 2.2), AIM), [0.0, 0.75, 0.375])


def test_values_and_targets_are_those_of_the_legend() -> None:
    rng, steps = np.random.default_rng(1), 5
    fall = 0.3 * rng.random((steps, 3, 2))
    alive = np.cumprod(np.concatenate([np.ones((1, 3, 2)), 1 - fall]), axis=0)
    z = rng.normal(size=(steps + 1, 3, 2, 2)).astype(np.float32)
    reward, tree = rng.normal(size=(steps, 3, 2)), learner()
    taken = ac.Rollout(*map(jax.numpy.asarray, (z[:-1], alive[:-1], reward, fall, z[-1], alive[-1])))
    u, (v, f) = np.asarray(ac.utility(reward, AIM)), (np.asarray(part) for part in ac.worst_values(tree["critics"], z))
    earned, fallen, value, falls = 0.0, 0.0, v[-1], f[-1]
    for t in range(steps):
        earned = earned + ac.DISCOUNT**t * alive[t] * (1 - fall[t]) * u[t]
        fallen = fallen + ac.FALL_DISCOUNT**t * alive[t] * fall[t]
    fallen = fallen + ac.FALL_DISCOUNT**steps * alive[-1] * f[-1]
    whole = earned + ac.DISCOUNT**steps * alive[-1] * v[-1] - 10.0 * fallen
    np.testing.assert_array_equal(ac.of_one_member(taken).z[:, 0], np.stack([z[:-1, 0, 0], z[:-1, 1, 1]], axis=1))
    np.testing.assert_allclose(ac.rollout_value(taken, tree["critics"], AIM), whole, rtol=1e-4)
    found = [np.asarray(part) for part in ac.td_targets(taken, tree["critics"], AIM)]
    for t in reversed(range(steps)):
        value = (1 - fall[t]) * (u[t] + ac.DISCOUNT * ((1 - ac.LAMBDA) * v[t + 1] + ac.LAMBDA * value))
        falls = fall[t] + (1 - fall[t]) * ac.FALL_DISCOUNT * ((1 - ac.LAMBDA) * f[t + 1] + ac.LAMBDA * falls)
        np.testing.assert_allclose(found[0][t], value, rtol=1e-4)
        np.testing.assert_allclose(found[1][t], falls, rtol=1e-4)


def test_a_plan_has_a_larger_value_than_the_actor_alone() -> None:
    tree, none = learner(), np.zeros((4, 1), np.float32)
    gains = []
    for i, z in enumerate(np.random.default_rng(2).normal(size=(4, 2)).astype(np.float32)):
        action, offsets = plan_from(tree, z, none, jax.random.key(i), AIM, SIZES)
        both = values_of(tree, z, np.stack([none, offsets]), AIM, SIZES.members)
        gains.append(float(both[1] - both[0]))
        np.testing.assert_allclose(action, np.clip(ac.action_of(tree["actor"], z) + offsets[0], -1, 1), rtol=1e-5)
    assert min(gains) > -1e-3
    assert np.mean(gains) > 0.5


def rows_of(rewards: Any, falls: tuple[int, ...] = ()) -> Any:
    """A replay buffer of one trajectory."""
    rows, n = empty_buffer(Target()), len(rewards)
    rows.n, rows.reward, rows.terminated = n, np.asarray(rewards, float), np.isin(np.arange(n), falls)
    rows.state, rows.action = np.zeros((n, 2)), np.zeros((n, 1))
    return rows


def test_what_is_strived_for_by_hand() -> None:
    schedule, rng = Schedule(), np.random.default_rng(0)
    rows = rows_of(rng.uniform(0, 1, 1000), falls=(99,))
    now = progressed(LearningProgress(), rows, 0, schedule, refit=True)
    assert now.base == pytest.approx(0.5, abs=0.05)
    assert now.unit == pytest.approx(0.95, abs=0.02)
    assert (now.first_fall, now.boldness) == (100, 1.0)
    aim = aimed(now, rows, 40.0, schedule)
    assert aim.weight == pytest.approx(900 / 3000)
    assert (aim.price, aim.cap) == (40.0, pytest.approx(now.base + 1.3 * now.unit))
    flat = rows_of(np.full(9000, 0.5), falls=(99,))
    bolder = progressed(now, flat, 6000, schedule, refit=False)
    assert bolder.boldness == pytest.approx(2**0.5)  # 3,000 steps, of 6,000 in which it doubles
    assert aimed(bolder, flat, 40.0, schedule).pessimism < aim.pessimism
    rising = progressed(now, rows_of(np.full(9000, 0.9), falls=(99,)), 6000, schedule, refit=False)
    assert rising.boldness == 1.0
    fell = progressed(bolder, rows_of(np.full(9001, 0.5), falls=(99, 9000)), 9000, schedule, refit=False)
    assert fell.boldness == pytest.approx(0.9 * 2**0.5)


def test_many_learners_are_each_of_them() -> None:
    """What the benchmark maps over seeds is what the player calls."""
    tree, rng = learner(), np.random.default_rng(5)
    parts = rng.normal(size=(64, 2)), rng.uniform(-1, 1, (64, 1)), rng.normal(size=(64, 2)), rng.normal(size=64)
    z, action, change, reward = (part.astype(np.float32) for part in parts)
    rows = StepRows(z, action, change, reward, np.zeros(64, np.float32))
    count, work = np.int32(64), ac.Work(np.uint32(3), np.uint32(0), np.int32(2), np.int32(2))
    one = ac.learn(tree, rows, count, AIM, work, sizes=SIZES)
    mapped: Any = jax.vmap(lambda tree, rows: ac.learn_from(tree, rows, count, AIM, work, SIZES))
    both = mapped(*(jax.tree.map(lambda part: np.stack([part, part]), parts) for parts in (tree, rows)))
    for name in ("model", "actor", "critics"):
        for a, b, before in zip(*map(jax.tree.leaves, (one[name], both[name], tree[name])), strict=True):
            np.testing.assert_allclose(a, b[1], rtol=1e-3, atol=1e-5)
            assert not np.array_equal(a, before)


@cache
def fallen() -> tuple[Any, Any]:
    """A run that fell, and its rounds."""
    return played(Target(), small(NeuralSearch), PRICE, 50, seed=4)


def test_it_is_careful_after_the_first_reset() -> None:
    game, rounds = fallen()
    at = int(game.primal.decisions[0, 0])
    assert game.primal.decisions[:, 1].tolist() == [word.CAREFUL]
    assert {type(this.plan.policy) for this in rounds[:at]} == {NoisePolicy}
    assert {type(this.plan.policy) for this in rounds[at:]} == {PlannedPolicy}
    assert sum(this.episode.reset for this in rounds[at:]) <= 2
    assert word.WORDS[word.CAREFUL] in [one.what for one in small(NeuralSearch).decisions(game.primal)]


def test_where_nothing_falls_it_explores_freely() -> None:
    game, rounds = played(NeverFalls(), small(NeuralSearch), PRICE, 30, seed=4)
    assert game.primal.decisions[:, 1].tolist() == [word.FREE]
    policy = rounds[-1].plan.policy
    assert isinstance(policy, PlannedPolicy)
    assert policy.aim["pessimism"] < 0.0 < policy.aim["weight"] == 1.0
    actions = np.concatenate([this.episode.actions for this in rounds[8:18]])
    assert actions.min() < 0.05  # of the box from 0 to 1
    assert actions.max() > 0.95


@pytest.mark.parametrize(("problem", "episodes"), [(Target(), 44), (NeverFalls(), 44), (Target(), 20)])
def test_a_run_goes_on_bit_for_bit(problem: Any, episodes: int) -> None:
    (whole, one), (parts, other) = saved_and_loaded(problem, small(NeuralSearch), PRICE, episodes, seed=4)
    assert all(same_round(a, b) for a, b in zip(one, other, strict=True))
    assert same(snapshot(whole.primal), snapshot(parts.primal))


def test_what_a_file_holds_is_checked() -> None:
    game, rounds = fallen()
    saved = snapshot(game.primal)
    for key, value in {"trained": 10**6, "decisions": [[3, 99]], "progress.first_fall": 10**6}.items():
        fresh = small(NeuralSearch).init(Target(), 50, 4)
        replay(fresh, [this.episode for this in rounds])
        with pytest.raises(rf.InvalidInput, match="The checkpoint's"):
            load(fresh, {**saved, key: np.array(value)})


def test_less_is_computed_for_large_machines() -> None:
    player, state = NeuralSearch(), small(NeuralSearch).init(Target(), 10, 0)
    assert player._part(state) == 1.0
    state.rows.state = np.zeros((1, 348))
    assert player._part(state) < 0.5
    assert player._sizes(state).samples < player.samples / 2


def test_the_policy_for_use_is_the_actor() -> None:
    tree = learner()
    scaling, box = Scaling(np.array([1.0, -2.0]), np.array([0.5, 3.0])), Target().actions
    policy = ac.skip_policy(tree["actor"], scaling, box)  # type: ignore[arg-type]
    for s in np.random.default_rng(0).normal(size=(9, 2)):
        expected = ac.action_of(tree["actor"], scaling(s).astype(np.float32))
        np.testing.assert_allclose(2.0 * policy.mode(1, s) - 1.0, expected, atol=1e-5)


def test_a_run_is_exported_and_needs_no_jax(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"episodes": 30, "seed": 4, "settings": {"dual": {"C": 20.0}}}
    run = rf.learn(Target(), small(NeuralSearch), path=tmp_path / "run.rfrun", **asked)
    policy, x = run.policy, np.random.default_rng(0).normal(size=(20, 2))
    assert isinstance(policy.rule, ac.SkipPolicy)
    file = policy.export(tmp_path / "policy.npz")
    assert np.array_equal(read_policy(file).predict(x)[0], policy.predict(x)[0])
    again = rf.load(tmp_path / "run.rfrun", Target())
    assert again.decisions == run.decisions
    code = (
        "import sys; sys.modules['jax'] = None; from resetfree.use import read_policy; import numpy as np; "
        f"print(read_policy({str(file)!r}).predict(np.zeros((1, 2)))[0].shape)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["(1,", "1)"]
