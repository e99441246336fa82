"""Figures of a solved grid and of a run; and pictures of the moments of a run.

Such a picture is a map with the agent on it, or the environment's own, by playing the record again: a rollout of an
environment is played again from the seed of its reset, with the actions on record, and every state is compared with the
record. A picture of what did not happen is never shown. No code is run because a file names it.
"""

import os
import warnings
from collections.abc import Collection, Iterator, Sequence
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageDraw

from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import InvalidInput, Notice, RunError, one_line
from resetfree.core.readable import number
from resetfree.problems.action_spaces import Choices
from resetfree.problems.contract import Episode, Policy, Problem, State
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.operators import Automatic
from resetfree.problems.zoo.fields import MOVES
from resetfree.runs.file import runfile
from resetfree.runs.file.recorded import RecordedRound, check_episode
from resetfree.runs.result import Run
from resetfree.show.report.film_files import FilmedRollout, Moment, rollouts_of
from resetfree.show.report.style import BLUE, EDGE, GREEN, GREY, ORANGE, PIT, UNSAFE, WALL, YELLOW, round_number, save
from resetfree.theory.oracle.dynamic_programming import Solution

FEW = 150  # cells of a map in which numbers can still be read
SOME = 900  # cells in which arrows can
ARROW: dict[str, Any] = {"width": 0.055, "head_width": 0.2, "head_length": 0.17, "length_includes_head": True}
ARROW |= {"facecolor": "white", "edgecolor": "black", "lw": 0.8, "zorder": 3}


def draw_solution(solution: Solution, path: Path) -> Path:
    """Write the picture (PNG, SVG or PDF by the name's ending) and return its path."""
    from matplotlib.figure import Figure  # half a second to import: only when a picture is wanted

    layout, mdp = solution.mdp.layout, solution.mdp
    if layout is None:
        raise InvalidInput(f"Only problems with a map can be drawn. Got '{mdp.name}', which has none, instead.")
    panels = (
        ("Safe first actions", solution.safe.actions(1).sum(axis=1).astype(float), "Greens", f"of {mdp.n_actions}"),
        ("V*: best value with no reset", solution.value, "cividis", f"reward in {mdp.horizon} steps"),
        ("λ̂: smallest optimal multiplier", solution.lambda_hat, "magma_r", "reward per reset"),
    )
    width = 1.0 + 0.95 * layout.n_cols
    figure = Figure(figsize=(3 * width, 1.5 + 0.95 * layout.n_rows), layout="constrained")
    for axes, (title, values, cmap, unit) in zip(figure.subplots(1, 3), panels, strict=True):
        image = draw_cells(axes, mdp, solution.feasible, values, cmap)
        axes.set_title(title, fontsize=11)
        bar = figure.colorbar(image, ax=axes, shrink=0.8)
        bar.set_label(unit, fontsize=9)
        bar.ax.tick_params(labelsize=8)
    draw_arrows(figure.axes[1], mdp, solution.feasible, solution.policy[0])
    figure.suptitle(
        f"{mdp.name}: {mdp.n_states} states, {mdp.n_actions} actions, H = {mdp.horizon}, exact oracle", fontsize=12
    )
    return save(figure, path)


