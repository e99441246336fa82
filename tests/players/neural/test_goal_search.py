"""Goals in observations: what is reached is learned from, and what is requested is reached without a reset."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.game.replay_buffer import empty_buffer
from resetfree.players import make_player
from resetfree.players.neural import hindsight
from resetfree.problems.knowledge import GoalColumns

pytest.importorskip("optax")


class Point(gymnasium.Env[Any, Any]):
    """A point in a square; 1 where it comes within 0.1 of its goal, which then moves. It never terminates."""

    def __init__(self, pays: bool = True) -> None:
        plane = spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.observation_space = spaces.Dict({"observation": plane, "achieved_goal": plane, "desired_goal": plane})
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float64)
        if not pays:
            setattr(self, "compute_reward", None)  # noqa: B010

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        """For many goals at once."""
        return (np.linalg.norm(achieved - desired, axis=-1) < 0.1).astype(float)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The middle."""
        super().reset(seed=seed)
        self.at, self.goal = np.zeros(2), self.np_random.uniform(-1, 1, 2)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move."""
        self.at = np.clip(self.at + 0.15 * np.clip(action, -1, 1), -1, 1)
        won = bool(np.linalg.norm(self.at - self.goal) < 0.1)
        if won:
            self.goal = self.np_random.uniform(-1, 1, 2)
        return self._seen(), float(won), False, False, {}

    def _seen(self) -> dict[str, Any]:
        return {"observation": self.at.copy(), "achieved_goal": self.at.copy(), "desired_goal": self.goal.copy()}


def won_late(run: rf.Run) -> float:
    """Goals in the last 500 steps."""
    return float(run.columns["reward"][-5:].sum())


@pytest.mark.parametrize("pays", [True, False], ids=["the task says what a goal pays", "it is learned"])
def test_goals_are_reached_by_the_default_call(pays: bool, tmp_path: Any) -> None:
    given: dict[str, Any] = {"settings": {"primal": {"begin": 300}}, "seed": 1, "path": tmp_path / "a.rfrun"}
    problem = rf.from_gym(Point(pays), reward_range=(0, 1))
    run = rf.learn(problem, episodes=20, **given)
    assert run.player_again("primal").name == "goal-search"
    assert won_late(run) >= 45  # at random it is 4
    assert int(run.realised_resets[-1]) == 0
    said = [one.what for one in run.decisions]
    assert any(one.startswith("goals are won") for one in said)
    action, _ = run.policy.predict({"observation": [0, 0], "achieved_goal": [0, 0], "desired_goal": [0.9, 0.0]})
    assert action[0] > 0.5  # it goes where it is sent


def test_without_hindsight_nothing_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hindsight, "LATER", 0.0)
    monkeypatch.setattr(hindsight, "ANY", 0.0)
    run = rf.learn(rf.from_gym(Point(), reward_range=(0, 1)), episodes=20, seed=1, settings={"primal": {"begin": 300}})
    assert won_late(run) < 15


def test_states_without_goals_are_refused() -> None:
    with pytest.raises(rf.NotCertifiable, match="'achieved_goal' and 'desired_goal'"):
        rf.learn("Pendulum-v1", "goal-search", episodes=1)


def rows_of(path: Any) -> Any:
    """A replay buffer of a path [n, D] whose actions are its steps; the goal is in the last two columns."""
    rows = empty_buffer(rf.from_gym(Point()))
    rows.state = np.zeros((0, path.shape[1]))
    steps = np.clip(np.diff(path[:, :2], axis=0), -1, 1)
    rows.add(rf.Episode(path, steps, np.zeros(len(steps)), False, path[-1]))
    return rows


def test_known_ways_go_around_what_lies_between() -> None:
    one, other = np.linspace(0, 1, 40), np.zeros(40)
    u = np.concatenate([np.stack([one, other], 1), np.stack([other + 1, one], 1), np.stack([1 - one, other + 1], 1)])
    rows = rows_of(np.concatenate([u, u[:, :2] * 0], axis=1))
    columns = GoalColumns(np.arange(2), np.arange(2, 4))
    ways = hindsight.ways_of(rows, rows.n, columns, np.random.default_rng(0))
    ahead = ways.toward(u[0], u[-1])  # from one end of a U to the other, which is one step across
    assert ahead[0] > 0.02
    assert ahead[1] == 0.0
    assert (ways.toward(u[-2], u[-1]) == u[-1]).all()
    assert (ways.toward(u[-1], u[0]) == u[0]).all()  # no way back is known


def test_it_returns_to_where_what_is_reached_moved_last() -> None:
    rng = np.random.default_rng(0)
    finger = np.cumsum(rng.uniform(-0.2, 0.2, (200, 2)), axis=0)
    puck = np.where(np.arange(200)[:, None] < 120, [[0.5, 0.5]], [[0.7, 0.5]])
    rows = rows_of(np.concatenate([finger, puck, np.ones((200, 2))], axis=1))
    reach = hindsight.Reach(GoalColumns(np.array([2, 3]), np.array([4, 5])), 0.1, stays=False)
    back = hindsight.last_touch(rows, rows.n, reach, (-np.ones(2), np.ones(2)))
    assert back is not None
    assert back.target[:2].tolist() == finger[120].tolist()
    for at in (finger[0], finger[50]):
        push = back.push(np.concatenate([at, [0.7, 0.5, 1, 1]]))
        assert np.linalg.norm(at + push - finger[120]) < np.linalg.norm(at - finger[120])
    still = rows_of(np.concatenate([finger, puck * 0, puck * 0], axis=1))
    assert hindsight.last_touch(still, still.n, reach, (-np.ones(2), np.ones(2))) is None


def shown_ways(n: int, rng: Any) -> list[rf.Episode]:
    """A point that goes straight to a goal drawn at random, n times."""
    found = []
    for _ in range(n):
        goal, at, states, actions = rng.uniform(-1, 1, 2), rng.uniform(-1, 1, 2), [], []
        for _ in range(15):
            states.append(np.concatenate([at, goal, at]))
            actions.append(np.clip((goal - at) / 0.15, -1, 1))
            at = np.clip(at + 0.15 * actions[-1], -1, 1)
        states.append(np.concatenate([at, goal, at]))
        found.append(rf.Episode(np.array(states), np.array(actions), np.zeros(15), False, None))
    return found


def test_demonstrations_are_copied_and_a_goal_of_hindsight_is_one_of_its_own_episode() -> None:
    problem, rng = rf.from_gym(Point(), reward_range=(0, 1)), np.random.default_rng(0)

    def missed(shown: bool) -> float:
        player = make_player("primal", "goal-search", {"hidden": 32, "batch": 64, "begin": 0})
        dual = make_player("dual", "constant-penalty", {"C": 0.0})
        game = begin(problem, player, dual, episodes=100, seed=0)
        for one in shown_ways(12, np.random.default_rng(1)) if shown else ():
            game.primal = player.follow(game.primal, one)
        for _ in play(problem, player, dual, game, episodes=3, feedback="realised"):
            pass
        at, goal = rng.uniform(-1, 1, (2, 200, 2))
        policy = player.greedy(game.primal, 0.0)
        found = np.array([policy.mode(1, s) for s in np.concatenate([at, goal, at], axis=1)])
        return float(np.linalg.norm(found - np.clip((goal - at) / 0.15, -1, 1), axis=1).mean())

    with_them, without = missed(True), missed(False)
    assert with_them < 0.6 < without
    rows = empty_buffer(problem)
    for one in shown_ways(3, rng):
        rows.add(one)
    assert np.flatnonzero(hindsight.life_ends(rows, rows.n)).tolist() == [15, 31]  # the third goes on
