"""Sweeps: problems x players x settings x seeds from a TOML file, on processes, a Ray cluster or an accelerator.

A trial is a run file, and a trial is finished when its file is: so whatever is killed, looking at the files tells what
is still to be played, and nothing is counted twice. Read `plan` first (what is played), then `running`.
"""

from resetfree.studies.sweeps.folder import Folder
from resetfree.studies.sweeps.gathering import gather
from resetfree.studies.sweeps.plan import Plan, parse_plan, read_plan
from resetfree.studies.sweeps.sweep_runner import Count, SweepStopped, run_sweep
from resetfree.studies.sweeps.trial import Trial

__all__ = ["Count", "Folder", "Plan", "SweepStopped", "Trial", "gather", "parse_plan", "read_plan", "run_sweep"]
