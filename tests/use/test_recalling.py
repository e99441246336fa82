"""From a run file to its policy: the same as the run's own, without the environment, and never by a stranger's code."""

import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from tests.bank import stop_at
from tests.runs.forging import forge_spec

import resetfree as rf
from resetfree.players import discover
from resetfree.players.tabular.references import Uniform
from resetfree.problems import ChoicePolicy
from resetfree.problems.blueprint import Blueprint, blueprint
from resetfree.runs.recall import recall

LAKE = "gym:FrozenLake-v1"
LAKE_OPTIONS = {"horizon": 12, "reset_when": "terminated and observation!=15"}


def rows(policy: Any) -> Any:
    return policy.rule.probabilities


@pytest.mark.parametrize("primal", [name for name, cls in discover("primal").items() if not cls.vectors_only])
def test_a_file_alone_tells_the_policy_of_every_player_or_says_what_it_lacks(primal: str, tmp_path: Path) -> None:
    """And it is that of the run, bit for bit; players that look at the model need the problem."""
    file, mdp = tmp_path / "grid.rfrun", rf.make("grid-v0", slip=0.07)  # a model that no name stands for
    run = rf.learn(mdp, primal, episodes=12, seed=3, path=file)
    given = rf.load(file, mdp)
    assert given.problem is not None
    assert np.array_equal(rows(given.policy), rows(run.policy))
    if primal == "best-response" or run.spec["statements"]["primal"]["constants"].get("oracle"):
        with pytest.raises(rf.RunError, match=r"has no exact oracle.* Give it: rf\.load\(file, problem\)"):
            _ = rf.load(file).policy
        return
    alone = rf.load(file).policy
    assert alone.problem is None
    assert np.array_equal(rows(alone), rows(run.policy))
    assert alone.about == {"problem": "grid-v0", "primal": primal, "episodes": 12, "lam": run.columns["lam"][-1]}


def test_the_environment_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lake.rfrun"
    rf.learn(LAKE, episodes=5, path=file, settings={"problem": LAKE_OPTIONS})

    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("an environment was made")

    monkeypatch.setattr(gymnasium, "make", refuse)
    assert rf.load(file).policy.predict(0)[0] in range(4)


def test_a_run_without_a_file_has_its_policy_too() -> None:
    run = rf.learn("grid-v0", episodes=30, seed=2)
    last = run.learned
    assert last is not None
    plan = last.player.plan(last.state, int(run.columns["s1"][-1]), float(run.columns["lam"][-1]))
    assert np.array_equal(np.eye(5)[np.asarray(plan.policy).argmax(-1)] if np.asarray(plan.policy).ndim == 3
                          else np.eye(5)[plan.policy], run.policy.played())  # fmt: skip
    assert rf.Run(run.spec, run.columns, None, None, 0.0).learned is None
    with pytest.raises(rf.RunError, match="was not played in this process and has no file"):
        _ = rf.Run(run.spec, run.columns, None, None, 0.0).policy


def test_an_interrupted_run_gives_what_was_learned_up_to_its_checkpoint(tmp_path: Path) -> None:
    file, whole = tmp_path / "a.rfrun", rf.learn("grid-v0", episodes=40, seed=5)

    with pytest.raises(rf.Stopped) as stopped:
        rf.learn("grid-v0", episodes=40, seed=5, path=file, progress=stop_at(17))
    found = rf.load(file).policy
    assert found.about["episodes"] == 17
    assert np.array_equal(rows(found), rows(stopped.value.run.policy))
    rf.learn("grid-v0", episodes=40, seed=5, path=file, resume=True)
    assert np.array_equal(rows(rf.load(file).policy), rows(whole.policy))


@dataclass(frozen=True)
class Careless(Uniform):
    """Is interrupted in the middle of its tenth update."""

    name: ClassVar[str] = "careless"

    def update(self, state: Any, round: Any) -> Any:
        if round.k == 10:
            state.rows[:] = np.nan
            raise KeyboardInterrupt
        return state


def test_half_a_round_is_not_what_was_learned(tmp_path: Path) -> None:
    with pytest.raises(rf.Stopped) as stopped:
        rf.learn("grid-v0", Careless(), episodes=20, path=tmp_path / "a.rfrun", checkpoint_every=1e9)
    assert stopped.value.run.learned is None


def test_a_file_that_is_being_written_tells_what_is_in_it(tmp_path: Path) -> None:
    file, seen = tmp_path / "a.rfrun", []
    rf.learn("grid-v0", episodes=40, seed=5, path=file, max_resets=3)
    before = len(rf.load(file))
    assert 0 < before < 30

    def look(game: Any, this: Any) -> None:
        seen.append(rf.load(file).policy.about["episodes"])

    rf.learn("grid-v0", episodes=40, seed=5, path=file, progress=look, resume=True, checkpoint_every=1e9)
    assert len(seen) == 40 - before
    assert seen[0] == before
    assert rf.load(file).policy.about["episodes"] == 40


