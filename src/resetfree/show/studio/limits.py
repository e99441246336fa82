"""Limits of the studio: everything that comes from outside is bounded by one of these."""

from __future__ import annotations

BODY = 1_000_000  # bytes of a request
FILE = 512 * 2**20  # bytes of a run file that is opened
CHECKPOINT = 32 * 2**20  # bytes of a followed run's checkpoint that is read
GRID = 30  # rows and columns of a drawn grid
HORIZON = 200  # actions per episode
STATES = 40_000  # of a problem that is played or shown here
TABLE = 4_000_000  # S x A x H
SHOWN = 900  # states of a map that is drawn
OPTION = 200  # a whole number among the options of a problem that is made (but its seed)
EPISODES = 1_000_000  # of one run
RUNNING = 4  # sessions at once
KEPT = 32  # sessions in memory, the ended ones among them
WATCHING = 64  # streams of frames at once
CONNECTIONS = 256  # at once
CERTIFIED = 100_000  # rounds up to which certificates are computed automatically
REPORTS = 2  # reports that are made at once
REPORT_SECONDS = 120.0  # that a report may take
REPORT_MEMORY = 2 * 2**30  # bytes of address space of the process that makes one
RECENT = 8192  # newest episodes of a game that are kept in memory, to be drawn again
OPENED = 8  # reports that are kept for the tabs that show them
PICTURES = 4_000_000  # bytes of a run's kept pictures that are sent
LISTED = 500  # run files in the list
FRAMES = 15.0  # frames per second
CURVE = 400  # points of a curve
PATIENCE = 10.0  # seconds that a request may take to arrive
SEED = 2**32 - 1
FASTEST = 10_000.0  # episodes per second that can be requested; 0 requests no limit
