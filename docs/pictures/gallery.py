"""Small pictures of the examples, rendered by their environments: `python docs/pictures/gallery.py`. Takes a minute.

Renderers of other systems draw other pixels, so no test compares them; the site is not built where an example has none.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from PIL import Image, ImageDraw

HERE, EXAMPLES = Path(__file__).parent, Path(__file__).parents[2] / "examples"
SIZE = (300, 200)
STEPS = 12  # random ones before the picture, so that something has happened
ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole": ("CartPole-v1", {}),
    "cliff_walking": ("CliffWalking-v1", {}),
    "frozen_lake": ("FrozenLake-v1", {"map_name": "8x8"}),
    "highway": ("highway-fast-v0", {}),
    "inverted_pendulum": ("InvertedPendulum-v5", {}),
    "lava": ("MiniGrid-LavaCrossingS9N1-v0", {}),
    "pendulum": ("Pendulum-v1", {}),
    "taxi": ("Taxi-v4", {}),
    "walkers": ("Hopper-v5", {}),
}
COLOURS = {"#": "#4d4d4d", "o": "#b2182b", "~": "#cc79a7", "G": "#009e73", "S": "#56b4e9"}  # digits are goals


def frame(id: str, options: dict[str, Any]) -> Image.Image:
    """An environment after a few random steps."""
    if id.startswith("MiniGrid"):
        import minigrid  # noqa: F401
    if id.startswith("highway"):
        import highway_env  # noqa: F401
    env = gymnasium.make(id, render_mode="rgb_array", **options)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(STEPS):
        if env.step(env.action_space.sample())[2]:
            env.reset(seed=1)
    picture = Image.fromarray(np.asarray(env.render()))
    env.close()
    return picture


def plan(rows: list[str], side: int = 40) -> Image.Image:
    """A map of letters as coloured cells."""
    picture = Image.new("RGB", (side * len(rows[0]), side * len(rows)), "white")
    pen = ImageDraw.Draw(picture)
    for i, row in enumerate(rows):
        for j, mark in enumerate(row):
            box = (j * side + 1, i * side + 1, (j + 1) * side - 2, (i + 1) * side - 2)
            pen.rectangle(box, fill=COLOURS.get(mark, "#009e73" if mark.isdigit() else "#f2f2f2"))
    return picture


def fitted(picture: Image.Image) -> Image.Image:
    """A picture on a ground of one size and in few colours, so that its file is small."""
    picture = picture.convert("RGB")
    ground = Image.new("RGB", SIZE, picture.getpixel((0, 0)))  # type: ignore[arg-type]
    picture.thumbnail(SIZE, Image.Resampling.LANCZOS)
    ground.paste(picture, ((SIZE[0] - picture.width) // 2, (SIZE[1] - picture.height) // 2))
    return ground.quantize(48)


def plan_of(name: str) -> list[str]:
    """The map that an example draws in letters."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / "gym" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return list(module.PLAN)


def make(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(exist_ok=True)
    pictures = {name: frame(*what) for name, what in ENVIRONMENTS.items()}
    pictures |= {name: plan(plan_of(name)) for name in ("rooms", "sticky_maze")}
    pictures["warehouse"] = plan(["S.1", "...", "..G"])  # charger, shelf, ramp
    pictures["wedged_robot"] = plan(["##########", "....S....~", "##########"])
    for name, picture in pictures.items():
        fitted(picture).save(folder / f"{name}.png", optimize=True)
        print(f"{name}.png ({(folder / f'{name}.png').stat().st_size / 1000:.1f} kB)")


if __name__ == "__main__":
    os.environ.setdefault("MUJOCO_GL", "egl")
    make(HERE / "gallery")
