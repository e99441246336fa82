"""What an environment observed in the last steps before its resets: where observations are vectors."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import ResetFreeError
from resetfree.runs.data.all_transitions import unscaled_episodes
from resetfree.show.report.html import figures as draw
from resetfree.show.report.html.figures import Drawing
from resetfree.show.report.html.groups import Group
from resetfree.show.report.style import BLUE, GREY, ORANGE

STEPS = 30  # before a reset
RESETS = 12  # that are drawn: the first ones
SENSORS = 6  # that are drawn: those that were furthest from usual at a reset
EPISODES = 20_000  # that are looked through


def figures(group: Group) -> list[Drawing]:
    """The last observations before the resets of the first run that has any; none where observations are no vectors."""
    for run in group.runs:
        if run.path is None or not run.columns["reset"].any():
            continue
        try:
            ends, usual, spread = _last_steps(run.path)
        except ResetFreeError:  # a damaged record: the other figures say so
            return []
        if ends:
            return [_drawing(group, int(run.spec["seed"]), ends, usual=usual, spread=spread)]
    return []


def _last_steps(path: Any) -> tuple[list[NDArray[Any]], NDArray[Any], NDArray[Any]]:
    """[n, D] observations before each of the first resets, and mean and standard deviation [D] of all observations."""
    ends: list[NDArray[Any]] = []
    n, total, squares = 0, np.zeros(1), np.zeros(1)
    for episode in islice(unscaled_episodes(path), EPISODES):
        states = np.asarray(episode.states)
        if states.ndim != 2 or states.dtype.kind != "f":
            return [], total, squares
        n, total, squares = n + len(states), total + states.sum(axis=0), squares + np.square(states).sum(axis=0)
        if episode.reset and len(ends) < RESETS:
            ends.append(states[-STEPS - 1 :])
    mean = total / max(n, 1)
    return ends, mean, np.sqrt(np.maximum(squares / max(n, 1) - mean**2, 0.0))


def _drawing(
    group: Group, seed: int, ends: list[NDArray[Any]], *, usual: NDArray[Any], spread: NDArray[Any]
) -> Drawing:
    from matplotlib.figure import Figure

    away = np.abs(np.stack([end[-1] for end in ends]) - usual).mean(axis=0) / np.where(spread > 0, spread, 1.0)
    chosen = np.sort(np.argsort(-away, kind="stable")[:SENSORS])
    rows = -(-len(chosen) // 2)
    height = 0.9 + 1.35 * rows
    figure = Figure(figsize=(draw.WIDTH, height))
    panels = figure.subplots(rows, 2, squeeze=False, sharex=True)
    figure.subplots_adjust(0.13, 0.47 / height, 0.97, 1 - 0.42 / height, wspace=0.32, hspace=0.45)
    for axes in panels.flat[len(chosen) :]:
        axes.set_visible(False)
    for axes, sensor in zip(panels.flat, chosen, strict=False):
        axes.axhspan(usual[sensor] - spread[sensor], usual[sensor] + spread[sensor], color=GREY, alpha=0.15, lw=0)
        for i, end in enumerate(ends):
            newest = i == len(ends) - 1
            axes.plot(
                np.arange(1 - len(end), 1), end[:, sensor], color=ORANGE if newest else BLUE, lw=1.4 if newest else 0.7
            )
            axes.plot(0, end[-1, sensor], "x", color=ORANGE if newest else BLUE, ms=4)
        draw.dress(axes, f"observation {sensor + 1}", "", x="")
    for axes in panels[-1]:
        axes.set_xlabel("steps before the reset")
    data: dict[str, Any] = {"reset": [], "step": [], **{f"observation_{sensor + 1}": [] for sensor in chosen}}
    for i, end in enumerate(ends):
        data["reset"] += [i + 1] * len(end)
        data["step"] += list(range(1 - len(end), 1))
        for sensor in chosen:
            data[f"observation_{sensor + 1}"] += end[:, sensor].tolist()
    shown = (
        f"the {len(chosen)} of {len(usual)} numbers that were furthest from usual" if len(usual) > SENSORS else "all"
    )
    caption = (
        f"The last {STEPS} observations before each of the first {len(ends)} resets of seed {seed} (n = {len(ends)}; "
        f"orange: the newest of them; cross: the state that had to be reset), {shown}. Grey: mean and one standard "
        "deviation of all observations."
    )
    alt = f"The last observations before {len(ends)} resets, {len(chosen)} numbers each."
    words = (f"{group.name}-falls", "The last steps before resets", caption, alt)
    return Drawing(*words, data=data, figure=figure)
