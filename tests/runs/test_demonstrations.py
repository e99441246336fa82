"""A few good episodes: data, and a policy to begin with and to improve on; the run file holds them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bank import stop_at

import resetfree as rf
from resetfree.core import Floats
from resetfree.problems.machines.lane import Lane, controller
from resetfree.show.cli import main

SEARCH = {"planning": 20, "population": 4, "rounds": 1}  # too little to find anything by itself


def demonstrated(episodes: int, steps: int = 60) -> list[dict[str, Floats]]:
    """Episodes of the controller, which varies its commands a little."""
    env, rng, found = Lane(), np.random.default_rng(0), []
    for seed in range(episodes):
        seen = [env.reset(seed=seed)[0]]
        actions, rewards = [], []
        for _ in range(steps):
            actions.append(np.clip(controller(seen[-1]) + 0.05 * rng.normal(size=1), -1.0, 1.0))
            after, reward, *_ = env.step(actions[-1])
            seen.append(after)
            rewards.append(reward)
        ended = np.zeros(steps, dtype=np.bool_)
        found.append(
            {
                "observations": np.array(seen),
                "actions": np.array(actions),
                "rewards": np.array(rewards),
                "terminated": ended,
            }
        )
    return found


def learn(**options: Any) -> rf.Run:
    """A run on the road whose search is too small to find a way by itself."""
    road = rf.from_gym(Lane(), horizon=30, reward_range=(0.0, 1.0), reset_when="terminated", name="road")
    return rf.learn(road, "model-search", settings={"primal": SEARCH}, **{"episodes": 6, **options})


def test_it_begins_with_what_was_shown_or_logged_without_a_reset() -> None:
    """The search is too small to find a policy that is as good by itself: from nothing it earns less."""
    runs = (learn(demonstrations=demonstrated(4)), learn(data=demonstrated(4)), learn())
    shown, logged, nothing = (float(run.columns["reward"].sum() / run.columns["steps"].sum()) for run in runs)
    assert min(shown, logged) > 0.65
    assert nothing < min(shown, logged) - 0.05


def test_a_demonstration_that_ended_in_a_reset_is_not_followed() -> None:
    """What it did is learned from only."""
    bad = demonstrated(1)
    bad[0]["terminated"][-1] = True
    run = learn(demonstrations=[*demonstrated(2), *bad], episodes=1)
    assert run.learned is not None
    assert run.learned.state.shown[-1, 1] < run.learned.state.rows.n - 30
    assert run.spec["data"]["demonstrations"] == 6  # of at most 30 steps
    assert run.spec["data"]["resets"] == 1


def test_a_resumed_run_still_has_them(tmp_path: Path) -> None:
    """It goes on bit for bit as one that was not interrupted."""
    whole, file = learn(demonstrations=demonstrated(2), data=demonstrated(1)), tmp_path / "road.rfrun"

    with pytest.raises(OSError):  # noqa: PT011
        learn(demonstrations=demonstrated(2), data=demonstrated(1), path=file, progress=stop_at(3, error=OSError))
    again = learn(path=file, resume=True)
    assert np.array_equal(again.columns["reward"][:3], whole.columns["reward"][:3])
    assert again.learned is not None
    assert whole.learned is not None
    shown = again.learned.state.shown[0]
    assert shown.tolist() == [0, 124]  # two episodes in two parts each, and their last states
    assert whole.learned.state.shown.tolist() == [[0, 124]]
    with pytest.raises(rf.RunError, match="began with other data"):
        learn(path=file, resume=True, demonstrations=demonstrated(3), episodes=7)


@pytest.mark.parametrize(("given", "sentence"), [(3, "'demonstrations' of learn"), ([], "empty list")])
def test_bad_ones_get_one_sentence(given: Any, sentence: str) -> None:
    with pytest.raises(rf.InvalidInput, match=sentence):
        learn(demonstrations=given)


def test_a_controller_and_demonstrations_go_together() -> None:
    run = learn(demonstrations=demonstrated(1), controller=controller, explore=0, episodes=2)
    assert run.learned is not None
    assert len(run.learned.state.inner.shown) == 1
    assert run.learned.state.safe.known > 60


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "good.npz"
    np.savez(log, **demonstrated(1)[0])  # type: ignore[arg-type]
    command = ["run", "gym:resetfree/Lane-v0", "--out", str(tmp_path / "lane.rfrun"), "--episodes", "2", "--verbose"]
    assert main([*command, "--demonstrations", str(log), "--set", "horizon=20"]) == 0
    assert "3 of them demonstrations" in " ".join(capsys.readouterr().out.split())
