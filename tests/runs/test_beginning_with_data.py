"""Runs that begin with data: what they learn from, what becomes part of the file, and what is refused."""

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from tests.bank import edit, same_rounds, stop_at

import resetfree as rf
from resetfree.game.capabilities import LearnsFromEpisodes
from resetfree.players import discover
from resetfree.problems.formula import TanhChoice
from resetfree.runs.dataset_loading import gather
from resetfree.runs.resuming import whole_run
from resetfree.show.cli import main

ABLE = [name for name, cls in discover("primal").items() if isinstance(cls, LearnsFromEpisodes)]
COUNTING = [name for name in ABLE if rf.Choices in discover("primal")[name].action_spaces and name != "model-search"]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> rf.Run:
    return rf.learn("pits-v0", "support-elimination", episodes=60, path=tmp_path_factory.mktemp("old") / "old.rfrun")


@pytest.fixture(scope="module")
def rollouts() -> list[list[tuple[Any, ...]]]:
    env, found = gym.make("CartPole-v1"), []
    for seed in range(6):
        observation, _ = env.reset(seed=seed)
        env.action_space.seed(seed)
        steps: list[tuple[Any, ...]] = []
        while not steps or not (steps[-1][3] or steps[-1][4]):
            action = env.action_space.sample()
            after, reward, terminated, truncated, _ = env.step(action)
            steps.append((observation, action, reward, terminated, truncated, after))
            observation = after
        found.append(steps)
    return found


def as_arrays(steps: list[tuple[Any, ...]]) -> dict[str, Any]:
    return {
        "observations": np.array([*(step[0] for step in steps), steps[-1][5]]),
        "actions": np.array([step[1] for step in steps]),
        "rewards": np.array([step[2] for step in steps]),
        "terminations": np.array([step[3] for step in steps]),
    }


def test_known_dangers_are_not_met_again_and_are_no_resets_of_the_run(old: rf.Run, tmp_path: Path) -> None:
    alone = [rf.learn("pits-v0", "support-elimination", episodes=60, seed=seed) for seed in range(1, 6)]
    data = [
        rf.learn("pits-v0", "support-elimination", episodes=60, seed=seed, data=alone_file(tmp_path))
        for seed in range(1, 6)
    ]
    assert sum(run.realised_resets[-1] for run in data) < sum(run.realised_resets[-1] for run in alone)
    about = data[0].spec["data"]
    assert about["resets"] > 0
    assert about["from"] == ["many.rfrun"]
    assert len(data[0]) == 60


def alone_file(folder: Path) -> Path:
    """A long run, which has met most dangers."""
    path = folder / "many.rfrun"
    if not path.exists():
        rf.learn("pits-v0", "uniform", episodes=300, path=path)
    return path


@pytest.mark.parametrize("name", COUNTING)
def test_players_replay_and_resume_without_the_old_file(name: str, old: rf.Run, tmp_path: Path) -> None:
    assert old.path is not None
    kept = tmp_path / "copy.rfrun"
    kept.write_bytes(old.path.read_bytes())
    vectors = name == "stored-linear"
    asked: dict[str, Any] = {"problem": "pits-v0", "primal": name, "seed": 3, "episodes": 12}
    if vectors:
        asked |= {"dual": "counting", "feedback": "realised"}
    whole = rf.learn(**asked, data=kept, path=tmp_path / "whole.rfrun")

    with pytest.raises(OSError):  # noqa: PT011
        rf.learn(**asked, data=kept, path=tmp_path / "killed.rfrun", progress=stop_at(5, error=OSError))
    kept.unlink()
    again = rf.learn(**asked, path=tmp_path / "killed.rfrun", resume=True)
    same_rounds(whole, again)
    read = rf.load(tmp_path / "killed.rfrun")
    assert [c.lhs for c in whole_run(read)] == [0, 0, 0]
    assert read.policy.predict(int(whole.columns["s1"][0])) is not None
    without = rf.learn(**asked)
    assert any(
        not np.array_equal(c, whole.columns[k], equal_nan=c.dtype.kind == "f") for k, c in without.columns.items()
    )


def test_others_refuse_with_the_players_that_can(old: rf.Run) -> None:
    with pytest.raises(
        rf.InvalidInput, match=r"'politex' cannot learn .* Players that can: .*support-elimination, ucbvi\."
    ):
        rf.learn("pits-v0", "politex", episodes=3, data=old)


def test_nothing_is_proved_of_what_data_taught(old: rf.Run) -> None:
    theory: dict[str, Any] = {"settings": {"primal": {"width": "theory"}}, "episodes": 20}
    before = {c.claim: c.status for c in rf.learn("pits-v0", "support-elimination", **theory).certificates()}
    found = {c.claim: c for c in rf.learn("pits-v0", "support-elimination", data=old, **theory).certificates()}
    lost = [claim for claim, status in before.items() if status == "proved" and found[claim].status == "tuned"]
    assert any("no more resets happened" in claim for claim in lost)
    assert any("V* is at most" in claim for claim in lost)
    assert all("it began with 60 episodes of data" in found[claim].why for claim in lost)


