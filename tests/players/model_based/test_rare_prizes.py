"""model-search where a rare prize is all there is to win, and where nothing is ever a reset."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

import resetfree as rf
from resetfree.players.model_based import choice_search
from resetfree.players.model_based.choice_search import (
    AGAIN,
    FEW,
    MANY,
    SOONER,
    ChoiceSearchState,
    FittedModel,
    _danger,
    no_blow,
    prizes,
    rollout,
)
from resetfree.players.model_based.model_search import ModelSearch
from resetfree.problems.contract import Episode

SIZE = 2


def model(caution: float, **other: Any) -> FittedModel:
    """Action 0 moves by 0.1 in the first number, action 1 back; nothing is earned."""
    coefficient = np.zeros((2, 1 + SIZE, SIZE + 1))
    coefficient[0, 0, 0], coefficient[1, 0, 0] = 0.1, -0.1
    still, none = np.zeros((2, SIZE)), np.zeros((0, SIZE))
    ends = -np.ones(SIZE), np.ones(SIZE), np.full(SIZE, -9.0), np.full(SIZE, 9.0)
    return FittedModel(np.zeros((SIZE, 0)), np.zeros(0), coefficient, still, none, 0, *ends, caution, **other)


def life(world: FittedModel, steps: int) -> tuple[float, float]:
    """Reward and risk of action 0 alone, from the middle."""
    forwards, out = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), np.empty(2)
    rollout(world, forwards, np.zeros(SIZE), np.zeros((steps, SIZE)), out)
    return float(out[0]), float(out[1])


class Corridor(gym.Env[Any, Any]):
    """From 1 m, steps of 0.1 m; the end, at 6 m, pays 1. By chance it is hardly ever found."""

    observation_space = gym.spaces.Box(0.0, 10.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = 1.0
        return np.array([self.x]), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.x = float(np.clip(self.x + 0.1 * (int(action) - 1) + 0.01 * self.np_random.normal(), 0.0, 10.0))
        return np.array([self.x]), float(self.x >= 6.0), self.x >= 6.0, False, {}


@pytest.mark.parametrize(
    ("earned", "won"),
    [
        ([0.0] * 30 + [1.0], [30]),
        ([0.3] * 10 + [0.8] + [0.3] * 30, [10]),
        ([0.0] * 5 + [1.0] * 5, []),  # common
        ([0.0] * 30 + [0.1, 1.0], []),  # others differ: there is something to fit
        ([1.0] * 30, []),
        ([1.0] * 30 + [0.0], []),
        ([], []),
    ],
)
def test_a_prize_is_rare_and_all_else_is_the_same(earned: list[float], won: list[int]) -> None:
    assert np.flatnonzero(prizes(np.array(earned))).tolist() == won


def test_where_nothing_is_a_reset_what_is_new_pays_and_costs_nothing() -> None:
    """Steps 11 to 20 lead 0.1, .., 1.0 out of a box that is 2 wide."""
    assert _danger(model(-1.0), np.array([2.0, 0.0])) == pytest.approx(-0.5)
    assert _danger(model(-9.0), np.array([2.0, 0.0])) == -1.0
    assert life(model(-1.0), 20) == pytest.approx((sum(0.05 * i for i in range(1, 11)), 0.0), abs=1e-6)
    assert life(model(0.0), 20) == (0.0, 0.0)
    assert life(model(1.0), 20)[1] > 0.5


def test_a_prize_is_won_near_where_it_was_won_and_ends_the_life() -> None:
    """From 0 in steps of 0.1 to 0.5, the half of the way to where it was won: after 5 steps, and once."""
    paying, led = np.array([[1.0, 0.0], [-0.05, 0.0]]), np.zeros((1, SIZE))
    world = model(0.0, paying=paying, n_paid=1, led=led, prize=1.0)
    assert life(world, 12) == pytest.approx((1.0 + SOONER * (12 - 5) / 12, 0.0))
    assert life(world, 6) == pytest.approx((1.0 + SOONER / 6, 0.0))
    assert life(world, 5) == (0.0, 0.0)


def test_few_steps_that_are_missed_by_far_are_no_motion() -> None:
    missed = np.random.default_rng(0).normal(size=(1000, SIZE))
    assert no_blow(missed).all()
    missed[:30, 1] = 20.0
    assert np.flatnonzero(~no_blow(missed)).tolist() == list(range(30))
    missed[:200, 1] = 20.0  # one in 5: that is how it moves
    assert no_blow(missed).sum() >= 950
    assert no_blow(np.zeros((3, SIZE))).all()


def walled(never: bool) -> ChoiceSearchState:
    """A cart that is pushed left or right, and stops at once at a wall: one step in 25."""
    player = ModelSearch(waves=0, reg=1e-9)
    problem = rf.from_gym(
        "gym:MountainCar-v0",
        reset_when="never" if never else "observation[0]<-9",
        goal_when="never",
        reward_range=(0, 1),
    )
    state = player.init(problem, 1, 0)
    assert isinstance(state, ChoiceSearchState)
    states, actions = [np.array([0.0, 0.0])], []
    for i in range(500):
        actions.append(0 if (i // 25) % 2 else 2)
        at, speed = states[-1]
        states.append(np.array([at + speed, 0.0 if i % 25 == 24 else speed + 0.01 * (actions[-1] - 1)]))
    state.rows.add(Episode(np.array(states), np.array(actions), np.zeros(500), False, states[-1]))
    return state


def test_a_wall_makes_no_noise_where_nothing_is_a_reset() -> None:
    """The motion is linear but for the wall, so the model without it is exact."""
    player = ModelSearch(waves=0, reg=1e-9)
    free, feared = (state.model(state.rows.n, player)[1] for state in (walled(True), walled(False)))
    assert free.spread[[0, 2]].max() < 1e-6
    assert feared.spread[[0, 2]].max() > 0.01


def pushed(never: bool, steps: int = 1500, player: ModelSearch | None = None) -> tuple[ChoiceSearchState, ModelSearch]:
    """A car in a valley that is always pushed the way it drives: to the right, and only then, by action 2."""
    player = player or ModelSearch(waves=32, reg=1e-4)
    when = "never" if never else "observation[0]<-9"
    state = player.init(
        rf.from_gym("gym:MountainCar-v0", reset_when=when, goal_when="never", reward_range=(0, 1)), 1, 0
    )
    assert isinstance(state, ChoiceSearchState)
    rng, states, actions = np.random.default_rng(0), [np.array([-0.5, 0.0])], []
    for _ in range(steps):
        at, speed = states[-1]
        actions.append(2 if speed > 0 else 0)
        after = valley(at, speed, actions[-1])
        states.append(after if -1.1 < after[0] < 0.5 else np.array([rng.uniform(-0.6, -0.4), 0.0]))
    state.rows.add(Episode(np.array(states), np.array(actions), np.zeros(steps), False, states[-1]))
    return state, player


def valley(at: float, speed: float, action: int) -> NDArray[np.float64]:
    """The motion of MountainCar."""
    speed = speed + 0.001 * (action - 1) - 0.0025 * np.cos(3 * at)
    return np.array([at + speed, speed])


def missed_by(state: ChoiceSearchState, player: ModelSearch) -> float:
    """The largest error of the next speed, where the car brakes. A push is 0.001."""
    scaling, model = state.model(state.rows.n, player)
    errors = []
    for at, speed in [(at, way * speed) for at in (-0.8, -0.5, -0.2) for speed in (0.02, 0.03) for way in (-1, 1)]:
        action, z = (0 if speed > 0 else 2), scaling(np.array([[at, speed]]))[0]
        features = np.concatenate([[1.0], z, np.cos(z @ model.wave + model.phase)])
        step = (features @ model.coefficient[action])[1] * scaling.scale[1]
        errors.append(abs(speed + step - valley(at, speed, action)[1]))
    return float(max(errors))


def test_what_an_action_does_where_it_was_never_taken() -> None:
    """Braking: known from what all actions share, made up by what was seen of one."""
    assert missed_by(*pushed(True)) < 0.0003
    assert missed_by(*pushed(False)) > 0.001


def test_auto_sees_the_whole_shape_of_a_valley() -> None:
    """Waves as long as a valley miss its slopes by much more than shorter ones with a smaller ridge."""
    chosen = ModelSearch.named(rf.from_gym("gym:MountainCar-v0"))
    assert chosen is not None
    auto, smooth = ModelSearch(**chosen.settings), ModelSearch(**{**chosen.settings, "bandwidth": 3.0, "reg": 1e-4})
    assert missed_by(*pushed(True, player=auto)) < 0.3 * missed_by(*pushed(True, player=smooth))


def test_after_some_prizes_lives_are_imagined_from_where_they_led(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, where the agent is, and few places elsewhere; three searches, the later ones around the best."""
    player, seen = ModelSearch(waves=0, planning=3, population=4, rounds=2), list[NDArray[np.float64]]()
    never: dict[str, Any] = {"reset_when": "never", "goal_when": "never", "reward_range": (0, 1)}
    state = player.init(rf.from_gym("gym:MountainCar-v0", **never), 1, 0)
    assert isinstance(state, ChoiceSearchState)

    def recorded(model: Any, policies: Any, starts: NDArray[np.float64], *rest: Any) -> None:
        seen.append(starts)
        evaluate(model, policies, starts, *rest)

    evaluate = choice_search.evaluate
    monkeypatch.setattr(choice_search, "evaluate", recorded)
    for prize in range(1, MANY + 1):
        states = np.column_stack([np.append(0.01 * np.arange(30), -0.001 * prize), np.zeros(31)])
        state.rows.add(Episode(states, np.arange(30) % 3, np.append(np.zeros(29), 1.0), False, states[-1]))
        if prize in (MANY - 1, MANY):
            seen.clear()
            state.search(state.rows.n, states[-1], 0.0, player)
            scaling, _ = state.model(state.rows.n, player)
            led = scaling(np.column_stack([-0.001 * np.arange(1, prize + 1), np.zeros(prize)]))
            elsewhere = FEW if prize == MANY else player.starts
            assert len(seen) == 3 * player.rounds + 1
            assert len(seen[0]) == 1 + 1 + elsewhere + AGAIN + prize  # the first of the run, here, elsewhere, here, led
            np.testing.assert_allclose(seen[0][-prize:], led)


def test_auto_fits_more_closely_where_nothing_is_a_reset() -> None:
    chosen = ModelSearch.named(rf.from_gym("gym:Acrobot-v1"))
    assert chosen is not None
    assert (chosen.settings["waves"], chosen.settings["planning"]) == (96, 200)
    feared = ModelSearch.named(rf.from_gym("gym:CartPole-v1"))
    assert feared is not None
    assert feared.settings == {"planning": 200}


def test_a_run_finds_the_end_of_a_corridor_and_goes_there_again() -> None:
    again: dict[str, Any] = {"goal_when": "terminated", "after_goal": "restart for free", "reward_range": (0, 1)}
    found = rf.learn(rf.from_gym(Corridor(), horizon=50, reset_when="never", **again), episodes=30, seed=1)
    assert found.spec["primal"]["name"] == "model-search"
    assert found.columns["goals"][-10:].sum() >= 8  # 51 steps each, at best
    feared = rf.learn(rf.from_gym(Corridor(), horizon=50, reset_when="observation[0]<0", **again), episodes=30, seed=1)
    assert feared.columns["goals"].sum() < found.columns["goals"].sum()
