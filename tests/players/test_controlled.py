"""A controller acts first; the learned policy takes over by a test, and never spends more than its resets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest

import resetfree as rf
from resetfree.core import Floats
from resetfree.players import TakesEpisodes
from resetfree.players.controlled import FIRST, SAID, TOOK_OVER, WORSE, Controlled, ControlledState
from resetfree.players.takeover import Comparison, SafeStates, Verdict, radius, within_region
from resetfree.problems import State
from resetfree.show.cli import main


class Line(gymnasium.Env[Floats, Floats]):
    """A number that the action pushes: the reward is how near the action is to 0.8; beyond 1 it must be reset."""

    observation_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), dtype=np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Floats, dict[str, Any]]:
        """In the middle."""
        super().reset(seed=seed)
        self.x = np.zeros(1)
        return self.x.copy(), {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """An action of size 1 moves by a fifth, a smaller one only shakes."""
        push = float(action[0])
        noise = self.np_random.normal()
        self.x = self.x + 0.2 * push if abs(push) == 1.0 else 0.1 * noise * np.ones(1)
        reward = float(np.clip(1.0 - abs(push - 0.8) + 0.05 * noise, 0.0, 1.0))
        return self.x.copy(), reward, bool(abs(self.x[0]) > 1.0), False, {}


@dataclass
class Push(rf.Policy):
    """One action."""

    push: Floats
    kind = "push"

    def act(self, h: int, s: State, u: Any) -> Any:
        """It."""
        return self.push


@dataclass
class Learned:
    """What it has seen."""

    episodes: int


@dataclass(frozen=True)
class Pusher(TakesEpisodes, rf.PrimalPlayer[Learned]):
    """Plays one action, and learns nothing; expects `danger`."""

    name: ClassVar[str] = "pusher"
    action_spaces: ClassVar[tuple[type, ...]] = (rf.Box,)
    push: float = 0.0
    danger: float = 0.0

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Learned:
        """Nothing."""
        return Learned(0)

    def plan(self, state: Learned, s1: State, lam: float) -> rf.Plan:
        """The action."""
        return rf.Plan(Push(np.array([self.push])), 0.0, self.danger)

    def update(self, state: Learned, round: rf.Round) -> Learned:
        """Count."""
        state.episodes += 1
        return state


def middle(observation: Floats) -> Floats:
    """The controller: it is never reset, and earns a half."""
    assert observation.shape == (1,)
    return np.array([0.3])


def learn(push: float, episodes: int, seed: int = 0, **options: Any) -> rf.Run:
    """A run of the line with a learner of one action."""
    line = rf.from_gym(Line(), horizon=10, reward_range=(0.0, 1.0), reset_when="terminated")
    player, own = Pusher(push=push, danger=options.pop("danger", 0.0)), {"C": 5.0}
    chosen = {"primal": player, "dual": "constant-penalty", "settings": {"dual": own}, "controller": middle}
    return rf.learn(line, episodes=episodes, seed=seed, **{**chosen, **options})


def said(run: rf.Run, what: int) -> list[int]:
    """The rounds in which something was decided."""
    return [one.k for one in run.decisions if one.what == SAID[what]]


def rewards(run: rf.Run) -> Floats:
    """Of each episode."""
    return np.asarray(run.columns["reward"])


def test_a_better_policy_takes_over_and_earns_more() -> None:
    run = learn(0.7, 200)
    assert said(run, TOOK_OVER)
    assert not said(run, WORSE)
    assert rewards(run)[:FIRST].mean() == pytest.approx(5.0, abs=0.2)
    assert rewards(run)[-20:].mean() > 8.0
    assert run.learned is not None
    assert run.learned.state.inner.episodes == 200


def test_a_worse_policy_never_does() -> None:
    run = learn(0.0, 400)
    assert said(run, WORSE)
    assert not said(run, TOOK_OVER)
    assert rewards(run).mean() > 4.4  # the controller's 5, and 2 in a quarter of the episodes


def outcome(learned: Floats, controller: Floats, seed: int) -> tuple[Verdict, int]:
    """The first verdict about values of episodes, and after how many."""
    trial = Comparison(seed)
    start = np.zeros(1)
    for value in controller[:20]:
        trial.see(start, float(value), controller=True)
    trial.toss(0)
    for k in range(20, len(learned)):
        is_learned = trial.trying
        value = float((learned if is_learned else controller)[k])
        found = trial.add(start, value, k)
        trial.see(start, value, controller=not is_learned)
        if found in (Verdict.BETTER, Verdict.WORSE):
            return found, k
    return Verdict.OPEN, len(learned)


def steady(rng: np.random.Generator, mean: float, deviation: float = 0.05) -> Floats:
    """Values of 300 episodes."""
    return np.clip(rng.normal(mean, deviation, 300), 0.0, 1.0)


def heavy(rng: np.random.Generator, mean: float, part: float) -> Floats:
    """As many, a few of which earn nothing at all; the others are better, so that the mean is the same."""
    return np.where(rng.random(300) < part, 0.0, steady(rng, mean / (1.0 - part), 0.02))


@pytest.mark.parametrize("part", [0.0, 0.02, 0.05, 0.1])
def test_what_is_no_better_takes_over_with_the_stated_error_however_heavy_its_tail(part: float) -> None:
    """The first test has the error 0.025: of 400 sequences more than 20 take over with a probability of 0.001."""
    rng = np.random.default_rng(int(100 * part))
    found = [outcome(heavy(rng, 0.8, part), steady(rng, 0.8), seed)[0] for seed in range(400)]
    assert sum(one is Verdict.BETTER for one in found) <= 20


@pytest.mark.parametrize("rhythm", [1, 2, 5])
def test_phases_of_the_machine_favour_neither(rhythm: int) -> None:
    """Set points in some rhythm: without the coin, one of two equal actors takes over."""
    easy = np.where(np.arange(600) // rhythm % 2 == 0, 0.9, 0.7)
    assert sum(outcome(easy, easy, seed)[0] is Verdict.BETTER for seed in range(400)) <= 20


@pytest.mark.parametrize(("better", "within"), [(0.04, 260), (0.1, 100), (0.2, 70)])
def test_a_better_one_takes_over_in_reasonable_time(better: float, within: int) -> None:
    """By 5 % of the controller's 0.8 after at most 260 episodes of both, in nine of ten sequences."""
    rng = np.random.default_rng(1)
    found = [outcome(steady(rng, 0.8 + better), steady(rng, 0.8), seed) for seed in range(40)]
    assert sum(one is Verdict.BETTER and n <= within for one, n in found) >= 36