def draw_cells(
    axes: Any, mdp: FiniteMDP, feasible: Bools, values: Floats, cmap: str, norm: Any = None, size: float = 9.0
) -> Any:
    """One map: a colour and a number per feasible cell; pits, unsafe cells and walls in flat colours.

    feasible: [S].  values: [S], nan for none.  norm: scale of the colours (default: from 0 to the largest value).
    size: font size of the numbers, in points.
    """
    from matplotlib.colors import to_rgba

    layout = mdp.layout
    assert layout is not None
    cells = np.full(layout.n_rows * layout.n_cols, np.nan)
    cells[layout.cell[feasible]] = values[feasible]
    scale = {"vmin": 0.0} if norm is None else {"norm": norm}
    image = axes.imshow(cells.reshape(layout.n_rows, layout.n_cols), cmap=cmap, interpolation="none", **scale)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_facecolor(WALL)
    axes.spines[:].set_visible(False)
    flat = np.zeros((cells.size, 4))  # one picture, not a patch per cell: maps can be large
    for colour, here in ((PIT, mdp.reset), (UNSAFE, ~feasible & ~mdp.reset), ("white", feasible & np.isnan(values))):
        flat[layout.cell[here]] = to_rgba(colour)
    axes.imshow(flat.reshape(layout.n_rows, layout.n_cols, 4), interpolation="none")
    if layout.n_cols * layout.n_rows > FEW:
        return image
    axes.vlines(np.arange(1, layout.n_cols) - 0.5, -0.5, layout.n_rows - 0.5, color=EDGE, lw=0.8)
    axes.hlines(np.arange(1, layout.n_rows) - 0.5, -0.5, layout.n_cols - 0.5, color=EDGE, lw=0.8)
    for s, cell in enumerate(layout.cell):
        r, c = divmod(int(cell), layout.n_cols)
        if not feasible[s]:
            word, ink = ("reset", "white") if mdp.reset[s] else ("unsafe", "black")
            axes.text(c, r, word, ha="center", va="center", fontsize=size - 1, color=ink)
        elif not np.isnan(values[s]):
            red, green, blue, _ = image.cmap(image.norm(values[s]))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            word = number(values[s]) if abs(values[s]) < 1000 else round_number(values[s])
            axes.text(c, r + 0.3, word, ha="center", va="center", fontsize=size, color="w" if dark else "k")
    return image


def draw_arrows(axes: Any, mdp: FiniteMDP, where: Bools, actions: ArrayLike) -> bool:
    """Draw the action [S] of every state in `where`: an arrow, or a dot for staying. False if the map is too large."""
    layout, chosen = mdp.layout, np.asarray(actions)
    assert layout is not None
    if layout.n_cols * layout.n_rows > SOME:
        return False
    for s in np.flatnonzero(where):
        r, c = divmod(int(layout.cell[s]), layout.n_cols)
        dr, dc = MOVES.get(mdp.action_names[int(chosen[s])], (0, 0))
        if (dr, dc) == (0, 0):
            axes.plot(c, r - 0.12, "o", ms=7, mfc="white", mec="black")
        else:  # an edge, so that it shows on any colour
            axes.arrow(c - 0.24 * dc, r - 0.12 - 0.2 * dr, 0.48 * dc, 0.4 * dr, **ARROW)
    return True


def draw_marks(axes: Any, mdp: FiniteMDP, where: NDArray[np.bool_]) -> None:
    """A cross in the corner of every state in `where`."""
    layout = mdp.layout
    assert layout is not None
    r, c = np.divmod(layout.cell[where], layout.n_cols)
    axes.plot(c - 0.33, r - 0.33, "X", ms=7, mfc="white", mec="black", ls="")


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


Picture = Image.Image
SIDE = 480  # pixels of the longer side of a picture, at most
LARGEST = 2**24  # pixels of a picture that an environment may give
LARGE_PAY = 0.6  # from which what pays is drawn larger
TRAIL = 12  # steps of the path behind the agent
RGB = "rgb_array"
GYM = "gym:"
LIBRARIES = (
    "Without a screen, MuJoCo draws with EGL or OSMesa. On Debian and Ubuntu: apt install libegl1 libosmesa6 (and "
    "MUJOCO_GL=osmesa where EGL fails)"
)


def pictures_of(run: Run, moments: Collection[Moment]) -> Iterator[tuple[Moment, Picture]]:
    """The pictures of these moments, in their order; raises InvalidInput or RunError if there can be none."""
    if isinstance(run.problem, GymProblem):
        return _played_again(run, run.problem, moments)
    if run.mdp is not None and run.mdp.layout is not None:
        return _drawn(run, run.mdp, moments)
    name = run.spec["problem"]
    if ":" in name and (run.problem is None or name.startswith(GYM)):
        raise InvalidInput(
            f"The run in '{run.path}' is of '{name}', and a file never makes code run: name it yourself: "
            f"resetfree watch {run.path} {name}."
        )
    raise InvalidInput(f"'{name}' has neither a map nor an environment that draws it: there is nothing to film.")


