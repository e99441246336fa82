"""The film of a fleet on a finite problem: `python docs/pictures/fleet.py fleet.rfrun fleet.gif`. Takes seconds.

One map for each machine, all at the same time: its agent, the path of its episode, and the pits that the fleet knows.
A red frame is a machine that waits for an operator or is being reset.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import resetfree as rf

ACROSS, CELL, GAP, HEAD = 8, 16, 12, 28
EARLY, EVERY = 120, 6  # the first steps one by one, then one in so many
FRAME, LAST = 80, 2500  # milliseconds
FLOOR, PIT, UNKNOWN, PAYS, BLUE, INK = "#eef1f4", "#b2182b", "#f0c3c9", "#e69f00", "#0072b2", "#222222"
Stay = tuple[float, float, np.ndarray, bool]  # when an episode began and ended, its cells, and whether it was reset


def stays_of(run: rf.Run) -> dict[int, list[Stay]]:
    """The episodes of each machine in the order of time."""
    rows, c = rf.transitions(run), run.columns
    cell, found = run.mdp.layout.cell, defaultdict(list)
    bounds = np.searchsorted(rows["round"], np.arange(1, len(run) + 2))
    for k in range(len(run)):
        own = slice(bounds[k], bounds[k + 1])
        cells = cell[[*rows["state"][own], rows["next_state"][own][-1]]]
        found[int(c["machine"][k])].append((c["began"][k], c["ended"][k], cells, bool(c["reset"][k])))
    return found


def draw(run: rf.Run, stays: dict[int, list[Stay]], now: float) -> Image.Image:
    """All machines at one time."""
    layout, c = run.mdp.layout, run.columns
    wide, high = layout.n_cols * CELL, layout.n_rows * CELL
    across, down = min(ACROSS, len(stays)), -(-len(stays) // ACROSS)
    picture = Image.new("RGB", (across * (wide + GAP) + GAP, HEAD + down * (high + GAP)), "white")
    pen = ImageDraw.Draw(picture)
    pays, entered = run.mdp.reward.max(axis=(0, 2)), set()
    for one in stays.values():
        entered |= {int(cells[-1]) for _, ended, cells, reset in one if reset and ended <= now}
    falls, done = int(c["reset"][c["ended"] <= now].sum()), int((c["ended"] <= now).sum())
    words = f"step {now:,.0f}     {done:,} episodes     {falls} resets"
    pen.text((GAP, 7), words, INK, ImageFont.load_default(14))
    for i, machine in enumerate(sorted(stays)):
        x0, y0 = GAP + (i % ACROSS) * (wide + GAP), HEAD + (i // ACROSS) * (high + GAP)
        for s, at in enumerate(layout.cell):
            row, column = divmod(int(at), layout.n_cols)
            colour = (PIT if int(at) in entered else UNKNOWN) if run.mdp.reset[s] else PAYS if pays[s] > 0 else FLOOR
            box = (x0 + column * CELL, y0 + row * CELL, x0 + column * CELL + CELL - 2, y0 + row * CELL + CELL - 2)
            pen.rectangle(box, fill=colour)
        newest = [one for one in stays[machine] if one[0] <= now]
        if not newest:
            continue
        began, ended, cells, reset = newest[-1]
        path = [divmod(int(at), layout.n_cols) for at in cells[: int(now - began) + 1]]
        points = [(x0 + q * CELL + CELL // 2 - 1, y0 + r * CELL + CELL // 2 - 1) for r, q in path]
        pen.line(points, "#7fb8d8", 2)
        waits, (x, y) = reset and ended <= now, points[-1]
        pen.ellipse((x - 4, y - 4, x + 4, y + 4), fill=INK if waits else BLUE, outline="white")
        if waits:
            pen.rectangle((x0 - 3, y0 - 3, x0 + wide, y0 + high), outline=PIT, width=2)
    return picture


def main(source: str, target: str) -> None:
    """Write the film of a run file."""
    run = rf.load(source)
    stays, last = stays_of(run), float(run.columns["ended"].max())
    times = [*range(EARLY), *range(EARLY, int(last), EVERY), last]
    frames = [draw(run, stays, now) for now in times]
    palette = frames[len(frames) // 3].quantize(24)
    drawn = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in frames]
    durations = [*[FRAME] * (len(drawn) - 1), LAST]
    drawn[0].save(target, save_all=True, append_images=drawn[1:], duration=durations, loop=0, optimize=True)
    size = Path(target).stat().st_size
    print(f"{target}: {len(drawn)} frames, {sum(durations) / 1000:.0f} s, {drawn[0].size}, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
