"""What became of the machines and the operators of a fleet, from the columns of its run: for summaries and reports."""

from typing import Any

import numpy as np

from resetfree.runs.result import Run


def fleet_table(run: Run) -> dict[str, Any] | None:
    """Rounds, resets and waiting of each machine, and the load of each operator; None for a run of one machine.

    Times are in steps of a machine, or in seconds if people performed the resets. What a machine neither acted nor
    waited for an operator, nor was reset, it stood so as not to repeat a fall of another.

    >>> import resetfree as rf
    >>> found = fleet_table(rf.learn_fleet("grid-v0", n=2, episodes=20, reset_time=5))
    >>> sum(one["episodes"] for one in found["machines"]), len(found["operators"])
    (20, 1)
    """
    timing, c = run.spec.get("timing", {}), run.columns
    if "machines" not in timing or not len(run):
        return None
    end, reset_time = float(c["ended"][-1]), float(timing["reset_time"])
    machines = []
    for machine in range(1, timing["machines"] + 1):
        own = c["machine"] == machine
        acted = float((c["ended"] - c["began"])[own].sum())
        helped = float((c["operator"][own] > 0).sum())
        waited = float(c["waited"][own].sum())
        machines.append(
            {
                "machine": machine,
                "episodes": int(own.sum()),
                "steps": int(c["steps"][own].sum()),
                "resets": int(c["reset"][own].sum()),
                "acted": acted,
                "waited": waited,
                "longest_wait": float(c["waited"][own].max(initial=0.0)),
                "stood": max(end - acted - waited - helped * reset_time, 0.0),
            }
        )
    operators = []
    for who in range(1, timing["operators"] + 1):
        n = int((c["operator"] == who).sum())
        operators.append({"operator": who, "resets": n, "busy": n * reset_time / end if end else 0.0})
    steps = int(np.asarray(c["steps"]).sum())
    sizes = {"time": end, "in_steps": timing["in_steps"], "steps": steps}
    return {**sizes, "machines": machines, "operators": operators}