def test_rollouts_of_gymnasium_in_three_forms_are_the_same(rollouts: list[list[tuple[Any, ...]]]) -> None:
    problem = rf.from_gym("gym:CartPole-v1", horizon=8)

    class Dataset:
        """As Minari has them."""

        def iterate_episodes(self) -> Any:
            for steps in rollouts:
                arrays = as_arrays(steps)
                yield type("Episode", (), {**arrays, "truncations": np.zeros(len(steps), dtype=bool)})

    lists, dicts, dataset = (
        gather(rollouts, problem),
        gather([as_arrays(r) for r in rollouts], problem),
        gather(Dataset(), problem),
    )
    digests = {given.about(given.rows())["digest"] for given in (lists, dicts, dataset)}
    assert len(digests) == 1
    assert all(len(one.actions) <= 8 for one in lists.episodes)
    assert sum(len(one.actions) for one in lists.episodes) == sum(map(len, rollouts))
    assert sum(one.reset for one in lists.episodes) == len(rollouts)  # every random life falls
    last = [one for one in lists.episodes if one.reset]
    assert np.allclose(last[0].states[-1], rollouts[0][-1][5])


def test_rewards_come_in_the_units_of_the_new_problem(tmp_path: Path) -> None:
    path = tmp_path / "old.rfrun"
    first = rf.from_gym("gym:Pendulum-v1", horizon=10, reward_range=(-17.0, 0.0), reset_when="never")
    rf.learn(first, "model-search", episodes=4, path=path)
    wider = rf.from_gym("gym:Pendulum-v1", horizon=5, reward_range=(-34.0, 0.0), reset_when="never")
    given = gather(path, wider)
    original = rf.transitions(path)["reward"]
    found = np.concatenate([one.rewards for one in given.episodes])
    assert np.allclose(found, 1.0 + original / 34.0)
    assert [len(one.actions) for one in given.episodes] == [5] * 8


def test_the_stated_range_of_an_old_run_is_known_where_all_rewards_are_equal(tmp_path: Path) -> None:
    path = tmp_path / "old.rfrun"
    rf.learn(rf.from_gym("gym:CartPole-v1", horizon=5, reward_range=(-1.0, 3.0)), "model-search", episodes=2, path=path)
    assert set(rf.transitions(path)["reward"]) == {1.0}


def test_a_finite_environment_knows_its_reset_state() -> None:
    problem = rf.from_gym("gym:FrozenLake-v1", horizon=20, is_slippery=False, reset_when="terminated")
    given = gather([[(0, 1, 0.0, False, False), (4, 2, 0.0, True, False)]], problem)
    (one,) = given.episodes
    assert (one.states.tolist(), one.actions.tolist(), one.reset) == ([0, 4, 16], [1, 2], True)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (7, "The 'data' of learn must be a file, a run"),
        ([], "The 'data' of learn must be a file, a run"),
        ([3], "must be a file, a run, .* Got int instead"),
        ("none.npz", "cannot be read: No such file"),
        ([[(np.zeros(4), 0, 1.0, True, False)]], "it is where the danger is"),
        ([[(np.zeros(3), 0, 1.0, False, False, np.zeros(3))]], "is none of 'gym:CartPole-v1'"),
        ([[(np.zeros(4), 5, 1.0, False, False, np.zeros(4))]], r"must be one of 0\.\.1.* Got 5 instead"),
        ([[(np.zeros(4), 0, np.nan, False, False, np.zeros(4))]], "not a finite number"),
        ([[(np.full(4, np.inf), 0, 1.0, False, False, np.zeros(4))]], "is none of 'gym:CartPole-v1'"),
        ({"observations": np.zeros((2, 4)), "actions": [0], "rewards": [1.0]}, "Got none of 'terminated' instead"),
        ({"obs": np.zeros((5, 4)), "action": [0], "reward": [1.0], "terminated": [False]}, "one more observation"),
    ],
    ids=["number", "empty", "list", "file", "no end", "size", "action", "reward", "state", "key", "length"],
)
def test_bad_data_are_refused_in_one_sentence(data: Any, sentence: str) -> None:
    with pytest.raises(rf.InvalidInput, match=sentence):
        gather(data, rf.from_gym("gym:CartPole-v1", horizon=8))


EPISODE = {"observations": [8, 8, 8], "actions": (0, 0), "rewards": (0.0, 0.0), "terminated": (False, False)}
NO_NUMBERS = {"number": 5, "text": "xy", "no axes": np.array(None), "range": range(10**9), "function": len}
NO_NUMBERS |= {"nothing": [None] * 2, "texts": ["x"] * 3, "ragged": [[1], [1, 2]], "objects": [object()] * 2}
NO_NUMBERS |= {"tables": [{}] * 3, "complex": [1j] * 2, "nan": [np.nan] * 2, "large": [10**30] * 3}
NO_NUMBERS |= {"matrix": np.zeros((2, 2)), "words": np.full((3, 1), "x")}