def test_safe_states_have_a_shape() -> None:
    """Two sensors that always agree were never safe apart, though each is in its range."""
    rng = np.random.default_rng(0)
    safe = SafeStates(np.zeros((2, 2)), mean=np.zeros(2), squares=np.zeros((2, 2)))
    for _ in range(20):
        along = rng.uniform(-1.0, 1.0, (10, 1))
        safe.see(along + 0.05 * rng.normal(size=(10, 2)), reset=False)
    allowed = [within_region(safe.allowed(), np.array(s)) for s in ([0.9, 0.9], [-0.5, -0.5], [0.9, -0.9], [1.4, 1.4])]
    assert allowed == [True, True, False, False]


def test_states_shortly_before_a_reset_were_not_safe() -> None:
    safe = SafeStates(np.zeros((2, 1)), mean=np.zeros(1), squares=np.zeros((1, 1)))
    safe.see(np.arange(40.0)[:, None], reset=True)
    assert safe.ends[1, 0] == 19.0
    assert safe.known == 20


def test_the_faster_test_holds_at_any_time() -> None:
    values = np.random.default_rng(0).normal(size=(800, 300))
    n = np.arange(1, 301)
    mean = values.cumsum(axis=1) / n
    variance = np.maximum((values**2).cumsum(axis=1) - n * mean**2, 0.0) / np.maximum(n - 1, 1)
    most = np.array([[radius(int(k), float(v), 0.05) for k, v in zip(n, row, strict=True)] for row in variance])
    assert (mean > most).any(axis=1).mean() <= 0.05


@pytest.mark.parametrize("explore", [0, 1, 3])
def test_resets_are_at_most_those_that_it_may_cause(explore: int) -> None:
    run = learn(1.0, 300, explore=explore)  # each episode of it ends in a reset
    assert run.realised_resets[-1] == explore
    assert run.statements["primal"]["constants"]["explore"] == explore


def test_a_player_that_does_not_count_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Controlled, state: ControlledState) -> None:
        state.trial.begin_test(state.k)

    monkeypatch.setattr(Controlled, "_charge", forgetful)
    assert learn(1.0, 300, explore=1).realised_resets[-1] > 1


