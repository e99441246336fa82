"""Many runs: sweeps, suites that compare methods, and the engines that play them (local processes, Ray, one GPU).

A trial of a sweep is a run file, and is finished when its file is. So after any crash, the files alone determine which
trials are left, and none is counted twice. Read `plan` first (the trials of a sweep), then `sweep_runner`.
"""

from resetfree.studies.engines import Count, StudyStopped
from resetfree.studies.engines.sweep_runner import run_sweep
from resetfree.studies.gathering import gather
from resetfree.studies.plan import SweepPlan, parse_plan, read_plan
from resetfree.studies.trial import NamedPlayers, SweepFolder, Trial

__all__ = [
    "Count",
    "NamedPlayers",
    "StudyStopped",
    "SweepFolder",
    "SweepPlan",
    "Trial",
    "gather",
    "parse_plan",
    "read_plan",
    "run_sweep",
]
