"""A policy as a plain file: the same predictions bit for bit, with resetfree or NumPy alone; others are refused."""

import io
import json
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.waiting import surroundings

import resetfree as rf
from resetfree.players.linear.stored_linear import LinearValues
from resetfree.players.model_based.model_search import LinearScores
from resetfree.problems import ChoicePolicy
from resetfree.problems.features import discover as feature_maps
from resetfree.problems.features import make_features
from resetfree.problems.finite.tabular_policy import table
from resetfree.problems.stepping import FunctionPolicy
from resetfree.use import DeployedPolicy, read_policy
from resetfree.use.exporting import policy_kinds
from resetfree.use.predictor import FeatureSource, Sensor


def lake() -> DeployedPolicy:
    options = {"horizon": 12, "reset_when": "terminated and observation!=15"}
    return rf.learn("gym:FrozenLake-v1", "ucbvi", episodes=60, seed=3, settings={"problem": options}).policy


def scores(n_actions: int = 3, d: int = 4, seed: int = 0) -> DeployedPolicy:
    rng = np.random.default_rng(seed)
    rule = LinearScores(rng.normal(size=(n_actions, d)), rng.normal(size=n_actions))
    grid = np.linspace(-2, 2, n_actions, dtype=np.float32)[:, None]
    return DeployedPolicy(rule, Sensor("vector", {"shape": [d]}), grid, 10, {"problem": "made up"})


def values(name: str = "random-fourier", seed: int = 0, layers: int = 5) -> DeployedPolicy:
    """Weights at random on features that were fitted to states at random."""
    rng = np.random.default_rng(seed)
    low, high = np.full(2, -3.0), np.full(2, 3.0)
    fitted = make_features(name).fit(rng.integers(-3, 4, size=(50, 2)).astype(float), low, high, 5)
    d = fitted.dimension
    root = np.stack([np.eye(d) * (a + 1) for a in range(3)])
    rule = LinearValues(fitted, rng.normal(size=(layers, d, 3)), root, np.arange(layers, 0, -1.0), -2.0, 0.1, 2)
    sensor = Sensor("vector", {"shape": [2]})
    return DeployedPolicy(rule, sensor, np.arange(3), 5, {}, FeatureSource(make_features(name), low, high))


def test_a_table_comes_back_bit_for_bit(tmp_path: Path) -> None:
    policy = lake()
    again = read_policy(policy.export(tmp_path / "policy.npz"))
    for h in range(1, 13):
        assert np.array_equal(again.probabilities(np.arange(16), h), policy.probabilities(np.arange(16), h))
    assert again.about == policy.about
    assert again.horizon == 12
    again.export(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "policy.npz").read_bytes()


def test_linear_scores_come_back_bit_for_bit(tmp_path: Path) -> None:
    policy = scores()
    again = read_policy(policy.export(tmp_path / "policy.npz"))
    x = np.random.default_rng(1).normal(size=(500, 4))
    assert np.array_equal(again.predict(x)[0], policy.predict(x)[0])
    assert again.predict(x)[0].dtype == np.float32


@pytest.mark.parametrize("name", [name for name in feature_maps() if name != "user"])
@pytest.mark.parametrize("layers", [1, 5])
def test_linear_values_on_any_features_come_back_bit_for_bit(name: str, layers: int, tmp_path: Path) -> None:
    policy = values(name, layers=layers)
    again = read_policy(policy.export(tmp_path / "policy.npz"))
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=(100, 2)) * 2, rng.integers(-4, 5, size=(50, 2)).astype(float)])
    for h in (1, 3, 5):
        assert np.array_equal(again.probabilities(x, h), policy.probabilities(x, h))
    assert again.stationary == policy.stationary == (layers == 1)
    assert isinstance(again.rule, LinearValues)
    assert isinstance(policy.rule, LinearValues)
    assert np.array_equal(again.rule.best(2, x)[1], policy.rule.best(2, x)[1])


