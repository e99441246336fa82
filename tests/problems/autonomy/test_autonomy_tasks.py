"""The tasks move as their descriptions say, their experts reach what they head for, and only a person mends a fall."""

from typing import Any

import gymnasium
import numpy as np
import pytest

import resetfree as rf
from resetfree.problems.autonomy import IDS, GoalTask, plane
from resetfree.problems.autonomy.plane import Peg, Tabletop, Workspace
from resetfree.problems.autonomy.simulated import BACK, PITCH, FlipCheetah

SPARSE = ("tabletop-v0", "tabletop-edge-v0", "tabletop-small-v0", "peg-edge-v0")
OURS = (*SPARSE, "workspace-v0", "flip-cheetah-v0", "quadruped-v0")


def made(name: str) -> Any:
    env: Any = gymnasium.make(name, disable_env_checker=True).unwrapped
    return env


def test_a_closed_gripper_takes_a_near_mug_along_and_an_open_one_leaves_it() -> None:
    far, near = [0.0, 0.0, 0.5, 0.0, -1.0], [0.0, 0.0, 0.3, 0.0, -1.0]
    right, opened = [1.0, 0.0, 1.0], [1.0, 0.0, -1.0]
    x = np.array([far, near, near])
    found = plane.moved_mug(x, np.array([right, right, opened]))
    np.testing.assert_allclose(
        found, [[0.2, 0.0, 0.5, 0.0, -1.0], [0.2, 0.0, 0.5, 0.0, 1.0], [0.2, 0.0, 0.3, 0.0, -1.0]], atol=1e-12
    )
    held = np.array([[0.0, 0.0, 1.0, 0.0, 1.0]])  # what is held stays held, however far
    np.testing.assert_allclose(plane.moved_mug(held, np.array([right]))[0], [0.2, 0.0, 1.2, 0.0, 1.0], atol=1e-12)


def test_walls_keep_the_mug_and_without_them_it_falls_off() -> None:
    edge = np.array([[2.7, 0.0, 2.8, 0.0, 1.0]])
    right = np.array([[1.0, 0.0, 1.0]])
    np.testing.assert_allclose(plane.moved_mug(edge, right)[0], [2.8, 0.0, 2.8, 0.0, 1.0], atol=1e-12)
    env = Tabletop(walls=False)
    env.reset(seed=0)
    env.x = edge[0].copy()
    _, reward, terminated, truncated, _ = env.step(right[0])
    assert (reward, terminated, truncated) == (0.0, True, False)
    np.testing.assert_allclose(env.x[2:4], [3.0, 0.0], atol=1e-12)


def test_success_is_gripper_and_mug_together_within_a_fifth() -> None:
    env = Tabletop()
    state = np.concatenate([[0.1, 0.0, -2.5, 0.9, -1.0], [0.0, 0.0, -2.5, 1.0]])
    off = state.copy()
    off[0] = 0.2
    assert env.rewards(np.array([state, off])).tolist() == [1.0, 0.0]
    home = np.concatenate([plane.MUG_START, [-1.0], plane.MUG_GOALS[0]])
    assert env.rewards(home[None])[0] == 0.0
    assert env.home(home[None])[0] == 1.0


def test_the_goal_changes_in_place_after_a_turn() -> None:
    env = Tabletop()
    first, _ = env.reset(seed=3)
    seen = [env.step(np.zeros(3))[0] for _ in range(2 * env.hold)]
    assert all(np.array_equal(one[5:], first[5:]) for one in seen[: env.hold - 1])
    assert len({tuple(one[5:]) for one in seen}) > 1
    assert all(np.array_equal(one[:4], first[:4]) for one in seen)


def test_a_peg_enters_the_block_only_in_line_with_its_hole() -> None:
    inside = plane.moved_peg(np.array([0.2, 0.0, 0.29, 0.01, 1.0]), np.array([1.0, 0.0, 1.0]))
    np.testing.assert_allclose(inside, [0.25, 0.0, 0.34, 0.01, 1.0], atol=1e-12)
    beside = plane.moved_peg(np.array([0.2, 0.1, 0.29, 0.1, 1.0]), np.array([1.0, 0.0, 1.0]))
    np.testing.assert_allclose(beside, [0.21, 0.1, 0.3, 0.1, 1.0], atol=1e-12)
    bottom = plane.moved_peg(np.array([0.3, 0.0, 0.41, 0.0, 1.0]), np.array([1.0, 0.0, 1.0]))
    np.testing.assert_allclose(bottom[2:4], [plane.BLOCK + plane.DEPTH, 0.0], atol=1e-12)


def test_a_peg_that_is_pushed_over_the_edge_has_fallen() -> None:
    env = Peg()
    env.reset(seed=0)
    env.x = np.array([0.0, 0.25, 0.0, 0.295, -1.0])
    assert env.step(np.array([0.0, 0.4, -1.0]))[2]
    np.testing.assert_allclose(env.x[2:4], [0.0, 0.31], atol=1e-12)


