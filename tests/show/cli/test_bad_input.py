"""Every public function and every option of the command line, given what it cannot use: one sentence, nothing worse.

Functions, parameters, commands, options and problems are found by looking, so that a new one is tried too. Each case is
a process of its own that may take 3 GB of addresses; what goes on for longer than a moment is stopped as by Ctrl-C.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from tests.show.cli.bad_values import CALLS, VALUES, calls

import resetfree as rf
from resetfree.players import Role, discover, settings
from resetfree.show.cli import app

ROOT = Path(__file__).parents[3]
MEMORY, SECONDS = 3 << 30, 1.0
DONE, CLAIM_FAILED, REFUSED, STOPPED = 0, 1, 2, 130
TEXTS = ["", "x", "-1", "0", "nan", "1e999", "100000000", f"1{'0' * 30}", "x" * 300, "a\nb", "\udcff", "/dev/null/x"]
TEXTS += ["..", "x:y"]
SIZES = {int: ["-1", "0", "100000000", f"1{'0' * 30}"], float: ["-1", "nan", "inf", "1e300"], str: ["x", ""]}
RUN = ("grid-v0", "--primal", "uniform", "--episodes", "20", "--max-resets", "1")
# A command line for each command that is in order; RUNFILE stands for a run that was played.
LINES: dict[str, tuple[str, ...]] = {
    "demo": (),
    "list": ("problems",),
    "check": ("grid-v0",),
    "solve": ("grid-v0",),
    "limit": ("grid-v0", "--episodes", "20"),
    "run": RUN,
    "nonepisodic": ("grid-v0", "--steps", "20"),
    "fleet": ("grid-v0", "--machines", "2", "--episodes", "10"),
    "certify": ("RUNFILE",),
    "evaluate": ("RUNFILE",),
    "export": ("RUNFILE",),
    "transitions": ("RUNFILE",),
    "copy": ("RUNFILE", "copy.rfrun"),
    "bench": ("smoke", "--jobs", "1"),
    "report": ("RUNFILE",),
    "watch": ("RUNFILE",),
    "machine": ("cartpole", "--seconds", "0.05"),
}
ELSEWHERE = {"sweep", "studio"}  # have tests of their own: one starts processes, the other serves until it is stopped
NAMES = ["", "x" * 300, "\udcff", "/dev/null/x", "..", "a\nb"]  # of files and folders
GYM = ["horizon", "states", "actions", "features.d", "xi.d", "reward_low", "state_low", "table", "features"]
GYM += ["reset_when"]


class Driver:
    """A process that has imported everything once, and forks for each case."""

    def __init__(self) -> None:
        surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).with_name("bad_input_driver.py")), str(MEMORY), str(SECONDS)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=surroundings)

    def __call__(self, case: dict[str, Any]) -> tuple[int, str]:
        """Status, and what was said."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["status"], answer["err"]


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    one = Driver()
    yield one
    one.process.communicate()


def assert_good_answers(driver: Driver, cases: Iterable[list[str]]) -> None:
    """Every command line is played, stopped or refused in one sentence."""
    found = []
    for case in cases:
        status, said = driver({"words": case})
        words = " ".join(case)[:200]
        # The stop may land in a compiler, whose destructors then complain: those are not raised, and not ours.
        raised = said.count("Traceback") > said.count("Exception ignored in")
        if status not in (DONE, CLAIM_FAILED, REFUSED, STOPPED) or raised:
            found.append(f"{words!r}: status {status}: {said[-500:]}")
        elif status == REFUSED and len(said.splitlines()) != 1:
            found.append(f"{words!r}: not one sentence: {said[-500:]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("function", CALLS)
def test_wrong_arguments_in_python(function: str, driver: Driver) -> None:
    wrong = []
    for name, source in calls().items():
        if name.startswith(f"{function}("):
            status, said = driver({"call": source, "values": VALUES})
            wrong += [f"{source}: {said}"] if status else []
    assert not wrong, "\n".join(wrong)


def test_every_public_function_is_tried() -> None:
    functions = {name for name in rf.__all__ if callable(getattr(rf, name)) and not isinstance(getattr(rf, name), type)}
    assert functions <= set(CALLS)


def options(command: click.Command) -> Iterator[tuple[click.Parameter, str | None]]:
    """Everything that takes a value, with the option's own spelling (None: an argument)."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            if not parameter.is_flag:
                yield parameter, parameter.opts[0]
        else:
            yield parameter, None


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("played") / "a.rfrun"
    rf.learn("grid-v0", "uniform", episodes=20, path=file)
    return file


# Every bad name of a report imports what draws figures.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "report" else name for name in LINES]
)
def test_wrong_values_on_the_command_line(name: str, played: Path, driver: Driver) -> None:
    line = [str(played) if word == "RUNFILE" else word for word in LINES[name]]
    cases = []
    for i, (parameter, spelling) in enumerate(options(app.commands[name])):
        for value in NAMES if isinstance(parameter.type, click.Path) or spelling == "--out" else TEXTS:
            words = [*line, spelling, value] if spelling else [*line[:i], "--", value]
            cases.append([name, *words])
    assert_good_answers(driver, cases)


def test_every_command_is_tried() -> None:
    assert set(LINES) | ELSEWHERE == set(app.commands)


@pytest.mark.parametrize("id", rf.problems())
def test_sizes_of_registered_problems(id: str, driver: Driver) -> None:
    cases = []
    for option, default in rf.problems()[id].options.items():
        kind = str if isinstance(default, bool) else type(default)
        for value in SIZES[kind]:
            cases.append(["solve", id, "--set", f"{option}={value}"])
            cases.append(["run", id, "--episodes", "2", "--set", f"problem.{option}={value}"])
    assert_good_answers(driver, cases)


@pytest.mark.slow
@pytest.mark.parametrize("role", ["primal", "dual"])
def test_settings_of_players(role: Role, driver: Driver) -> None:
    vectors = {"model-search", "stored-linear"}
    cases = []
    for name, player in discover(role).items():
        problem = "gym:CartPole-v1" if name in vectors else "grid-v0"
        players = ["--primal", name] if role == "primal" else ["--primal", "linear-ucb", "--dual", name]
        for setting in settings(player):
            for value in ("-1", "nan", "1e300", f"1{'0' * 30}", "x"):
                given = ["--set", f"{role}.{setting}={value}", "--set", "problem.horizon=6"]
                cases.append(["run", problem, "--episodes", "3", *players, *given])
    assert_good_answers(driver, cases)


@pytest.mark.parametrize("id", ["gym:FrozenLake-v1", "gym:CartPole-v1"])
def test_sizes_of_environments(id: str, driver: Driver) -> None:
    values = [*SIZES[int], *SIZES[float], *SIZES[str]]
    words = ("run", id, "--episodes", "2", "--set")
    assert_good_answers(driver, ([*words, f"problem.{option}={value}"] for option in GYM for value in values))


EXITS = ["import sys; sys.exit(3)", "exit()", "raise SystemExit('no')", "raise BaseException('odd')"]


@pytest.mark.parametrize("body", [*EXITS, "raise GeneratorExit", "1/0"])
def test_a_factory_or_module_that_exits(body: str, driver: Driver) -> None:
    files = {"leaving.py": f"def make():\n    {body}\n", "gone.py": f"{body}\n"}
    for words in (["check"], ["run", "--episodes", "2"]):
        for problem in ("leaving:make", "gone:make"):
            status, said = driver({"words": [*words, problem], "files": files})
            assert status == REFUSED, (words, problem, said)
            assert len(said.splitlines()) == 1, said
