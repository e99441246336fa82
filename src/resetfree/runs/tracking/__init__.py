"""Experiment tracking: what others' dashboards show of a run, under the names of docs/columns.md.

The run file stays the record; a tracker only copies numbers out of it as they are made. Its library is imported when it
is asked for, and not before.
"""

from resetfree.runs.tracking.marks import marked
from resetfree.runs.tracking.tensorboard import TensorBoard
from resetfree.runs.tracking.tracker import Tracker, track_columns, tracked

__all__ = ["TensorBoard", "Tracker", "marked", "track_columns", "tracked"]