@pytest.mark.parametrize("name", [name for name in feature_maps() if name != "user"])
def test_a_run_of_the_linear_player_is_exported_from_its_file(name: str, walk: Any, tmp_path: Path) -> None:
    problem = rf.from_gym(walk("box"), horizon=10, features=name)
    run = rf.learn(problem, "stored-linear", feedback="realised", B=5.0, episodes=40, seed=1, path=tmp_path / "a.rfrun")
    found = rf.load(tmp_path / "a.rfrun").policy
    again = read_policy(found.export(tmp_path / "policy.npz"))
    x = np.linspace(-6, 6, 101)[:, None]
    for h in (1, 10):
        ours = run.policy.probabilities(x, h)
        assert np.array_equal(found.probabilities(x, h), ours)
        assert np.array_equal(again.probabilities(x, h), ours)


def test_a_run_of_the_model_player_is_exported_from_its_file(tmp_path: Path) -> None:
    problem = rf.from_gym("gym:CartPole-v1", horizon=40)
    small: dict[str, Any] = {"primal": {"population": 8, "rounds": 2, "planning": 20, "waves": 5}, "dual": {"C": 40.0}}
    file = tmp_path / "a.rfrun"
    run = rf.learn(problem, "model-search", "constant-penalty", feedback="realised", episodes=8, seed=1, path=file,
                   settings=small)  # fmt: skip
    found = rf.load(file).policy
    again = read_policy(found.export(tmp_path / "policy.npz"))
    x = np.random.default_rng(0).normal(size=(300, 4))
    actions, state = run.policy.predict(x)
    assert set(actions.tolist()) == {0, 1}
    assert state is None
    for other in (found, again):
        assert np.array_equal(other.predict(x)[0], actions)


def test_numbered_observations_travel_with_the_policy(walk: Any, tmp_path: Path) -> None:
    run = rf.learn(rf.from_gym(walk("dictionary"), horizon=15, states=40), "ucbvi", B=5.0, episodes=60, seed=1)
    again = read_policy(run.policy.export(tmp_path / "policy.npz"))
    for at in range(-6, 7):
        one = {"at": np.array([at], dtype=np.float32), "side": int(at > 0)}
        assert np.array_equal(again.probabilities(one), run.policy.probabilities(one))


def test_a_file_is_read_by_a_program_that_has_played_nothing() -> None:
    """Nothing but the kinds of policies is asked for, so nothing else can have imported the players."""
    words = "from resetfree.use.exporting import policy_kinds; print(*sorted(policy_kinds()))"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True, env=surroundings())
    kinds = "AimedPolicy LinearScores LinearValues NetworkPolicy SkipPolicy TanhChoice TanhPolicy table"
    assert done.stdout.split() == kinds.split()
    assert policy_kinds()["LinearScores"] is LinearScores


def test_a_policy_of_ones_own_is_written_and_nobody_takes_our_names(tmp_path: Path) -> None:
    """The class alone declares the kind; a second class of a name that is ours is not read in its place."""

    @dataclass
    class Threshold(ChoicePolicy):
        kind = "threshold"
        axes: ClassVar[dict[str, str]] = {"at": "D"}
        at: np.ndarray[Any, Any]

        def __call__(self, h: int, s: Any) -> Any:
            return np.eye(2)[int((s > self.at).all())]

    class Impostor(LinearScores):
        kind = "LinearScores"

    sensor = Sensor("vector", {"shape": [2]})
    policy = DeployedPolicy(Threshold(np.array([0.5, -0.5])), sensor, np.array([7, 9]), 3, {})
    again = read_policy(policy.export(tmp_path / "policy.npz"))
    assert isinstance(again.rule, Threshold)
    assert again.predict(np.array([[1.0, 0.0], [0.0, 0.0]]))[0].tolist() == [9, 7]
    refused(spoiled(policy, tmp_path, arrays=lambda a: a.update(at=np.zeros(3))), "has 3 for D = 2")
    assert policy_kinds()["LinearScores"] is LinearScores
    with pytest.raises(rf.InvalidInput, match="is a Impostor holds code"):
        DeployedPolicy(Impostor(np.ones((2, 2)), np.ones(2)), sensor, np.arange(2), 3, {}).export(tmp_path / "b.npz")


