"""A history of observations and actions as the state, and the runs in which one is advised."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import resetfree as rf
from resetfree.core import Notice


class Late(gymnasium.Env[Any, Any]):
    """A pole near its upright position, whose actions come `delay` steps late and whose angle is noisy."""

    def __init__(self, delay: int = 2) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = spaces.Box(-1.0, 1.0, (1,))
        self.delay = delay

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Nearly upright."""
        super().reset(seed=seed)
        self.angle, self.speed = self.np_random.uniform(-0.05, 0.05, 2)
        self.coming = [0.0] * self.delay
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step of Euler; it falls at an angle of 1/2."""
        self.coming.append(float(action[0]))
        self.speed += 0.05 * (3 * np.sin(self.angle) + 4 * self.coming.pop(0))
        self.angle += 0.05 * self.speed
        return self._seen(), 1.0, bool(abs(self.angle) > 0.5), False, {}

    def _seen(self) -> Any:
        return np.array([self.angle + 0.01 * self.np_random.normal(), self.speed], dtype=np.float32)


def test_a_state_is_the_last_observations_and_the_actions_between_them(line: Any) -> None:
    problem = rf.from_gym(line(length=3), horizon=9, history=3, reward_range=(0, 1))
    assert problem.low is not None
    assert len(problem.low) == 3 * 2 + 2 * 2
    assert problem.names is not None
    assert [problem.names[i] for i in (0, 2, 6, 9)] == [
        "observation[0]", "observation[0], 1 ago", "action[0], 1 ago", "action[1], 2 ago",
    ]  # fmt: skip
    checked = 0
    for episode in rf.simulate(problem, lambda h, s: np.array([0.5, 0.5]), 20, seed=1):
        for i in range(2, len(episode.actions) + 1):
            state, before, earlier = episode.states[i], episode.states[i - 1], episode.states[i - 2]
            assert state[2:6].tolist() == [*before[:2], *earlier[:2]]
            assert state[6:].tolist() == [*np.eye(2)[episode.actions[i - 1]], *np.eye(2)[episode.actions[i - 2]]]
            checked += 1
    assert checked > 50
    state = problem.perform_reset(0.3, "reset")  # nothing is left of the time before it
    assert state.tolist() == [*state[:2].tolist() * 3, 0, 0, 0, 0]


def test_histories_are_parts_of_runs_policies_and_fingerprints(line: Any, tmp_path: Any) -> None:
    given: dict[str, Any] = {"episodes": 8, "seed": 1, "B": 1.0}
    one, two = (rf.from_gym(line(length=3), horizon=9, history=n, reward_range=(0, 1)) for n in (1, 2))
    first = rf.learn(one, "uniform", **given)
    second = rf.learn(two, "uniform", path=tmp_path / "a.rfrun", **given)
    assert first.spec["fingerprint"] != second.spec["fingerprint"]
    assert second.policy.predict(np.zeros(6))[0] in (0, 1)
    with pytest.raises(rf.InvalidInput, match=r"must have shape \(6,\)"):
        second.policy.predict(np.zeros(2))
    again = rf.from_gym(line(length=3), horizon=9, history=2, reward_range=(0, 1))
    assert len(rf.learn(again, "uniform", resume=True, path=tmp_path / "a.rfrun", **{**given, "episodes": 12})) == 12
    log = [(np.zeros(2), 0, 0.0, False, False, np.zeros(2))]
    with pytest.raises(rf.InvalidInput, match="must be run files with the same history"):
        rf.learn(again, "uniform", data=[log], **given)


def test_bad_input_is_one_sentence(line: Any) -> None:
    with pytest.raises(rf.InvalidInput, match="must be 1 for states that are counted"):
        rf.from_gym(line(observation="discrete"), history=2)
    with pytest.raises(rf.InvalidInput, match="'history' of 'Line' must be an integer from 1 to 64"):
        rf.from_gym(line(), history=0)


def advice(env: Any, **given: Any) -> list[str]:
    """The sentences about something hidden in a run of random actions."""
    problem = rf.from_gym(env, horizon=50, reset_when="terminated", **{"history": 1, **given})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        run = rf.learn(problem, "uniform", episodes=60, seed=1, B=1.0)
    return [one.what for one in run.notes if "hides something" in one.what]


def test_what_is_hidden_is_noticed_and_what_is_not_is_not() -> None:
    (sentence,) = advice(Late(), actions=3)
    assert sentence.endswith("In another run try history=4 (docs/own_environment.md).")
    still = gymnasium.wrappers.TransformObservation(
        gymnasium.make("CartPole-v1"), lambda o: o[[0, 2]], spaces.Box(-9, 9, (2,))
    )
    assert len(advice(still)) == 1
    assert advice(Late(), actions=3, history=4) == []
    for name, given in {
        "CartPole-v1": {},
        "MountainCar-v0": {},
        "Pendulum-v1": {"actions": 3},
        "Acrobot-v1": {},
    }.items():
        assert advice(gymnasium.make(name), **given) == []
    assert advice(Late(delay=0), actions=3) == []  # noise alone


def test_a_run_goes_on_with_a_history_where_something_is_hidden(tmp_path: Any) -> None:
    def played(path: Any, episodes: int, **given: Any) -> rf.Run:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Notice)
            problem = rf.from_gym(Late(), horizon=50, reset_when="terminated", actions=3)
            return rf.learn(problem, "uniform", episodes=episodes, seed=1, B=1.0, path=path, **given)

    whole = played(tmp_path / "a.rfrun", 40)
    (note,) = [one for one in whole.notes if "hides something" in one.what]
    assert "From here on its state is the last 4 of both" in note.what
    assert 1 < note.k < 20
    assert whole.spec["problem_options"]["history"] == 4
    assert len(whole) == 40
    assert whole.policy.predict(np.zeros(4 * 2 + 3))[0].shape == (1,)
    for column in ("reward", "reset", "steps"):  # the rounds before are those that were played
        first = played(None, note.k - 1)
        assert whole.columns[column][: note.k - 1].tolist() == first.columns[column].tolist()
    assert played(None, 40).columns["reward"].tolist() == whole.columns["reward"].tolist()
    for stop in (2, 30):  # before and after it
        part = tmp_path / f"{stop}.rfrun"
        played(part, 40, callbacks=[lambda session, stop=stop: session.k == stop])
        again = played(part, 40, resume=True)
        assert again.spec["problem_options"]["history"] == 4
        assert len(again) == 40
        assert [one.what for one in again.notes if "hides something" in one.what]
