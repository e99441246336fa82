"""Experiment tracking: scalars of a run for dashboards, under the names of docs/columns.md.

The run file stays the record; a tracker only copies numbers. Its library is imported when it is used.
"""

from resetfree.runs.tracking.recording import ToMlflow, ToTensorBoard, ToWandb
from resetfree.runs.tracking.tracker import TensorBoard, Tracker, marked, track_columns, tracked

__all__ = ["TensorBoard", "ToMlflow", "ToTensorBoard", "ToWandb", "Tracker", "marked", "track_columns", "tracked"]