def test_nothing_learned_is_said_in_one_sentence(tmp_path: Path) -> None:
    file, seen = tmp_path / "a.rfrun", []

    def look(game: Any, this: Any) -> None:
        with pytest.raises(rf.RunError, match=r"has learned nothing yet: it holds no checkpoint after an episode\.$"):
            _ = rf.load(file).policy
        seen.append(this.k)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(rf.Stopped):
        rf.learn("grid-v0", episodes=40, path=file, progress=look, checkpoint_every=1e9)
    assert seen == [1]


def test_another_multiplier_can_be_asked_for(tmp_path: Path) -> None:
    run = rf.learn("doors-v0", "ucbvi", episodes=200, seed=1)
    bold, careful = recall(run, lam=0.0), recall(run, lam=1000.0)
    cost = [float(run.mdp.start @ rf.evaluate(run.mdp, one.played()).v_c) for one in (bold, careful)]  # type: ignore[union-attr,arg-type]
    assert cost[1] < cost[0]
    for bad in (-1.0, float("nan"), float("inf"), True, "1"):
        with pytest.raises(rf.InvalidInput, match="multiplier"):
            recall(run, lam=bad)  # type: ignore[arg-type]


def halves(observation: Any) -> Any:
    return np.asarray(observation, dtype=np.float64) / 2


def test_a_users_function_must_be_given_again(walk: Any, tmp_path: Path) -> None:
    def made() -> Any:
        return rf.from_gym(walk("box"), horizon=10, features=halves)

    file = tmp_path / "walk.rfrun"
    run = rf.learn(made(), "stored-linear", feedback="realised", B=5.0, episodes=15, path=file)
    with pytest.raises(rf.RunError, match=r"a function of your own, which only the problem has\. Give it"):
        _ = rf.load(file).policy
    found = rf.load(file, made()).policy
    at = np.linspace(-5, 5, 41)[:, None]
    assert np.array_equal(found.predict(at)[0], run.policy.predict(at)[0])
    with pytest.raises(rf.InvalidInput, match="it holds no code"):
        found.export(tmp_path / "policy.npz")


@dataclass(frozen=True)
class OwnPlayer(Uniform):
    name: ClassVar[str] = "my-own"


def test_a_users_player_must_be_given_again(tmp_path: Path) -> None:
    file = tmp_path / "a.rfrun"
    run = rf.learn("grid-v0", OwnPlayer(), episodes=5, path=file)
    assert run.policy.about["primal"] == "my-own"
    with pytest.raises(rf.RunError, match=r"The player 'my-own' .* is not registered, and nothing"):
        _ = rf.load(file).policy
    assert np.array_equal(rows(recall(rf.load(file), player=OwnPlayer())), rows(run.policy))


def test_numbered_observations_are_told_apart_as_in_the_run(walk: Any, tmp_path: Path) -> None:
    file = tmp_path / "walk.rfrun"
    run = rf.learn(
        rf.from_gym(walk("dictionary"), horizon=15, states=40), "ucbvi", episodes=60, seed=1, B=5.0, path=file
    )
    found = rf.load(file).policy
    problem = run.problem
    assert isinstance(found.rule, ChoicePolicy)
    assert found.sensor.seen is not None
    assert problem is not None
    n = len(found.sensor.seen)
    assert 5 < n < 40
    states = []
    for at in range(-6, 7):
        observation = {"at": np.array([at], dtype=np.float32), "side": int(at > 0)}
        state = found.sensor(observation)
        states.append(state)
        assert np.array_equal(found.probabilities(observation), found.rule(1, state))
    assert len({s for s in states if s < n}) == sum(s < n for s in states) > 5  # what came up has a number of its own
    unknown = {"at": np.array([77], dtype=np.float32), "side": 1}
    assert found.sensor(unknown) == found.sensor(unknown) == n  # and what did not, the next one, again and again
    again = found.evaluate(rf.from_gym(walk("dictionary"), horizon=15, states=40), episodes=20)
    assert again.episodes == 20


# Files that somebody else wrote.


