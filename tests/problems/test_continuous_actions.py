"""Continuous actions as they are: an environment, a player, a run file, and the policy without its player."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri

import resetfree as rf
from resetfree.game.capabilities import Partner, Suited, choose
from resetfree.players import discover
from resetfree.players import requirements as suitability
from resetfree.players.requirements import CHARGE, MACHINE
from resetfree.problems.stepping import FunctionPolicy
from resetfree.runs.recall import recall
from resetfree.use import read_policy

FALLEN = "reward<=-9.5"  # hanging down
OPTIONS: dict[str, Any] = {"horizon": 20, "actions": "box", "reward_range": (-17, 0), "reset_when": FALLEN}


def pendulum(**options: Any) -> Any:
    return rf.from_gym("gym:Pendulum-v1", **{**OPTIONS, **options})


@dataclass
class Controller(rf.Policy):
    """a = clip(weight s + noise): a controller written by hand, or found by a player."""

    kind = "controller"
    axes: ClassVar[dict[str, str]] = {"weight": "AD", "noise": "A", "low": "A", "high": "A"}
    stationary = True
    weight: NDArray[np.float64]  # [A, D]
    noise: NDArray[np.float64]  # [A] standard deviation
    low: NDArray[np.float64]  # [A]
    high: NDArray[np.float64]

    def act(self, h: int, s: Any, u: Any) -> Any:
        return np.clip(self.weight @ s + self.noise * ndtri(np.clip(u, 1e-9, 1 - 1e-9)), self.low, self.high)


def by_hand(noise: float = 0.0) -> Controller:
    return Controller(np.array([[-0.1, -1.0, -0.2]]), np.array([noise]), np.array([-2.0]), np.array([2.0]))


@dataclass
class Climbed:
    """The best weights so far, those that are tried now, and how many rounds there were."""

    weight: NDArray[np.float64]  # [A, D]
    best: float
    rounds: int
    box: NDArray[np.float64]  # [2, A]
    seed: int


@dataclass(frozen=True)
class HillClimbing(rf.PrimalPlayer[Climbed]):
    """Tries weights near the best ones so far, with Gaussian noise on every action."""

    name: ClassVar[str] = "hill-climbing"
    action_spaces: ClassVar[tuple[type, ...]] = (rf.Box,)
    noise: float = 0.3

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Climbed:
        assert isinstance(problem.actions, rf.Box)
        assert problem.low is not None
        bounds = np.array([problem.actions.low.ravel(), problem.actions.high.ravel()], dtype=np.float64)
        return Climbed(np.zeros((problem.actions.size, len(problem.low))), -np.inf, 0, bounds, seed)

    def plan(self, state: Climbed, s1: Any, lam: float) -> rf.Plan:
        near = np.random.default_rng([state.seed, state.rounds]).normal(size=state.weight.shape)
        return rf.Plan(self._policy(state, state.weight + near, self.noise), 0.5, 0.5)

    def update(self, state: Climbed, round: rf.Round) -> Climbed:
        gain = round.episode.total_reward - 20.0 * round.episode.reset
        if gain > state.best:
            state.best, state.weight = gain, round.plan.policy.weight
        state.rounds += 1
        return state

    def greedy(self, state: Climbed, lam: float) -> Controller:
        """Without noise: for when learning is over."""
        return self._policy(state, state.weight, 0.0)

    def _policy(self, state: Climbed, weight: Any, noise: float) -> Controller:
        return Controller(weight, np.full(len(weight), noise), *state.box)


def test_a_policy_written_by_hand_is_played() -> None:
    problem = pendulum()
    assert isinstance(problem.actions, rf.Box)
    assert (problem.actions.size, problem.n_uniforms) == (1, 20)
    episodes = list(rf.simulate(problem, by_hand(0.5), 6, seed=1))
    again = list(rf.simulate(pendulum(), by_hand(0.5), 6, seed=1))
    assert all(np.array_equal(a.actions, b.actions) for a, b in zip(episodes, again, strict=True))
    for one in episodes:
        assert one.actions.shape == (len(one.rewards), 1)
        assert one.actions.dtype == np.float64
        assert (np.abs(one.actions) <= 2).all()
        assert ((one.rewards >= 0) & (one.rewards <= 1)).all()
        assert one.original_return == pytest.approx(17 * (one.rewards - 1).sum())
    assert len(np.unique(np.concatenate([one.actions for one in episodes]))) > 50


def test_the_environment_gets_the_action_in_its_own_form() -> None:
    """float64 [A] of the policy against float32 of the space; the episode is what the environment itself does."""
    problem, env = pendulum(horizon=5), gymnasium.make("Pendulum-v1")
    start = problem.perform_reset(0.25, "start")
    seen, _ = env.reset(seed=int(0.25 * 2**31))
    assert np.array_equal(start, seen)
    episode = problem.rollout(by_hand(), start, np.full(5, 0.3))
    for action, state in zip(episode.actions, episode.states[1:], strict=True):
        seen, *_ = env.step(action.astype(np.float32))
        assert np.array_equal(state, seen)


@pytest.mark.parametrize("bad", [np.array([2.1]), np.array([np.nan]), np.zeros(2), 0.5, np.array([1])], ids=str)
def test_an_action_outside_the_box_is_refused(bad: Any) -> None:
    @dataclass
    class Wild(rf.Policy):
        def act(self, h: int, s: Any, u: Any) -> Any:
            return bad

    with pytest.raises(
        rf.InvalidInput, match=r"An action of 'gym:Pendulum-v1' must be 1 number in \[-2, 2\]. Got .* at step 1"
    ):
        next(rf.simulate(pendulum(), Wild(), 1))


def test_who_chooses_among_actions_cannot_play_a_box() -> None:
    problem = pendulum()
    for policy in (lambda h, s: np.ones(2) / 2, FunctionPolicy(lambda h, s: np.ones(2) / 2, "x", 2), np.zeros((20, 2))):
        with pytest.raises(rf.InvalidInput, match="must be a Policy whose 'act' gives 1 number in"):
            next(rf.simulate(problem, policy, 1))
    for primal in ("uniform", "stored-linear", "linear-ucb"):
        with pytest.raises(rf.InvalidInput) as refused:
            rf.learn(pendulum(), primal, episodes=2)
        assert str(refused.value) == (
            f"The player '{primal}' must be given actions that are Choices. Got 'gym:Pendulum-v1', whose actions are "
            "1 number in [-2, 2], instead. Give actions=5 for a grid of 5 points per dimension, or the list of actions "
            "to choose from. Players that take them as they are: auto, goal-search, mbpo, model-search, neural-search, "
            "ppo, sac, sac-lagrangian, staged-search."
        )
    with pytest.raises(rf.InvalidInput, match="cannot be counted"):
        _ = problem.n_actions
    with pytest.raises(rf.InvalidInput, match=r"must be given actions that are Box\. Got 'grid-v0'"):
        rf.learn("grid-v0", HillClimbing(), episodes=2)


def test_auto_searches_in_a_model_with_settings_for_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    found = choose(pendulum(), discover("primal"), bound_known=False)
    assert (found.primal, found.dual, found.feedback) == ("model-search", "constant-penalty", "realised")
    assert found.settings == {"primal": MACHINE, "dual": {"C": CHARGE}}
    assert "states are vectors of 3 and actions 1 number in [-2, 2]" in found.why
    assert "tried" not in found.why
    for numbers, motors in ((60, 17), (61, 17), (60, 18)):
        monkeypatch.setattr(suitability, "find_spec", lambda name: None)  # whatever is installed
        found = choose(machine(numbers, motors), discover("primal"), bound_known=False)
        assert found.primal == "model-search"
        said = "it was tried up to 60 and 17 numbers, and beyond expect long pauses and more resets"
        assert (said in found.why) == (numbers + motors > 77)
        install = 'for networks, which earn more there, pip install "resetfree[neural]"'
        assert (install in found.why) == (numbers > 8)  # where these would play


def machine(numbers: int, motors: int) -> Any:
    large = pendulum()
    large.low, large.high, large.actions = np.zeros(numbers), np.ones(numbers), rf.Box(np.zeros(motors), 1.0)
    return large


def test_auto_takes_networks_where_states_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suitability, "find_spec", lambda name: name)
    for numbers, expected in ((3, "model-search"), (8, "model-search"), (9, "staged-search"), (121, "neural-search")):
        found = choose(machine(numbers, 6), discover("primal"), bound_known=False)
        assert found.primal == expected, numbers
        assert "install" not in found.why
    assert found.settings == {"dual": {"C": CHARGE}}
    assert "networks learn the motion and plan, freely while nothing is reset" in found.why


def test_a_choice_needs_no_jax() -> None:
    """It is imported when a player with networks is made, not when others are chosen or this one is considered."""
    code = (
        "import sys; from resetfree.players import discover; from resetfree.game.capabilities import choose; "
        "from resetfree.problems.registry import find_world; problem = find_world('gym:Pendulum-v1', {}).problem; "
        "print(choose(problem, discover('primal'), bound_known=False).primal, 'jax' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["model-search", "False"]


def test_a_run_keeps_the_player_that_was_chosen_before_networks_were_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suitability, "LONG_STATE", 2)  # so that a pendulum has long states
    asked: dict[str, Any] = {"episodes": 3, "path": tmp_path / "run.rfrun"}

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(suitability, "find_spec", lambda name: None)
    with pytest.raises(rf.Stopped):
        rf.learn(pendulum(), **asked, progress=stop)
    monkeypatch.setattr(suitability, "find_spec", lambda name: name)
    assert rf.learn(pendulum(), **asked, resume=True).spec["primal"]["name"] == "model-search"
    assert choose(pendulum(), discover("primal"), bound_known=False).primal == "staged-search"
    kept = choose(rf.make("grid-v0").problem(), discover("primal"), bound_known=True, before="model-search")
    assert kept.primal == "rule-elimination"  # what does not suit is not kept


def test_auto_says_what_to_do_where_nothing_plays_a_box() -> None:
    for changes, states in (
        ({"stationary": False}, "vectors with dynamics that change with the step"),
        ({"low": None, "n_states": 9}, "no vectors"),
    ):
        problem = pendulum()
        for name, value in changes.items():
            setattr(problem, name, value)
        with pytest.raises(rf.InvalidInput) as caught:
            choose(problem, discover("primal"), bound_known=True)
        assert str(caught.value) == (
            "'auto' has no player for 'gym:Pendulum-v1', whose actions are 1 number in [-2, 2] and whose states are "
            f"{states}. Give actions=5 for a grid of 5 points per dimension, or the list of actions to choose from. Or "
            "name a player that takes them as they are."
        )


def test_auto_takes_a_player_that_says_that_a_box_suits_it_more() -> None:
    class Willing(HillClimbing):
        @classmethod
        def suits(cls, problem: rf.Problem, *, bound_known: bool) -> Suited | None:
            """Whatever is a box."""
            partner = Partner("counting", "realised", {"eta": 2.0})
            return Suited(5, "actions are a box", partner) if isinstance(problem.actions, rf.Box) else None

    players = {**discover("primal"), "willing": Willing}
    found = choose(pendulum(), players, bound_known=False)
    assert (found.primal, found.dual, found.settings) == ("willing", "counting", {"dual": {"eta": 2.0}})
    grid = choose(rf.make("grid-v0").problem(), players, bound_known=False)
    assert grid.primal == "rule-elimination"


def learned(path: Path | None = None, **options: Any) -> rf.Run:
    asked = {"episodes": 40, "seed": 3, "feedback": "realised", "B": 5.0, "path": path, **options}
    return rf.learn(pendulum(), HillClimbing(), **asked)


def test_a_player_with_gaussian_actions_learns_is_resumed_exported_and_evaluated(tmp_path: Path) -> None:
    whole = learned(tmp_path / "whole.rfrun")
    parts = tmp_path / "parts.rfrun"
    learned(parts, max_resets=2)
    assert 0 < len(rf.load(parts)) < 40
    assert len(learned(parts, resume=True)) == 40
    assert learned(tmp_path / "again.rfrun").columns["reward"].tolist() == whole.columns["reward"].tolist()
    assert whole.spec["n_actions"] is None

    policy = whole.policy
    with pytest.raises(rf.RunError, match="'hill-climbing'"):
        _ = rf.load(tmp_path / "whole.rfrun").policy
    alone = recall(rf.load(tmp_path / "whole.rfrun"), player=HillClimbing())  # the file tells the box
    again = read_policy(policy.export(tmp_path / "policy.npz"))
    x = np.random.default_rng(0).normal(size=(50, 3))
    actions, state = policy.predict(x)
    assert state is None
    assert (actions.shape, actions.dtype) == ((50, 1), np.float32)
    assert gymnasium.make("Pendulum-v1").action_space.contains(policy.predict(x[0])[0])
    for other in (alone, again):
        assert np.array_equal(other.predict(x)[0], actions)
        assert isinstance(other.actions, rf.Box)
    with pytest.raises(rf.InvalidInput, match="Only a policy that chooses among actions has probabilities"):
        again.probabilities(x[0])

    options = {key: value for key, value in OPTIONS.items() if key not in ("horizon", "actions")}
    on_env = again.evaluate(gymnasium.make("Pendulum-v1"), episodes=5, seed=1, **options)
    assert (on_env.episodes, on_env.horizon) == (5, 20)
    assert on_env.mean == policy.evaluate(pendulum(), episodes=5, seed=1).mean
    with pytest.raises(rf.InvalidInput, match=r"uncounted actions\. Got 'gym:Pendulum-v1' with 3"):
        again.evaluate(pendulum(actions=3), episodes=1)


def test_a_run_of_another_box_is_another_problem(tmp_path: Path) -> None:
    class Weak(gymnasium.ActionWrapper[Any, Any, Any]):
        def __init__(self, bound: float) -> None:
            super().__init__(gymnasium.make("Pendulum-v1"))
            self.action_space = gymnasium.spaces.Box(-bound, bound, (1,))

        def action(self, action: Any) -> Any:
            return action

    def run(bound: float, **more: Any) -> rf.Run:
        problem = rf.from_gym(Weak(bound), **OPTIONS)
        return rf.learn(problem, HillClimbing(), episodes=4, seed=1, B=5.0, path=tmp_path / "a.rfrun", **more)

    run(1.0)
    assert len(run(1.0, resume=True)) == 4
    with pytest.raises(rf.RunError, match="another problem"):
        run(1.5, resume=True)


SPOILED: dict[str, tuple[Any, str]] = {
    "bounds": (lambda held: held.update(actions=held["actions"][::-1]), "finite bounds"),
    "one bound": (lambda held: held.update(actions=held["actions"][:1]), "two bounds of a box"),
    "size": (lambda held: held.update(actions=np.zeros((2, 2), dtype=np.float32)), "for A = 2"),
    "outside": (lambda held: held.update(low=held["low"] + 9, high=held["high"] + 9), "outside its action space"),
    "nan": (lambda held: held.update(weight=held["weight"] * np.nan), "must hold numbers"),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_file_of_a_box_is_refused(how: str, tmp_path: Path) -> None:
    change, why = SPOILED[how]
    file = learned(episodes=4).policy.export(tmp_path / "policy.npz")
    held = dict(np.load(file))
    change(held)
    np.savez(file, **held)
    with pytest.raises(rf.RunError) as said:
        read_policy(file)
    assert why in str(said.value)


def test_boxes_and_choices_are_checked() -> None:
    endless = np.broadcast_to(np.float64(1.0), (2**20, 2**20))  # takes 8 bytes, and a copy of it 8 TiB
    for low, high in (
        (1.0, 0.0),
        (0.0, np.inf),
        ([0.0, 0.0], [1.0, 1.0, 1.0]),
        ([], []),
        (np.nan, 1.0),
        (0.0, endless),
    ):
        with pytest.raises(rf.InvalidInput, match="A Box must have finite bounds"):
            rf.Box(low, high)
    with pytest.raises(rf.InvalidInput, match="'n' of Choices"):
        rf.Choices(0)
    with pytest.raises(rf.InvalidInput, match=r"'values' of Choices must be 2\. Got 3"):
        rf.Choices(2, [1, 2, 3])
    own = np.array([[-1, -2], [-3, -4]], dtype=np.float32)
    box = rf.Box(own, -own)
    assert box.native(np.arange(4.0) / 4).dtype == np.float32
    assert box.native(np.arange(4.0) / 4).shape == (2, 2)
    assert [box.n, box.size, box.n_uniforms] == [None, 4, 4]
    assert box.holds(box.clip(np.full(4, 9.0)))
