"""A run as a figure: Regret, Resets and the multiplier over the episodes. Reads the run, imports no player."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.runs.result import Run
from resetfree.show.report.style import BLUE, GREEN, GREY, ORANGE, save

POINTS = 2000  # enough for a curve; a million rounds would only make the file large


def draw_run(run: Run, path: Path) -> Path:
    """Write the picture (PNG, SVG or PDF by the name's ending) and return its path."""
    from matplotlib.figure import Figure  # half a second to import: only when a picture is wanted

    if len(run) == 0:
        raise InvalidInput("A run must have rounds to be drawn. Got none instead.")
    k = np.unique(np.geomspace(1, len(run), min(len(run), POINTS)).astype(int)) - 1  # as dense as the log axis shows
    episodes = k + 1
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    regret_axes, resets_axes, multiplier_axes = figure.subplots(1, 3)
    if run.mdp is not None:
        regret_axes.plot(episodes, run.regret[k], color=BLUE, label="exact")
        regret_axes.axhline(0, color=GREY, lw=0.8)
        resets_axes.plot(episodes, run.resets[k], color=BLUE, label="expected (exact)")
    else:
        regret_axes.text(0.5, 0.5, "no oracle", ha="center", transform=regret_axes.transAxes, color=GREY)
    resets_axes.step(episodes, run.realised_resets[k], where="post", color=ORANGE, label="realised")
    resets_axes.legend(frameon=False)
    multiplier_axes.plot(episodes, run.columns["lam"][k], ".", ms=2, color=GREEN)
    _label(regret_axes, "Regret against the best policy that never resets", "reward")
    _label(resets_axes, "Resets", "resets")
    multiplier_axes.set_ylim(0, max(1.0, 1.1 * float(run.columns["lam"].max())))
    _label(multiplier_axes, "Multiplier played at the start of the episode", "reward per reset")
    figure.suptitle(
        f"{run.spec['problem']}: {run.spec['primal']['name']} against {run.spec['dual']['name']}, "
        f"{run.spec['feedback']} feedback, seed {run.spec['seed']}, n = 1 run"
    )
    return save(figure, path)


def _label(axes: Any, title: str, unit: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xscale("log")  # most happens early
    axes.set_xlabel("episode")
    axes.set_ylabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
