"""C and ONNX act as the policy that they were written from; what they cannot hold is refused."""

import shutil
import subprocess
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import resetfree as rf
from resetfree.players.model_based.model_search import LinearScores
from resetfree.players.neural.actor_critic import SkipPolicy
from resetfree.players.neural.networks import orthogonal_layers, policy_of, uniform_layers
from resetfree.problems import ChoicePolicy
from resetfree.problems.finite.tabular_policy import table
from resetfree.problems.formula import TanhPolicy, no_policy
from resetfree.show.cli import main
from resetfree.use import DeployedPolicy
from resetfree.use.predictor import Sensor

CLOSE = 1e-6
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
BOX = rf.Box(np.array([-1.0, 0.0], dtype=np.float32), np.array([3.0, 0.5], dtype=np.float32))


def deployed(rule: rf.Policy, sensor: Sensor, actions: Any, horizon: int = 4) -> DeployedPolicy:
    return DeployedPolicy(rule, sensor, actions, horizon, {"problem": "made up"})


def network(smooth: bool) -> rf.Policy:
    rng = np.random.default_rng(1)
    actor = orthogonal_layers((3, 8, 8, 2), rng, 0.5) if smooth else uniform_layers((3, 8, 8, 4), rng)
    return policy_of(actor, np.zeros(2) if smooth else None, BOX, smooth=smooth)


def corrected() -> SkipPolicy:
    rng = np.random.default_rng(2)
    sizes = {"weight": (2, 3), "bias": (2,), "first": (3, 5), "first_bias": (5,), "second": (5, 6), "second_bias": (6,)}
    sizes |= {"last": (6, 2), "last_bias": (2,)}
    low, high = BOX.ends
    return SkipPolicy(**{name: rng.normal(size=size) for name, size in sizes.items()}, low=low, high=high, noise=0.3)


def policies() -> dict[str, DeployedPolicy]:
    rng, vector = np.random.default_rng(0), Sensor("vector", {"shape": [3]})
    several = Sensor("vector", {"names": ["arm", "lamp"], "parts": [{"shape": [2]}, {"shape": []}]})
    steps = table(rng.dirichlet(np.ones(3), size=(4, 6)), 4, 6, 3)
    scores = LinearScores(rng.normal(size=(3, 3)), rng.normal(size=3))
    tanh = TanhPolicy(rng.normal(size=(2, 3)), rng.normal(size=2), *BOX.ends)
    return {
        "a table that depends on the step": deployed(steps, Sensor("number", first=-2, count=5), np.array([4, 7, 9])),
        "a table": deployed(
            table(np.array([2, 0, 1]), 4, 3, 3), Sensor("number", count=3), np.eye(3, dtype=np.float32)
        ),
        "scores": deployed(scores, vector, np.linspace(-2.0, 2.0, 3, dtype=np.float32)[:, None]),
        "no scores": deployed(LinearScores(np.zeros((2, 3)), np.array([0.0, 1.0])), vector, np.arange(2)),
        "tanh": deployed(tanh, several, BOX),
        "the middle": deployed(no_policy(BOX, 3), vector, BOX),
        "sac": deployed(network(smooth=False), vector, BOX),
        "ppo": deployed(network(smooth=True), vector, BOX),
        "skip": deployed(corrected(), vector, BOX),
    }


POLICIES = policies()


def observed(policy: DeployedPolicy) -> Any:
    """[n, ...] observations, some of them far away."""
    if policy.sensor.kind == "number":
        return np.arange(policy.sensor.first, policy.sensor.first + policy.sensor.count)
    rng = np.random.default_rng(3)
    return rng.normal(size=(40, 3)) * np.geomspace(1e-3, 1e8, 40)[:, None]


def expected(policy: DeployedPolicy, seen: Any, steps: Any) -> Any:
    """The policy's own actions, one by one."""
    parts = (
        [{"arm": one[:2], "lamp": one[2]} for one in seen]
        if policy.sensor.space and "parts" in policy.sensor.space
        else seen
    )
    pairs = zip(parts, steps, strict=True)
    own = [policy.predict(one, None if policy.stationary else (np.array([h - 1]),))[0] for one, h in pairs]
    return np.array(own, dtype=np.float64).reshape(len(seen), -1)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("reader", ["onnxruntime", "onnx"])