@pytest.mark.parametrize("part", EPISODE)
@pytest.mark.parametrize("bad", NO_NUMBERS)
def test_parts_of_an_episode_are_refused_in_one_sentence(part: str, bad: str) -> None:
    with pytest.raises(rf.InvalidInput, match=r"^[^\n]*data[^\n]*\.$"):
        gather({**EPISODE, part: NO_NUMBERS[bad]}, rf.make("grid-v0").problem())


def test_numbers_of_states_are_not_rounded() -> None:
    with pytest.raises(rf.InvalidInput, match="The observations of the data must be integers"):
        gather({**EPISODE, "observations": [8, 8.5, 8]}, rf.make("grid-v0").problem())


def test_data_by_name_can_be_joined_with_an_old_run(tmp_path: Path) -> None:
    old = rf.learn("grid-v0", "ucbvi", episodes=3, path=tmp_path / "old.rfrun")
    for data in (EPISODE, [EPISODE]):
        run = rf.learn(
            "grid-v0", "ucbvi", episodes=1, data=data, start_from=old, path=tmp_path / "a.rfrun", overwrite=True
        )
        assert run.spec["data"]["from"] == ["rollouts", "old.rfrun"]
        assert run.spec["data"]["episodes"] == 4


def test_data_of_another_problem_are_refused(old: rf.Run, tmp_path: Path) -> None:
    with pytest.raises(rf.InvalidInput, match="The data do not fit 'grid-v0'"):
        rf.learn("grid-v0", "support-elimination", episodes=2, data=old, path=tmp_path / "a.rfrun")
    assert not (tmp_path / "a.rfrun").exists()
    with pytest.raises(rf.InvalidInput, match="numbered as they appear"):
        gather(old, rf.from_gym("gym:CartPole-v1", horizon=8, states=50))


def test_data_in_a_file_are_untrusted(old: rf.Run, tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    rf.learn("pits-v0", "support-elimination", episodes=5, path=path, data=old)
    with pytest.raises(rf.RunError, match="began with other data"):
        rf.learn("pits-v0", "support-elimination", episodes=6, path=path, resume=True, data=[old, old])
    assert len(rf.learn("pits-v0", "support-elimination", episodes=6, path=path, resume=True, data=old)) == 6
    for damage in ("UPDATE data SET reset = 1 - reset WHERE i = 1", "DELETE FROM data WHERE i = 1", "DROP TABLE data"):
        edit(path, damage)
        with pytest.raises(rf.RunError, match="is damaged or was not written by resetfree"):
            rf.learn("pits-v0", "support-elimination", episodes=9, path=path, resume=True)


def test_an_old_policy_is_played_first_where_the_player_can(tmp_path: Path) -> None:
    first = rf.learn(
        rf.from_gym("gym:CartPole-v1", horizon=40), "model-search", episodes=15, path=tmp_path / "old.rfrun"
    )
    rule = first.policy.rule
    longer = rf.from_gym("gym:CartPole-v1", horizon=60)
    run = rf.learn(longer, "model-search", episodes=1, start_from=first)
    assert run.spec["data"]["policy"]
    assert run.spec["data"]["episodes"] == 15
    assert isinstance(rule, TanhChoice)
    assert rule.same(run.policy.rule)
    only = rf.learn(longer, "model-search", episodes=1, start_from=tmp_path / "old.rfrun", from_what="policy")
    assert only.spec["data"] == {**only.spec["data"], "episodes": 0, "policy": True, "from": ["old.rfrun"]}
    data = rf.learn(longer, "model-search", episodes=1, start_from=first, from_what="data")
    assert not data.spec["data"]["policy"]
    other = rf.learn(longer, "stored-linear", episodes=1, start_from=first, B=5.0)
    assert (other.spec["data"]["policy"], other.spec["data"]["episodes"]) == (False, 15)
    with pytest.raises(
        rf.InvalidInput, match=r"'stored-linear' cannot begin with a policy\. Players that can: model-search"
    ):
        rf.learn(longer, "stored-linear", episodes=1, start_from=first, from_what="both", B=5.0)
    with pytest.raises(rf.InvalidInput, match="'from_what' of learn must be one of data, policy, both"):
        rf.learn(longer, start_from=first, from_what="all", episodes=1)
    with pytest.raises(rf.InvalidInput, match="needs a 'start_from'"):
        rf.learn("grid-v0", from_what="data", episodes=1)


def test_the_command_line_takes_data_and_old_runs(
    old: rf.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npz, out = str(tmp_path / "data.npz"), str(tmp_path / "new.rfrun")
    assert main(["transitions", str(old.path), "-o", npz]) == 0
    words = ["run", "pits-v0", "--primal", "support-elimination", "--episodes", "10", "--out", out, "--verbose"]
    assert main([*words, "--data", npz, "--from", str(old.path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "began with 120 episodes" in shown
    assert "from data.npz, old.rfrun" in shown
    assert main(["report", out, "--out", str(tmp_path / "r.html")]) == 0
    assert "data before the first episode" in (tmp_path / "r.html").read_text()
    assert main(["certify", out, "--replay", "--strict"]) == 0
    assert main([*words, "--overwrite", "--from-what", "data"]) == 2
    assert dataclasses.is_dataclass(rf.load(out))
