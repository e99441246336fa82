"""The tables of the report: results, settings, certificates, interventions."""

import re
from collections.abc import Mapping
from typing import Any

from resetfree.core.certificate import Certificate
from resetfree.core.readable import counted, number
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.runs.display import pushed as by_hand
from resetfree.runs.result import Run, fleet_table
from resetfree.show.report.groups import Collection, Group, every_path, short
from resetfree.show.report.page import Markup, badge, join, spread, table, tag
from resetfree.theory.assumptions import unsafe_pairs
from resetfree.theory.certificates import RATES
from resetfree.theory.certificates.record import ROLES, as_played
from resetfree.theory.reset_limits import depends_on_step, size_limit

MARKS = {
    "holds": "good",
    **dict.fromkeys(("fails", "fails in some runs"), "bad"),
    **dict.fromkeys(("not met", "not met in some runs"), "missed"),
}
LISTED = 500  # interventions that are listed one by one
UNFOLDED = 12  # interventions up to which the list is not folded


def overview(groups: list[Group]) -> Markup:
    """One line per group: Regret always beside Resets, expected beside realised and predicted."""
    measures = {
        "Regret": "regret",
        "Resets, expected": "resets",
        "Resets, realised": "realised",
        "predicted": "predicted",
    }
    shown = {title: key for title, key in measures.items() if any(group.final(key) for group in groups)}
    rows = []
    for group in groups:
        last = [float(run.columns["k"][run.columns["reset"]].max(initial=0)) for run in group.runs]
        ends = [spread(group.final(measure)) for measure in shown.values()]
        ends += [spread(last), spread(group.final("upper"))]
        rows.append((tag("a", group.label, href=f"#{group.name}"), group.n, episodes(group), *ends, guarantee(group)))
    head = ("what", "runs", "episodes", *shown, "last reset after", "certified Resets ≤", "guarantee")
    caption = "Mean over the runs and 95 % bootstrap interval, after the last episode that all runs of a line have"
    if all(group.n == 1 for group in groups):
        caption = "After the last episode; one run a line"
    return table(head, rows, numbers=range(1, len(head) - 1), caption=caption)


def episodes(group: Group) -> str:
    """Episodes played, and planned if runs are not finished."""
    planned, wanted = int(group.spec["episodes"]), max(run.episodes for run in group.runs)
    extended = "" if planned == wanted else f" (planned {planned:,})"
    return (f"{group.rounds:,}" if group.rounds == wanted else f"{group.rounds:,} of {wanted:,}") + extended


def guarantee(group: Group) -> Markup:
    """What is proved of these runs and what is tuned, as badges."""
    covered = all(as_played(run, role)[0] for run in group.runs for role in ROLES)
    rates = [c for claims in group.certificates for c in claims if c.claim in RATES and c.applies]
    if not covered or any(c.status == "tuned" for claims in group.certificates for c in claims):
        words: list[object] = [badge("tuned", "plain")]
    elif any(c.detail.get("vacuous") for c in rates):
        words = [badge("theorem, its bound vacuous at this K", "plain")]
    else:
        words = [badge("theorem", "good")]
    most = every_path(group)
    if most is not None:
        words += [" ", badge(f"≤ {counted(int(most.rhs), 'reset')} on every path", "good")]
    return join(words)


def settings(group: Group) -> Markup:
    """The settings of the runs, and the statements of the players."""
    spec, statements = group.spec, group.runs[0].statements
    states, actions = spec["n_states"] or "infinitely many", spec["n_actions"] or "continuous"
    rows: list[tuple[object, object]] = [
        ("problem", spec["problem"]),
        ("its options", _pairs(spec["problem_options"])),
        ("size", f"{states} states, {actions} actions, H = {spec['horizon']}"),
    ]
    rows += [("limit on resets", limit_words(mdp))] if (mdp := group.runs[0].mdp) is not None else []
    for role in ("primal", "dual"):
        rows += [(f"{role} player", spec[role]["name"]), ("its settings", _pairs(spec[role]["settings"]))]
        covered, why = min(as_played(run, role) for run in group.runs)  # the run of which least is proved
        rows += [
            ("what is proved", f"{'a' if covered else 'no'} theorem covers it as it is played: {why}"),
            ("constants", _pairs(statements[role]["constants"])),
        ]
    if "data" in spec:
        rows.append(("data before the first episode", data_words(spec["data"])))
    rows += [
        ("feedback to the dual", spec["feedback"]),
        ("bound B", "none" if spec["B"] is None else f"{number(spec['B'])} ({spec['B_source']})"),
        ("why these players", spec["chosen"] or "they were named"),
        ("oracle", "yes" if not isinstance(group.truths, str) else f"no: {group.truths}"),
        ("seeds", ", ".join(str(run.spec["seed"]) for run in group.runs)),
        ("time", f"{spread([run.seconds for run in group.runs])} s of learning per run"),
        ("files", ", ".join(run.path.name for run in group.runs if run.path is not None)),
    ]
    decided = [
        f"seed {run.spec['seed']}, after episode {one.k}: {one.what}" for run in group.runs for one in run.decisions
    ]
    rows += [("decisions of the player", join([tag("div", line) for line in decided]))] if decided else []
    goals = [float(run.goals[-1]) for run in group.runs]
    if spec.get("after_goal") or any(goals):
        rows.append(
            ("goals", f"{spread(goals)} reached; after each: {spec.get('after_goal') or 'as the environment says'}")
        )
    requested = [len(run.requested_resets) for run in group.runs]
    rows += (
        [("resets requested when stuck", f"{spread(requested)}, besides those of reset states")]
        if any(requested)
        else []
    )
    noted = [f"seed {run.spec['seed']}, episode {one.k}: {one.what}" for run in group.runs for one in run.notes]
    rows += [("notes", join([tag("div", line) for line in noted[:LISTED]]))] if noted else []
    return table(("setting", "value"), rows, caption="What was run")