def _rounds(run: Run, first: int, last: int) -> Iterator[RecordedRound]:
    if run.path is None:
        raise InvalidInput("Only a run file can be filmed: give the run a 'path' when it is made.")
    with runfile.reading(run.path) as connection:
        yield from runfile.read_played(connection, run.path, first, last)


def _drawn(run: Run, mdp: FiniteMDP, moments: Collection[Moment]) -> Iterator[tuple[Moment, Picture]]:
    wanted, background, problem = set(moments), drawn_map(mdp), run.problem_again()
    for rollout in _filmed(run, wanted):
        path: list[int] = []
        episodes = [k for k, _ in wanted if rollout.first <= k <= rollout.last]
        first = max(min(episodes) - TRAIL, rollout.first)
        for played in _rounds(run, first, max(episodes)):
            check_episode(problem, played)
            states = played.episode.states.tolist()
            for h in range(0 if played.k == first else 1, len(played.episode.actions) + 1):
                path = [*path[-TRAIL:], states[min(h, len(states) - 1)]]
                if (played.k, h) in wanted:
                    yield (played.k, h), with_agent(background, mdp, path)


def _filmed(run: Run, wanted: set[Moment]) -> list[FilmedRollout]:
    """The rollouts that have wanted moments."""
    episodes = {k for k, _ in wanted}
    return [rollout for rollout in rollouts_of(run) if any(rollout.first <= k <= rollout.last for k in episodes)]


