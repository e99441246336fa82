"""Rows do not know of each other, segments leave no trace, and what is asked for wrongly is refused in a sentence."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.studies.batched.same_rounds import assert_same_rounds, players

import resetfree as rf
from resetfree.players.batched import shape_of
from resetfree.players.linear.algorithm1 import algorithm1
from resetfree.players.linear.baselines import GhoshSoftmax
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.studies.engines.batched import Batch, BatchStopped, Segment, faster_engine, play_batch
from resetfree.studies.engines.batched import batch as whole_runs
from resetfree.studies.engines.batched.batch import CPU_ROWS

EPISODES, SEGMENT = 120, 40
PRIMAL, DUAL = algorithm1(B=5.0)


def played(seeds: Any = (4, 7), **options: Any) -> Batch:
    """A small batch; every test uses the same program unless it says otherwise."""
    asked = {"episodes": EPISODES, "segment": SEGMENT, **options}
    return play_batch(rf.make("coin-chain-v0", m=3), PRIMAL, DUAL, seeds=seeds, **asked)


def assert_same(one: Batch, other: Batch, rows: Any = slice(None)) -> None:
    assert list(one.columns) == list(other.columns)
    for name, column in one.columns.items():
        np.testing.assert_array_equal(column[rows], other.columns[name], err_msg=name)


def test_a_row_does_not_depend_on_the_others() -> None:
    """More rows than a block has; bit for bit, in any place."""
    seeds = [*range(100, 100 + CPU_ROWS), 7]
    together = played(seeds)
    assert_same(together, played([7]), rows=[CPU_ROWS])
    assert_same(together, played([103, 101]), rows=[3, 1])
    np.testing.assert_array_equal(together.seeds, seeds)


def test_segments_leave_no_trace() -> None:
    assert_same(played(), played(segment=EPISODES))
    assert_same(played(), played(segment=50))  # the last one is shorter


def test_progress_is_shown_after_every_segment() -> None:
    shown: list[tuple[int, int, int]] = []
    batch = played(progress=lambda s: shown.append((s.played, s.episodes, int(s.resets.sum()))))
    resets = batch.columns["reset"].sum(axis=0).cumsum()
    assert shown == [(k, EPISODES, resets[k - 1]) for k in (40, 80, 120)]


def test_a_saved_state_goes_on_bit_for_bit(tmp_path: Any) -> None:
    whole = played()

    def save(segment: Segment) -> None:
        if segment.played == 2 * SEGMENT:
            arrays: dict[str, Any] = dict(segment.state())
            np.savez(tmp_path / "state.npz", **arrays)

    played(progress=save)
    with np.load(tmp_path / "state.npz") as file:
        state = dict(file)
    rest = played(resume=state)
    assert rest.columns["s1"].shape == (2, SEGMENT)
    for name, column in whole.columns.items():
        np.testing.assert_array_equal(column[:, 2 * SEGMENT :], rest.columns[name])
    for name, array in whole.state.items():
        np.testing.assert_array_equal(array, rest.state[name])
    with pytest.raises(rf.InvalidInput, match="a batch with the same arguments"):
        played([1, 2], resume=state)
    assert played(resume=whole.state).columns["s1"].shape == (2, 0)


def test_a_stop_loses_at_most_one_segment() -> None:
    def stop(segment: Segment) -> None:
        if segment.played == SEGMENT:
            raise KeyboardInterrupt

    with pytest.raises(BatchStopped, match="Stopped after 40 of 120 episodes") as caught:
        played(progress=stop)
    stopped, whole = caught.value.batch, played()
    assert stopped.episodes == SEGMENT
    for name, column in whole.columns.items():
        np.testing.assert_array_equal(column[:, :SEGMENT], stopped.columns[name])
    rest = played(resume=stopped.state)
    np.testing.assert_array_equal(whole.columns["lam"][:, SEGMENT:], rest.columns["lam"])


def test_settings_are_rows_too() -> None:
    """Two settings of both players with two seeds each: every row is the run with that setting and seed."""
    mdp = rf.make("coin-chain-v0", m=3)
    primal = [LinearUCB(B=5.0, scale=0.1), LinearUCB(B=2.0, scale=0.3, alpha=4.0)]
    dual = [DUAL, dataclasses.replace(DUAL, B=2.0)]
    batch = play_batch(mdp, primal, dual, episodes=EPISODES, segment=SEGMENT, seeds=[4, 7])
    assert batch.setting.tolist() == [0, 0, 1, 1]
    assert batch.seeds.tolist() == [4, 7, 4, 7]
    assert_same(batch, played(), rows=[0, 1])
    for row in (2, 3):
        run = rf.learn(mdp, primal[1], dual[1], episodes=EPISODES, seed=int(batch.seeds[row]))
        np.testing.assert_allclose(batch.columns["lam"][row], run.columns["lam"], rtol=0, atol=1e-9)
        assert batch.run(row).spec["primal"] == run.spec["primal"]
        assert batch.run(row).spec["seed"] == run.spec["seed"]


def test_the_users_jax_stays_as_it_was() -> None:
    inside: list[Any] = []
    played(progress=lambda segment: inside.append(jnp.arange(3.0).dtype))
    assert inside == [jnp.float32] * 3
    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]
    assert jnp.ones(2).dtype == jnp.float32
    assert all(type(column) is np.ndarray for column in played().columns.values())
    assert played().columns["lam"].dtype == np.float64


def test_only_what_is_asked_for_is_kept() -> None:
    few = played(columns=("reset", "lam"))
    assert list(few.columns) == ["lam", "reset"]
    whole = played()
    np.testing.assert_array_equal(few.columns["lam"], whole.columns["lam"])
    np.testing.assert_array_equal(few.resets, whole.columns["reset"].sum(axis=1))
    np.testing.assert_allclose(few.reward, whole.columns["reward"].sum(axis=1), rtol=1e-12)
    with pytest.raises(rf.NotCertifiable, match="without 's1'"):
        few.run(0)


def test_a_row_is_a_run_with_regret_and_resets() -> None:
    mdp = rf.make("coin-chain-v0", m=3)
    batch = play_batch(mdp, PRIMAL, DUAL, episodes=EPISODES, seeds=[4], evaluate=True)
    theirs = rf.learn(mdp, PRIMAL, DUAL, episodes=EPISODES, seed=4)
    ours = batch.run(0)
    np.testing.assert_allclose(ours.regret, theirs.regret, rtol=0, atol=1e-7)
    np.testing.assert_allclose(ours.resets, theirs.resets, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(ours.realised_resets, theirs.realised_resets)
    with pytest.raises(rf.NotCertifiable):
        _ = played().run(0).regret


@pytest.mark.parametrize("primal", ["linear-ucb", "support-elimination"])
def test_steps_written_out_play_the_same_rounds(primal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an accelerator's program does, on this machine."""
    monkeypatch.setattr(whole_runs, "shape_of", lambda mdp, unrolled: shape_of(mdp, True))
    mdp = rf.make("coin-chain-v0", m=2, horizon=3)
    assert_same_rounds(mdp, *players(primal, "counting"), "realised", EPISODES, [0, 1, 2])


