"""What is found by name: what lacks a dependency, raises or takes another's name breaks nothing and says why."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.core.sample_package import install, python

from resetfree.core import imported
from resetfree.core.discovery import MOVED

PLAYER = """
from dataclasses import dataclass
from typing import ClassVar
from resetfree.players.tabular.references import Uniform

@dataclass(frozen=True)
class Mine(Uniform):
    name: ClassVar[str] = "{name}"
    width: float = 1.0
"""
COMMAND = """
import contextlib, io, json, sys
import resetfree.players.tabular
from resetfree.show.cli import main
resetfree.players.tabular.__path__.extend({extend!r})
for words in {commands!r}:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""
RUN = ["run", "grid-v0", "--episodes", "5", "--overwrite", "--json"]


def commands(*lines: list[str], paths: list[Path], cwd: Path, extend: list[str] | None = None) -> list[Any]:
    """(status, output, errors) of each command, in a process that sees these folders first."""
    done = python(COMMAND.format(commands=lines, extend=extend or []), *paths, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_file_of_ours_that_lacks_its_dependency_breaks_nothing(tmp_path: Path) -> None:
    """The extra is what the metadata of the package say: the smallest one that brings it."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "deep_player.py").write_text("import made_up_net.layers\n" + PLAYER.format(name="deep-player"))
    (folder / "whole.py").write_text(PLAYER.format(name="whole"))
    brings = ("numpy", "Made.Up_Net>=2; extra == 'net'", "made-up-net>=2; extra == 'dev'", "ruff; extra == 'dev'")
    site = install(tmp_path / "site", {}, {}, name="resetfree", requires=brings)
    found = commands(
        RUN,
        ["list", "players", "--json"],
        ["list", "players"],
        [*RUN, "--primal", "deep-player"],
        [*RUN, "--primal", "whole"],
        paths=[site],
        cwd=tmp_path,
        extend=[str(folder)],
    )
    why = "needs 'made_up_net', which is not installed: pip install \"resetfree[net]\""
    sentence = f"The primal player 'deep-player' is not available: it {why}.\n"
    assert [status for status, _, _ in found] == [0, 0, 0, 2, 0]
    listed = json.loads(found[1][1])
    assert listed["unavailable"] == [{"kind": "primal player", "name": "deep-player", "why": why}]
    assert "whole" in [row["name"] for row in listed["players"]]
    assert sentence.removeprefix("The ").strip() in " ".join(found[2][1].split())
    assert found[3][1:] == ["", sentence]
    assert json.loads(found[4][1])["primal"] == "whole"


def test_a_mistake_in_a_file_of_ours_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("import resetfree.no_such_module\n" + PLAYER.format(name="wrong"))
    code = COMMAND.format(commands=[RUN], extend=[str(tmp_path)])
    assert "No module named 'resetfree.no_such_module'" in python(code, cwd=tmp_path).stderr


# What an entry point of another package may do, and what is said of it.
BROKEN = {
    "deep": (
        "import made_up_net\n" + PLAYER.format(name="deep"),
        "needs 'made_up_net', which is not installed: pip install \"theirs[net]\"",
    ),
    "raising": ("raise RuntimeError('no\\nlicence')", "raised RuntimeError: no licence when theirs.raising:Mine"),
    "leaving": ("raise SystemExit(3)", "raised SystemExit: 3 when theirs.leaving:Mine"),
    "absent": ("", "raised AttributeError"),
    "nothing": ("Mine = 3", "must be a class that implements PrimalPlayer or DualPlayer, and is 3"),
    "other-name": (PLAYER.format(name="another"), "calls itself 'another' and its entry point 'other-name'"),
    "plain": (
        "import resetfree as rf\nclass Mine(rf.PrimalPlayer):\n    name = 'plain'\n    init = plan = update = None\n",
        "must be a frozen dataclass",
    ),
    "uniform": (PLAYER.format(name="uniform"), "is the name of one of resetfree's own"),
    "a:b": (PLAYER.format(name="a:b"), "has a name that the package 'theirs' must not give it"),
}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {f"theirs/{name.replace(':', '_').replace('-', '_')}.py": text for name, (text, _) in BROKEN.items()}
    points = {name: f"theirs.{name.replace(':', '_').replace('-', '_')}:Mine" for name in BROKEN}
    files |= {"theirs/__init__.py": "", "theirs/good.py": PLAYER.format(name="good")}
    points["good"] = "theirs.good:Mine"
    requires = ("made-up-net; extra == 'net'",)
    return install(
        tmp_path_factory.mktemp("theirs"), files, {"resetfree.players": points}, name="theirs", requires=requires
    )


def test_an_entry_point_that_fails_breaks_nothing_and_is_listed(theirs: Path, tmp_path: Path) -> None:
    asked = [[*RUN, "--primal", name] for name in BROKEN if ":" not in name]
    found = commands(
        RUN, ["list", "players", "--json"], [*RUN, "--primal", "good"], *asked, paths=[theirs], cwd=tmp_path
    )
    assert [status for status, _, _ in found[:3]] == [0, 0, 0]
    listed = json.loads(found[1][1])
    whys = {row["name"]: row["why"] for row in listed["unavailable"]}
    assert set(whys) == set(BROKEN)
    for name, (_, why) in BROKEN.items():
        assert why in whys[name]
    for words, (status, out, err) in zip(asked, found[3:], strict=True):
        name = words[-1]
        if name == "uniform":  # ours is what it was
            assert (status, json.loads(out)["primal"]) == (0, "uniform")
            continue
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"The primal player '{name}' is not available: it {whys[name]}")


def test_nothing_of_another_package_is_imported_before_its_name_is_used(theirs: Path, tmp_path: Path) -> None:
    code = "import sys\nfrom resetfree.show.cli import main\n"
    code += f"main({RUN!r})\nassert 'theirs' not in sys.modules\n"
    code += f"main({[*RUN, '--primal', 'good']!r})\nassert 'theirs.good' in sys.modules\n"
    code += "assert 'theirs.nothing' not in sys.modules\n"
    done = python(code, theirs, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_name_that_two_packages_give_is_refused_with_both(tmp_path: Path) -> None:
    for name in ("first", "second"):
        files = {f"{name}.py": PLAYER.format(name="same")}
        install(tmp_path / name, files, {"resetfree.players": {"same": f"{name}:Mine"}}, name=name)
    found = commands(
        RUN,
        [*RUN, "--primal", "same"],
        [*RUN, "--primal", "second:Mine"],
        paths=[tmp_path / "first", tmp_path / "second"],
        cwd=tmp_path,
    )
    assert [status for status, _, _ in found] == [0, 2, 0]
    assert found[1][2] == (
        "The primal player 'same' is not available: it is the name of more than one entry point "
        "(first:Mine and second:Mine): write the module:Class you mean.\n"
    )


def test_a_class_is_named_on_the_command_line_and_named_again_to_resume(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text(PLAYER.format(name="mine"))
    named = ["--primal", "here:Mine", "--set", "primal.width=0.5", "--set", "slip=0.2"]
    file = ["--out", "a.rfrun", "--json"]
    found = commands(
        ["run", "grid-v0", *named, "--episodes", "30", "--max-resets", "2", *file],
        ["run", "grid-v0", "--resume", *file],
        ["run", "grid-v0", "--resume", "--primal", "here:Mine", *file],
        ["run", "grid-v0", "--primal", "here:Mine", "--set", "primal.depth=1", "--overwrite", *file],
        ["run", "grid-v0", "--primal", "here:Nobody", "--overwrite", *file],
        ["run", "grid-v0", "--primal", "json:JSONEncoder", "--overwrite", *file],
        ["run", "grid-v0", "--dual", "here:Mine", "--overwrite", *file],
        paths=[],
        cwd=tmp_path,
    )
    assert [status for status, _, _ in found] == [0, 2, 0, 2, 2, 2, 2]
    begun, resumed = json.loads(found[0][1]), json.loads(found[2][1])
    assert begun["primal"] == "mine"
    assert "Continue with: resetfree run grid-v0 --resume --out a.rfrun --primal here:Mine" in found[0][2]
    assert begun["episodes_played"] < 30 == resumed["episodes_played"]
    assert resumed["settings"]["primal"]["width"] == 0.5  # what was set then is taken from the file
    sentences = [err.removesuffix("\n") for _, _, err in found]
    assert sentences[1] == (
        "The run file 'a.rfrun' is of a primal player 'mine' that is not registered, and a file never makes code "
        "run: name its class again, --primal module:Class."
    )
    assert "There is no setting of primal player 'mine' 'depth'" in sentences[3]
    assert "Got 'here:Nobody', which does not import" in sentences[4]
    assert "'json:JSONEncoder' cannot be used as a primal player" in sentences[5]
    assert sentences[6].startswith("'here:Mine' must be a dual player.")


def test_a_sweep_file_may_name_a_class(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text(PLAYER.format(name="mine"))
    (tmp_path / "s.toml").write_text(
        '[sweep]\nepisodes = 5\nseeds = 2\n[[problem]]\nid = "grid-v0"\n[[players]]\nprimal = "here:Mine"\n'
    )
    ((status, out, err),) = commands(["sweep", "s.toml", "--workers", "1", "--json"], paths=[], cwd=tmp_path)
    assert status == 0, err
    assert json.loads(out)["done"] == 2


@pytest.mark.parametrize("former", MOVED)
def test_former_addresses_go_on_working(former: str) -> None:
    names = {"webhook": "Webhook", "mail": "Mail", "ntfy": "Ntfy", "factors": "Factor", "auto": "choose"}
    names |= {"callbacks": "StopWhen", "recording": "ToMlflow"}
    name = names[former.rpartition(".")[2]]
    found = imported(f"{former}:{name}", "A class")
    assert found is getattr(importlib.import_module(MOVED[former]), name)
