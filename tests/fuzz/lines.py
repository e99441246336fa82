"""Bad command lines: every command and option, collected from the program itself, with values nobody should give."""

import dataclasses
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import click
from tests.fuzz.nasty import DEVICES, LARGE, PATHS, WORDS

ROLES: tuple[Any, ...] = ("primal", "dual")
SMALL = ("1", "2", "3")
NOT_COUNTS = ("-1", "0", "x", "", "1.5", "nan", "1e3", str(2**63), "1" + "0" * 30, "\u0663", "1_0", " 2", "0x2")
FLOATS = ("nan", "inf", "-inf", "1e400", "-1", "0", "x", "", "1e-300", "1e308", "0.5", "1", "2")
WORK = {"episodes", "steps", "seeds", "max_resets"}  # a large number of these is a long run and no mistake
FACTORIES = [
    f"tests.fuzz.factories:{name}" for name in (
        "good", "leaves", "raises", "interrupts", "gives_nothing", "gives_text", "gives_class", "wants_more",
        "NOT_CALLABLE", "falls", "missing",
    )
]  # fmt: skip
PROBLEMS = (
    *FACTORIES, "sys:exit", "os:getcwd", "nothing:f", "gym:Nothing-v0", "gym:CartPole-v1", "gym:FrozenLake-v1",
    "gym:Pendulum-v1", "gym:nothing:Thing-v0", "gym:CartPole-v", "grid-v1", "grid-v0", "edge-one-step-v0",
    "edge-no-reset-v0", "contexts-v0", "continuous-linear-v0", "footnote-v0",
)  # fmt: skip
# What makes each command valid, small and quick; the rest comes from the program.
BASE: dict[tuple[str, ...], dict[str, list[str]]] = {
    ("demo",): {},
    ("list",): {},
    ("check",): {"problem": ["grid-v0"]},
    ("solve",): {"problem": ["grid-v0"]},
    ("limit",): {"problem": ["grid-v0"], "episodes": ["--episodes", "20"]},
    ("run",): {"problem": ["grid-v0"], "episodes": ["--episodes", "2"]},
    ("fleet",): {"problem": ["grid-v0"], "machines": ["--machines", "2"], "episodes": ["--episodes", "4"]},
    ("nonepisodic",): {"problem": ["grid-v0"], "steps": ["--steps", "20"]},
    ("certify",): {"runfile": ["auto.rfrun"]},
    ("evaluate",): {"file": ["auto.rfrun"], "episodes": ["--episodes", "2"]},
    ("export",): {"runfile": ["auto.rfrun"]},
    ("transitions",): {"runfile": ["auto.rfrun"]},
    ("copy",): {"runfile": ["auto.rfrun"], "copy": ["copy.rfrun"]},
    ("bench",): {
        "suite": ["smoke"], "seeds": ["--seeds", "1"], "chosen": ["--methods", "uniform"],
        "problems": ["--problems", "grid-v0"], "jobs": ["--jobs", "1"],
    },
    ("report",): {"runs": ["auto.rfrun"]},
    ("watch",): {"runfile": ["auto.rfrun"]},
    ("sweep", "run"): {"file": ["sweep.toml"], "dry_run": ["--dry-run"]},
    ("sweep", "status"): {"folder": ["sweep"]},
    ("sweep", "retry"): {"folder": ["sweep"], "engine": ["--engine", "local"], "workers": ["--workers", "1"]},
    ("sweep", "report"): {"folder": ["sweep"], "workers": ["--workers", "1"]},
    ("machine",): {"name": ["cartpole"], "seconds": ["--seconds", "0.05"]},
    ("studio",): {"host": ["--host", "203.0.113.1"], "no_browser": ["--no-browser"]},  # an address no machine has
}  # fmt: skip
SLOW = {
    ("demo",): 0.02,
    ("bench",): 0.3,
    ("report",): 0.15,
    ("watch",): 0.15,
    ("studio",): 0.3,
    ("sweep", "retry"): 0.3,
}


@cache
def commands() -> dict[tuple[str, ...], click.Command]:
    """Every command that can be run, by the words that name it."""
    from resetfree.show.cli import app

    def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        if isinstance(command, click.Group):
            for name, one in command.commands.items():
                yield from walk(one, (*words, name))
        else:
            yield words, command

    return dict(walk(app, ()))


def line(rng: random.Random) -> list[str]:
    """A command line with at least one bad word."""
    known = commands()
    words = rng.choices(list(known), [SLOW.get(one, 1.0) for one in known])[0]
    command = known[words]
    given = dict(BASE[words])
    bad = rng.sample(command.params, min(len(command.params), rng.choice((1, 1, 2, 3))))
    for one in bad:
        if one.name in ("no_browser", "dry_run", "host"):
            continue  # without these, the command would not come back
        given[str(one.name)] = _bad(words, one, rng)
    argv = [*words]
    for one in sorted(command.params, key=lambda one: isinstance(one, click.Option) and rng.random() < 0.5):
        argv += given.get(str(one.name), [])
    if rng.random() < 0.5 and "--json" not in argv and any(one.name == "as_json" for one in command.params):
        argv.append("--json")
    if rng.random() < 0.06:
        argv.insert(rng.randrange(len(argv) + 1), rng.choice((*WORDS, "--nothing", "--json=3", "--", "-x")))
    if rng.random() < 0.04:
        argv.pop(rng.randrange(len(argv)))
        argv = [word for word in argv if word != "--json"]  # which might now be the value of an option
    return argv