MDP = rf.make("coin-chain-v0", m=3)
TILTED = MDP.replace(xi=np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [1.0, 0.0]]))
RARE, _ = players("greedy-composite", "counting", switching="rare")
FIRST, _ = players("ucbvi", "counting", ties="first")
REFUSED: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((MDP, GhoshSoftmax(B=5.0), DUAL), {}, r"plays greedy-composite, linear-ucb, .*\. Got 'ghosh-softmax' instead"),
    ((MDP, PRIMAL, "search"), {"B": 5.0}, r"plays constant-penalty, .*\. Got 'search' instead"),
    ((MDP, RARE, DUAL), {}, "'switching' of greedy-composite must be every"),
    ((MDP, FIRST, DUAL), {}, "'ties' of ucbvi must be random or learned"),
    ((MDP, [PRIMAL, dataclasses.replace(PRIMAL, anytime=True)], DUAL), {}, "must differ in numbers only"),
    ((MDP, [PRIMAL] * 3, [DUAL] * 2), {}, "of one length"),
    ((TILTED, PRIMAL, DUAL), {}, "Got ConeBall instead"),
    ((MDP, PRIMAL, DUAL), {"columns": ["v_r"]}, "no column of a batch 'v_r'"),
    *(((MDP, PRIMAL, DUAL), {"seeds": seeds}, "'seeds' of a batch") for seeds in ([], [-1], [True])),
    ((MDP, PRIMAL, DUAL), {"segment": 0}, "'segment' of a batch"),
    (("continuous-linear-v0", PRIMAL, DUAL), {}, "finite problem"),
]


@pytest.mark.parametrize(("asked", "options", "sentence"), REFUSED, ids=[sentence for _, _, sentence in REFUSED])
def test_what_the_engine_does_not_know_is_refused(asked: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(rf.ResetFreeError, match=sentence):
        play_batch(*asked, **options)


def test_the_local_engine_is_chosen_where_there_is_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    assert faster_engine(10_000, PRIMAL, DUAL) == ("local" if jax.default_backend() == "cpu" else "batched")
    monkeypatch.setattr("resetfree.studies.engines.batched.accelerator", lambda: True)
    assert faster_engine(10_000, PRIMAL, DUAL) == "batched"
    assert faster_engine(10, PRIMAL, DUAL) == "local"
    assert faster_engine(10_000, GhoshSoftmax(B=5.0), DUAL) == "local"