SPOILS = {
    "no blueprint": lambda spec: spec.pop("blueprint"),
    "no object": lambda spec: spec.update(blueprint=[1]),
    "huge": lambda spec: spec["blueprint"].update(n_states=10**12),
    "huge table": lambda spec: spec["blueprint"].update(n_states=2**20, horizon=2**20),
    "other size": lambda spec: spec["blueprint"].update(n_states=18),
    "no size": lambda spec: spec["blueprint"].update(n_actions="4"),
    "true size": lambda spec: spec["blueprint"].update(n_actions=True),
    "few actions": lambda spec: spec["blueprint"]["actions"].update(shape=[3], values=[0, 1, 2]),
    "no actions": lambda spec: spec["blueprint"].update(actions=None),
    "objects": lambda spec: spec["blueprint"]["actions"].update(dtype="O"),
    "no observation": lambda spec: spec["blueprint"].update(observation=None),
    "other observation": lambda spec: spec["blueprint"]["observation"].update(kind="pickle"),
    "more observations": lambda spec: spec["blueprint"]["observation"].update(count=99),
    "setting": lambda spec: spec["primal"]["settings"].update(scale={"a": 1}),
    "word": lambda spec: spec["primal"]["settings"].update(scale="os:system"),
    "unknown setting": lambda spec: spec["primal"]["settings"].update(code="1"),
    "other player": lambda spec: spec["primal"].update(name="linear-ucb", settings={}),
    "unknown player": lambda spec: spec["primal"].update(name="os.system", settings={}),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOILS)
def test_a_spoiled_file_is_refused_in_one_sentence(how: str, tmp_path: Path) -> None:
    file = tmp_path / "lake.rfrun"
    rf.learn(LAKE, "ucbvi", episodes=5, path=file, settings={"problem": LAKE_OPTIONS})
    forge_spec(file, SPOILS[how])
    with pytest.raises(rf.RunError) as refused:
        _ = rf.load(file).policy
    assert "\n" not in str(refused.value)
    assert str(file) in str(refused.value)


def test_no_code_is_run_because_a_file_names_it(walk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stranger.py").write_text("raise SystemExit('I was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "walk.rfrun"
    rf.learn(rf.from_gym(walk("box"), horizon=10, features="polynomial"), "stored-linear", feedback="realised", B=5.0,
             episodes=5, path=file)  # fmt: skip
    assert rf.load(file).policy.predict([0.5])[0] in (1, 2)
    for function in ("stranger:f", "os:system"):
        settings = {"function": function, "bound": "inf", "batched": False, "non_negative": False}
        user = {"name": "user", "settings": settings}
        forge_spec(file, lambda spec, user=user: spec["blueprint"].update(features=user))  # type: ignore[misc]
        with pytest.raises(rf.RunError, match="no code is run because a file names it"):
            _ = rf.load(file).policy
    assert "stranger" not in sys.modules


def test_a_blueprint_is_what_a_learner_sees() -> None:
    problem = rf.make("grid-v0").problem()
    plain = json.loads(json.dumps(blueprint(problem, 0)))
    again = Blueprint("grid-v0", plain)
    for name in ("n_states", "n_actions", "horizon", "stationary", "n_transitions", "end_resets", "n_contexts"):
        assert getattr(again, name) == getattr(problem, name)
    for play in (lambda: again.rollout(None, 0, np.zeros(0)), lambda: again.first_start(0.5)):
        with pytest.raises(rf.InvalidInput, match="known from a run file alone and cannot be played"):
            play()


def test_features_of_pairs_are_the_problems(tmp_path: Path) -> None:
    mdp, file = rf.make("random-linear-v0", seed=5), tmp_path / "a.rfrun"
    assert mdp.phi is not None
    run = rf.learn(mdp, "linear-ucb", episodes=10, path=file)
    with pytest.raises(rf.RunError, match=r"features of pairs \(phi\), which only the problem has\. Give it"):
        _ = rf.load(file).policy
    assert np.array_equal(rows(rf.load(file, mdp).policy), rows(run.policy))
    other = rf.learn(mdp, "ucbvi", episodes=10, path=tmp_path / "b.rfrun")  # this one does not look at them
    assert np.array_equal(rows(rf.load(tmp_path / "b.rfrun").policy), rows(other.policy))


def test_a_problem_of_numbers_is_remade_and_exported(tmp_path: Path) -> None:
    run = rf.learn("continuous-linear-v0", "stored-linear", B=30.0, feedback="realised", episodes=30, seed=1,
                   path=tmp_path / "a.rfrun")  # fmt: skip
    found = rf.load(tmp_path / "a.rfrun").policy
    at = np.linspace(0, 1, 50)
    assert np.array_equal(found.predict(at)[0], run.policy.predict(at)[0])
    assert found.predict(0.3)[0] == found.predict(at[:1] * 0 + 0.3)[0][0]
    assert found.evaluate(episodes=10).episodes == 10
    with pytest.raises(rf.InvalidInput, match="'known-pairs' of this policy are code"):
        found.export(tmp_path / "policy.npz")
