"""Reset events as text and functions; rewards of any range, in fixed units, of which nothing is refused or cut."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bank import stop_at
from tests.problems.gym.reaching import even

import resetfree as rf
from resetfree.core import Notice
from resetfree.problems import Note
from resetfree.problems.gym.events import Condition, event, reward_function
from resetfree.show.cli import main
from resetfree.theory.certificates.claims_reduction import primal_cover


def of(line: Any, rewards: dict[int, float], episodes: int = 3, **given: Any) -> tuple[Any, list[Any]]:
    """The problem and its episodes of three steps; every other reward is 1."""
    env = line(length=1000)
    env.rewards = rewards
    problem = rf.from_gym(env, horizon=3, **given)
    return problem, list(rf.simulate(problem, even, episodes))


def test_what_lies_outside_the_stated_range_lies_outside_in_the_same_units(line: Any) -> None:
    with pytest.warns(Notice) as caught:
        problem, episodes = of(line, {2: -5.0, 4: 3.0, 5: -2.24, 8: 7.0, 9: 30.0}, reward_range=(-2, 7))
    third = 1 / 3
    assert np.allclose(episodes[0].rewards, [third, -third, third])
    assert np.allclose(episodes[1].rewards, [5 / 9, -0.24 / 9, third])  # as before the note
    assert np.allclose(episodes[2].rewards, [third, 1.0, 32 / 9])
    assert [one.original_return for one in episodes] == pytest.approx([-3.0, 1.76, 38.0])
    assert problem.units == (-2.0, 7.0)
    assert [str(one.message) for one in caught] == [
        "'Line' gave the reward -5, outside the range from -2 to 7 that is scaled to [0, 1]: it counts as -0.333, and "
        "claims for rewards in [0, 1] are tuned from here on. For another run state reward_range=(-5, 7), or "
        "reward_low and reward_high on the command line (docs/own_environment.md).",
        "'Line' gave the reward 30, outside the range from -2 to 7 that is scaled to [0, 1]: it counts as 3.56, and "
        "claims for rewards in [0, 1] are tuned from here on. For another run state reward_range=(-5, 30), or "
        "reward_low and reward_high on the command line (docs/own_environment.md).",
    ]  # -2.24 is no news, and neither is what rounding adds
    assert [one.tuned for one in problem.noted] == [True, True]


def test_without_a_range_the_first_episode_gives_the_units(line: Any) -> None:
    with pytest.warns(Notice) as caught:
        problem, episodes = of(line, {1: -4.0, 3: -1.0, 4: -9.0})
    assert problem.units == (-4.0, 1.0)
    assert not problem.reward_range_known
    assert np.allclose(episodes[0].rewards, [0.0, 1.0, 0.6])
    assert np.allclose(episodes[1].rewards, [-1.0, 1.0, 1.0])
    assert [one.original_return for one in episodes] == [-4.0, -7.0, 3.0]
    assert str(caught[0].message) == (
        "No reward_range is stated for 'Line': rewards from -4 to 1 are scaled to [0, 1], as the first episode "
        "suggests (docs/own_environment.md)."
    )
    assert [one.tuned for one in problem.noted] == [False, True]


def test_a_trip_does_not_squash_the_scale_and_counts_as_no_less_than_nothing(line: Any) -> None:
    def plant(**given: Any) -> tuple[Any, list[Any], list[str]]:
        env = line(length=2.5, observation="discrete")
        step = env.step

        def trips(action: Any) -> Any:
            seen, _, fell, late, info = step(action)
            return seen, -50.0 if fell else -abs(env.at), fell, late, info

        env.step = trips
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            problem = rf.from_gym(env, horizon=60, **given)
            return problem, list(rf.simulate(problem, even, 30, seed=4)), [str(one.message) for one in caught]

    problem, episodes, said = plant()
    assert problem.units is not None
    assert -2.5 < problem.units[0] < 0
    fallen = [one for one in episodes if one.reset]
    assert len(fallen) > 5
    assert all(one.rewards[-1] == 0.0 for one in fallen)
    assert sum("gave the reward -50 in a step that led to a reset: it counts as 0" in text for text in said) == 1
    low, high = problem.units
    for one in episodes:  # what the environment paid is kept
        own = low * len(one.rewards) + (high - low) * one.total_reward - one.reset * (low + 50)
        assert one.original_return == pytest.approx(own)
    _, episodes, said = plant(reward_range=(-2.5, 0))
    assert [one.rewards[-1] for one in episodes if one.reset] == pytest.approx([-19.0] * len(fallen))
    assert not any("led to a reset" in text for text in said)


def test_the_reward_of_a_reset_is_kept_beside_rewards_that_need_no_scale(line: Any) -> None:
    env = line(length=1000)
    env.rewards, fall = {5: -9.0}, lambda o, r, t, i: r < -1
    problem = rf.from_gym(env, horizon=3, reset_when=fall)
    with pytest.warns(Notice, match="gave the reward -9 in a step that led to a reset"):
        first, second, third = rf.simulate(problem, even, 3)
    assert second.rewards.tolist() == [1.0, 0.0]
    assert second.original_return == -8.0
    assert np.isnan([first.original_return, third.original_return]).all()


def test_rewards_within_the_unit_interval_are_as_they_are_and_as_they_were(line: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem, episodes = of(line, {2: 0.25, 5: 0.0})
    assert problem.units == (0.0, 1.0)
    assert episodes[0].rewards.tolist() == [1.0, 0.25, 1.0]
    assert all(np.isnan(one.original_return) for one in episodes)  # nothing was scaled
    with pytest.warns(Notice, match="gave the reward -3, outside the range from 0 to 1"):
        _, episodes = of(line, {5: -3.0})
    assert episodes[1].rewards.tolist() == [1.0, -3.0, 1.0]


def test_an_own_reward_has_units_too(line: Any) -> None:
    with pytest.warns(Notice, match="rewards from 0 to 50 are scaled"):
        _, episodes = of(line, {}, reward=lambda o, r, t, i: 50.0 * r)
    assert episodes[0].rewards.tolist() == [1.0] * 3
    assert episodes[0].original_return == 3.0


def test_a_run_ends_for_no_reward_and_says_what_came(line: Any, tmp_path: Path) -> None:
    env = line(observation="discrete")
    env.rewards = {57: -100.0}
    file = tmp_path / "plant.rfrun"
    given: dict[str, Any] = {"primal": "uniform", "episodes": 40, "seed": 4, "B": 1.0}
    with pytest.warns(Notice, match="gave the reward -100"):
        run = rf.learn(rf.from_gym(env, horizon=10, reward_range=(-50, 1)), path=file, **given)
    assert len(run) == 40
    (note,) = run.notes
    assert (note.tuned, note.k) == (True, int(np.searchsorted(run.columns["steps"].cumsum(), 57)) + 1)
    assert run.columns["original_return"].min() < -80
    assert run.columns["reward"].min() >= -1.0  # -50/51 is the least
    assert rf.load(file).notes == run.notes
    # Nothing but the reward is another: what was stored before stays as it is.
    plain = rf.learn(rf.from_gym(line(observation="discrete"), horizon=10, reward_range=(-50, 1)), **given)
    other = np.arange(40) != note.k - 1
    assert np.array_equal(run.columns["reward"][other], plain.columns["reward"][other])
    assert np.array_equal(run.columns["s1"], plain.columns["s1"])


def test_a_run_that_goes_on_has_the_units_of_its_file(line: Any, tmp_path: Path) -> None:
    def made() -> Any:
        env = line(observation="discrete")
        env.rewards = {1: -4.0}
        return rf.from_gym(env, horizon=10)

    given: dict[str, Any] = {"primal": "uniform", "episodes": 20, "seed": 4, "B": 1.0, "path": tmp_path / "a.rfrun"}
    with pytest.warns(Notice, match="rewards from -4 to 1 are scaled"), pytest.raises(rf.Stopped):
        rf.learn(made(), progress=stop_at(7), **given)
    later = line(observation="discrete")  # its first episode alone would give other units
    run = rf.learn(rf.from_gym(later, horizon=10), resume=True, **given)
    c = run.columns
    assert np.allclose(c["original_return"], 5 * c["reward"] - 4 * c["steps"])
    wrong = rf.from_gym(line(observation="discrete"), horizon=10)
    for units in ([1.0, 0.0], [np.nan, 1.0], [1.0]):
        with pytest.raises((ValueError, rf.RunError)):
            wrong.restore({"units": np.array(units)})


def test_a_claim_is_tuned_once_rewards_have_left_the_unit_interval() -> None:
    run = rf.learn("grid-v0", "ucbvi", episodes=30, settings={"primal": {"width": "theory"}})
    assert primal_cover(run).status == "proved"
    left = primal_cover(replace(run, notes=(Note(3, "x"), Note(9, "y", tuned=True))))
    assert (left.status, left.why) == ("tuned", "the theorem is for rewards in [0, 1], which episode 9 left")
    assert primal_cover(replace(run, notes=(Note(3, "x"),))).status == "proved"


def test_a_player_with_a_theorem_says_before_the_start_that_it_needs_a_range(line: Any) -> None:
    def learn(**given: Any) -> Any:
        problem = rf.from_gym(line(observation="discrete"), horizon=5, **given)
        return rf.learn(problem, "ucbvi", episodes=3, B=1.0, settings={"primal": {"width": "theory"}})

    with pytest.warns(Notice, match=r"'ucbvi' is for rewards in \[0, 1\], and no reward_range is stated for 'Line'"):
        run = learn()
    assert "tuned from the first reward outside on" in run.notes[0].what
    assert learn(reward_range=(0, 1)).notes == ()


def test_the_command_line_notes_it_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "gym:Pendulum-v1", "--set", "actions=3", "--set", "horizon=20", "--set", "reset_when=reward<=-12"]
    words += ["--primal", "uniform", "--bound", "1", "--episodes", "20"]
    assert main([*words, "--out", str(tmp_path / "a.rfrun"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("Note: No reward_range is stated for 'gym:Pendulum-v1': rewards from -")
    notes = json.loads(out)["notes"]
    assert [one["what"] for one in notes] == [text.removeprefix("Note: ") for text in err.splitlines()]
    assert main(["run", "gym:Pendulum-v1", "--resume", "--verbose", "--out", str(tmp_path / "a.rfrun")]) == 0
    assert "No reward_range is stated for" in " ".join(capsys.readouterr().out.split())


numbers = st.sampled_from(["-100", "0", "0.5", "1e-3", "3", "+2.5"])
signs = st.sampled_from(["<=", ">=", "==", "!=", "<", ">"])
terms = st.one_of(
    st.sampled_from(["terminated", "not terminated", "info.hit", "not info.hit"]),
    st.builds(
        lambda subject, sign, value, gap: f"{subject}{gap}{sign}{gap}{value}",
        st.sampled_from(["reward", "not reward", "observation[0]", "observation[1]", "info.force"]),
        signs,
        numbers,
        st.sampled_from(["", " "]),
    ),
)
groups = st.lists(st.lists(terms, min_size=1, max_size=3).map(" and ".join), min_size=1, max_size=3)


@given(
    groups.map(" or ".join),
    st.tuples(st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([-100.0, 2.5])),
    st.sampled_from([-100.0, 0.0, 0.5]),
    st.booleans(),
    st.booleans(),
)
def test_words_mean_what_python_means(text: str, at: Any, reward: float, terminated: bool, hit: bool) -> None:
    class Info:
        force = 3.0

    Info.hit = hit  # type: ignore[attr-defined]
    observation = np.array(at)
    names = {"observation": observation, "reward": reward, "terminated": terminated, "info": Info}
    meant = bool(eval(text, {}, names))
    assert Condition.read(text, "x")(observation, reward, terminated, {"hit": hit, "force": 3.0}) == meant


def test_the_default_is_terminated_and_never_is_never() -> None:
    assert event(None, "x")(0, 0.0, True, {}) is True
    assert event(None, "x")(0, 0.0, False, {}) is False
    assert event("never", "x")(0, 0.0, True, {}) is False
    assert event("observation==36", "x")(36, 0.0, False, {}) is True


@pytest.mark.parametrize(
    "text",
    ["", "truncated", "reward", "terminated<=1", "reward<=", "reward<=x", "reward<=1.e.", "observation[a]>1",
     "reward=1", "terminated and", "__import__('os')", "observation", 5],
)  # fmt: skip
def test_other_words_are_refused(text: Any) -> None:
    with pytest.raises(rf.InvalidInput, match=r"^The 'reset_when' of 'x' must be a function .* Got .* instead\.$"):
        event(text, "x")


def test_functions_are_found_by_name() -> None:
    found = reward_function("math:fsum", "x")
    assert found is not None
    assert found([1.0, 2.0]) == 3.0  # type: ignore[call-arg]
    with pytest.raises(
        rf.InvalidInput, match=r"The 'reset_when' of 'x' must be .* Got 'math:nothing', which does not import"
    ):
        event("math:nothing", "x")
    with pytest.raises(rf.InvalidInput, match="Got 'math:pi', which is float, instead"):
        reward_function("math:pi", "x")
    with pytest.raises(rf.InvalidInput, match=r"The 'reward' of 'x' must be a function .* Got 3 instead"):
        reward_function(3, "x")  # type: ignore[arg-type]