def drawn_map(mdp: FiniteMDP, most: int = SIDE) -> Picture:
    """The map without the agent, of at most so many pixels: walls, free cells, what pays, and reset states."""
    layout = mdp.layout
    assert layout is not None
    side = max(min(most // max(layout.n_rows, layout.n_cols), 64), 2)
    pays = mdp.reward.max(axis=(0, 2))
    picture = Image.new("RGB", (layout.n_cols * side, layout.n_rows * side), WALL)
    pen = ImageDraw.Draw(picture)
    for s, cell in enumerate(layout.cell.tolist()):
        r, c = divmod(cell, layout.n_cols)
        box = (c * side, r * side, (c + 1) * side - 1, (r + 1) * side - 1)
        pen.rectangle(box, PIT if mdp.reset[s] else "white", EDGE if side > 4 else None)
        if pays[s] > 0 and not mdp.reset[s] and side > 4:
            inset = side * (0.3 if pays[s] >= LARGE_PAY else 0.37)
            pen.ellipse((box[0] + inset, box[1] + inset, box[2] - inset, box[3] - inset), YELLOW)
    return picture


def with_agent(background: Picture, mdp: FiniteMDP, path: Sequence[int], colour: str = BLUE) -> Picture:
    """The map with the agent at the end of its path, on the path that led there."""
    layout = mdp.layout
    assert layout is not None
    picture, side = background.copy(), background.width // layout.n_cols
    pen = ImageDraw.Draw(picture)
    cells = [divmod(int(layout.cell[s]), layout.n_cols) for s in path]
    middles = [(c * side + side / 2, r * side + side / 2) for r, c in cells]
    if len(middles) > 1:
        pen.line(middles, GREY, max(side // 12, 1), joint="curve")
    (x, y), radius = middles[-1], max(side * 0.3, 1.0)
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), colour, "white", max(side // 20, 1))
    return picture


# --- environments -----------------------------------------------------------------------------------------------------
class RecordedActions(Policy):
    """A policy that takes the actions of an episode on record, and is called before each."""

    def __init__(self, episode: Episode, counted: bool, before: Any) -> None:
        self._actions, self._counted, self._before = episode.actions, counted, before

    def act(self, h: int, s: State, u: Any) -> Any:
        """The recorded action; beyond the last one, which a replay that differs may reach, the last one."""
        self._before(h - 1)
        action = self._actions[min(h, len(self._actions)) - 1]
        return int(action) if self._counted else action


def _played_again(run: Run, problem: GymProblem, moments: Collection[Moment]) -> Iterator[tuple[Moment, Picture]]:
    if "timing" in run.spec:
        raise InvalidInput("A run in real time or with a delay is not played again: film it while it runs, --film N.")
    wanted, chance = set(moments), np.random.default_rng(run.spec["seed"])
    twin = problem.twin()
    if run.path is not None:
        with runfile.reading(run.path) as connection:
            saved = runfile.read_problem(connection, run.path)
        if saved:
            twin.restore(saved)
    rollouts = {rollout.first: rollout for rollout in _filmed(run, wanted)}
    performed: dict[int, int] = {}
    for one in run.interventions:
        performed[one.k + 1] = performed.get(one.k + 1, 0) + 1  # resets before this episode
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Notice)
            for k in range(1, len(run) + 1):
                seeds = chance.random(performed.get(k, 0)).tolist()
                if k in rollouts:
                    yield from _one_rollout(run, twin, rollouts[k], wanted, seeds)
                chance.bit_generator.advance(twin.n_uniforms)  # type: ignore[attr-defined]  # of this episode
    finally:
        twin.close()


def _one_rollout(
    run: Run, problem: GymProblem, rollout: FilmedRollout, wanted: set[Moment], seeds: Floats
) -> Iterator[tuple[Moment, Picture]]:
    """Play a rollout again, as far as it is wanted.  seeds: of the resets before it; the last one counts."""
    last = max(k for k, _ in wanted if k <= rollout.last)
    zeros, counted = np.zeros(problem.n_uniforms), isinstance(problem.actions, Choices)
    state = problem.perform_reset(seeds[-1], "start", Automatic()) if len(seeds) else None
    found: list[tuple[Moment, Picture]] = []
    for played in _rounds(run, rollout.first, last):
        check_episode(problem, played)
        k = played.k

        def look(h: int, k: int = k) -> None:
            if (k, h) in wanted and (h > 0 or k == rollout.first):
                found.append(((k, h), rendered(problem)))

        same = state is not None and np.array_equal(state, played.s1)
        if same:
            again = problem.rollout(RecordedActions(played.episode, counted, look), state, zeros)
            same = np.array_equal(again.states, played.episode.states)
        if not same:
            raise RunError(
                f"Episode {k} of '{run.spec['problem']}' went another way when it was played again: the environment "
                "is not deterministic, or not what it was. Film it while it runs: resetfree run ... --film N."
            )
        look(len(played.episode.actions))
        yield from found
        found.clear()
        state = again.next_start


def rendered(problem: Problem) -> Picture:
    """The environment's own picture of its present state, small; raises InvalidInput with what is missing."""
    env = getattr(problem, "env", None)
    if env is None:
        raise InvalidInput(f"'{problem.name}' is no environment that draws pictures.")
    prepare_to_render(env, problem.name)
    try:
        frame = np.asarray(env.render())
    except Exception as error:  # a missing library, a missing screen, foreign code
        hint = f" {LIBRARIES}." if "mujoco" in type(env.unwrapped).__module__ or "GL" in str(error) else ""
        raise InvalidInput(f"'{problem.name}' cannot be drawn here: {one_line(error).rstrip('.')}.{hint}") from error
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or not 0 < frame.size <= 3 * LARGEST:
        raise InvalidInput(
            f"The method render() of '{problem.name}' must return a picture, uint8 [height, width, 3]. "
            f"Got {frame.dtype} {list(frame.shape)} instead."
        )
    picture = Image.fromarray(frame)
    picture.thumbnail((SIDE, SIDE))
    return picture


def prepare_to_render(env: Any, name: str) -> None:
    """Have an environment draw to arrays; raises InvalidInput if it cannot."""
    core = env.unwrapped
    if getattr(core, "render_mode", None) == RGB:
        return
    if not draws(core):
        raise InvalidInput(
            f"A film needs an environment that can draw, with the render mode '{RGB}'. '{name}' has none."
        )
    if not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():  # no screen: SDL and MuJoCo must not look for one
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("MUJOCO_GL", "egl" if find_library("EGL") else "osmesa")
    core.render_mode = RGB


def draws(core: Any) -> bool:
    """Whether an unwrapped environment says that it can draw to arrays."""
    modes = getattr(core, "metadata", {}).get("render_modes", ())
    return getattr(core, "render_mode", None) == RGB or RGB in modes
