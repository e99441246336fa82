"""The Ray engine, on a cluster that is started for it: the same results as local processes, whatever is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sweeps.common import SMALL, assert_alone, fragile, resumed_at, started

from resetfree.errors import RunError
from resetfree.runs.ledger import read
from resetfree.sweeps import Count, SweepStopped, run_sweep
from resetfree.sweeps.on_ray import _on_loopback

ROOT = Path(__file__).parents[2]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_worker_an_error_and_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cluster for all three; Ray leaves sockets and files of its own open when it is shut down."""
    monkeypatch.chdir(ROOT)
    (tmp_path / "stuck").write_text("")
    text = (
        fragile("killed", tmp_path / "marker")
        + f"""
[[trial]]
problem = "tests.sweeps.dying:raising"
options.marker = "{tmp_path / "stuck"}"
primal = "linear-ucb"
[[trial]]
problem = "grid-v0"
primal = "uniform"
[[trial]]
problem = "grid-v0"
primal = "linear-ucb"
episodes = 400000
"""
    )
    plan, folder = started(text, tmp_path / "s")
    killed, raising, plain, long = plan.trials

    def stop(count: Count) -> None:
        if (count.done, count.failed) == (2, 1):
            raise KeyboardInterrupt

    with pytest.raises(SweepStopped, match="Stopped after 2 of 4 trials"):
        run_sweep(plan, folder, engine="ray", workers=2, progress=stop)
    assert (tmp_path / "marker").read_text() == "killed here"
    assert [0 < k < 100 for k in resumed_at(folder, killed)] == [True]  # on another worker
    assert_alone(killed, folder)
    assert_alone(plain, folder)
    kept = folder.error_file(raising.id).read_text()
    assert kept.startswith("ValueError: the gripper is stuck\n")
    assert "in rollout" in kept
    assert not folder.is_held(long.id)
    if folder.trial_file(long.id).exists():  # begun: then it was saved before its task ended
        assert not Path(f"{folder.trial_file(long.id)}-wal").exists()
        assert 0 < len(read(folder.trial_file(long.id)).columns["k"]) < 400_000


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    plan, folder = started(SMALL, tmp_path / "s")
    with pytest.raises(RunError, match=r"The Ray cluster at '127\.0\.0\.10:1' cannot be reached: Connection refused\."):
        run_sweep(plan, folder, engine="ray", address="127.0.0.10:1")


def test_a_driver_beside_loopback_nodes_stands_there_too() -> None:
    assert _on_loopback("127.0.0.10:6379") == {"_node_ip_address": "127.0.0.10"}
    assert _on_loopback("10.1.2.3:6379") == {}
    assert _on_loopback("auto") == {}


@pytest.mark.slow
def test_a_killed_node_and_a_killed_driver_change_nothing() -> None:
    """The benchmark at a fifth of its size: head and two nodes as processes, one killed, then the driver."""
    command = [sys.executable, str(ROOT / "benchmarks" / "sweep_ray.py"), "--trials", "40"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["trials"], found["done"], found["failed"], found["run_files"]) == (40, 40, 0, 40)
    assert found["equal_run_files"] == 40
    assert found["rows_twice"] == 0
    assert found["equal_results"]
    assert found["equal_summary"]
