"""The pictures of the documentation, made from the code: `python docs/pictures/make.py [FOLDER]`. Takes seconds.

Three are drawings (the protocol, the game, the rooms); four are computed by the oracle and by runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

import resetfree as rf
from resetfree.problems.finite.backward import best_lagrangian
from resetfree.problems.zoo.fields import MOVES
from resetfree.show.report.style import BLUE, GREEN, GREY, INK, ORANGE, PIT, SKY, YELLOW, line, look, round_number
from resetfree.theory.oracle.dynamic_programming import best_response

PROBLEM = "grid-v0"
CORNER = 0  # the start of the picture of the saddle point: the upper left cell
SEEDS, EPISODES = 5, 4000
POOLED = {"pooled": True, "reg": 1.0, "scale": 0.05}  # the widths are those that docs/results/full.md chose
METHODS: dict[str, tuple[str, str, dict[str, dict[str, Any]]]] = {
    "auto: what led to a reset is never done again": ("auto", "auto", {}),
    "Algorithm 1, data pooled": ("linear-ucb", "projected-gradient", {"primal": POOLED}),
    "the same primal player, resets for free": (
        "linear-ucb",
        "constant-penalty",
        {"primal": {"pooled": True, "scale": 0.02}, "dual": {"C": 0.0}},
    ),
}


# From the top: name, what is in it, and what it does when `resetfree run grid-v0` is typed.
ROOMS = (
    ("show", "command line, report, studio", "1  reads the words; shows progress and the table"),
    ("studies", "many runs: suites, sweeps, engines", ""),
    ("runs", "setup, learning, run files, replay", "2  setup from the request; writes every round"),
    ("use", "policies without the environment", "8  the policy that was learned"),
    ("players", "six families, contract battery", "4  auto asks who suits; 6  plan and update"),
    ("theory", "assumptions, oracles, theorems, certificates", "7  regret, exact values, certificates"),
    ("game", "what a player is, and the loop on one screen", "5  the loop: λ, policy, episode, round"),
    ("problems", "contract, finite, Gymnasium, zoo, features, operators", "3  makes grid-v0; plays the episodes"),
    ("core", "errors, certificate, settings, discovery, state", "   what every room uses"),
)


def _canvas(width: float, height: float) -> tuple[Any, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    return figure, axes


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], **how: Any) -> None:
    style = {"arrowstyle": "-|>", "color": INK, "lw": 1.4, "shrinkA": 2, "shrinkB": 2, **how}
    axes.annotate("", end, start, arrowprops=style)


def protocol() -> Any:
    """Episodes that go on where the last one ended, and one that ends in a reset."""
    figure, axes = _canvas(7.2, 2.7)
    height = np.array([0.0, 0.25, 0.1, 0.35, 0.2])
    starts, shift = [0.0, 4.4, 8.8], [0.0, 0.2, 0.4]
    for i, (x, y) in enumerate(zip(starts, shift, strict=True)):
        steps = height + y if i < 2 else np.array([0.0, 0.25, -0.45]) + y
        across = x + np.arange(len(steps))
        axes.plot(across, steps, "-", color=BLUE, lw=1.6, zorder=1)
        axes.plot(across, steps, "o", color="white", mec=BLUE, ms=7, zorder=2)
        axes.plot(x, steps[0], "o", color=BLUE, ms=9, zorder=3)
        axes.text(x + (2.0 if i < 2 else 0.9), 1.15, f"episode {i + 1}", ha="center", weight="bold")
        if i < 2:
            _arrow(axes, (across[-1], steps[-1]), (starts[i + 1], shift[i + 1]), color=GREY, ls="--")
    axes.text(4.2, -0.28, "the next episode starts\nwhere this one ended", ha="center", va="top", color=INK)
    axes.plot(10.8, -0.05, "X", color=PIT, ms=13, zorder=3)
    axes.text(10.8, -0.28, "a reset state:\nthe episode ends", ha="center", va="top", color=PIT)
    _arrow(axes, (10.95, -0.05), (13.1, 0.0), color=ORANGE, ls="--", connectionstyle="arc3,rad=-0.35")
    axes.text(12.25, 0.62, "somebody comes:\nthis is what costs", ha="center", color=ORANGE)
    axes.plot(13.2, 0.0, "o", color=BLUE, ms=9)
    axes.plot([13.2, 14.0], [0.0, 0.2], "-", color=BLUE)
    axes.text(13.6, 1.15, "episode 4", ha="center", weight="bold")
    axes.text(13.4, -0.28, "restart", ha="center", va="top")
    axes.set_xlim(-0.5, 14.6)
    axes.set_ylim(-0.85, 1.4)
    return figure


def game() -> Any:
    """Who says what to whom in one round."""
    figure, axes = _canvas(7.2, 2.9)
    boxes = {
        "dual player": (1.2, "names the price λ\nof a reset", SKY),
        "primal player": (5.0, "answers with a\npolicy π", SKY),
        "the world": (8.8, "one episode from\nwhere the agent stands", "#e6e6e6"),
    }
    for name, (x, text, colour) in boxes.items():
        shape = FancyBboxPatch((x - 1.1, 0.45), 2.2, 1.1, boxstyle="round,pad=0.05", fc=colour, ec=INK, alpha=0.35)
        axes.add_patch(shape)
        axes.text(x, 1.32, name, ha="center", va="center", weight="bold")
        axes.text(x, 0.85, text, ha="center", va="center", fontsize=8)
    for left, right, word in ((2.35, 3.85, "λ"), (6.15, 7.65, "π")):
        _arrow(axes, (left, 1.0), (right, 1.0))
        axes.text((left + right) / 2, 1.1, word, ha="center", weight="bold")
    axes.plot([8.8, 8.8, 1.2], [0.35, -0.15, -0.15], color=INK, lw=1.4)
    for x, _, _ in list(boxes.values())[:2]:
        _arrow(axes, (x, -0.15), (x, 0.38), shrinkA=0)
    axes.text(
        5.0,
        -0.3,
        "what happened: rewards, reset or not, and what the primal player had expected",
        ha="center",
        va="top",
    )
    axes.text(1.2, 1.75, "wants resets to be\npaid for: min over λ", ha="center", va="bottom", color=ORANGE, fontsize=8)
    axes.text(5.0, 1.75, "wants reward less λ × resets:\nmax over π", ha="center", va="bottom", color=BLUE, fontsize=8)
    axes.set_xlim(-0.1, 10.1)
    axes.set_ylim(-0.65, 2.35)
    return figure


def saddle() -> Any:
    """What policies can reach from one start: reward against probability of a reset, and the price that stops it."""
    mdp = rf.make(PROBLEM)
    solution = rf.solve(mdp)
    best, price = float(solution.value[CORNER]), float(solution.lambda_hat[CORNER])
    prices = np.concatenate([np.linspace(0.0, 1.02 * price, 300), [10 * price]])
    answers = [best_response(mdp, float(y)) for y in prices]
    points = np.array(sorted({(float(a.v_c[CORNER]), float(a.v_r[CORNER])) for a in answers}))
    figure = Figure(figsize=(5.4, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(points[:, 0], points[:, 1], 0.0, color=SKY, alpha=0.2, lw=0)
    axes.plot(points[:, 0], points[:, 1], "o-", color=BLUE, ms=4, label="the best that policies can do")
    across = np.array([0.0, points[-1, 0]])
    axes.plot(across, best + price * across, "--", color=ORANGE, label=f"slope λ̂ = {price:.3g}: the price of a reset")
    axes.plot(0.0, best, "D", color=GREEN, ms=8, zorder=5)
    axes.annotate(
        f"π*: never reset, V* = {best:.3g}", (0.0, best), (12, -4), textcoords="offset points", color=GREEN, va="top"
    )
    axes.set_xlabel("V_c: probability that the episode ends in a reset")
    axes.set_ylabel("V_r: expected reward of the episode")
    axes.set_ylim(0.0, 1.15 * points[:, 1].max())
    axes.legend(loc="lower right")
    return figure


def safe() -> Any:
    """The actions after which resets can still be avoided for certain, and the others."""
    mdp = rf.make(PROBLEM)
    solution = rf.solve(mdp)
    layout, allowed = mdp.layout, solution.safe.actions(1)
    assert layout is not None
    figure, axes = _canvas(4.6, 3.4)
    for s, cell in enumerate(layout.cell):
        r, c = divmod(int(cell), layout.n_cols)
        colour = PIT if mdp.reset[s] else "white"
        axes.add_patch(
            FancyBboxPatch(
                (c - 0.46, -r - 0.46), 0.92, 0.92, boxstyle="round,pad=0,rounding_size=0.05", fc=colour, ec=GREY
            )
        )
        if mdp.reset[s]:
            axes.text(c, -r, "pit:\nreset", ha="center", va="center", color="white", weight="bold")
            continue
        pays = float(mdp.reward[0, s].max())
        if pays > 0:
            axes.text(c - 0.43, -r + 0.43, f"pays {pays:g}", ha="left", va="top", fontsize=6, color=GREY)
        for a, name in enumerate(mdp.action_names):
            dr, dc = MOVES[name]
            fine = bool(allowed[s, a])
            if (dr, dc) == (0, 0):
                axes.plot(c, -r, "o", ms=6, color=GREEN if fine else ORANGE)
            elif fine:
                _arrow(
                    axes,
                    (c + 0.09 * dc, -r - 0.09 * dr),
                    (c + 0.4 * dc, -r - 0.4 * dr),
                    color=GREEN,
                    lw=2.2,
                    shrinkA=0,
                    shrinkB=0,
                )
            else:
                axes.plot(c + 0.27 * dc, -r - 0.27 * dr, "x", color=ORANGE, ms=7, mew=2)
    axes.set_xlim(-0.55, layout.n_cols - 0.45)
    axes.set_ylim(-layout.n_rows + 0.45, 0.55)
    axes.set_aspect("equal")
    return figure


def resets() -> Any:
    """Expected resets over episodes, the mean over seeds of runs that are made here."""
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    axes = figure.subplots()
    shown = np.unique(np.geomspace(1, EPISODES, 120).astype(int))
    for i, (label, (primal, dual, settings)) in enumerate(METHODS.items()):
        runs = [
            rf.learn(PROBLEM, primal, dual, episodes=EPISODES, seed=seed, settings=settings) for seed in range(SEEDS)
        ]
        mean = np.mean([run.resets for run in runs], axis=0)
        axes.plot(shown, mean[shown - 1], label=f"{label}: {mean[-1]:.0f} in the end", **line(i))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(round_number)
    axes.yaxis.set_major_formatter(round_number)
    axes.set_ylim(bottom=0.5)
    axes.set_xlabel("episodes")
    axes.set_ylabel("expected resets so far")
    axes.legend(loc="upper left")
    return figure


def rooms() -> Any:
    """The rooms of the package, each resting on those below it, and the way of one command through them."""
    figure, axes = _canvas(7.2, 5.6)
    for i, (name, what, step) in enumerate(ROOMS):
        y = len(ROOMS) - i
        shape = FancyBboxPatch((0.0, y + 0.1), 6.4, 0.62, boxstyle="round,pad=0.04", fc=SKY, ec=INK, alpha=0.3)
        axes.add_patch(shape)
        axes.text(0.15, y + 0.41, name, va="center", weight="bold")
        axes.text(1.45, y + 0.41, what, va="center", fontsize=8)
        axes.text(6.75, y + 0.41, step, va="center", fontsize=8, color=BLUE)
    axes.text(0.0, len(ROOMS) + 1.1, "the rooms: each imports only from those below it", weight="bold")
    axes.text(6.75, len(ROOMS) + 1.1, "resetfree run grid-v0", weight="bold", color=BLUE)
    axes.set_xlim(-0.1, 11.6)
    axes.set_ylim(0.9, len(ROOMS) + 1.5)
    return figure


def ledge() -> Any:
    """The ledge of docs/idea.md at three prices, with the path if nothing slips: what is seen without a script."""
    mdp = rf.make("drawn-v0", rows="....../S....G/XXXXXX", horizon=14)
    layout, safest = mdp.layout, rf.solve(mdp).policy
    assert layout is not None
    start, moves = int(np.argmax(mdp.start)), [MOVES[name] for name in mdp.action_names]
    figure = Figure(figsize=(7.2, 1.75), layout="constrained")
    for axes, price in zip(figure.subplots(1, 3), (0.0, 5.0, 18.0), strict=True):
        policy, numbers = np.empty_like(safest), np.empty((3, mdp.n_states))
        best_lagrangian(mdp.model, price, safest, policy, *numbers)
        for s, cell in enumerate(layout.cell):
            r, c = divmod(int(cell), layout.n_cols)
            colour = PIT if mdp.reset[s] else YELLOW if mdp.reward[0, s, 0] > 0 else "white"
            axes.add_patch(FancyBboxPatch((c - 0.45, -r - 0.45), 0.9, 0.9, boxstyle="round,pad=0", fc=colour, ec=GREY))
        r, c = divmod(int(layout.cell[start]), layout.n_cols)
        path = [(r, c)]
        for actions in policy:
            r, c = np.add((r, c), moves[actions[r * layout.n_cols + c]])
            r, c = min(max(int(r), 0), layout.n_rows - 1), min(max(int(c), 0), layout.n_cols - 1)
            path.append((r, c))
        shift = 0.05 * np.sin(2.4 * np.arange(len(path)))  # so that ways back are seen
        axes.plot([c for _, c in path] + shift, [-r for r, _ in path] + shift, color=BLUE, lw=2.0)
        axes.plot(path[-1][1], -path[-1][0], "o", color=BLUE, ms=7, mec="white")
        worth = rf.evaluate(mdp, policy)
        axes.set_title(f"price {price:g}", weight="bold")
        axes.text(
            2.5, -2.6, f"earns {worth.v_r[start]:.1f}, falls {100 * worth.v_c[start]:.0f} %", ha="center", va="top"
        )
        axes.set_xlim(-0.6, layout.n_cols - 0.4)
        axes.set_ylim(-3.1, 0.55)
        axes.set_aspect("equal")
        axes.set_axis_off()
    return figure


PICTURES = {
    "protocol": protocol,
    "game": game,
    "ledge": ledge,
    "saddle": saddle,
    "safe": safe,
    "resets": resets,
    "rooms": rooms,
}


def make(folder: Path) -> list[Path]:
    """Write all pictures; the same code writes the same bytes."""
    written = []
    with look({"svg.fonttype": "path"}):  # no reader needs our fonts
        for name, draw in PICTURES.items():
            path = folder / f"{name}.svg"
            draw().savefig(path, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
            written.append(path)
    return written


if __name__ == "__main__":
    for picture in make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent):
        print(f"{picture} ({picture.stat().st_size / 1000:.0f} kB)")
