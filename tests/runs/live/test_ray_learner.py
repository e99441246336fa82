"""Learners on a real Ray: the same rounds as with a learner here, whatever is killed, stopped or cut off."""

import dataclasses
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from benchmarks.sweep_ray import free_port, kill_tree
from tests.runs.live.quick_players import Mortal, Raising, Stalling
from tests.runs.live.test_live import learn, replayed
from tests.waiting import ROOT, children, surroundings, until

import resetfree as rf
from resetfree.core import Notice
from resetfree.runs.file.ledger import read
from resetfree.show.cli import main

# On a busy machine a learner takes long to start, which is said aloud.
pytestmark = pytest.mark.filterwarnings("ignore::resetfree.core.errors.Notice")
HERE = rf.RayLearner(priority="usual")  # Ray is started for it; a busy machine must not starve it


def count(run: rf.Run, words: str) -> int:
    """In how many notes of the run these words are."""
    return sum(words in one.what for one in run.notes)


def test_an_actor_that_is_killed_in_the_middle_is_replaced_and_no_round_is_lost_or_learned_twice(
    tmp_path: Path,
) -> None:
    with pytest.warns(Notice, match="The learner on Ray ended .The actor is dead because its worker process has died"):
        run = learn(primal=Mortal(str(tmp_path)), path=tmp_path / "a.rfrun", learner=HERE, checkpoint_every=0.01)
    assert [one.name for one in tmp_path.glob("killed-*")] == ["killed-7"]
    assert list(run.columns["k"]) == list(range(1, 13))
    assert count(run, "The learner on Ray ended") == 1
    assert any("an actor of the Ray cluster on this machine" in one.what for one in run.notes)
    assert run.policy.predict(np.zeros(4))[0] in (0, 1)  # what was learned elsewhere is known here
    replayed(run, primal=Mortal)


class Cluster:
    """A head of Ray on a port of this machine, which can be killed and started again."""

    def __init__(self) -> None:
        self.address = f"127.0.0.10:{free_port()}"
        self.learner = rf.RayLearner(self.address, priority="usual")
        self._temp = Path(tempfile.mkdtemp(prefix="ray-"))  # short, as paths of sockets must be
        self.start()

    def start(self) -> None:
        words = ["--head", "--node-ip-address=127.0.0.10", "--port", self.address.rpartition(":")[2], "--num-cpus=2"]
        words += ["--include-dashboard=false", "--temp-dir", str(self._temp), "--object-store-memory", str(80 * 2**20)]
        env = surroundings(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
        log = self._temp / "log"
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *words, "--block"]
        for _ in range(5):  # Ray gives itself 30 s to start, which may be too short on a busy machine
            with log.open("w") as file:
                self._process = subprocess.Popen(command, env=env, stdout=file, stderr=file)
            until(lambda: "Ray runtime started" in log.read_text() or self._process.poll() is not None)
            if self._process.poll() is None:
                return
        pytest.fail(log.read_text())

    def kill(self) -> None:
        """As a power failure would."""
        kill_tree(self._process)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._temp, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_AUTH_MODE", "token")
        environment.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
        made = Cluster()
        yield made
        made.close()