def test_a_robot_that_is_thrown_from_full_speed_to_the_other_falls() -> None:
    gentle, thrown = np.zeros(7), np.zeros(7)
    for i in range(60):
        gentle = plane.moved_robot(gentle, 1.0, 0.0)
        thrown = plane.moved_robot(thrown, 1.0 if i < 30 else -1.0, 0.0)
        assert abs(gentle[5]) < plane.FALL
        if abs(thrown[5]) > plane.FALL:
            break
    assert i >= 30
    assert abs(thrown[5]) > plane.FALL
    np.testing.assert_allclose(plane.moved_robot(np.zeros(7), 0.0, 1.0)[[0, 3, 4]], [0.0, 0.0, 0.228], atol=1e-12)


@pytest.mark.parametrize(("place", "direction", "task"), [(1.0, 0.0, 1), (1.0, np.pi, 0), (1.0, np.pi / 2, 2)])
def test_the_next_task_leads_back_to_the_middle(place: float, direction: float, task: int) -> None:
    env = Workspace()
    env.reset(seed=0)
    env.x = np.array([place, 0.0, direction, 0.0, 0.0, 0.0, 0.0])
    assert env.onward(env.observation()[None]).tolist() == [task]


def test_a_cheetah_is_stuck_on_its_back() -> None:
    pytest.importorskip("mujoco")
    env = FlipCheetah()
    env.reset(seed=0)
    assert not env.is_stuck()
    env.x = env.x.copy()
    env.x[PITCH] = -1.01 * BACK
    assert env.is_stuck()
    state = np.concatenate([env.x, [2.0]])
    state[8] = 1.5
    assert env.rewards(state[None])[0] == pytest.approx(0.75)


def test_a_four_legged_robot_trots_where_it_is_sent_and_tasks_that_lead_back_keep_it_in_its_place() -> None:
    pytest.importorskip("mujoco")
    env = made("quadruped-v0")
    shown = env.demonstrations(0, False)
    assert np.mean([one.rewards[10:].mean() for one in shown]) > 0.7
    assert {len(one.actions) for one in shown} == {env.longest}
    resets = {}
    for back in (True, False):
        env.reset(seed=0)
        resets[back] = 0
        for i in range(1000):
            if back and i % env.hold == 0:
                env.goal, env._left = env.goals[env.onward(env.observation()[None])[0]], env.hold + 1
            if env.step(env.expert(env.observation()))[2]:
                resets[back] += 1
                env.reset()
    assert resets[True] < resets[False]
    env.reset(seed=0)
    env.x = env.x.copy()
    assert not env.is_stuck()
    env.x[3:7] = [0.0, 1.0, 0.0, 0.0]
    assert env.is_stuck()


@pytest.mark.parametrize("back", [False, True])
def test_the_script_of_the_kitchen_opens_its_cabinet_and_shuts_it(back: bool) -> None:
    pytest.importorskip("gymnasium_robotics")
    shown = made("kitchen-v0").demonstrations(0, back)
    assert [one.rewards[-1] for one in shown] == [1.0] * 12
    assert all(one.rewards[0] == 0.0 for one in shown)


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("back", [False, True])
def test_every_demonstration_ends_where_it_heads_for(name: str, back: bool) -> None:
    env = made(name)
    shown = env.demonstrations(5, back)
    assert len(shown) == 12
    for one in shown:
        assert one.rewards[-1] == 1.0
        assert one.rewards.sum() < 12
        assert len(one.states) == len(one.actions) + 1 == len(one.rewards) + 1
        np.testing.assert_allclose(env.rewards(one.states[1:]), one.rewards)
    again = made(name).demonstrations(5, back)
    assert all(np.array_equal(a.states, b.states) for a, b in zip(shown, again, strict=True))
    assert not np.array_equal(shown[0].actions[:5], made(name).demonstrations(6, back)[0].actions[:5])


@pytest.mark.parametrize("name", OURS)
def test_a_task_is_a_problem_with_guidance_that_starts_once(name: str) -> None:
    if name.startswith(("flip", "quadruped")):
        pytest.importorskip("mujoco")
    problem = rf.from_gym(f"gym:{name}", horizon=20)
    episodes = list(rf.simulate(problem, _still(problem), episodes=3, seed=1))
    assert [one.reset for one in episodes] == [False] * 3
    assert problem.units == (0.0, 1.0)
    says = problem.guidance
    assert says is not None
    states = episodes[0].states
    assert says.reward(states[1:]) == pytest.approx(episodes[0].rewards)
    assert says.with_goal(states, says.goals[-1])[0, says.goal] == pytest.approx(says.goals[-1])
    assert (says.onward(states) <= len(says.goals)).all()
    assert rf.from_gym(f"gym:{name}", observe="math:fsum").guidance is None
    assert len(problem.interventions()) == 1


def _still(problem: Any) -> rf.Policy:
    class Still(rf.Policy):
        def act(self, h: int, s: Any, u: Any) -> Any:
            return np.zeros(problem.actions.size)

    return Still()


def test_every_task_of_ours_is_registered() -> None:
    assert set(OURS) <= set(IDS)
    assert issubclass(Workspace, GoalTask)


@pytest.mark.parametrize("name", ["sawyer-door-v0", "sawyer-peg-v0"])
def test_the_script_of_meta_world_reaches_the_goal(name: str) -> None:
    pytest.importorskip("metaworld")
    shown = made(name).demonstrations(0, False)
    assert [one.rewards[-1] for one in shown] == [1.0] * len(shown)
    assert made(name).demonstrations(0, True) == []
