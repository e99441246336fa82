"""A machine with continuous actions on every surface: run, resume, evaluate, export, predict, report, sweep, studio."""

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from tests.bank import stop_at
from tests.problems.gym.reaching import Reach
from tests.runs.forging import forge
from tests.show.cli import commands

import resetfree as rf
from resetfree.core.state import pack
from resetfree.problems.formula import TanhPolicy
from resetfree.runs.file.recorded import EpisodeBuffer, unpacked
from resetfree.runs.file.runfile import connect, read_checkpoint
from resetfree.show.cli import main
from resetfree.show.studio.files import RunFolder
from resetfree.show.studio.following import Following
from resetfree.show.studio.sessions import Sessions
from resetfree.theory.certificates.record import CLAIM
from resetfree.use import read_policy

said = partial(commands.run_json, quiet=False)
PENDULUM = "gym:InvertedPendulum-v5"
REACH = "tests.problems.gym.reaching:Reach"
SEARCH = {"population": 8, "rounds": 2, "planning": 15, "waves": 5}
WORDS = [word for key, value in {"horizon": 15, **SEARCH}.items() for word in ("--set", f"{key}={value}")]
WORDS += ["--primal", "model-search"]


ASKED: dict[str, Any] = {
    "problem": REACH, "primal": "model-search", "episodes": 12, "seed": 2,
    "settings": {"primal": SEARCH, "problem": {"horizon": 15}},
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def file(here: Path) -> Path:
    """A run on goal observations and two motors that has found a policy, ended in the middle."""
    with pytest.raises(rf.Stopped):
        rf.learn(**ASKED, path=here / "reach.rfrun", progress=stop_at(8))
    run = rf.load(here / "reach.rfrun")
    assert run.spec["primal"]["name"] == "model-search"
    assert np.any(run.policy.rule.weight)  # type: ignore[attr-defined]
    return here / "reach.rfrun"


@pytest.mark.parametrize("problem", [PENDULUM, REACH])
def test_from_the_command_line_to_a_policy(problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = said(capsys, "run", problem, "--episodes", 8, "--seed", 1, "--out", "a.rfrun", *WORDS)
    assert (data["primal"], data["dual"], data["episodes"]) == ("model-search", "constant-penalty", 8)
    assert rf.load("a.rfrun").spec["n_actions"] is None
    found = said(capsys, "evaluate", "a.rfrun", problem, "--episodes", 3)
    assert found["same_problem"] is True
    assert found["fresh"]["episodes"] == 3
    written = said(capsys, "export", "a.rfrun", "-o", "a.npz")
    assert written["kind"] == "TanhPolicy"
    motors = 1 if problem == PENDULUM else 2
    assert written["arrays"]["actions"] == [2, motors]
    again = said(capsys, "evaluate", "a.npz", problem, "--episodes", 3, "--set", "horizon=15")
    assert again["fresh"]["mean"] == found["fresh"]["mean"]
    for more in ([], ["--problem", problem], ["--problem", problem, "--replay"]):
        claims = {one["claim"]: one for one in said(capsys, "certify", "a.rfrun", *more)["certificates"]}
        assert not [claim for claim, one in claims.items() if one["holds"] is False]
        assert claims[CLAIM]["status"] == ("checked" if more else "not applicable")
    said(capsys, "report", "a.rfrun", "-o", "a.html")
    assert "continuous" in Path("a.html").read_text()


def test_a_run_that_was_stopped_goes_on_with_what_it_had_learned(here: Path) -> None:
    asked: dict[str, Any] = {"primal": "model-search", "episodes": 10, "seed": 2}
    asked |= {"path": here / "a.rfrun", "settings": {"primal": SEARCH}}
    first = rf.learn(rf.from_gym(Reach(0.21), horizon=15, reset_when="terminated"), max_resets=1, **asked)
    assert 0 < len(first) < 10
    whole = rf.learn(rf.from_gym(Reach(0.21), horizon=15, reset_when="terminated"), resume=True, **asked)
    assert len(whole) == 10
    assert whole.columns["reward"][: len(first)].tolist() == first.columns["reward"].tolist()
    known = whole.learned.state.rows  # type: ignore[union-attr]
    assert known.n == int(whole.columns["steps"].sum()) + 10
    assert known.action.shape[1] == 2
    again = rf.load(here / "a.rfrun").policy
    assert again.rule.same(whole.policy.rule)


def test_predict_takes_one_observation_or_many(file: Path) -> None:
    policy = read_policy(rf.load(file).policy.export(file.with_name("policy.npz")))
    rule = policy.rule
    assert isinstance(rule, TanhPolicy)
    env, rows = Reach(), []
    for seed in range(4):
        one, _ = env.reset(seed=seed)
        vector = [*one["achieved_goal"], *one["desired_goal"], one["observation"]["lamp"], *one["observation"]["speed"]]
        pushed = np.tanh(rule.weight @ np.array(vector) + rule.bias)  # as the page on deployment does
        expected = (rule.low + rule.high) / 2 + (rule.high - rule.low) / 2 * pushed
        action, state = policy.predict(one)
        assert state is None
        assert env.action_space.contains(action)
        assert np.allclose(action, expected, atol=1e-6)
        rows.append((one, action))
    listed, _ = policy.predict([one for one, _ in rows])
    assert np.array_equal(listed, np.stack([action for _, action in rows]))
    vectors = {
        "achieved_goal": np.stack([one["achieved_goal"] for one, _ in rows]),
        "desired_goal": np.stack([one["desired_goal"] for one, _ in rows]),
        "observation": {
            "lamp": np.array([one["observation"]["lamp"] for one, _ in rows]),
            "speed": np.stack([one["observation"]["speed"] for one, _ in rows]),
        },
    }  # what a vector environment shows
    assert np.array_equal(policy.predict(vectors)[0], listed)
    assert policy.predict([])[0].shape == (0, 2)
    drawn, _ = policy.predict(rows[0][0], deterministic=False)
    assert env.action_space.contains(drawn)


class Shaped(gymnasium.Env[Any, Any]):
    """Whatever the shape of the actions is."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2, 2), np.float64)

    def __init__(self, shape: tuple[int, ...], kind: Any, size: int = 2) -> None:
        self.action_space = gymnasium.spaces.Box(-1, 1, shape, kind)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = np.zeros(self.observation_space.shape or ())
        return self.at.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.at = 0.9 * self.at + 0.1 * np.mean(action)
        return self.at.copy(), max(0.0, 1.0 - float(abs(self.at[0]))), bool(abs(self.at[0]) > 0.5), False, {}


@pytest.mark.parametrize(("shape", "kind"), [((), np.float32), ((2, 1), np.float32), ((3,), np.float64)], ids=str)
def test_boxes_of_any_shape_keep_it_everywhere(shape: tuple[int, ...], kind: Any, here: Path) -> None:
    asked: dict[str, Any] = {"episodes": 5, "path": here / "a.rfrun", "settings": {"primal": SEARCH}}
    run = rf.learn(rf.from_gym(Shaped(shape, kind), horizon=10), **asked)
    alone = rf.load(here / "a.rfrun").policy
    for policy in (run.policy, alone, read_policy(alone.export(here / "a.npz"))):
        one, many = policy.predict(np.ones(2))[0], policy.predict(np.ones((3, 2)))[0]
        assert Shaped(shape, kind).action_space.contains(one)
        assert (many.shape, many.dtype) == ((3, *shape), kind)
        assert policy.evaluate(Shaped(shape, kind), episodes=2).episodes == 2


def test_only_memory_limits_the_numbers_of_a_machine() -> None:
    problem = rf.from_gym(Shaped((2,), np.float32, size=30_000), horizon=3)
    assert problem.low is not None
    assert len(problem.low) == 30_000
    with pytest.raises(
        rf.InvalidInput, match=r"keeps 36\.\d GB of a fitted model .* learn from fewer numbers, observe=f"
    ):
        rf.learn(problem, episodes=2)
    few = rf.from_gym(Shaped((2,), np.float32, size=30_000), horizon=3, observe=lambda o: o[:3])
    assert len(rf.learn(few, episodes=2, settings={"primal": SEARCH})) == 2


def test_code_for_observations_is_named_again_by_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", PENDULUM, "--out", "a.rfrun"]
    observe = ["--set", "observe=tests.use.test_machines:places"]
    assert main([*words, "--episodes", "3", *observe, *WORDS]) == 0
    assert rf.load("a.rfrun").spec["blueprint"]["low"] == ["-inf"] * 2
    capsys.readouterr()
    assert main([*words, "--resume"]) == 2
    assert "give it again with --set observe=tests.use.test_machines:places" in capsys.readouterr().err
    assert main([*words, "--resume", *observe]) == 0
    assert main(["evaluate", "a.rfrun", PENDULUM, "--episodes", "2", *observe]) == 0
    capsys.readouterr()
    assert main(["export", "a.rfrun"]) == 2
    assert "a function of your own, which only the problem has" in capsys.readouterr().err


def places(observation: Any) -> Any:
    """Where the cart and the pole are, without their speeds."""
    return observation[:2]


BAD_OBSERVATIONS: dict[str, Any] = {
    "a part is missing": lambda one: {key: one[key] for key in ("achieved_goal", "observation")},
    "a vector": lambda one: np.zeros(7),
    "a part is too long": lambda one: {**one, "achieved_goal": np.zeros(3)},
    "several lengths": lambda one: {**one, "achieved_goal": [[1.0], [1.0, 2.0]]},
    "nan": lambda one: {**one, "achieved_goal": np.full(2, np.nan)},
    "a part of text": lambda one: {**one, "observation": "speed"},
    "nothing": lambda one: None,
}  # fmt: skip


@pytest.mark.parametrize("how", BAD_OBSERVATIONS)
def test_predict_refuses_other_observations(how: str, file: Path) -> None:
    policy, (one, _) = rf.load(file).policy, Reach().reset(seed=1)
    with pytest.raises(rf.InvalidInput) as caught:
        policy.predict(BAD_OBSERVATIONS[how](one))
    assert "\n" not in str(caught.value)


def test_a_policy_is_evaluated_on_the_machine_itself(file: Path) -> None:
    policy = rf.load(file).policy
    env = Reach()
    found = policy.evaluate(env, episodes=3, seed=1)
    assert found.episodes == 3
    assert found.mean == policy.evaluate(rf.from_gym(Reach(), horizon=15), episodes=3, seed=1).mean
    assert all(env.action_space.contains(action) for action in env.actions)
    with pytest.raises(rf.InvalidInput, match=r"uncounted actions\. Got 'Reach' with 9"):
        policy.evaluate(Reach(), episodes=1, actions=3)
    with pytest.raises(rf.InvalidInput, match=r"2 numbers in an action\. Got 'gym:InvertedPendulum-v5' with 1"):
        policy.evaluate(gymnasium.make("InvertedPendulum-v5"), episodes=1)


def test_a_grid_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    data = said(capsys, "run", PENDULUM, "--episodes", 2, "--out", "a.rfrun", "--set", "actions=5", *WORDS)
    assert rf.load("a.rfrun").spec["n_actions"] == 5
    assert data["primal"] == "model-search"
    said(capsys, "export", "a.rfrun", "-o", "a.npz")
    assert main(["evaluate", "a.npz", PENDULUM, "--episodes", "2"]) == 2
    refused = "of a problem with 5 actions. Got 'gym:InvertedPendulum-v5' with uncounted instead. Give actions=5"
    assert refused in capsys.readouterr().err
    commands.run_json(
        capsys, "evaluate", "a.npz", PENDULUM, "--episodes", 2, "--set", "actions=5", "--set", "horizon=15"
    )


def test_machines_are_swept(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.toml").write_text(
        f"""
        [sweep]
        episodes = 3
        seeds = 2
        [[problem]]
        id = "{PENDULUM}"
        options.horizon = 10
        options.actions = ["box", 3]
        [[players]]
        primal = "auto"
        settings.primal = {{ {", ".join(f"{key} = {value}" for key, value in SEARCH.items())} }}
        """
    )
    assert main(["sweep", "a.toml", "--workers", "1", "--engine", "local"]) == 0
    capsys.readouterr()
    found = [rf.load(path) for path in Path("sweeps").rglob("*.rfrun")]
    assert sorted(str(run.spec["n_actions"]) for run in found) == ["3", "3", "None", "None"]
    assert all(len(run) == 3 for run in found)


def test_the_studio_shows_a_run_of_a_machine_and_starts_none(file: Path) -> None:
    folder = RunFolder(file.parent)
    row = folder.listing()[0]
    assert row["lanes"][0]["problem"] == REACH
    view = Following("reach", folder)
    frame = view.frame(True)["lanes"][0]
    assert (frame["k"], frame["error"]) == (8, "")
    scene = view.scene()["lanes"][0]
    assert scene["spec"]["n_actions"] is None
    assert "is not a registered problem, and a file never makes code run" in scene["why"]
    with pytest.raises(rf.ResetFreeError, match=r"must be registered .* Got 'gym:InvertedPendulum-v5' instead"):
        Sessions(folder).start({"problem": PENDULUM, "lanes": [{}]})


def rewritten(path: Path, key: str, change: Any) -> None:
    """The checkpoint with another array, and digests that fit."""
    connection = connect(path, "ro")
    checkpoint = read_checkpoint(connection, path)
    connection.close()
    assert checkpoint is not None
    arrays = {**checkpoint.arrays, key: change(checkpoint.arrays[key])}
    forge(path, lambda edit: edit.execute("UPDATE checkpoints SET arrays = ?", (pack(arrays),)))


CRAFTED: dict[str, tuple[str, Any, str]] = {
    "a motor too many": ("weight", lambda a: np.concatenate([a, a]), "must have shape (2, 7)"),
    "a sensor too few": ("weight", lambda a: a[:, 1:], "must have shape (2, 7)"),
    "weights of nan": ("weight", lambda a: a * np.nan, "must hold finite numbers"),
    "weights of integers": ("weight", lambda a: a.astype(np.int64), "must be float64"),
    "offsets without end": ("offset", lambda a: a + np.inf, "must hold finite numbers"),
    "low above high": ("low", lambda a: a + 9.0, "must be what its player makes it"),
    "a wider box": ("high", lambda a: a * 5.0, "must be what its player makes it"),
    "a box of nan": ("high", lambda a: a * np.nan, "must be what its player makes it"),
    "no box": ("low", lambda a: a[:0], "must have shape (2,)"),
}  # fmt: skip


@pytest.mark.parametrize("how", CRAFTED)
def test_a_crafted_policy_in_a_run_file_is_refused(how: str, file: Path) -> None:
    name, change, why = CRAFTED[how]
    rewritten(file, f"primal.policy.{name}", change)
    for run in (rf.load(file), rf.load(file, REACH)):
        with pytest.raises(rf.RunError) as caught:
            _ = run.policy
        assert why in str(caught.value)
    with pytest.raises(rf.ResetFreeError) as refused:
        rf.learn(**ASKED, path=file, resume=True)
    assert why in str(refused.value)


PLAYED: dict[str, Any] = {
    "outside the box": lambda a: a + 9.0,
    "nan": lambda a: a * np.nan,
    "one motor": lambda a: a[:, :1],
    "three motors": lambda a: np.concatenate([a, a[:, :1]], axis=1),
    "a motor of all rows": lambda a: a.ravel(),
    "integers": lambda a: a.astype(np.int64),
    "too many rows": lambda a: np.concatenate([a, a]),
}  # fmt: skip


@pytest.mark.parametrize("how", PLAYED)
def test_crafted_actions_in_a_run_file_are_refused(how: str, file: Path) -> None:
    def change(edit: sqlite3.Connection) -> None:
        form, data = edit.execute("SELECT form, data FROM transitions WHERE k = 4").fetchone()
        states, actions, rewards = unpacked(form, data)
        other = EpisodeBuffer()
        other.add(rf.Episode(states, PLAYED[how](actions), rewards, False, None))
        ((form, data),) = zip(*other.take(), strict=True)
        edit.execute("UPDATE transitions SET form = ?, data = ? WHERE k = 4", (form, data))

    forge(file, change)
    with pytest.raises(rf.RunError, match="round 4 holds an episode that"):
        _ = rf.load(file).policy


def test_a_policy_file_that_leaves_its_box_is_never_obeyed(file: Path) -> None:
    """The bounds of the policy and those of the machine are both in the file: the machine's count."""
    target = rf.load(file).policy.export(file.with_name("policy.npz"))
    held = dict(np.load(target))
    np.savez(target, **{**held, "high": held["high"] * 10, "low": held["low"] * 10, "offset": held["offset"] * 0.0})
    policy = read_policy(target)
    assert isinstance(policy.actions, rf.Box)
    one, _ = Reach().reset(seed=1)
    far = {**one, "achieved_goal": np.full(2, 50.0)}
    with pytest.raises(rf.InvalidInput, match=r"This policy must give 2 numbers within a box\. Got \["):
        policy.predict(far)
    np.savez(target, **{**held, "high": held["low"], "low": held["high"]})
    with pytest.raises(rf.RunError, match="must have a box of actions"):
        read_policy(target)
