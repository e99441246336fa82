"""A world that does not wait: how late commands are, what handing over a plan costs, falls, and what killing does.

Run: python benchmarks/real_time.py [PART ..] [--seconds 600] [--repeats 3] [--seeds 0:10] [--kills 50] [--short]
         [--player model-search] [--out real_time.jsonl]
     python benchmarks/real_time.py --table real_time.jsonl ..
Parts, each on the cart-pole of `resetfree machine` in a process of its own, over UDP:
  lateness  commands at 100 and 500 Hz while a learner works at full load, at 500 Hz with the real-time class too:
            their lateness, and how many came in time as the machine itself counts them (90 minutes)
  handover  what it costs the process that acts to take a plan of 1 MB from the board, which a thread
            has read ahead, and if it reads them itself (ten minutes)
  falls     falls before so many steps up: in a world that waits, at a rate, at a rate with the learner killed every 30
            seconds, and with thinking in the loop. All but the first go by the clock: 50 steps take a second (hours)
  kills     random SIGKILLs of the process that acts, of its learner and of the machine: what is lost, and whether the
            run can be played again from its file (about an hour)
One JSON line per measurement, written when it is made. What is in the file of results is not measured again, so that
the same command goes on after Ctrl-C; --seeds 3:4, --rates 500, --classes usual and --repeats 1:2 make parts of parts.
--short takes a few minutes, and shows only that it works. Measure on cores with nothing else to do: each line has the
load that it began with.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, where this file is run as a script

from benchmarks.real_time_harm import WORLDS, falls, kills
from benchmarks.real_time_trials import HIGHEST, QUANTILES, SHORT, USUAL, Sizes, handover, lateness

PARTS = ("lateness", "handover", "falls", "kills")


def read(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Results; a line that was not written to its end is none."""
    found: list[dict[str, Any]] = []
    for line in lines:
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def table(lines: Iterable[str]) -> str:
    """Results as tables in Markdown."""
    rows: list[str] = []
    for part, group in groupby(
        sorted(read(lines), key=lambda one: PARTS.index(one["part"])), key=lambda one: one["part"]
    ):
        rows += [*TABLES[part](list(group)), ""]
    return "\n".join(rows)


def is_done(key: dict[str, Any], done: Iterable[dict[str, Any]]) -> bool:
    """Whether there is a line of this measurement, of the same size."""
    return any(key.items() <= one.items() for one in done)


def repeats(text: str) -> range:
    """So many, or from the first to before the end."""
    return range(*map(int, text.split(":")))


def _lateness_table(lines: list[dict[str, Any]]) -> list[str]:
    names = "player | rate | class | seconds | in time | p50 us | p99 | p99.9 | max | skipped | learner busy"
    rows = [f"| {names} | the machine: class | late itself |", "|" + "---|" * 13]
    for one in sorted(lines, key=lambda one: (one["player"], one["rate"], one["real_time"], one["repeat"])):
        share = one["machine"]["in_time"] / max(one["machine"]["due"], 1)
        times = " | ".join(f"{one[name]:,.0f}" for name in QUANTILES)
        missed = f"{one['skipped']} of {one['commands'] + one['skipped']:,}"
        own = f"{one['learner_busy']:.0%} | {one['machine']['class']} | {one['machine']['not_judged']}"
        first = f"| {one['player']} | {one['rate']:g} Hz | {one['class']} | {one['seconds']:g}"
        rows.append(f"{first} | {share:.3%} of {one['machine']['due']:,} | {times} | {missed} | {own} |")
    return [
        *rows,
        "",
        "In time: ticks of the machine before which the answer to its newest sensors came, as it counts them. Ticks "
        "whose sensors the machine itself sent a quarter of a period late, or not at all, are in the last column, and "
        "in no other.",
    ]


def _handover_table(lines: list[dict[str, Any]]) -> list[str]:
    rows = ["| class | read | plans of 1 MB | p50 us | p99 | p99.9 | max | ticks late: p99 |", "|" + "---|" * 8]
    for one in sorted(lines, key=lambda one: (one["real_time"], not one["ahead"])):
        times = " | ".join(f"{one[f'taken {name}']:,.0f}" for name in QUANTILES)
        how = "ahead" if one["ahead"] else "in the loop"
        rows.append(f"| {one['class']} | {how} | {one['taken']} | {times} | {one['late p99']:,.0f} |")
    return rows


