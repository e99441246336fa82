"""Limits that are known beforehand: reset events, known to the learner before any happened, and margins that cost."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import resetfree as rf
from resetfree.core.arrays import Floats
from resetfree.players import make_player
from resetfree.problems.blueprint import fingerprint
from resetfree.problems.gym.flattening import NamedBox
from resetfree.problems.limits import Limits
from resetfree.show.cli import main


class Oven(gymnasium.Env[Any, Any]):
    """Heat that follows the action, and a clock that means nothing; it never ends by itself."""

    observation_space = NamedBox(np.array([-5.0, -1.0]), np.array([5.0, 1.0]), ("heat", "clock"))

    def __init__(self, choices: bool = False) -> None:
        box = gymnasium.spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)
        self.action_space: Any = gymnasium.spaces.Discrete(2) if choices else box
        self.choices = choices

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Floats, dict[str, Any]]:
        """Cold."""
        super().reset(seed=seed)
        self.x = np.zeros(2)
        return self.x.copy(), {}

    def step(self, action: Any) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """The hotter, the more it earns."""
        push = (2.0 * action - 1.0) if self.choices else float(action[0])
        self.x = np.array([self.x[0] + 0.25 * push, -self.x[1] + 0.1 * self.np_random.normal()])
        return self.x.copy(), float(np.clip(0.5 + 0.1 * self.x[0], 0.0, 1.0)), False, False, {}


def oven(limits: Any = None, choices: bool = False, **options: Any) -> Any:
    """It, as a problem."""
    return rf.from_gym(Oven(choices), horizon=40, reward_range=(0.0, 1.0), limits=limits, **options)


def walk(problem: Any, actions: Any) -> rf.Episode:
    """An episode of such actions."""
    steps = iter(actions)
    problem.perform_reset(0.5, "start")
    space = problem.actions

    class Given(rf.Policy):
        def act(self, h: int, s: Any, u: Any) -> Any:
            """The next one."""
            return next(steps) if isinstance(space, rf.Choices) else np.array([float(next(steps))])

    found: rf.Episode = problem.rollout(Given(), problem._state, np.full(problem.n_uniforms, 0.5))
    return found


@pytest.mark.parametrize("limits", [{"heat": (None, 0.9)}, {0: (None, 0.9)}, "heat=:0.9", "0=:0.9,clock=-9:9"])
def test_beyond_a_limit_is_a_reset(limits: Any) -> None:
    episode = walk(oven(limits), np.ones(40))
    assert episode.reset
    assert episode.reset_at == 5  # heat 1.0 after four steps
    assert not walk(oven(), np.ones(40)).reset


def test_a_recorded_step_beyond_it_is_one_too() -> None:
    problem = oven({"heat": (-1.0, None)})
    assert problem.recorded(np.array([-1.1, 0.0]), 0.5, False, {}).reset
    assert not problem.recorded(np.array([-0.9, 0.0]), 0.5, False, {}).reset


def test_a_limit_belongs_to_the_identity_of_a_problem() -> None:
    found = {fingerprint(oven(limits)) for limits in (None, {"heat": (None, 0.9)}, {"heat": (None, 0.8)})}
    assert len(found) == 3


@pytest.mark.parametrize("choices", [False, True])
def test_the_first_crossing_is_predicted(choices: bool) -> None:
    """A learner that has seen no reset expects one beyond the limit, and none without a limit."""
    rng = np.random.default_rng(0)
    expected = {}
    for limits in (None, {"heat": (None, 1.0)}):
        problem = oven(limits, choices)
        player = make_player("primal", "model-search", {"planning": 10, "rounds": 1, "population": 4, "caution": 0.0})
        state = player.init(problem, 10, 0)
        wander = np.resize([0, 1, 1, 0, 1, 0, 0, 1], 40) if choices else rng.uniform(-1.0, 1.0, 40)
        episode = walk(problem, wander if choices else 0.3 * wander)
        assert not episode.reset
        state = player.absorb(state, episode)
        hot = problem_policy(player, state, choices)
        expected[limits is None] = state.foresee(state.rows.n, hot, episode.states[-1], player)[1]
    assert expected[True] < 0.2
    assert expected[False] > 0.8


def problem_policy(player: Any, state: Any, choices: bool) -> Any:
    """The policy that heats."""
    policy = player.plan(state, state.rows.state[0], 5.0).policy
    policy.weight[:] = 0.0
    policy.bias[:] = 9.0 * np.sign(policy.table[1]) if choices else 9.0
    if choices:
        policy.weight[0, 0] = 1e-9
    return policy


def test_a_run_says_what_was_known_beforehand_and_what_it_learned() -> None:
    run = rf.learn(Oven(), episodes=4, settings={"problem": {"limits": {"heat": (None, 1.0)}, "horizon": 20}})
    assert "known beforehand: heat above 1 is a reset" in [one.what for one in run.decisions]


def test_a_margin_costs_reward_before_a_limit() -> None:
    free, soft = (
        walk(oven({"heat": (None, 1.5)}, margin=margin), [1.0] * 4 + [0.0] * 36) for margin in (None, {"heat": 1.0})
    )
    assert not soft.reset
    assert free.rewards[-1] == pytest.approx(0.6)
    assert soft.rewards[-1] == pytest.approx(0.1)  # half of the margin, half of a reward
    assert free.rewards[1] == soft.rewards[1]


@pytest.mark.parametrize(
    ("limits", "margin", "sentence"),
    [
        ({"cold": (None, 1)}, None, "'cold' instead; the sensors here are heat, clock"),
        ({"heat": (2, 1)}, None, "no interval"),
        ({"heat": 3}, None, "Got 3 for 'heat'"),
        ("heat=3", None, "Got 'heat=3'"),
        ({}, None, "must be {sensor"),
        ({"heat": (None, 1)}, {"clock": 1.0}, "one for each sensor with a limit"),
        ({"heat": (None, 1)}, -1.0, "positive number"),
        (None, 1.0, "needs 'limits'"),
    ],
)
def test_bad_limits_get_one_sentence(limits: Any, margin: Any, sentence: str) -> None:
    with pytest.raises(rf.InvalidInput, match=sentence):
        oven(limits, margin=margin)


def test_counted_states_take_none() -> None:
    with pytest.raises(rf.InvalidInput, match="state reset_when"):
        rf.from_gym("gym:FrozenLake-v1", limits={0: (None, 3)})


def test_the_command_line_takes_text_and_resumes_with_it(tmp_path: Path) -> None:
    file = str(tmp_path / "pendulum.rfrun")
    command = ["run", "gym:Pendulum-v1", "--out", file, "--set", "horizon=5"]
    assert main([*command, "--set", "limits=2=-7:7", "--episodes", "2"]) == 0
    assert rf.load(file).spec["problem_options"]["limits"] == "2=-7:7"
    assert main(["run", "gym:Pendulum-v1", "--out", file, "--resume", "--episodes", "3"]) == 0


def test_examples_lie_beyond_every_limit() -> None:
    limits = Limits.read({"a": (-1, 2), "b": (None, 3)}, ["a", "b"], "x")
    found = limits.examples(np.random.default_rng(0).uniform(-0.9, 1.9, (50, 2)))
    assert len(found) == 24
    assert limits.any_crossed(found).all()