def limit_words(mdp: FiniteMDP) -> str:
    """What no learner can promise for all problems of these sizes, and what elimination does."""
    most, unsafe = size_limit(mdp, depends_on_step(mdp)), unsafe_pairs(mdp)
    what = "triples (h, s, a)" if depends_on_step(mdp) else "pairs (s, a)"
    return (
        f"no learner stays below {most:,} on every path of every feasible problem of these sizes, and elimination does "
        f"not exceed it; here {unsafe:,} {what} are unsafe, which it does not exceed where Assumption 1 holds"
    )


def data_words(about: Mapping[str, Any]) -> str:
    """What a run began with, in words."""
    shown = about.get("demonstrations", 0)
    shown = f", {shown:,} of them demonstrations" if shown else ""
    policy = ", and the policy of an old run" if about["policy"] else ""
    policy = ", and the policy learned there" if about.get("simulator") and policy else policy
    where = "on a simulator " if about.get("simulator") else ""
    episodes, steps, resets = (counted(about[f"{one}s"], one) for one in ("episode", "step", "reset"))
    count = f"{episodes} {where}({steps}, {resets}"
    return (
        f"{count}, which count as known dangers and not as resets of this run{shown}){policy}, "
        f"from {', '.join(map(str, about['from'])) or 'nowhere'}"
    )


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {short(value)}" for key, value in values.items()) or "none"


FOLDED = {"checked": "checks of the record", "identity": "identities, checks of arithmetic,"}  # folded if all hold


def certificates(group: Group) -> Markup:
    """Every claim over all runs of the group: guaranteed, tuned, and not applicable ones."""
    by_claim: dict[tuple[str, str], list[Certificate]] = {}
    for claims in group.certificates:
        for c in claims:
            by_claim.setdefault((c.status, c.claim), []).append(c)
    parts: list[object] = []
    for status, title in (
        ("proved", "Guaranteed: a theorem covers it with the constants of these runs"),
        ("checked", "Checked: true of every honest record; a damaged or forged one makes it fail"),
        ("tuned", "Tuned: no theorem covers it, and it may fail"),
        ("identity", "Identities: algebra that holds for any run; they check the arithmetic of this page"),
    ):
        rows = [_claim(found) for (kind, _), found in by_claim.items() if kind == status]
        if rows:
            head = ("claim", "verdict", "left", "", "right", "slack", "remarks")
            of = f". n = {group.n} runs; numbers of the tightest" if group.n > 1 else ""
            listed = table(head, rows, numbers=(2, 4, 5), caption=f"{title}{of}")
            folded = FOLDED.get(status)
            if folded and all(c.holds for (kind, _), found in by_claim.items() if kind == status for c in found):
                listed = tag("details", tag("summary", f"{len(rows)} {folded} hold"), listed)
            parts.append(listed)
    stated = [_stated(found) for (kind, _), found in by_claim.items() if kind == "stated"]
    if stated:
        words = "Stated: what is bounded and cannot be computed here"
        parts.append(table(("quantity", "from", "to", "remarks"), stated, numbers=(1, 2), caption=words))
    rest = [(found[0].claim, found[0].why) for (kind, _), found in by_claim.items() if kind == "not applicable"]
    if rest:
        inner = table(("claim", "why not"), rest, caption="Claims that do not apply to these runs")
        parts.append(tag("details", tag("summary", f"{len(rest)} claims do not apply here"), inner))
    return join(parts)


def failures(groups: list[Group]) -> list[str]:
    """Proved claims, checks and identities that fail: they belong at the top of the page."""
    return [
        f"{group.label}, seed {run.spec['seed']}: {c}"
        for group in groups
        for run, claims in zip(group.runs, group.certificates, strict=True)
        for c in claims
        if c.refuted
    ]