def _bad(words: tuple[str, ...], one: click.Parameter, rng: random.Random) -> list[str]:
    option = isinstance(one, click.Option)
    flag = rng.choice(one.opts)
    if option and getattr(one, "is_flag", False):
        return [flag]
    if one.name in ("options", "pairs"):
        return [word for _ in range(rng.choice((1, 1, 2))) for word in ("--set", setting(rng))]
    value = _value(words, one, rng)
    return [flag, value] if option else [value]


def _value(words: tuple[str, ...], one: click.Parameter, rng: random.Random) -> str:
    kind = one.type
    if isinstance(kind, click.types.IntParamType):
        large: list[str] = [] if one.name in WORK else [str(n) for n in LARGE]
        return rng.choice((*NOT_COUNTS, *SMALL, *large))
    if isinstance(kind, click.types.FloatParamType):
        return rng.choice(FLOATS)
    if isinstance(kind, click.Choice):
        choices: list[str] = [
            text for text in kind.choices if text not in ("ray", "batched")
        ]  # which take their time to start
        return rng.choice([*choices, "", "x", choices[0].upper()])
    if isinstance(kind, click.Path):
        return rng.choice([*_odd(words, one).values(), "auto.rfrun", "auto.npz", "sweep.toml", "sweep", "made.x"])
    if one.name in ("primal", "dual"):
        return rng.choice(
            (*WORDS, *FACTORIES, "uniform", "linear-ucb", "oracle-shield", "projected-gradient", "search")
        )
    if one.name == "problem":
        return rng.choice((*WORDS, *PROBLEMS, *PROBLEMS))
    if one.name == "reached":
        return rng.choice((*WORDS, "terminal", "http:99999", "http:x", "paths/folder", "paths/text", "none"))
    return rng.choice((*WORDS, *PATHS.values()))


def setting(rng: random.Random) -> str:
    """KEY=VALUE with a known key and a bad value, or not even that."""
    if rng.random() < 0.15:
        return rng.choice((*WORDS, "=", "=1", "slip", "slip=", "a.b.c=1", "primal.=1", ".x=1", "problem.slip=0.1"))
    key = rng.choice(settings())
    return f"{key}={rng.choice((*FLOATS, *map(str, LARGE), *WORDS, '-1', 'true'))}"


@cache
def settings() -> list[str]:
    """Every option of a problem and setting of a player."""
    import resetfree as rf
    from resetfree.players import discover
    from resetfree.problems.gym import NAMES

    keys = {name for spec in rf.problems().values() for name in spec.options}
    for role in ROLES:
        for cls in discover(role).values():
            keys |= (
                {f"{role}.{field.name}" for field in dataclasses.fields(cls)}
                if dataclasses.is_dataclass(cls)
                else set()
            )
    return sorted(keys | set(NAMES) | {"features.d", "features.bins", "features.degree"})


@cache
def sizes() -> list[list[str]]:
    """Every number that a problem or a player takes, in turn far too large, in a fixed order."""
    import resetfree as rf
    from resetfree.players import discover

    found: list[list[str]] = []
    for problem, spec in rf.problems().items():
        for name, default in spec.options.items():
            if isinstance(default, int | float) and not isinstance(default, bool):
                found += [
                    [*command, problem, "--set", f"{name}={value}", *after]
                    for value in (*LARGE, -1, 0, "nan", "inf", "1e300", "1e-300")
                    for command, after in _looks()
                ]
    for problem in ("gym:CartPole-v1", "gym:FrozenLake-v1", "gym:Taxi-v3", "gym:Blackjack-v1", "gym:Pendulum-v1"):
        for name in ("horizon", "states", "actions", "state_low", "reward_low", "features.d", "make.max_episode_steps"):
            found += [
                ["run", problem, "--set", f"{name}={value}", "--episodes", "2", *more]
                for value in (*LARGE, -1, 0, "nan", "inf", "x")
                for more in ([], ["--primal", "uniform"])
            ]
    for role in ROLES:
        for player, cls in discover(role).items():
            for field in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
                who = ["--primal", player] if role == "primal" else ["--primal", "linear-ucb", "--dual", player]
                found += [
                    ["run", "grid-v0", *who, "--set", f"{role}.{field.name}={value}", "--episodes", "2"]
                    for value in (10**9, 2**63, 10**30, -1, 0, "nan", "inf", "1e-300", "x", "true")
                ]
    return found


@cache
def places() -> list[list[str]]:
    """Every place where a command takes a path, with every path that leads nowhere good."""
    found: list[list[str]] = []
    for words, command in commands().items():
        for one in command.params:
            if isinstance(one.type, click.Path):
                for path in _odd(words, one).values():
                    given = {
                        **BASE[words],
                        str(one.name): [one.opts[0], path] if one.param_type_name == "option" else [path],
                    }
                    found.append([*words, *(word for part in given.values() for word in part)])
    return found


def place(index: int, seed: int) -> list[str]:
    """The line at an index of a seeded order of `places`."""
    found = list(places())
    random.Random(seed).shuffle(found)
    argv = found[index % len(found)]
    return argv if argv[0] == "studio" else [*argv, "--json"]


def _odd(words: tuple[str, ...], one: click.Parameter) -> dict[str, str]:
    """A device is only ever read: who writes there as root would break the machine."""
    read = one.name in ("runfile", "file", "runs", "folder") and words != ("studio",)
    return {**PATHS, **(DEVICES if read else {})}


def _looks() -> list[tuple[list[str], list[str]]]:
    return [(["check"], []), (["solve"], []), (["run"], ["--episodes", "2"]), (["check"], ["--theorems"])]


def size(index: int, seed: int) -> list[str]:
    """The line at an index of a seeded order of `sizes`, so that the first few are of every kind."""
    found = sizes()
    order: list[Any] = list(range(len(found)))
    random.Random(seed).shuffle(order)
    argv = found[order[index % len(found)]]
    return [*argv, "--json"]
