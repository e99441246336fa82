"""No option of a run file that names code is followed, and no problem is large because a file says so."""

import ast
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.runs.forging import forge, forge_spec

import resetfree as rf
from resetfree.players import discover
from resetfree.problems.features import discover as feature_maps
from resetfree.problems.gym import DOTTED, NAMES
from resetfree.runs.recall import LARGEST, trusted_options
from resetfree.show.cli import main

SRC = Path(rf.__file__).parent
LAKE = "gym:FrozenLake-v1"
EVIL = "evil_module"
CODE = (f"{EVIL}:f", f"{EVIL}.f", EVIL)
# Where something is imported by its name: discovery of our own folders, optional packages, and what a user names.
IMPORTING = {
    "core/discovery.py",
    "core/extras.py",  # libraries that players name in their source
    "core/errors.py",
    "problems/features/basis.py",
    "players/__init__.py",  # the form that a player names in its source
    "players/controlled.py",  # a controller that the user typed
    "problems/gym/builder.py",
    "problems/gym/known.py",
    "problems/gym/events.py",
    "problems/gym/making.py",
    "problems/limits.py",  # a limit that is a function
    "problems/registry.py",
    "runs/live/assignment.py",  # classes of players that this process has imported by then
    "runs/tracking/__init__.py",
    "runs/data/transition_files.py",
    "studies/engines/batched/__init__.py",  # its own modules, when they are first used
    "studies/gathering.py",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("followed") / "run.rfrun"
    rf.learn(LAKE, "ucbvi", episodes=5, path=path, settings={"problem": {"horizon": 10, "is_slippery": False}})
    return path


@pytest.fixture
def file(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "run.rfrun"))


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What appears if the stranger's module is imported; it lies where the command is run."""
    found = tmp_path / "it ran"
    (tmp_path / f"{EVIL}.py").write_text(f"open({str(found)!r}, 'w').close()\n\ndef f(*a, **k):\n    return 0.0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield found
    sys.modules.pop(EVIL, None)


def ask_for(path: Path, change: dict[str, Any], problem: str | None = None) -> None:
    """A file with these options, and digests that fit."""

    more = {"problem": problem} if problem else {}
    options = {"horizon": 10, "is_slippery": False, **change}
    forge_spec(path, lambda spec: spec.update(problem_options=options, **more))


def every_option() -> list[str]:
    """All options of the adapter, all settings of feature maps behind them, and what an environment may take."""
    settings = {field.name for cls in feature_maps().values() for field in fields(cls)}  # type: ignore[arg-type]
    dotted = [f"{group}.{name}" for group in DOTTED for name in sorted(settings)]
    return [*NAMES, *dotted, "make.map_name", "map_name", "anything"]


def test_the_marker_shows_what_is_imported(marker: Path) -> None:
    with pytest.raises(rf.ResetFreeError):
        rf.from_gym(LAKE, reward=f"{EVIL}:g")
    assert marker.exists()


@pytest.mark.parametrize("option", every_option())
def test_no_option_of_a_file_is_imported(file: Path, marker: Path, option: str) -> None:
    nested = [{"a": [f"{EVIL}.f"]}, [f"{EVIL}:f"], {f"{EVIL}:f": 1}]
    for value in (*CODE, *nested):
        for also in ({}, {"features": "user"}, {"xi": "user"}):
            ask_for(file, {**also, option: value})
            with suppress(rf.ResetFreeError):
                rf.load(file, LAKE)
            assert not marker.exists(), (option, value)


COMMANDS = [
    ["evaluate", "FILE", LAKE, "--episodes", "1"], ["export", "FILE", LAKE, "-o", "p.npz"],
    ["certify", "FILE", "--problem", LAKE], ["certify", "FILE", "--problem", LAKE, "--replay"],
    ["report", "FILE", "--problem", LAKE], ["run", LAKE, "--resume", "--out", "FILE", "--episodes", "6"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_follows_a_file(
    file: Path, marker: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(file) if word == "FILE" else word for word in command]
    for change in (
        {"reset_when": f"{EVIL}:f"}, {"reward": f"{EVIL}:f"}, {"decode": f"{EVIL}:f"}, {"limits": f"{EVIL}:f"},
        {"features": "user", "features.function": EVIL},
        {"xi": "user", "xi.function": f"{EVIL}:f"}, {"config": {"type": f"{EVIL}.f"}},
    ):  # fmt: skip
        ask_for(file, change)
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "names code for" in said
        assert "Nothing is run because a file names it: give it again with --set" in said
        assert not marker.exists()


@pytest.mark.parametrize("problem", [f"{EVIL}:f", f"gym:{EVIL}:Lake-v0", f"gym:{EVIL}"])
def test_the_problem_of_a_file_is_not_imported(
    file: Path, marker: Path, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ask_for(file, {}, problem)
    for command in COMMANDS:
        words = [str(file) if word == "FILE" else word for word in command if word not in ("--problem", LAKE)]
        words = ["run", LAKE, *words[1:]] if words[0] == "run" else words
        main(words)
        assert not marker.exists()
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("role", ["primal", "dual"])
@pytest.mark.parametrize("name", CODE)
def test_the_players_of_a_file_are_not_imported(
    file: Path, marker: Path, role: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    forge_spec(file, lambda spec: spec[role].update(name=name))
    for command in COMMANDS:
        main([str(file) if word == "FILE" else word for word in command])
        assert not marker.exists()
        assert "Traceback" not in capsys.readouterr().err
    assert main(["run", LAKE, "--resume", "--out", str(file)]) == 2
    assert f"name its class again, --{role} module:Class" in capsys.readouterr().err
    assert not rf.load(file, LAKE).statements[role]["covered"]
    with suppress(rf.ResetFreeError):
        rf.load(file).policy.predict(0)
    assert not marker.exists()


def test_what_is_said_again_is_followed(file: Path, marker: Path) -> None:
    ask_for(file, {"reward": f"{EVIL}:f"})
    assert main(["evaluate", str(file), LAKE, "--episodes", "1", "--set", f"reward={EVIL}:f"]) == 0
    assert marker.exists()


@pytest.mark.parametrize("name", sorted(rf.problems()))
def test_registered_problems_import_nothing(name: str, marker: Path) -> None:
    for option, default in rf.problems()[name].options.items():
        if isinstance(default, str):
            for value in CODE:
                with pytest.raises(rf.ResetFreeError):
                    rf.make(name, **{option: value})
    assert not marker.exists()


@pytest.mark.parametrize("role", ["primal", "dual"])
def test_no_setting_of_a_player_imports(role: Any, marker: Path) -> None:
    for name, cls in discover(role).items():
        for field in fields(cls):
            for value in CODE:
                asked: dict[str, Any] = {role: name, "settings": {role: {field.name: value}}}
                with pytest.raises(rf.ResetFreeError):
                    rf.learn("grid-v0", episodes=1, **asked)
    assert not marker.exists()


def test_only_known_places_import_by_name() -> None:
    """A new one must be refused to files as well: add it here with a test above."""
    found = set()
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
                "import_module", "__import__", "exec_module", "run_path", "run_module", "import_string", "imported",
            ):  # fmt: skip
                found.add(str(path.relative_to(SRC)))
    assert found == IMPORTING


@pytest.mark.parametrize("name", sorted(rf.problems()))
def test_every_problem_tells_its_size_before_it_is_made(name: str) -> None:
    known = rf.problems()[name]
    for option, default in known.options.items():
        if type(default) is int and option not in ("seed", "draw", "order"):
            try:
                assert known.sized({option: 10**9}).work > LARGEST, option
                refused = r"name .* yourself, with --set"
            except rf.InvalidInput:  # the option has a largest value
                refused = rf"The option '{option}' of problem '{name}' must be an integer from \d+ to \d+"
            with pytest.raises(rf.InvalidInput, match=refused):
                trusted_options({"problem": name, "problem_options": {option: 10**9}})
            assert trusted_options({"problem": name, "problem_options": {option: 10**9}}, {option: 3})[option] == 3
    assert known.sized({}).work < LARGEST / 100


def test_a_large_problem_must_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.rfrun"
    rf.learn("pits-v0", "uniform", episodes=3, path=path)

    def edit(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE spec SET json = replace(json, '\"problem_options\": {}', ?)",
                           ('"problem_options": {"n": 3000}',))  # fmt: skip

    forge(path, edit)
    assert rf.load(path).mdp is None
    assert main(["evaluate", str(path)]) == 2
    assert "name 'pits-v0' yourself, with --set n=3000" in capsys.readouterr().err
    for command in (["certify", str(path), "--problem", "pits-v0"], ["run", "pits-v0", "--resume", "--out", str(path)]):
        assert main(command) == 2
        assert "--set n=3000" in capsys.readouterr().err