def stuck(groups: list[Group]) -> list[str]:
    """The newest sentence of each run that was stuck: with the failures, at the top of the page."""
    return [
        f"{group.label}, seed {run.spec['seed']}, episode {found[-1].k}: {found[-1].what}"
        for group in groups
        for run in group.runs
        if (found := [one for one in run.notes if one.stuck])
    ]


def pushed(groups: list[Group]) -> list[str]:
    """Runs in which a hand pushed the machine: what happened then cannot be laid to the players alone."""
    return [
        f"{group.label}, seed {run.spec['seed']}, was {words}: what followed is not the machine's alone."
        for group in groups
        for run in group.runs
        if (words := by_hand(run.notes))
    ]


def _claim(found: list[Certificate]) -> tuple[object, ...]:
    worst = min(found, key=lambda c: (c.holds, c.slack if c.kind == "<=" else -abs(c.slack)))
    held = sum(c.holds for c in found)
    fails = "not met" if worst.status == "tuned" else "fails"  # that a tuned claim holds was never stated
    word = "holds" if held == len(found) else fails if held == 0 else f"{fails} in some runs"
    words = [worst.why] if worst.why else []
    if worst.witness is not None:
        words.append(f"at {worst.witness}")
    if worst.detail.get("violations"):
        words.append(f"not in {worst.detail['violations']:,} of {worst.detail['rounds']:,} rounds")
    if worst.vacuous:
        words.append(worst.vacuous)
    verdict = join([badge(word, MARKS[word]), f" {held}/{len(found)}" if len(found) > 1 else ""])
    sides = (number(worst.lhs, 5), worst.kind, number(worst.rhs, 5), number(worst.slack))
    return (worst.claim, verdict, *sides, "; ".join(words))


def _stated(found: list[Certificate]) -> tuple[object, ...]:
    """An interval, of the run with the largest upper end."""
    widest = max(found, key=lambda c: c.rhs)
    words = "; ".join(filter(None, (widest.why, widest.vacuous)))
    return (widest.claim, number(widest.lhs), number(widest.rhs), words)


def fleets(collection: Collection) -> Markup | None:
    """The machines and the operators of every fleet; None if there is none."""
    parts = []
    for run in (run for group in collection.groups for run in group.runs):
        found = fleet_table(run)
        if found is None:
            continue
        unit = "steps" if found["in_steps"] else "seconds"
        caption = f"{_name(run)}: machines, over {number(found['time'])} {unit}"
        head = ("machine", "episodes", "steps", "resets", "acted", "waited", "longest wait", "stood")
        rows = [[number(value) for value in one.values()] for one in found["machines"]]
        parts.append(table(head, rows, numbers=range(1, len(head)), caption=caption))
        load = [[one["operator"], one["resets"], f"{one['busy']:.0%}"] for one in found["operators"]]
        parts.append(table(("operator", "resets", "busy"), load, numbers=(1, 2), caption=f"{_name(run)}: operators"))
    return join(parts) if parts else None


def interventions(collection: Collection) -> Markup | None:
    """Resets that an operator or the environment performed, of all runs; None if there are none."""
    runs = [(g.label, run) for g in collection.groups for run in g.runs] + [
        (_name(run), run) for run in collection.empty
    ]
    found = [(label, run.spec["seed"], one) for label, run in runs for one in run.interventions]
    if not found:
        return None
    several = len({label for label, _ in runs}) > 1  # otherwise the page says what they are runs of
    rows = [
        [
            *([label] if several else []),
            *(seed, one.k, one.why, tag("div", one.detail, class_="roomy"), one.who),
            *(_moment(one.asked), _moment(one.answered), f"{one.seconds:.1f}"),
        ]
        for label, seed, one in found[:LISTED]
    ]
    waited = sum(one.seconds for _, _, one in found)
    head = (*(["runs"] if several else []), "seed", "after episode", "why", "what", "who", "requested", "answered")
    numbers = [several, several + 1, several + 7]
    listed = table((*head, "seconds"), rows, numbers=numbers, caption="Resets that were performed; times in UTC")
    if len(rows) > UNFOLDED:
        listed = tag("details", tag("summary", "All of them"), listed)
    more = f" The first {LISTED} are listed." if len(found) > LISTED else ""
    return join(
        [tag("p", f"{counted(len(found), 'intervention')}, {waited:,.0f} s of waiting for them in all.{more}"), listed]
    )


def _moment(text: object) -> str:
    """A time in UTC as people write it; anything else as it is.

    >>> _moment("2026-11-16T22:44:51.291+00:00"), _moment("soon")
    ('2026-11-16 22:44:51', 'soon')
    """
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?\+00:00", str(text))
    return f"{found[1]} {found[2]}" if found else str(text)


def unplayed(found: Collection) -> list[str]:
    """Sentences about runs that are not in the figures."""
    return [*(f"{_name(run)} has no rounds yet, and is in no figure." for run in found.empty), *found.notes]


def _name(run: Run) -> str:
    return str(run.path) if run.path is not None else str(run.spec["problem"])