def _falls_table(lines: list[dict[str, Any]]) -> list[str]:
    rows = ["| world | falls: median | mean | times the mean where it waits | each seed | steps: median |"]
    rows.append("|" + "---|" * 6)
    by_world = {world: {one["seed"]: one for one in lines if one["world"] == world} for world in WORLDS}
    for world, ones in by_world.items():
        both = sorted(ones.keys() & by_world[WORLDS[0]].keys())  # compared on the same seeds
        mine, waits = (sum(found[seed]["falls"] for seed in both) for found in (ones, by_world[WORLDS[0]]))
        if ones:
            each = " ".join(f"{ones[seed]['falls']}{'' if ones[seed]['reached'] else '+'}" for seed in sorted(ones))
            steps = median(one["steps"] for one in ones.values())
            times = f"{mine / waits:.2f}" if waits else "-"
            fell = [one["falls"] for one in ones.values()]
            rows.append(f"| {world} | {median(fell):g} | {mean(fell):.1f} | {times} | {each} | {steps:.0f} |")
    return [
        *rows,
        "",
        f"Before {max(one['wanted'] for one in lines):,} steps up. + not learned within the cap of steps.",
    ]


def _kills_table(lines: list[dict[str, Any]]) -> list[str]:
    rows = [
        "| killed: acting | learner | machine | rounds | lost, changed or doubled | played again |",
        "|" + "---|" * 6,
    ]
    for one in lines:
        done = " | ".join(str(times) for times in one["killed"].values())
        again = "the same" if one["replay"] == 0 else "not the same"
        rows.append(f"| {done} | {one['rounds']} | {one['lost']} | {again} |")
    return rows


TABLES = {"lateness": _lateness_table, "handover": _handover_table, "falls": _falls_table, "kills": _kills_table}
MEASURED = {"lateness": lateness, "handover": handover, "falls": falls, "kills": kills}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--seconds", type=float, help="of each measurement of lateness")
    parser.add_argument("--repeats", type=repeats, help="how many, or first:end")
    parser.add_argument("--classes", type=lambda text: text.split(","), help="of lateness and the handover")
    parser.add_argument("--rates", type=lambda text: tuple(map(float, text.split(","))), help="in Hz, of lateness")
    parser.add_argument("--seeds", type=lambda text: range(*map(int, text.split(":"))), help="first:end, of falls")
    parser.add_argument("--kills", type=int)
    parser.add_argument("--plans", type=int, help="of each measurement of the handover")
    parser.add_argument("--learner", help="the scheduling class of the process that learns: lowest or usual")
    parser.add_argument("--player", help="the primal player: model-search or neural-search")
    parser.add_argument("--machine", choices=(HIGHEST, USUAL.name), help="the scheduling class of the machine")
    parser.add_argument("--short", action="store_true", help="everything, as short as it can be")
    parser.add_argument("--out", type=Path, default=Path("real_time.jsonl"), help="lines are added to it")
    parser.add_argument("--table", nargs="+", type=Path, help="results files to make tables of")
    arguments = vars(parser.parse_args())
    # Runs are ended as Ctrl-C ends them, also where this was started in the background, which ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments["table"]:
        print(table(line for file in arguments["table"] for line in file.read_text().splitlines()))
        return
    given = {name: arguments[name] for name in Sizes.__dataclass_fields__ if arguments.get(name) is not None}
    sizes = Sizes(**{**(vars(SHORT) if arguments["short"] else {}), **given})
    out: Path = arguments["out"]
    before = out.read_text() if out.exists() else ""
    done = read(before.splitlines())
    with tempfile.TemporaryDirectory() as folder, out.open("a") as lines:
        if before and not before.endswith("\n"):
            lines.write("\n")
        for part in arguments["parts"] or PARTS:
            for key, made in MEASURED[part](sizes, Path(folder)):
                key = {"part": part, **key}
                if is_done(key, done):
                    continue
                begun = {"load": round(os.getloadavg()[0], 2)}
                line = json.dumps({**key, **begun, **made()})
                print(line, flush=True)
                print(line, file=lines, flush=True)


if __name__ == "__main__":
    main()