# NumPy alone: the lines of docs/deployment.md, in a process that cannot import resetfree.

ALONE = """
import sys
sys.modules["resetfree"] = None  # importing it raises
import numpy as np
file = np.load(sys.argv[1])
actions = []
for h, observation in zip(np.load(sys.argv[2])["h"], np.load(sys.argv[2])["x"]):
    {line}
    actions.append(action)
np.save(sys.argv[3], np.array(actions))
"""
LINES = {
    "table": (
        "probabilities = file['probabilities']; "
        "action = file['actions'][probabilities[(h - 1) % len(probabilities), observation].argmax()]"
    ),
    "scores": "action = file['actions'][(file['weight'] @ observation + file['offset']).argmax()]",
}


@pytest.mark.parametrize("kind", LINES)
def test_three_lines_of_numpy_run_a_policy(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    policy = lake() if kind == "table" else scores()
    x = rng.integers(0, 16, 200) if kind == "table" else rng.normal(size=(200, 4))
    h = rng.integers(1, policy.horizon + 1, 200)
    policy.export(tmp_path / "policy.npz")
    np.savez(tmp_path / "x.npz", x=x, h=h)
    code = ALONE.format(line=LINES[kind])
    files = [str(tmp_path / name) for name in ("policy.npz", "x.npz", "actions.npy")]
    subprocess.run([sys.executable, "-c", code, *files], check=True)
    found = np.load(tmp_path / "actions.npy")
    ours = [policy.predict(one, (np.array([step - 1]),))[0] for one, step in zip(x, h, strict=True)]
    assert np.array_equal(found, np.array(ours))
    assert len(np.unique(found)) > 1


# Files that somebody else wrote.


def spoiled(policy: DeployedPolicy, tmp_path: Path, arrays: Any = None, text: Any = None) -> Path:
    file = policy.export(tmp_path / "policy.npz")
    held = dict(np.load(file))
    about = json.loads(str(held["resetfree"]))
    if text is not None:
        text(about)
    held["resetfree"] = np.array(json.dumps(about))
    if arrays is not None:
        arrays(held)
    np.savez(file, **held)
    return file


def nan_in(name: str) -> Any:
    def change(held: Any) -> None:
        held[name] = held[name].astype(np.float64)
        held[name].flat[0] = np.nan

    return change


TABLES = {
    "no text": ({"arrays": lambda a: a.pop("resetfree")}, "must hold 'resetfree'"),
    "no actions": ({"arrays": lambda a: a.pop("actions")}, "must hold"),
    "no table": ({"arrays": lambda a: a.pop("probabilities")}, "a table cannot be made of"),
    "more": ({"arrays": lambda a: a.update(other=np.zeros(3))}, "it holds 'other', which is no field of a table"),
    "flat": ({"arrays": lambda a: a.update(probabilities=np.ones((16, 4)) / 4)}, "must be numbers [L, S, A]"),
    "short": ({"arrays": lambda a: a.update(probabilities=np.ones((12, 3, 4)) / 4)}, "do not fit a table of 3 states"),
    "layers": ({"arrays": lambda a: a.update(probabilities=np.ones((5, 17, 4)) / 4)}, "5 layers for 12 steps"),
    "sum": ({"arrays": lambda a: a.update(probabilities=np.ones((12, 17, 4)))}, "distribution"),
    "negative": ({"arrays": lambda a: a.update(probabilities=np.tile([2.0, -1.0, 0, 0], (12, 17, 1)))}, "distribution"),
    "nan": ({"arrays": nan_in("probabilities")}, "must hold numbers"),
    "nan action": ({"arrays": nan_in("actions")}, "must hold numbers"),
    "few actions": ({"arrays": lambda a: a.update(actions=np.arange(3))}, "has 4 for A = 3"),
    "words": ({"arrays": lambda a: a.update(actions=np.array(list("abcd")))}, "must be numbers"),
    "not json": ({"arrays": lambda a: a.update(resetfree=np.array("{"))}, ""),
    "deep": ({"arrays": lambda a: a.update(resetfree=np.array("[" * 100_000))}, ""),
    "nested": ({"text": lambda t: t["about"].update(problem=json.loads("[" * 500 + "]" * 500))}, "deeper than 20"),
    "not finite": ({"text": lambda t: t["about"].update(primal=float("nan"))}, "not JSON compliant"),
    "infinite": ({"text": lambda t: t["about"].update(primal=float("inf"))}, "not JSON compliant"),
    "bytes": ({"arrays": lambda a: a.update(resetfree=np.array(b"{}"))}, "must hold 'resetfree'"),
    "format": ({"text": lambda t: t.update(format=2)}, "its format is 2"),
    "kind": ({"text": lambda t: t.update(kind="os.system")}, "unknown"),
    "no kind": ({"text": lambda t: t.update(kind=["table"])}, "unknown"),
    "key": ({"text": lambda t: t.pop("horizon")}, "must have the keys"),
    "horizon": ({"text": lambda t: t.update(horizon=0)}, "horizon cannot be 0"),
    "true": ({"text": lambda t: t.update(horizon=True)}, "horizon cannot be True"),
    "huge": ({"text": lambda t: t.update(horizon=10**30)}, "horizon cannot be"),
    "step": ({"text": lambda t: t.update(stationary=True)}, "depends on the step"),
    "observation": ({"text": lambda t: t.update(observation={"kind": "vector", "space": {"shape": [2]}})}, "not fit"),
    "count": ({"text": lambda t: t["observation"].update(count=99)}, "do not fit a table of 17 states"),
}  # fmt: skip


VALUES = {
    "weight": ({"arrays": lambda a: a.update(weight=a["weight"][:, :-1])}, "for d ="),
    "order": ({"arrays": lambda a: a.update(weight=a["weight"].transpose(0, 2, 1))}, "array 'weight' has"),
    "root": ({"arrays": lambda a: a.update(root=a["root"][:, :3, :3])}, "for d ="),
    "cap": ({"arrays": lambda a: a.update(cap=a["cap"][:2])}, "for L ="),
    "layers": ({"arrays": lambda a: a.update(cap=a["cap"][:2], weight=a["weight"][:2])}, "2 layers for 5"),
    "type": ({"arrays": lambda a: a.update(weight=a["weight"].astype(np.float32))}, "must be numbers"),
    "inf": ({"arrays": lambda a: a.update(weight=a["weight"] * np.inf)}, "number"),
    "nan": ({"arrays": nan_in("root")}, "must hold numbers"),
    "features": ({"arrays": lambda a: a.update({"features.phase": a["features.phase"][:3]})}, "does not fit"),
    "missing": ({"arrays": lambda a: a.pop("features.phase")}, "not those of 'random-fourier'"),
    "all missing": ({"arrays": lambda a: [a.pop(k) for k in list(a) if k.startswith("features.")]}, "cannot be made"),
    "size": ({"arrays": lambda a: a.update(size=np.array(7))}, ""),
    "no features": ({"text": lambda t: t.update(features=None)}, "which is no field of a LinearValues"),
    "other features": ({"text": lambda t: t["features"].update(name="polynomial", settings={})}, "not those of 'poly"),
    "more features": ({"text": lambda t: t["features"]["settings"].update(d=300)}, "does not fit"),
    "too many": ({"text": lambda t: t["features"]["settings"].update(d=10**9)}, "2000"),
    "user": ({"text": lambda t: t["features"].update(name="user", settings={"function": "os:system"})}, "no code"),
    "bounds": ({"text": lambda t: t["features"].update(low=[0.0])}, "bounds"),
    "bad bounds": ({"text": lambda t: t["features"].update(low="x")}, "'low' cannot be read"),
    "observation": ({"text": lambda t: t["observation"].update(space={"shape": [5]})}, ""),
    "kind": ({"text": lambda t: t.update(kind="LinearScores")}, ""),
}  # fmt: skip


def test_indices_that_compiled_code_would_follow_are_checked(tmp_path: Path) -> None:
    def change(held: Any) -> None:
        held["features.variable"] = held["features.variable"] + 10**6

    refused(spoiled(values("polynomial"), tmp_path, arrays=change), "does not fit the features 'polynomial'")


SCORES = {
    "offset": ({"arrays": lambda a: a.update(offset=a["offset"][:2])}, "for A ="),
    "weight": ({"arrays": lambda a: a.update(weight=a["weight"][:, :2])}, "for D ="),
    "nan": ({"arrays": nan_in("weight")}, "must hold numbers"),
    "more": ({"arrays": lambda a: a.update(zeal=np.ones(3))}, "holds 'zeal'"),
}  # fmt: skip


SPOILED = [
    (made, *how) for made, table in ((lake, TABLES), (values, VALUES), (scores, SCORES)) for how in table.items()
]


@pytest.mark.parametrize(("made", "how", "spoil"), SPOILED)
def test_a_spoiled_file_is_refused(made: Any, how: str, spoil: Any, tmp_path: Path) -> None:
    change, why = spoil
    refused(spoiled(made(), tmp_path, **change), why)


def refused(file: Path, why: str) -> None:
    with pytest.raises(rf.RunError) as said:
        read_policy(file)
    assert why in str(said.value)
    assert str(file) in str(said.value)
    assert "\n" not in str(said.value)


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (print, ("unpickled",))

    pickled = io.BytesIO()
    np.savez(pickled, resetfree=np.array([Bomb()], dtype=object), actions=np.arange(2))
    squeezed = io.BytesIO()
    with zipfile.ZipFile(squeezed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("resetfree.npy", b"\0" * 10**6)
    whole = lake().export(tmp_path / "whole.npz").read_bytes()
    for content in (b"", b"PK", b"hello", pickled.getvalue(), squeezed.getvalue(), whole[: len(whole) // 2]):
        file = tmp_path / "other.npz"
        file.write_bytes(content)
        refused(file, "is not a policy file of resetfree, or is damaged")
    with pytest.raises(rf.RunError, match="There is no policy file"):
        read_policy(tmp_path / "none.npz")
    with pytest.raises(rf.RunError, match="cannot be read"):
        read_policy(tmp_path)


def test_only_a_policy_is_replaced(tmp_path: Path) -> None:
    policy = lake()
    (tmp_path / "notes.npz").write_text("mine")
    with pytest.raises(rf.RunError, match="is not replaced"):
        policy.export(tmp_path / "notes.npz")
    assert (tmp_path / "notes.npz").read_text() == "mine"
    for _ in range(2):
        policy.export(tmp_path / "new" / "policy.npz")
    assert [one.name for one in (tmp_path / "new").iterdir()] == ["policy.npz"]
    with pytest.raises(rf.RunError, match="must be a file"):
        policy.export(tmp_path)


def coin() -> FunctionPolicy:
    return FunctionPolicy(lambda h, s: np.ones(2) / 2, "a coin", 2)


def test_what_no_plain_file_holds_is_not_written(tmp_path: Path) -> None:
    rule = table(np.zeros(2, dtype=int), 3, 2, 2)
    code = DeployedPolicy(coin(), Sensor("vector", {"shape": [1]}), np.arange(2), 3, {})
    words = DeployedPolicy(rule, Sensor("number", count=2), ["left", "right"], 3, {})
    unknown = values()
    known: Any = unknown.features
    named = DeployedPolicy(
        unknown.rule, unknown.sensor, unknown.actions, 5, {}, FeatureSource(Own(), known.low, known.high)
    )
    for policy, why in ((code, "holds code"), (words, "not numbers of one shape"), (named, "are code")):
        with pytest.raises(rf.InvalidInput, match=why):
            policy.export(tmp_path / "policy.npz")
    assert list(tmp_path.iterdir()) == []


class Own(feature_maps()["polynomial"]):  # type: ignore[misc]
    name = "my-own"
