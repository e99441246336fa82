"""The end of a run on a terminal: reward, resets, what is guaranteed, what needs attention, and what to type next.

Legend: a stretch is the number of steps from a start or a reset to the next reset.
"""

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from resetfree.core.certificate import plain
from resetfree.core.errors import AssumptionViolated, NotCertifiable, ResetFreeError
from resetfree.core.readable import counted, duration, number, since
from resetfree.game.capabilities import PlansAhead
from resetfree.problems.registry import PROBLEMS, full_name
from resetfree.runs.display import Foresight, own_rewards
from resetfree.runs.result import Run
from resetfree.show.cli.common import show_next
from resetfree.show.cli.progress import Tally, slower
from resetfree.show.report.filming import beside, can_be_filmed
from resetfree.show.report.html_tables import data_words
from resetfree.theory.certificates.record import ROLES, past_plan
from resetfree.theory.regret import LATE, Possible, in_words, possible

RECENT = 12  # stretches that are used: earlier ones say little about the current policy
LEAST = 4  # fewer give no warning
FARTHER = 4  # times as far as now is the most that is advised: the time to plan grows with it


def steps_between_resets(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Steps between resets, over the ends of episodes: `steps` and `reset` of every round (`Run.columns`).

    >>> steps_between_resets({"steps": np.array([10, 4, 10, 10, 7]), "reset": np.array([0, 1, 0, 0, 1])}).tolist()
    [14, 27]
    """
    steps = np.asarray(columns["steps"], dtype=np.int64).cumsum()
    ends = steps[np.asarray(columns["reset"], dtype=np.bool_)]
    return np.diff(ends, prepend=0)


def past_horizon(columns: Mapping[str, NDArray[Any]], planning: int) -> str | None:
    """A warning if at least half of the last resets came later than the planning horizon, otherwise None.

    A danger beyond the planning horizon costs nothing in any plan: a cart may drift for 150 steps before it hits the
    rail. The last 12 stretches are used, if there are at least 4.

    planning: steps that the player plans ahead: its setting `planning`, or the horizon of an episode without one.

    >>> played = {"steps": np.full(60, 50), "reset": np.arange(60) % 3 == 2}
    >>> print(past_horizon(played, 50))
    12 of the last 12 resets came more than 50 steps after the one before (150 at the median), farther than plans look
    ahead: plan farther, for example with --set planning=200, which takes 4 times as long.
    >>> past_horizon(played, 150) is None
    True
    """
    recent = steps_between_resets(columns)[-RECENT:]
    late = recent[recent > planning]
    if len(recent) < LEAST or 2 * len(late) < len(recent):
        return None
    median = int(np.median(late))
    advised = min(2 * median, FARTHER * planning)
    return (
        f"{len(late)} of the last {len(recent)} resets came more than {planning} steps after the one before "
        f"({median} at the median), farther than plans look ahead: plan farther, for example with "
        f"--set planning={advised}, which takes {number(advised / planning, 2)} times as long."
    )


MEANS = ("with_reset", "without_reset")  # of what was predicted
KNOWN = "known beforehand: "  # what such a decision begins with; they come first
DECISIONS = 5  # latest decisions of the primal player that are shown
NOTES = 5  # latest notes about the problem that are shown
NO_GUARANTEE = "no guarantee"
MUCH_LESS = 0.75  # of the bound on all expected resets: a bound on the recent ones that is not below it says little
ATTENTION = 2  # lines about what needs attention
STUCK = "bold red"
LONG = 0.5  # seconds: a shorter pause is not shown


def show(console: Console, run: Run, data: Mapping[str, Any]) -> None:
    """Print a run and its whole summary (`summary`): `--verbose`."""
    _sentences(console, run)
    console.print()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _rows(run, data):
        style = STUCK if name == "STUCK" else ""
        table.add_row(Text(name, style=style), Text(str(text), style=style))
    console.print(table)
    if unknown := " ".join(_unknown(data)):
        console.print(Text(f"\n{unknown}", style="dim"))


def show_brief(console: Console, run: Run, data: Mapping[str, Any]) -> None:
    """Print what a run came to, a line each: reward, resets, their expectation, what is guaranteed, what is wrong."""
    _sentences(console, run)
    for name, text in [("expected", _in_all(data)), ("guarantee", _guarantee(data)), *_attention(data)]:
        style = STUCK if name == "STUCK" else ""
        line = Text.assemble((f"{name:<{len('guarantee')}}  ", style or "bold"), (" ".join(text.split()), style))
        line.truncate(console.width, overflow="ellipsis")  # --verbose has the rest
        console.print(line)


def _sentences(console: Console, run: Run) -> None:
    console.print(Text(earned(run), style="bold"))
    console.print(Text(headline(run), style="bold"))


def earned(run: Run) -> str:
    """The reward of a run in one sentence, in the environment's own units where there are such.

    >>> import resetfree as rf
    >>> earned(rf.learn("grid-v0", episodes=100))
    'Reward 8 per episode at the end (the last 10), 7.33 over all.'
    """
    if not len(run):
        return "No reward: no episode was played."
    rewards, last = own_rewards(run), _late(run)
    end, mean = number(float(rewards[-last:].mean())), number(float(rewards.mean()))
    goals = int(run.goals[-1])
    reached = f" {counted(goals, 'goal').capitalize()} reached." if goals else ""
    if last == len(run):
        return f"Reward {mean} per episode.{reached}"
    which = f"the last {last:,}" if last > 1 else "the last one"
    return f"Reward {end} per episode at the end ({which}), {mean} over all.{reached}"


def _late(run: Run) -> int:
    """How many episodes the end of a run is: the last tenth."""
    return max(1, len(run) // 10)


def headline(run: Run) -> str:
    """The result of a run in one sentence.

    >>> import resetfree as rf
    >>> headline(rf.learn("grid-v0", episodes=100))
    '4 resets in 100 episodes; none since episode 7.'
    """
    resets = np.flatnonzero(run.columns["reset"])
    played, of = len(run), "" if len(run) == run.episodes else f" of {run.episodes:,}"
    when = f"{played:,}{of} episode{'' if run.episodes == 1 else 's'}"
    besides = "" if not run.requested_resets else f", and {len(run.requested_resets):,} requested when it was stuck"
    count = counted(len(resets), "reset")
    last = int(resets[-1]) + 1 if len(resets) else 0
    return f"{count[0].upper()}{count[1:]} in {when}{besides}{since(last, played)}."


def next_commands(run: Run) -> list[tuple[str, str]]:
    """What to type after a run; a problem that a file may not name is named again."""
    if run.path is None:
        return []
    file, problem = shlex.quote(str(run.path)), run.spec["problem"]
    short = problem.removeprefix("gym:")
    again = "" if problem in PROBLEMS else shlex.quote(short if full_name(short) == problem else problem)
    film = "" if beside(run.path).exists() else again and f" {again}"
    return [
        *([(f"resetfree watch {file}{film}", "a film of it")] if can_be_filmed(run) else []),
        (f"resetfree report {file}", "all of it on one page"),
        (f"resetfree evaluate {file}{again and f' {again}'}", "play what it learned"),
        (f"resetfree certify {file}{again and f' --problem {again}'}", "check every claim"),
    ]


def show_run(console: Console, run: Run, data: Mapping[str, Any], verbose: bool = False) -> None:
    """Print a run, its summary (all of it if `verbose`) and what to type next."""
    (show if verbose else show_brief)(console, run, data)
    if commands := next_commands(run):
        show_next(console, commands)


def _rows(run: Run, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    k, bound = data["episodes_played"], ""
    if data["B"] is not None:
        bound = f", B = {number(data['B'])} ({data['B_source'] or 'given'})"
    yield "problem", f"{data['problem']}, episodes of {data['horizon']} actions"
    players = f"{data['primal']} against {data['dual']}"
    yield "players", f"{players}, {data['feedback']} feedback, seed {data['seed']}{bound}"
    if data["chosen"]:
        yield "chosen because", data["chosen"]
    if data["data"] is not None:
        yield "began with", data_words(data["data"])
    if (saved := data["resets_saved"]) is not None:
        yield "saved", f"{counted(saved, 'reset')} less than its learner needed on the simulator"
    planned = "" if k == data["episodes"] else f" of {data['episodes']:,}"
    planned += "" if data["planned"] == data["episodes"] else f" (planned: {data['planned']:,})"
    steps = counted(int(run.columns["steps"].sum()), "step")
    yield "episodes", f"{k:,}{planned} in {duration(data['seconds'])}, {steps}"
    best = Possible(data["possible_within_episode"], data["possible_long_run"])
    if k and (earned := in_words(data["reward_at_end"], best)):
        yield "earned", f"{number(data['reward_at_end'])} per episode in the last tenth: {'; '.join(earned)}"
    if data["regret"] is not None:
        yield "regret", _per_episode(data["regret"], k)
    yield from _resets(data, k)
    if data["goals"] or data["after_goal"]:
        then = "" if data["after_goal"] is None else f", after each: {data['after_goal']}"
        yield "goals", f"{_per_episode(data['goals'], k)}{then}"
    people = [one for one in run.interventions if one.who != "environment"]
    if people:
        waited = duration(sum(one.seconds for one in people))
        yield "performed", f"{counted(len(people), 'reset')} by an operator; waited {waited} in all"
    if data["pauses"] is not None and data["pauses"]["longest"] >= LONG:
        longest, total = (duration(data["pauses"][name]) for name in ("longest", "total"))
        yield "pauses", f"{longest} at the longest, {total} in all, while the players computed"
    if data["timing"] is not None and data["timing"]["plan_age"] is not None:
        yield "timing", _timing(data["timing"])
        yield from _slow(data)
        why = {"ended": "after it ended", "hung": "because it hung"}
        again = [f"{counted(n, 'time')} {why[one]}" for one, n in data["timing"].get("restarts", {}).items() if n]
        if again:
            yield "learner", f"started again {', '.join(again)}"
    if data["ended"]:
        yield "ended", data["ended"]
    for role in ("primal", "dual"):
        statement, verdict = data["statements"][role], _verdict(data, role)
        if verdict != NO_GUARANTEE:
            yield "guarantee", f"{role}: {verdict}: {statement['why']}"
    known = [one["what"] for one in data["decisions"] if one["what"].startswith(KNOWN)]
    if known:
        yield "assumed", "; ".join(one.removeprefix(KNOWN) for one in known)
    for i, one in enumerate(data["decisions"][len(known) :][-DECISIONS:]):
        yield "" if i else "decided", f"after episode {one['k']}: {one['what']}"
    if data["warning"]:
        yield "note", data["warning"]
    for one in data["notes"][-NOTES:]:
        yield "STUCK" if one["stuck"] else "note", f"episode {one['k']}: {one['what']}"
    yield "run file", data["run_file"]


def _in_all(data: Mapping[str, Any]) -> str:
    """The expected resets in few words: exactly where a model is known, else what the observed ones say."""
    bound = min(data["resets_bound"], data["episodes_played"])
    exact = "" if data["resets"] is None else f"{number(data['resets'])} by the model, "
    return f"{exact}at most {number(bound)}{'' if exact else ' resets'}, with 95 % confidence"


def _guarantee(data: Mapping[str, Any]) -> str:
    """What is guaranteed, in one line: the players' own verdicts, and the most resets that a path can have."""
    verdicts = {role: _verdict(data, role) for role in ROLES}
    parts = [f"{role} {verdict}" for role, verdict in verdicts.items() if verdict != NO_GUARANTEE]
    most = data["statements"]["primal"].get("most_resets")
    if most is not None and verdicts["primal"].startswith("resets guaranteed"):
        fleet = "machines" in (data["timing"] or {})
        where = ", and those under way at a fall," if fleet else " on any path"
        tuned = "" if fleet else "; regret tuned"  # what fits in a line
        parts[0] = f"at most {counted(int(most), 'reset')}{where} if Assumption 1 holds{tuned}"
    return "; ".join(parts) or "none: both players are tuned (--verbose says why)"


def _attention(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What needs attention, one line each, the most urgent first; `--verbose` has the rest."""
    stuck = [one for one in data["notes"] if one["stuck"]]
    found = [("STUCK", f"episode {one['k']:,}: {one['what']}") for one in stuck[-1:]]
    timing = data["timing"]
    if timing is not None and timing["plan_age"] is not None:
        found += [("timing", _timing(timing)), *_slow(data)]
    found += [("note", data["warning"])] if data["warning"] else []
    found += [("note", f"episode {one['k']:,}: {one['what']}") for one in data["notes"][-1:] if not one["stuck"]]
    return found[:ATTENTION]


def _resets(data: Mapping[str, Any], k: int) -> Iterator[tuple[str, str]]:
    """The rows about resets: how many were requested, predicted and are to be expected, and how far they are apart."""
    if data["asked_resets"]:
        total = data["realised_resets"] + data["asked_resets"]
        yield "requested", f"{data['asked_resets']} more when it was stuck: {total} in all"
    if data["predicted_resets"] is not None:
        yield "predicted", f"{number(data['predicted_resets'])} ({_foresight(data).in_short})"
    yield "expected", _expected(data, k)
    if data["realised_resets"]:
        apart = duration(data["mean_seconds_between_resets"])
        yield "between resets", f"{number(data['mean_steps_between_resets'])} steps, {apart} on average"


def _expected(data: Mapping[str, Any], k: int) -> str:
    """The expected resets: exactly where a model is known, and what the observed ones alone say about them."""
    exact = "" if data["resets"] is None else f"{_per_episode(data['resets'], k)}; "
    seen, bound, recent = data["realised_resets"], min(data["resets_bound"], k), data["recent"]
    words = f"{exact}at most {number(bound)} after {counted(seen, 'observed reset')}, with 95 % confidence"
    if data["resets"] is None and recent["bound"] < MUCH_LESS * bound:
        words += f"; at most {number(recent['bound'])} of them in the last {recent['episodes']:,} episodes"
    return words


def _unknown(data: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about what is not known and not guaranteed."""
    missing = [name for name, key in (("regret", "regret"), ("expected resets", "resets")) if data[key] is None]
    if missing:
        why = "no model of this problem" if len(missing) == 2 else "a start has no reset-free policy"
        yield f"Not known: {' and '.join(missing)} ({why})."
    if data["predicted_resets"] is None:
        yield f"Not predicted: resets ({_foresight(data).in_short})."
    for role in ("primal", "dual"):
        if _verdict(data, role) == NO_GUARANTEE:
            yield f"{NO_GUARANTEE.capitalize()} for the {role} player ({data['statements'][role]['why']})."


def _verdict(data: Mapping[str, Any], role: str) -> str:
    """Whether a player's statement covers this run."""
    statement = data["statements"][role]
    verdict = "guaranteed" if statement["covered"] else NO_GUARANTEE
    outside = next((one["k"] for one in data["notes"] if one["tuned"]), None)
    if role == "primal" and statement["covered"] and outside is not None:
        verdict = f"tuned from episode {outside} on"
    if role == "primal" and statement["covered"] and data["data"] is not None:
        verdict = "tuned: it began with data"
    if statement["covered"] and data["tuned_after_plan"][role]:
        verdict = f"tuned from episode {data['planned'] + 1} on"
    if not statement["covered"] and statement.get("most_resets") is not None:
        verdict = "resets guaranteed"
    if data["regret"] is None and verdict != NO_GUARANTEE:  # the assumptions of the theorem could not be checked
        verdict += " if Assumption 1 holds"
    return verdict


def _timing(timing: Mapping[str, Any]) -> str:
    age, rate = timing["plan_age"], timing.get("rate")
    clock = "" if rate is None else f"{rate:g} Hz, {counted(timing['missed'], 'missed deadline')}"
    clock += f", the latest command {duration(timing['latest'] or 0.0)} after its tick; " if clock else ""
    return f"{clock}plans were {number(age['mean'], 2)} rounds old on average (at most {age['most']})"


def _slow(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A line about a run in real time that took clearly longer than its ticks."""
    words = slower(data["timing"].get("played", math.inf), data["seconds"])
    return [("slow", words)] if words else []


def _foresight(data: Mapping[str, Any]) -> Foresight:
    return Foresight(predicted=data["predicted_resets"], realised=data["realised_resets"], **data["prediction"])


def _per_episode(value: float, k: int) -> str:
    return f"{number(value)} ({number(value / max(k, 1))} per episode)"


def summary(run: Run, max_resets: int | None = None) -> dict[str, Any]:
    """The result of a run as plain data."""
    spec = run.spec
    tally, foreseen, waits = Tally.of(run.columns), run.foresight, run.pauses
    most, fleet = run.statements["primal"].get("most_resets"), "machines" in spec.get("timing", {})
    waited = sum(one.seconds for one in run.interventions)
    length, lately, bound = tally.recent
    best, regret, resets = _exact(run)
    result: dict[str, Any] = plain(
        {
            **{key: spec[key] for key in ("problem", "problem_options", "horizon", "seed", "feedback")},
            "episodes": run.episodes,
            "planned": spec["episodes"],
            "data": spec.get("data"),
            "resets_saved": _saved(spec, tally.resets),
            "tuned_after_plan": {role: bool(past_plan(run, role)) for role in ROLES},
            **{key: spec[key] for key in ("B", "B_source", "chosen")},
            **{role: spec[role]["name"] for role in ("primal", "dual")},
            "settings": {role: spec[role]["settings"] for role in ("primal", "dual")},
            "statements": run.statements,
            "warning": _warning(run),
            "decisions": [one._asdict() for one in run.decisions],
            "reward_at_end": float(np.mean(run.columns["reward"][-max(1, len(run) // LATE) :])) if len(run) else None,
            "possible_within_episode": best.within_episode,
            "possible_long_run": best.long_run,
            "regret": regret,
            "resets": resets,
            "realised_resets": tally.resets,
            "asked_resets": len(run.requested_resets),
            "predicted_resets": foreseen.predicted,
            "goals": tally.goals if "goals" in run.columns else None,
            "after_goal": spec.get("after_goal") or None,
            "notes": [asdict(one) for one in run.notes],
            "prediction": {name: getattr(foreseen, name) for name in ("meant", "verdict", *MEANS)},
            "timing": timing(run),
            "reward": float(own_rewards(run).mean()) if len(run) else None,
            "late_reward": float(own_rewards(run)[-_late(run) :].mean()) if len(run) else None,
            "seconds": run.seconds,
            "pauses": None if waits is None else {name: getattr(waits, name) for name in ("last", "longest", "total")},
            "episodes_played": len(run),
            "max_resets": max_resets,
            "stopped_because": None if run.ended is None else run.ended.kind,
            "ended": None if run.ended is None else run.ended.why,
            "interventions": len(run.interventions),
            "seconds_waited": waited,
            "resets_bound": tally.upper,
            "recent": {"episodes": length, "resets": lately, "bound": bound},
            "further_resets_bound": tally.further(run.episodes - len(run)),
            "most_further_resets": None if most is None or fleet else max(most - tally.resets, 0),
            "mean_steps_between_resets": tally.mean_steps,
            "mean_seconds_between_resets": max(run.seconds - waited, 0.0) / tally.resets if tally.resets else None,
            "run_file": None if run.path is None else str(run.path),
        }
    )
    return result


def _exact(run: Run) -> tuple[Possible, float | None, float | None]:
    """What is possible without a reset, the regret and the expected resets; None for those that are not defined."""
    best = Possible(None, None)
    if not len(run):  # it was ended before its first episode
        return best, None, None
    try:
        best = possible(run.solution, run.columns["s1"])
        return best, float(run.regret[-1]), float(run.resets[-1])
    except NotCertifiable:
        return best, None, None
    except AssumptionViolated:  # a start without a reset-free policy: regret is undefined, resets are not
        return best, None, float(run.resets[-1])


def _saved(spec: Mapping[str, Any], resets: int) -> int | None:
    """By how many resets a run was cheaper than that on its simulator; None without one."""
    data = spec.get("data") or {}
    return int(data["resets"]) - resets if data.get("simulator") else None


def timing(run: Run) -> dict[str, Any] | None:
    """The request of a timed run, how old its plans were, and how late it acted; None for any other run."""
    if "timing" not in run.spec:
        return None
    ages, late = run.plan_ages, run.columns["lateness"]
    latest = float(late[~np.isnan(late)].max()) if not np.isnan(late).all() else None
    age = {"mean": float(ages.mean()), "most": int(ages.max())} if len(ages) else None
    missed = int(run.columns["missed"].sum())
    found = {**run.spec["timing"], "plan_age": age, "missed": missed, "latest": latest}
    if "rate" in found:  # with a delay there is no other process
        found["played"] = float(run.columns["steps"].sum()) / found["rate"]  # seconds of ticks
        found["restarts"] = {why: sum(one.restart == why for one in run.notes) for why in ("ended", "hung")}
    return found


def _warning(run: Run) -> str | None:
    """A warning if resets happen beyond the planning horizon of the primal player, if it has one."""
    try:
        player = run.player_again("primal")
    except ResetFreeError:  # the player cannot be made again
        return None
    if not isinstance(player, PlansAhead):
        return None
    return past_horizon(run.columns, player.steps_ahead(run.spec["horizon"]))
