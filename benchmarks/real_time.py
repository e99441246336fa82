"""A world that does not wait: how late commands are, what handing over a plan costs, falls, and what killing does.

Run: python benchmarks/real_time.py [PART ..] [--seconds 600] [--repeats 3] [--seeds 0:10] [--kills 50] [--short]
         [--out real_time.jsonl]
     python benchmarks/real_time.py --table real_time.jsonl ..
Parts, each on the cart-pole of `resetfree machine` in a process of its own, over UDP:
  lateness  commands at 100 and 500 Hz while a learner works at full load, with and without the real-time class: their
            lateness, and how many came in time as the machine itself counts them
  handover  what it costs the process that acts to take a plan of 1 MB from the board
  falls     falls before so many steps up: in a world that waits, at a rate, at a rate with the learner killed every 30
            seconds, and with thinking in the loop
  kills     random SIGKILLs of the process that acts, of its learner and of the machine: what is lost, and whether the
            run can be played again from its file
One JSON line per measurement. --short takes about a minute, and shows only that it works.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, where this file is run as a script

from benchmarks.real_time_trials import QUANTILES, SHORT, WORLDS, Sizes, falls, handover, kills, lateness

PARTS = ("lateness", "handover", "falls", "kills")


def table(lines: Iterable[str]) -> str:
    """Results as tables in Markdown."""
    found = [json.loads(line) for line in lines if line.startswith("{")]
    rows: list[str] = []
    for part, group in groupby(sorted(found, key=lambda one: PARTS.index(one["part"])), key=lambda one: one["part"]):
        rows += [*TABLES[part](list(group)), ""]
    return "\n".join(rows)


def _lateness_table(lines: list[dict[str, Any]]) -> list[str]:
    rows = ["| rate | class | commands in time | p50 us | p99 | p99.9 | max | ticks skipped |", "|" + "---|" * 8]
    for one in lines:
        share = one["machine"]["in_time"] / max(one["machine"]["due"], 1)
        times = " | ".join(f"{one[name]:,.0f}" for name in QUANTILES)
        missed = f"{one['skipped']} of {one['commands'] + one['skipped']}"
        rows.append(f"| {one['rate']:g} Hz | {one['class']} | {share:.3%} | {times} | {missed} |")
    return rows


def _handover_table(lines: list[dict[str, Any]]) -> list[str]:
    rows = ["| class | plans of 1 MB | p50 us | p99 | p99.9 | max | nothing new: p99 |", "|" + "---|" * 7]
    for one in lines:
        times = " | ".join(f"{one[f'taken {name}']:,.0f}" for name in QUANTILES)
        rows.append(f"| {one['class']} | {one['taken']} | {times} | {one['none p99']:,.1f} |")
    return rows


def _falls_table(lines: list[dict[str, Any]]) -> list[str]:
    rows = ["| world | falls: median | each seed | steps: median |", "|" + "---|" * 4]
    for world in WORLDS:
        ones = sorted((one for one in lines if one["world"] == world), key=lambda one: one["seed"])
        if ones:
            each = " ".join(f"{one['falls']}{'' if one['reached'] else '+'}" for one in ones)
            steps = median(one["steps"] for one in ones)
            rows.append(f"| {world} | {median(one['falls'] for one in ones):g} | {each} | {steps:.0f} |")
    return [*rows, "", "+ not learned within the cap of steps."]


def _kills_table(lines: list[dict[str, Any]]) -> list[str]:
    rows = ["| killed: acting | learner | machine | rounds | lost or changed | played again |", "|" + "---|" * 6]
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
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--rates", type=lambda text: tuple(map(float, text.split(","))), help="in Hz, of lateness")
    parser.add_argument("--seeds", type=lambda text: range(*map(int, text.split(":"))), help="first:end, of falls")
    parser.add_argument("--kills", type=int)
    parser.add_argument("--learner", help="the scheduling class of the process that learns: lowest or usual")
    parser.add_argument("--short", action="store_true", help="everything, as short as it can be")
    parser.add_argument("--out", type=Path, default=Path("real_time.jsonl"), help="lines are added to it")
    parser.add_argument("--table", nargs="+", type=Path, help="results files to make tables of")
    arguments = vars(parser.parse_args())
    if arguments["table"]:
        print(table(line for file in arguments["table"] for line in file.read_text().splitlines()))
        return
    given = {name: arguments[name] for name in Sizes.__dataclass_fields__ if arguments.get(name) is not None}
    sizes = Sizes(**{**(vars(SHORT) if arguments["short"] else {}), **given})
    with tempfile.TemporaryDirectory() as folder, arguments["out"].open("a") as out:
        for part in arguments["parts"] or PARTS:
            for one in MEASURED[part](sizes, Path(folder)):
                line = json.dumps({"part": part, **one})
                print(line, flush=True)
                print(line, file=out, flush=True)


if __name__ == "__main__":
    main()