@pytest.mark.parametrize("after_learned", [True, False])
def test_a_reset_of_the_controller_right_after_the_learned_policy_is_charged_to_that(after_learned: bool) -> None:
    line = rf.from_gym(Line(), horizon=10)
    player = Controlled(Pusher(), middle)
    state = player.init(line, 10, 0)
    state.after_learned = after_learned
    fell = rf.Episode(np.array([[0.9], [1.1]]), np.array([[0.3]]), np.array([0.5]), reset=True, next_start=None)
    plan = player.plan(state, np.array([0.9]), 1.0)
    state = player.update(state, rf.Round(1, np.array([0.9]), 1.0, plan, episode=fell, cost_signal=1.0, exact=None))
    assert state.charged == int(after_learned)


def test_the_controller_acts_where_danger_is_predicted() -> None:
    run = learn(1.0, 100, danger=0.9)
    assert run.realised_resets[-1] == 0
    assert not run.decisions


def test_without_a_budget_it_is_the_controller() -> None:
    grid = rf.make("grid-v0").problem()
    run = rf.learn("grid-v0", controller=lambda state: 0, explore=0, episodes=40, seed=3)
    alone = list(rf.simulate(grid, np.zeros(grid.n_states, dtype=np.int64), 40, seed=3))
    assert [bool(x) for x in run.columns["reset"]] == [one.reset for one in alone]
    assert run.learned is not None
    assert run.learned.state.totals[1].sum() == 0.0


@pytest.mark.parametrize(("pushed", "notes"), [(50.0, 1), (0.9, 0)])
def test_a_note_says_that_actions_of_a_controller_are_cut(pushed: float, notes: int) -> None:
    run = learn(0.7, 4, controller=lambda observation: [pushed], explore=0, max_resets=None)
    said = [one.what for one in run.notes if one.what.startswith("Actions of the controller, such as [50.0], are cut")]
    assert len(said) == notes


def test_a_run_goes_on_only_with_its_controller(tmp_path: Path) -> None:
    whole = learn(0.7, 150)
    file = tmp_path / "line.rfrun"
    learn(0.7, 150, path=file, max_resets=None, steps=900)
    with pytest.raises(rf.RunError, match="give it again"):
        learn(0.7, 150, path=file, resume=True, controller=None)
    with pytest.raises(rf.RunError, match="explore=3, not 4"):
        learn(0.7, 150, path=file, resume=True, explore=4)
    again = learn(0.7, 150, path=file, resume=True)
    assert len(again) == 150
    assert again.spec["controller"] == {"function": f"{__name__}:middle", "explore": 3}
    assert [one.what for one in again.decisions] == [one.what for one in whole.decisions] == [SAID[TOOK_OVER]]


def test_a_file_alone_says_that_the_controller_acts(tmp_path: Path) -> None:
    file = tmp_path / "grid.rfrun"
    run = rf.learn("grid-v0", controller=lambda state: 0, explore=0, episodes=12, path=file)
    for one in (run, rf.load(file)):
        with pytest.raises(rf.RunError, match="The controller acts in this run"):
            _ = one.policy


def test_the_policy_of_a_run_is_the_learned_one_once_it_is_in_charge() -> None:
    run = learn(0.7, 200)
    assert run.learned is not None
    assert run.learned.state.trial.in_charge
    assert run.policy.predict(np.array([5.0]))[0] == pytest.approx(0.7)  # also where the controller would act


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"controller": 3}, "must be a function of the observation"),
        ({"controller": "nowhere:f"}, "does not import"),
        ({"controller": lambda state: 9}, "must give one of 0..4"),
        ({"controller": lambda state: 1 / 0}, "ZeroDivisionError"),
        ({"explore": 2}, "needs a 'controller'"),
        ({"controller": lambda state: 0, "explore": -1}, "'explore' of learn"),
        ({"controller": lambda state: 0, "delay": 1}, "round by round"),
        ({"controller": lambda state: 0, "primal": "uniform"}, "must learn from episodes that it did not choose"),
    ],
)
def test_bad_input_gets_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(rf.InvalidInput, match=sentence):
        rf.learn("grid-v0", episodes=5, **options)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "tanks.rfrun")
    command = ["run", "gym:resetfree/TwoTanks-v0", "--out", file]
    named = ["--controller", "resetfree.problems.machines.two_tanks:controller"]
    assert main([*command, *named, "--explore", "0", "--episodes", "3"]) == 0
    assert main([*command, *named, "--resume", "--episodes", "5"]) == 0
    assert rf.load(file).spec["controller"] == {"function": named[1], "explore": 0}
    capsys.readouterr()
    assert main([*command, "--resume", "--episodes", "7"]) != 0
    assert "--controller" in capsys.readouterr().err
