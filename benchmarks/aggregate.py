"""Time and memory to gather and report a sweep of 10,000 trials: under a minute and a gigabyte.

The trials are played by the uniform player into 10,000 run files; then `resetfree sweep report` is measured from
outside: wall time, and the largest total memory of its processes (shared pages count in each).

    python benchmarks/aggregate.py [--trials 10000] [--episodes 200]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from resetfree.studies import SweepFolder, parse_plan, run_sweep

BIN = Path(sys.executable).parent
TOML = """
[sweep]
episodes = {episodes}
seeds = {seeds}
[[problem]]
id = "pits-v0"
options.n = [4, 5]
[[players]]
primal = "uniform"
dual = "constant-penalty"
settings.dual.C = [{penalties}]
"""
CONFIGURATIONS = 50


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="keep the sweep here, and continue it")
    arguments = parser.parse_args()
    place = arguments.folder or Path(tempfile.mkdtemp(prefix="aggregate-"))
    try:
        penalties = ", ".join(f"{1.0 + i}" for i in range(CONFIGURATIONS // 2))
        text = TOML.format(episodes=arguments.episodes, seeds=arguments.trials // CONFIGURATIONS, penalties=penalties)
        plan, folder = parse_plan(text), SweepFolder(place)
        folder.prepare(text)
        began = time.monotonic()
        count = run_sweep(plan, folder, engine="local")
        print(f"{count.done} trials played in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        print(json.dumps(measure(folder)))
    finally:
        if arguments.folder is None:
            shutil.rmtree(place, ignore_errors=True)


def measure(folder: SweepFolder) -> dict[str, float]:
    """Run the report as a command, and measure its time and memory."""
    began, most = time.monotonic(), 0
    command = [str(BIN / "resetfree"), "sweep", "report", str(folder.path), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while process.poll() is None:
        most = max(most, sum(map(resident, [process.pid, *children(process.pid)])))
        time.sleep(0.05)
    answer = json.loads(process.communicate()[0])
    counts = {"trials": answer["gathered"], "rows": answer["rows"], "configurations": answer["configurations"]}
    return {**counts, "seconds": round(time.monotonic() - began, 1), "megabytes": round(most / 1e6)}


def children(pid: int) -> list[int]:
    """All descendants of a process."""
    try:
        own = [int(word) for task in Path(f"/proc/{pid}/task").iterdir() for word in read(task / "children").split()]
    except OSError:
        return []
    return own + [one for child in own for one in children(child)]


def resident(pid: int) -> int:
    """Bytes in memory."""
    for line in read(Path(f"/proc/{pid}/status")).splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
