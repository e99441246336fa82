"""Networks that take over from model-search: imagined lives by hand, the gate, returns after falls, exact resume."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console
from tests.players.neural.small_networks import Target, episode, feed, small
from tests.players.neural.toy_rollouts import f32, idle, nothing_beyond, toy, toy_batch

import resetfree as rf
from resetfree.core.errors import InvalidInput
from resetfree.core.state import dump, load, replay
from resetfree.players.dual.penalties import ConstantPenalty
from resetfree.players.model_based.reset_classifier import ResetClassifier, fit_classifier
from resetfree.players.neural import network_search as word
from resetfree.players.neural.network_search import calibrated_classifier
from resetfree.players.neural.neural_search import NeuralSearch, gate
from resetfree.players.neural.skip_policy import SkipPolicy, skip_policy
from resetfree.players.neural.world_model import Returns, action_of, actor_value, compare, improve, stepped
from resetfree.players.testing.trial_problems import played, same, same_round, saved_and_loaded, snapshot
from resetfree.problems.action_spaces import Box
from resetfree.problems.features.scaling import Scaling
from resetfree.problems.tanh_policy import TanhPolicy
from resetfree.show.cli.run_summary import show, summary
from resetfree.show.report.html.groups import collect
from resetfree.show.report.html.html_tables import settings
from resetfree.use import read_policy

PRICE = ConstantPenalty(C=20.0)


def test_a_step_by_hand() -> None:
    z, a, luck = np.zeros((2, 1, 2), dtype=np.float32), np.full((2, 1, 1), 0.5, np.float32), f32([0.0, 0.0, 0.0])
    model = toy(0.3, -0.1, push=2.0)._replace(doubt=f32(0.05)[0])
    after, reward, danger = stepped(model, z, a, luck, 0.5)
    np.testing.assert_allclose(after[:, 0], [[1.3, 0.0], [0.9, 0.0]], atol=1e-6)
    np.testing.assert_allclose(reward, 1.0, atol=1e-6)
    doubt = 0.2 / np.sqrt(3.0) / 0.05  # the means deviate by 0.2 in one of three outputs
    np.testing.assert_allclose(danger, 0.5 * (doubt / 2 - 1), rtol=1e-4)
    agreed = stepped(toy(0.3, 0.3, reset_classifier=(-1.0, 2.0, 0.0, 0.0, 0.0)), z, 0.0 * a, luck, 0.5)[2]
    np.testing.assert_allclose(agreed, 1 / (1 + np.exp(1.0 - 0.6)), rtol=1e-5)  # the judge sees where the step leads


@pytest.mark.parametrize("far", [3.0, 10.5, 30.0])
def test_networks_and_regression_judge_alike_however_far(far: float) -> None:
    weight = f32(-1.0, 0.5, -0.25, 0.0, 0.02)
    model = toy(0.0, 0.0, reset_classifier=weight)._replace(least=f32(-99, -99), most=f32(99, 99))
    z, luck = f32([[0.0, far]], [[0.0, -far]]), f32([0.0, 0.0, 0.0])
    danger = stepped(model, z, np.zeros((2, 1, 1), np.float32), luck, 0.0)[2]
    np.testing.assert_allclose(danger[:, 0], 1 / (1 + np.exp(-ResetClassifier(weight).logit(z[:, 0]))), rtol=1e-5)


def test_the_worst_member_counts() -> None:
    two = Returns(f32([4.0, 4.0], [8.0, 6.0]), f32([0.0, 1.0], [0.5, 0.0]), None, None)
    assert float(actor_value(two, f32(10.0, 10.0))) == pytest.approx(np.mean([6.0 - 5.0, 5.0 - 10.0]))
    falling = toy(
        1.0, 0.0, reset_classifier=(-20.0, 8.0, 0.0, 0.0, 0.0)
    )  # the first member walks into what the judge forbids
    values, resets = compare(toy_batch(falling, 10.0), nothing_beyond(), [idle()] * 2, 10)
    assert resets[0] > 0.99
    assert float(values[0]) < 10.0 - 9.9  # no more than 10 steps earn, less the price of a sure fall
    standing = toy(0.0, 0.0, reset_classifier=(-20.0, 8.0, 0.0, 0.0, 0.0))
    both = compare(toy_batch(standing, 10.0), nothing_beyond(), [idle()] * 2, 10)
    assert float(both[0][0]) == pytest.approx(10.0, abs=0.1)


def test_the_gradient_lowers_imagined_resets() -> None:
    drifting = toy(0.3, 0.3, reset_classifier=(-6.0, 0.0, 0.0, 2.0, 0.0), push=0.6)  # the push can stop the drift
    batch, beyond = toy_batch(drifting, 5.0), nothing_beyond()
    better = improve(batch, beyond, idle(), count=np.int32(200), rate=np.float32(2e-2), rollout_length=10)
    values, resets = compare(batch, beyond, [idle(), better], 10)
    assert resets[0] > 0.9
    assert resets[1] < 0.1
    assert values[1] > values[0]


def test_the_judge_is_as_sure_as_resets_are_frequent() -> None:
    rng = np.random.default_rng(0)
    lived, dead = rng.normal(size=(4000, 2)), rng.normal(size=(40, 2)) + np.array([2.0, 0.0])
    some = lived[::4]
    classifier = fit_classifier(some, dead[::2])

    def mean_chance(weight: Any) -> float:
        z = np.concatenate([lived, dead])
        return float(np.mean(1 / (1 + np.exp(-(weight[0] + z @ weight[1:3] + z**2 @ weight[3:])))))

    found = classifier.calibrated((len(some), 20), (len(lived), len(dead))).weight
    assert mean_chance(found) == pytest.approx(40 / 4040, rel=0.3)
    assert mean_chance(classifier.weight) > 0.05  # before: as if resets were far more frequent
    none = fit_classifier(lived, dead[:0]).calibrated((4000, 0), (4000, 0)).weight
    assert none.tolist() == [pytest.approx(np.log(0.5 / 4001)), 0, 0, 0, 0]


def test_the_gate() -> None:
    assert gate(f32(5, 9, 8), f32(0.1, 0.19, 0.0), 0.1) == 1
    assert gate(f32(5, 9, 8), f32(0.1, 0.21, 0.0), 0.1) == 2  # more imagined resets than the bound allows
    assert gate(f32(5, 5, 4), f32(0.1, 0.0, 0.0), 0.1) == 0  # not worth more


@cache
def taken_over() -> tuple[Any, Any]:
    """A run and its rounds; in it networks take over."""
    return played(Target(), small(NeuralSearch), PRICE, 30, seed=4)


def state_then() -> Any:
    """A copy of the state after that run."""
    game, rounds = taken_over()
    fresh = small(NeuralSearch).init(Target(), 30, 4)
    replay(fresh, [this.episode for this in rounds])
    return load(fresh, snapshot(game.primal))


def decided(state: Any) -> list[int]:
    return [int(one) for one in state.decisions[:, 1]]


def test_networks_take_over_and_it_is_recorded() -> None:
    game, rounds = taken_over()
    assert decided(game.primal)[0] == word.TAKE_OVER
    at = int(game.primal.decisions[0, 0])
    assert [type(this.plan.policy) for this in rounds[:at]] == [TanhPolicy] * at
    assert {type(this.plan.policy) for this in rounds[at:]} == {SkipPolicy}
    assert sum(len(this.episode.actions) for this in rounds[:at]) >= 60
    first, last = rounds[at].plan.policy, rounds[at - 1].plan.policy
    x = np.random.default_rng(0).normal(size=(20, 2))
    for s in x:  # it begins as the policy that model-search found
        np.testing.assert_allclose(first.mode(1, s), last.mode(1, s), atol=1e-5)
    assert word.ADOPTED in decided(game.primal)
    assert np.mean([this.episode.total_reward for this in rounds[at:]]) > 9.0


def test_after_a_fall_the_proven_policy_is_back() -> None:
    player, state = small(NeuralSearch), state_then()
    tree = state.tree
    other = jax.tree.map(lambda part: part + np.float32(1.0), tree["proven"])
    state.keep({**tree, "played": other}, 0, player.name)
    state.on_trial = True
    state = feed(player, state, episode(True), 31)
    assert decided(state)[-1] == word.FELL_NEW
    assert all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (state.tree["played"], tree["proven"]))))  # noqa: B905
    assert state.networks_play
    assert not state.on_trial
    n = len(state.decisions)
    state = feed(player, state, episode(False), 32)
    assert len(state.decisions) == n  # the next decision waits for new data
    state = feed(player, state, episode(True), 33)  # the proven one fell too, soon after
    assert decided(state)[-1] == word.FELL_AGAIN
    assert not state.networks_play
    assert isinstance(player.plan(state, np.zeros(2), 20.0).policy, TanhPolicy)


def test_a_proven_policy_that_lived_long_may_fall_once() -> None:
    player, state = small(NeuralSearch), state_then()
    state.keep({**state.tree, "played": state.tree["proven"]}, 0, player.name)
    state.on_trial = False
    assert state.life() > 60
    n = len(state.decisions)
    state = feed(player, state, episode(True), 31)
    assert (state.networks_play, len(state.decisions)) == (True, n)


def test_networks_that_predict_worse_give_back() -> None:
    player, state = small(NeuralSearch), state_then()
    tree = state.tree
    wrong = jax.tree.map(lambda part: part + np.float32(0.5), tree["model"].layers)
    state.keep({**tree, "model": tree["model"]._replace(layers=wrong)}, 0, player.name)
    _, rounds = taken_over()
    for k in range(31, 36):
        if state.networks_play:
            state = feed(player, state, rounds[-1].episode, k, lam=20.0)
    assert decided(state)[-1] == word.GIVE_BACK
    assert state.search.stale


def test_networks_that_are_wrong_about_what_lives_have_no_say() -> None:
    player, state = small(NeuralSearch), state_then()
    tree = state.tree
    before, played = len(state.decisions), tree["played"]
    for wrong, said in ((30.0, [word.DISTRUSTED]), (-30.0, [word.DISTRUSTED, word.ADOPTED])):  # all fall, none does
        classifier = np.append(np.float32(wrong), np.zeros_like(tree["model"].reset_classifier[1:]))
        state.keep({**tree, "model": tree["model"]._replace(reset_classifier=classifier)}, 0, player.name)
        player._seek(state, 31, 20.0)
        assert decided(state)[before:] == said
        same_actor = all(map(np.array_equal, *map(jax.tree.leaves, (state.tree["played"], played))))
        assert same_actor == (wrong > 0)
    was, now = (jax.tree.leaves(one["critics"]) for one in (tree, state.tree))
    assert not any(map(np.array_equal, was, now))  # they learned before the actor did


def test_the_reset_predictor_is_tested_after_falls_and_it_is_recorded() -> None:
    player, state = small(NeuralSearch), state_then()
    known = len(state.tested)
    for _ in range(3):
        state.search.rows.add(episode(True))
    n, falls = state.search.rows.n, int(state.search.rows.terminated.sum())
    player._train(state, n, 33)
    assert state.tested[known:, :2].tolist() == [[33, falls]]
    what = next(one.what for one in player.decisions(state) if one.k == 33)
    assert re.match(rf"the reset predictor expected [\d.]+ falls in trajectories .*, where {falls} happened; ", what)
    assert [one.k for one in player.decisions(state)] == sorted(one.k for one in player.decisions(state))
    player._train(state, n, 34)  # no further falls, nothing to tell
    assert len(state.tested) == known + 1
    classifier, _ = calibrated_classifier(
        state.scaling()(state.search.rows.state[:n]), state.search.rows.terminated[:n], seeded(4, n, 2)
    )
    np.testing.assert_allclose(
        state.tree["model"].reset_classifier, classifier.weight, rtol=1e-4
    )  # rollouts use what was tested


def seeded(*numbers: int) -> np.random.Generator:
    return np.random.default_rng(numbers)


def test_boldness_by_hand() -> None:
    state = state_then()
    state.search.rows.terminated[:2] = True
    resets = int(state.search.rows.terminated.sum())
    assert resets >= 2
    assert state.boldness(100, 1.0) == pytest.approx(1.0 - resets / 10.0)
    assert state.boldness(1, 0.5) == 0.0
    assert state.boldness(100, 0.0) == 0.0


def test_where_no_resets_are_left_nothing_is_adopted() -> None:
    game, _ = played(Target(), small(NeuralSearch, budget=0.0), PRICE, 30, seed=4)
    assert decided(game.primal) == [word.TAKE_OVER]


@pytest.mark.parametrize("episodes", [10, 44])
def test_a_run_goes_on_bit_for_bit(episodes: int) -> None:
    """Saved before networks take over, and after."""
    (whole, one), (parts, other) = saved_and_loaded(Target(), small(NeuralSearch), PRICE, episodes, seed=4)
    before = whole.primal.decisions[:, 0] <= episodes // 2
    assert before.any() == (episodes == 44)
    assert all(same_round(a, b) for a, b in zip(one, other, strict=True))
    assert same(snapshot(whole.primal), snapshot(parts.primal))


def test_what_a_file_holds_is_checked() -> None:
    state, (_, rounds) = state_then(), taken_over()
    saved = snapshot(state)
    wrong = {"trained": np.array(10**6), "decisions": np.array([[3, 99]]), "tested": np.full((1, 6), np.nan)}
    for key, value in wrong.items():
        fresh = small(NeuralSearch).init(Target(), 30, 4)
        replay(fresh, [this.episode for this in rounds])
        with pytest.raises(InvalidInput, match="The checkpoint's"):
            load(fresh, {**saved, key: value})
    assert {"learned.0", "search.policy.weight", "since"} <= dump(state).keys()


def test_the_policy_is_the_actor() -> None:
    rng = np.random.default_rng(2)
    actor = jax.tree.map(lambda part: part + 0.3 * rng.normal(size=part.shape).astype(np.float32), idle())
    scaling, box = Scaling(np.array([1.0, -2.0]), np.array([0.5, 3.0])), Box(-2.0, 4.0)
    for lam in (0.0, 20.0):
        policy = skip_policy(actor, lam, scaling, box, 0.1)
        for s in rng.normal(size=(20, 2)):
            expected = action_of(actor, scaling(s).astype(np.float32), f32(np.log1p(lam)))
            np.testing.assert_allclose((policy.mode(1, s) - 1.0) / 3.0, expected, atol=1e-5)
    loud = np.array([policy.act(1, np.zeros(2), u) for u in (0.0, 0.3, 0.7, 0.999999)])
    assert loud.min() >= -2.0
    assert loud.max() <= 4.0
    assert loud[1] == pytest.approx(policy.mode(1, np.zeros(2)) - 3.0 * 0.1 * 0.5244, abs=1e-3)


def test_a_run_is_exported_and_needs_no_jax(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"episodes": 30, "seed": 3, "settings": {"dual": {"C": 20.0}}}
    run = rf.learn(Target(), small(NeuralSearch), path=tmp_path / "run.rfrun", **asked)
    assert run.spec["dual"]["name"] == "constant-penalty"
    policy, x = run.policy, np.random.default_rng(0).normal(size=(20, 2))
    assert isinstance(policy.rule, SkipPolicy)
    file = policy.export(tmp_path / "policy.npz")
    assert np.array_equal(read_policy(file).predict(x)[0], policy.predict(x)[0])
    assert np.array_equal(rf.load(tmp_path / "run.rfrun", Target()).policy.predict(x)[0], policy.predict(x)[0])
    again = rf.load(tmp_path / "run.rfrun", Target()).decisions  # the record is in the file
    assert again == run.decisions
    assert word.WORDS[word.TAKE_OVER] in [one.what for one in again]
    console = Console(file=StringIO(), width=200)
    show(console, run, summary(run))
    assert f"after episode {again[-1].k}: {again[-1].what}" in console.file.getvalue()  # type: ignore[attr-defined]
    over = next(one.k for one in again if one.what == word.WORDS[word.TAKE_OVER])
    assert f"after episode {over}: networks play" in settings(collect([tmp_path / "run.rfrun"]).groups[0])
    code = (
        "import sys; sys.modules['jax'] = None; from resetfree.use import read_policy; import numpy as np; "
        f"print(read_policy({str(file)!r}).predict(np.zeros((1, 2)))[0].shape)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["(1,", "1)"]
