"""A sweep on a Ray cluster with failures: one of two worker nodes is killed, then the driver, which is restarted.

Starts a head and two one-core worker nodes as processes on loopback, plays a sweep there through the command line, and
the same sweep with local processes; every run file must be equal bit for bit, and every trial must exist once.

    python benchmarks/sweep_ray.py [--trials 200] [--episodes 1500]
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from resetfree.runs.file.ledger import read
from resetfree.runs.file.runfile import connect
from resetfree.studies import SweepFolder, SweepPlan, read_plan

BIN = Path(sys.executable).parent
TOML = """
[sweep]
episodes = {episodes}
seeds = {seeds}
[[problem]]
id = "grid-v0"
[[problem]]
id = "pits-v0"
options.slip = [0.0, 0.1]
options.n = 5
[[problem]]
id = "random-linear-v0"
[[players]]
primal = "linear-ucb"
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--episodes", type=int, default=1500)
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="sweep-ray-"))
    try:
        file = place / "attacked.toml"
        file.write_text(TOML.format(episodes=arguments.episodes, seeds=arguments.trials // 4))
        plan, _ = read_plan(file)
        print(json.dumps(attack(plan, file, place)))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def attack(plan: SweepPlan, file: Path, place: Path) -> dict[str, Any]:
    """Play, kill, continue and compare; returns the figures."""
    n, ours, theirs = len(plan.trials), SweepFolder(place / "local"), SweepFolder(place / "ray")
    began = time.monotonic()
    subprocess.run(sweep(file, ours, "local"), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    local_seconds = time.monotonic() - began
    log_line(f"local engine: {n} trials in {local_seconds:.0f} s")
    with cluster(place) as (address, environment, nodes):
        command = [*sweep(file, theirs, "ray"), "--address", address]
        began = time.monotonic()
        log = (place / "driver.log").open("w")
        driver = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        at_node = wait_for(plan, theirs, n * 3 // 10, driver)
        kill_tree(nodes[1])
        log_line(f"node killed after {at_node} trials")
        at_driver = wait_for(plan, theirs, n * 6 // 10, driver)
        os.kill(driver.pid, signal.SIGKILL)
        driver.communicate()
        log_line(f"driver killed after {at_driver} trials")
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True, check=True)
        log.close()
        answer = json.loads(done.stdout)
        seconds = time.monotonic() - began
    return {
        "trials": n,
        "done": answer["done"],
        "failed": answer["failed"],
        "killed_node_at": at_node,
        "killed_driver_at": at_driver,
        "trials_that_were_resumed": sum(was_resumed(theirs.trial_file(trial.id)) for trial in plan.trials),
        "run_files": len(list((theirs.path / "trials").rglob("*.rfrun"))),
        "rows_twice": rows_twice(theirs),
        "equal_run_files": sum(same_run(ours, theirs, trial.id) for trial in plan.trials),
        "equal_results": same_table(ours.results, theirs.results, ["seconds"]),
        "equal_summary": same_table(ours.summary, theirs.summary, []),
        "seconds_ray": round(seconds, 1),
        "seconds_local": round(local_seconds, 1),
    }


def sweep(file: Path, folder: SweepFolder, engine: str) -> list[str]:
    command = [str(BIN / "resetfree"), "sweep", str(file), "--engine", engine, "--out", str(folder.path), "--json"]
    return command if engine == "ray" else [*command, "--workers", "2"]


@contextmanager
def cluster(place: Path) -> Iterator[tuple[str, dict[str, str], list[subprocess.Popen[bytes]]]]:
    """A head without cores and two nodes of one core each, killed at the end."""
    address = f"127.0.0.10:{free_port()}"
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    environment["RAY_USAGE_STATS_ENABLED"] = "0"
    store = ["--object-store-memory", str(80 * 2**20), "--block"]
    temp = tempfile.mkdtemp(prefix="ray-")  # short, as paths of sockets must be
    head = ["--head", "--node-ip-address=127.0.0.10", "--port", address.rpartition(":")[2], "--num-cpus=0"]
    head += ["--include-dashboard=false", "--temp-dir", temp]
    roles = [head]
    roles += [["--address", address, f"--node-ip-address=127.0.0.1{i}", "--num-cpus=1"] for i in (1, 2)]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for i, role in enumerate(roles):  # sequentially: they choose their own ports
            log = place / f"node{i}.log"
            with log.open("w") as file:
                command = [str(BIN / "ray"), "start", *role, *store]
                started.append(subprocess.Popen(command, env=environment, stdout=file, stderr=file))
            while "Ray runtime started" not in log.read_text():
                if started[-1].poll() is not None:
                    raise SystemExit(f"A node of the cluster did not start:\n{log.read_text()}")
                time.sleep(0.1)
        yield address, environment, started[1:]
    finally:
        for process in reversed(started):
            kill_tree(process)
        shutil.rmtree(temp, ignore_errors=True)


def wait_for(plan: SweepPlan, folder: SweepFolder, wanted: int, driver: subprocess.Popen[str]) -> int:
    """Wait until so many trials are finished; returns how many are."""
    while True:
        n = sum(folder.is_finished(trial.id, trial.episodes) for trial in plan.trials)
        if n >= wanted:
            return n
        if driver.poll() is not None:
            raise SystemExit(f"The driver ended too early, with status {driver.returncode}.")
        time.sleep(0.2)


def kill_tree(process: subprocess.Popen[Any]) -> None:
    """Kill a process and all its descendants, as a power failure would."""
    for pid in [*descendants(process.pid), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def descendants(pid: int) -> list[int]:
    """All descendants of a process."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def same_run(ours: SweepFolder, theirs: SweepFolder, id: str) -> bool:
    """Whether two run files hold the same rounds, bit for bit."""
    a, b = read(ours.trial_file(id)), read(theirs.trial_file(id))
    columns = all(a.columns[name].tobytes() == b.columns[name].tobytes() for name in a.columns)
    return columns and a.spec == b.spec and a.finished and b.finished


def was_resumed(file: Path) -> bool:
    connection = connect(file, "ro")
    (n,) = connection.execute("SELECT count(*) FROM meta WHERE key = 'resumed'").fetchone()
    connection.close()
    return bool(n)


def rows_twice(folder: SweepFolder) -> int:
    """The number of duplicate rows of the results."""
    table = pq.read_table(folder.results, columns=["trial", "k"])
    rows = np.array([f"{trial} {k}" for trial, k in zip(*(c.to_pylist() for c in table.columns), strict=True)])
    return len(rows) - len(np.unique(rows))


def same_table(one: Path, other: Path, without: list[str]) -> bool:
    a, b = (pq.read_table(path).drop_columns(without) for path in (one, other))
    return bool(a.equals(b))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.10", 0))
        port: int = probe.getsockname()[1]
    return port


def log_line(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
