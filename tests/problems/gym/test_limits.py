"""Limits that are known beforehand: reset events, known to the learner before any happened, and margins that cost."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import resetfree as rf
from resetfree.core import Floats
from resetfree.players import make_player
from resetfree.players.model_based.machine_model import rollout
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
    options = {"horizon": 40, "reward_range": (0.0, 1.0), **options}
    return rf.from_gym(Oven(choices), limits=limits, **options)


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


def too_hot(state: Floats) -> bool:
    """A limit that is a function."""
    return bool(state[0] > 0.9)


@pytest.mark.parametrize(
    "limits",
    [
        *({"heat": (None, 0.9)}, {0: (None, 0.9)}, "heat=:0.9", "0=:0.9,clock=-9:9"),
        *(too_hot, f"{__name__}:too_hot", {"clock": (-9, 9), "an oven too hot": too_hot}),
    ],
)
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


def test_a_change_that_is_too_quick_is_a_reset() -> None:
    assert walk(oven(rate_limits={"heat": 0.2}), [0.0, 0.5, 1.0]).reset_at == 4
    assert walk(oven({"heat": (None, 9)}, rate_limits={"heat": 0.2}), [-1.0]).reset_at == 2
    assert not walk(oven(rate_limits={0: 0.3}), np.ones(40)).reset


def test_actions_keep_their_limits_whoever_acts() -> None:
    """They are part of the box, and changes are cut before they are applied and recorded; a reset begins anew."""
    problem = oven({"heat": (None, 0.9)}, action_limits={0: (-0.5, None)}, action_rates=0.25)
    assert problem.actions.ends[0] == [-0.5]
    for _ in range(2):
        episode = walk(problem, [0.0, 0.2, 1.0, 1.0, -0.5, *[1.0] * 35])
        assert episode.actions[:6, 0].round(3).tolist() == [0.0, 0.2, 0.45, 0.7, 0.45, 0.7]
        np.testing.assert_allclose(np.diff(episode.states[:, 0]), 0.25 * episode.actions[:, 0], atol=1e-12)
        assert episode.reset


def test_a_policy_of_the_search_keeps_to_the_rate_of_its_actions_in_the_model() -> None:
    """What is expected of switching at full power from step to step is what a slow actuator earns."""
    rng, expected = np.random.default_rng(0), {}
    for rates in (None, 0.05):
        problem = oven(action_rates=rates, horizon=20) if rates else oven()
        player = make_player("primal", "model-search", {"planning": 10, "rounds": 1, "population": 4})
        state = player.init(problem, 10, 0)
        state = player.absorb(state, walk(oven(), 0.4 * rng.uniform(-1.0, 1.0, 40)))
        start = np.repeat(state.rows.state[:1], 4, axis=0)
        model, theta = state.model(state.rows.n, player), np.array([[[-40.0, 0.0, 0.3]]])
        expected[rates] = rollout(model, theta, model.scaling(start), np.zeros((10, 4, 2))).reward.mean()
    assert abs(expected[None] - expected[0.05]) > 1e-3


@pytest.mark.parametrize("limits", [{"limits": {"heat": (None, 1.0)}}, {"limits": lambda s: s[0] > 1.0}, None])
@pytest.mark.parametrize("choices", [False, True])
def test_the_first_crossing_is_predicted(choices: bool, limits: Any) -> None:
    """A learner that has seen no reset expects one beyond the limit, and none without a limit."""
    rng, problem = np.random.default_rng(0), oven(choices=choices, **limits or {})
    player = make_player("primal", "model-search", {"planning": 10, "rounds": 1, "population": 4, "caution": 0.0})
    state = player.init(problem, 10, 0)
    wander = np.resize([0, 1, 1, 0, 1, 0, 0, 1], 40) if choices else rng.uniform(-1.0, 1.0, 40)
    episode = walk(problem, wander if choices else 0.3 * wander)
    assert not episode.reset
    state = player.absorb(state, episode)
    hot = problem_policy(player, state, choices)
    expected = state.foresee(state.rows.n, hot, episode.states[-1], player)[1]
    assert expected > 0.8 if limits else expected < 0.2


def test_a_change_that_is_too_quick_is_predicted() -> None:
    """Of a step to full heat, when only small ones were seen."""
    problem = oven(rate_limits={"heat": 0.1}, horizon=40)
    player = make_player("primal", "model-search", {"planning": 10, "rounds": 1, "population": 4, "caution": 0.0})
    state = player.init(problem, 10, 0)
    state = player.absorb(state, walk(problem, 0.38 * np.random.default_rng(0).uniform(-1.0, 1.0, 40)))
    hot = problem_policy(player, state, choices=False)
    assert state.foresee(state.rows.n, hot, state.rows.state[0], player)[1] > 0.8


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


def test_a_limit_that_writes_to_its_state_changes_nothing() -> None:
    def clears(state: Any) -> bool:
        state[:] = 0.0
        return False

    plain, cleared = (walk(oven(limits), [1.0] * 4 + [0.0] * 36) for limits in ({"heat": (None, 9.0)}, clears))
    assert cleared.states.tolist() == plain.states.tolist()


@pytest.mark.parametrize(
    ("limits", "margin", "sentence"),
    [
        ({"cold": (None, 1)}, None, "'cold' instead; there are heat, clock"),
        ({"heat": (2, 1)}, None, "no interval"),
        ({"heat": 3}, None, "Got 3 for 'heat'"),
        ("heat=3", None, "Got 'heat=3'"),
        ({}, None, "must be {sensor"),
        ({"heat": (None, 1)}, {"clock": 1.0}, "one for each sensor with a limit"),
        ({"heat": (None, 1)}, -1.0, "positive number"),
        (None, 1.0, "needs 'limits'"),
        ({"hot": lambda s: s[7]}, None, "The limit 'hot' raised IndexError"),
        ({"hot": lambda s: None}, None, "The limit 'hot' raised TypeError: it must return True or False, not None"),
        ({"hot": lambda s: float("nan")}, None, "it must return True or False, not nan"),
        ({"hot": lambda s: 2}, None, "it must return True or False, not 2"),
        (lambda s: s[0] > 1, 2.0, "the limit of a function has none"),
    ],
)
def test_bad_limits_get_one_sentence(limits: Any, margin: Any, sentence: str) -> None:
    with pytest.raises(rf.InvalidInput, match=sentence):
        walk(oven(limits, margin=margin), [0.0])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rate_limits": {"cold": 1.0}}, "there are heat, clock"),
        ({"rate_limits": {"heat": 0}}, "Got 0 for 'heat'"),
        ({"rate_limits": 3}, "must be {sensor: the most"),
        ({"action_limits": {1: (0, 1)}}, "there are action_0"),
        ({"action_limits": {0: (2, 3)}}, "within 1 number"),
        ({"action_limits": {0: (2, 1)}}, "The 'action_limits' of"),
        ({"action_limits": lambda action: False}, "within 1 number"),
        ({"action_rates": {0: -1}}, "Got -1 for 0"),
        ({"action_rates": 0.1, "choices": True}, "continuous actions"),
    ],
)
def test_bad_limits_of_changes_and_actions_get_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(rf.InvalidInput, match=sentence):
        oven(**options)


def test_counted_states_take_none() -> None:
    with pytest.raises(rf.InvalidInput, match="state reset_when"):
        rf.from_gym("gym:FrozenLake-v1", limits={0: (None, 3)})


def test_the_command_line_takes_text_and_resumes_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "pendulum.rfrun")
    command = ["run", "gym:Pendulum-v1", "--out", file, "--set", "horizon=5"]
    assert main([*command, "--set", "limits=2=-7:7", "--episodes", "2", "--verbose"]) == 0
    assert "observation[2] below -7 is a reset; observation[2] above 7 is a reset" in " ".join(
        capsys.readouterr().out.split()
    )
    assert rf.load(file).spec["problem_options"]["limits"] == "2=-7:7"
    assert main(["run", "gym:Pendulum-v1", "--out", file, "--resume", "--episodes", "3"]) == 0


def test_examples_lie_beyond_every_limit() -> None:
    limits = Limits.read({"a": (-1, 2), "b": (None, 3)}, ["a", "b"], "x")
    found = limits.examples(np.random.default_rng(0).uniform(-0.9, 1.9, (50, 2)))
    assert len(found) == 24
    assert limits.any_crossed(found).all()