def test_an_onnx_model_acts_as_the_policy(name: str, reader: str, tmp_path: Path) -> None:
    pytest.importorskip(reader)
    policy = POLICIES[name]
    path = policy.export(tmp_path / "policy.onnx")
    seen = observed(policy)
    steps = np.arange(len(seen), dtype=np.int64) % 7 + 1  # the next episode begins after the last step
    given = {"observation": seen} if policy.stationary else {"observation": seen, "step": steps}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that read it
        if reader == "onnx":
            import_module("onnx.checker").check_model(str(path), full_check=True)
            (action,) = import_module("onnx.reference").ReferenceEvaluator(str(path)).run(None, given)
        else:
            session = import_module("onnxruntime").InferenceSession(str(path), providers=["CPUExecutionProvider"])
            (action,) = session.run(["action"], given)
    assert np.asarray(action).reshape(len(seen), -1) == pytest.approx(expected(policy, seen, steps), abs=CLOSE)


def compiled(source: Path) -> Path:
    if COMPILER is None:
        pytest.skip("no C compiler is installed")
    program = source.with_suffix("")
    strict = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DPOLICY_MAIN"]
    subprocess.run([COMPILER, *strict, str(source), "-lm", "-o", str(program)], check=True)
    return program


@pytest.mark.parametrize("name", POLICIES)
def test_the_c_acts_as_the_policy(name: str, tmp_path: Path) -> None:
    policy = POLICIES[name]
    program, seen = compiled(policy.export(tmp_path / "policy.c")), observed(policy)
    lines = "\n".join(" ".join(map(repr, np.ravel(one).tolist())) for one in seen)
    said = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    found = np.array([[float(x) for x in line.split()] for line in said])
    assert found == pytest.approx(expected(policy, seen, np.arange(1, len(seen) + 1)), abs=CLOSE)


def test_c_refuses_what_is_no_observation(tmp_path: Path) -> None:
    for name, wrong in (("sac", "nan 0 0"), ("a table", "3"), ("a table", "-1")):
        program = compiled(POLICIES[name].export(tmp_path / "policy.c"))
        assert subprocess.run([program], input=wrong, text=True, check=False, capture_output=True).returncode == 1


def test_a_learned_policy_is_exported_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.rfrun"
    settings = {"problem": {"horizon": 5, "is_slippery": False}}
    run = rf.learn("gym:FrozenLake-v1", "ucbvi", episodes=20, seed=1, path=file, settings=settings)
    for out in ("lake.onnx", "lake.c", "lake.npz"):
        assert main(["export", str(file), "-o", str(tmp_path / out)]) == 0
    said = subprocess.run(
        [compiled(tmp_path / "lake.c")], input="0 4 8 9 13", capture_output=True, text=True, check=True
    )
    state: Any = None
    for line, observation in zip(said.stdout.splitlines(), (0, 4, 8, 9, 13), strict=True):
        action, state = run.policy.predict(observation, state)
        assert int(line) == action
    assert main(["export", str(file), "-o", str(tmp_path / "lake.pt")]) == 2
    assert capsys.readouterr().err == (
        "A policy is written as .npz (for Python), .onnx or .c. Got 'lake.pt' instead: name it policy.npz, policy.onnx "
        "or policy.c.\n"
    )


def test_what_cannot_be_written_is_said_and_nothing_else_is_replaced(tmp_path: Path) -> None:
    @dataclass
    class Mine(ChoicePolicy):
        kind = "mine"

        def __call__(self, h: int, s: Any) -> Any:
            return np.ones(2) / 2

    with pytest.raises(rf.InvalidInput, match=r"written as C or ONNX, and this policy is none: it is a 'mine'\. Name"):
        deployed(Mine(), Sensor("vector", {"shape": [3]}), np.arange(2)).export(tmp_path / "a.c")
    env: Any = gymnasium.make("CartPole-v1")
    numbered = rf.learn(rf.from_gym(env, states=500, horizon=5), "uniform", "counting", feedback="realised", episodes=2)
    with pytest.raises(rf.InvalidInput, match="its states are numbered as they appeared"):
        numbered.policy.export(tmp_path / "a.onnx")
    for name in ("a.c", "a.onnx"):
        (tmp_path / name).write_text("int main(void) { return 0; }\n")
        with pytest.raises(rf.RunError, match="is not a policy file of resetfree, and is not replaced"):
            POLICIES["tanh"].export(tmp_path / name)
        (tmp_path / name).unlink()
        first = POLICIES["tanh"].export(tmp_path / name).read_bytes()
        assert POLICIES["scores"].export(tmp_path / name).read_bytes() != first  # an older policy is