class Tame(gymnasium.Env[Any, Any]):
    """Four numbers that turn with the actions and never fall, so that acting waits for nobody."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start at zero."""
        self.state = np.zeros(4)
        return self.state.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Turn."""
        self.state = np.sin(self.state + (2 * action - 1) * np.array([0.3, 0.5, 0.7, 0.9]))
        return self.state.copy(), 0.5, False, False, {}


def tame() -> Any:
    return rf.from_gym(Tame(), horizon=10, reward_range=(0.0, 1.0), name="tame")


def relays() -> list[int]:
    """The processes that this one has started to talk to Ray."""
    return [pid for pid in children(os.getpid()) if b"ray_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.slow
def test_an_actor_that_is_stopped_for_a_while_loses_nothing_and_acting_goes_on(
    tmp_path: Path, cluster: Cluster
) -> None:
    """As with a network that is down: nothing answers, and nothing fails."""
    since: list[int] = []

    def wake(game: Any, this: Any) -> None:
        if (mark := tmp_path / "stalled").exists() and (number := mark.read_text()):
            since.append(this.k)
            if len(since) == 40:
                os.kill(int(number), signal.SIGCONT)

    how: dict[str, Any] = {"learner": cluster.learner, "episodes": 1000, "max_staleness": 500, "rate": 200.0}
    run = learn(tame(), Stalling(str(tmp_path)), path=tmp_path / "a.rfrun", progress=wake, **how)
    assert len(since) > 40
    assert count(run, "The learner") == 0  # nobody noticed
    assert run.plan_ages.max() >= 40
    assert len(set(run.columns["based_on"])) > 3
    replayed(run, tame(), primal=Stalling)


@pytest.mark.slow
def test_a_relay_that_is_killed_starts_again_with_a_new_actor(tmp_path: Path, cluster: Cluster) -> None:
    def kill(game: Any, this: Any) -> None:
        if this.k in (8, 400):
            (pid,) = relays()
            os.kill(pid, signal.SIGKILL)

    how: dict[str, Any] = {"learner": cluster.learner, "episodes": 1000, "max_staleness": 200, "rate": 200.0}
    with pytest.warns(Notice, match="The learner ended .killed by SIGKILL"):
        run = learn(tame(), path=tmp_path / "a.rfrun", progress=kill, **how)
    assert list(run.columns["k"]) == list(range(1, 1001))
    assert count(run, "The learner ended (killed by SIGKILL)") == 2
    replayed(run, tame())
    assert relays() == []


@pytest.mark.slow
def test_a_cluster_that_is_gone_for_a_while_and_comes_back(tmp_path: Path, cluster: Cluster) -> None:
    """Acting goes on up to its staleness, then holds; rounds wait in the run file until the cluster is back."""
    back = threading.Timer(10.0, cluster.start)

    def cut(game: Any, this: Any) -> None:
        if this.k == 20:
            cluster.kill()
            back.start()

    how: dict[str, Any] = {"learner": cluster.learner, "episodes": 300, "max_staleness": 100, "rate": 200.0}
    with pytest.warns(Notice, match="is lost|learner ended"):
        run = learn(tame(), path=tmp_path / "a.rfrun", progress=cut, **how)
    back.join()
    assert list(run.columns["k"]) == list(range(1, 301))
    assert run.plan_ages.max() == 100
    assert count(run, "the safe action is held until the learner has caught up") >= 1
    replayed(run, tame())


@pytest.mark.slow
def test_what_the_cluster_does_not_have_and_what_a_player_raises_end_the_run_with_a_sentence(
    tmp_path: Path, cluster: Cluster
) -> None:
    many = dataclasses.replace(cluster.learner, gpus=4.0)
    with pytest.raises(
        rf.InvalidInput, match=r"needs 1 CPU, 4 GPU, and the Ray cluster at '127\.0\.0\.10:\d+' has 0 GPU in all"
    ):
        learn(path=tmp_path / "a.rfrun", learner=many)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(rf.RunError, match="The learner raised ArithmeticError: too hot"):
        learn(primal=Raising, path=tmp_path / "a.rfrun", learner=cluster.learner, episodes=10_000)
    assert len(read(tmp_path / "a.rfrun").columns["k"]) >= 3


@pytest.mark.slow
def test_a_run_begun_here_goes_on_elsewhere_and_the_other_way_round(tmp_path: Path, cluster: Cluster) -> None:
    file = tmp_path / "a.rfrun"
    learn(path=file, episodes=60, max_resets=1)
    learn(path=file, episodes=60, max_resets=3, resume=True, learner=cluster.learner)
    run = learn(path=file, episodes=60, resume=True)
    assert len(run) == 60
    replayed(run)


@pytest.mark.slow
def test_the_command_of_the_page_learns_on_ray_and_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = re.findall(r"^resetfree (.*--learner ray .*)$", (ROOT / "docs" / "real_time.md").read_text(), flags=re.M)
    shorter = line.replace("--episodes 200", "--episodes 3").replace("horizon=50", "horizon=10")
    assert main([*shlex.split(shorter), "--set", "learner.priority=usual"]) == 0
    assert main(["certify", "elsewhere.rfrun", "--problem", "gym:CartPole-v1", "--replay", "--strict"]) == 0
    assert len(rf.load("elsewhere.rfrun")) == 3
