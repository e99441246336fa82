"""Every command of ours in README and docs works: it is run, or read by the real command line where there is a reason.

The commands of a page run in order, in one folder, so that later ones find the files of earlier ones; episodes are few.
"""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

import resetfree as rf
from resetfree.show.cli import app, main

ROOT = Path(__file__).parents[1]
# Commands of other packages, which `tests/test_adding_pages.py` installs and runs.
OTHERS = [ROOT / "docs" / "adding.md"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page not in OTHERS]
RUN = {
    "certify",
    "check",
    "copy",
    "evaluate",
    "export",
    "fleet",
    "limit",
    "list",
    "nonepisodic",
    "report",
    "run",
    "solve",
    "transitions",
}
# Commands, and words in them, that are only read here, and why.
READ = {
    "bench": "it takes minutes to hours; tests/show/cli/test_cli_bench.py runs a small one",
    "demo": "it learns 10,000 episodes; tests/show/cli/test_cli.py runs it",
    "machine": "it runs until it is stopped; tests/show/cli/test_cli_machine.py runs it",
    "studio": "it serves until it is stopped; tests/show/studio runs it",
    "sweep": "its file is the reader's; tests/studies runs sweeps",
    "watch": "films take a while; it has tests of its own",
}
READ_WORDS = {
    r"ray(:|$)": "it starts a cluster; tests/runs/live/test_ray_learner.py has one",
    r"--operator\b": "it waits for a person; tests/problems/operators has one",
    r"\b(udp|serial)://": "it needs a machine beside it; tests/show/cli/test_cli_machine.py has one",
    r"(sac|ppo|mbpo|neural-search|medal)$": "networks are compiled for a minute first",
    r"gym:(resetfree/|\w+(Load|Tanks|Arm|Hopper|Walker2d|Ant)\b|Hopper|Walker2d|Ant)": "its physics take a minute",
    r"[a-z_][\w.]*:[A-Z]\w*$": "it is a file of the reader's",
}
PLACEHOLDER = r"\[|\$|\.\.\.$|[A-Z][A-Z_]+(\.\w+)?$|gym:ID$"  # a word that stands for something else
# What a page takes from its own Python examples.
BEFORE = {
    "deployment.md": [
        "resetfree run grid-v0 --episodes 20 --out grid.rfrun",
        "resetfree run gym:FrozenLake-v1 --set horizon=20 --set is_slippery=false --episodes 20 --out lake.rfrun",
    ],
    "own_environment.md": ["resetfree run grid-v0 --episodes 20 --out tank.rfrun"],  # in place of the reader's tank
}
FENCE, SHELLS = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```", flags=re.S | re.M), ("", "sh", "bash", "console")
FEW = {True: 100, False: 2}  # episodes, of a registered problem or of an environment
SHORT = 200  # steps of an evaluation


def fenced(text: str) -> list[str]:
    """The lines of all blocks of a page that are meant for a shell, whole where they go on in the next line."""
    found = [block for _, language, block in FENCE.findall(text) if language in SHELLS]
    return [line.strip() for block in found for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines()]


def unfenced(text: str) -> str:
    return FENCE.sub("", text)


def words(line: str) -> list[str]:
    """A command without what is said about it: a comment, or words after a gap."""
    return shlex.split(re.split(r"\s{2,}", line)[0], comments=True)


def commands(page: Path) -> list[list[str]]:
    return [words(line) for line in fenced(page.read_text()) if line.startswith("resetfree ")]


def inline(page: Path) -> list[list[str]]:
    return [words(line) for line in re.findall(r"`(resetfree [^`]+)`", unfenced(page.read_text()))]


def stands_for_others(command: list[str]) -> bool:
    return any(re.match(PLACEHOLDER, word) for word in command)


def why_not_run(command: list[str]) -> str:
    """Why a command is only read; empty if it is run."""
    if command[1] not in RUN:
        return READ.get(command[1], "")
    if stands_for_others(command):
        return "it stands for others"
    for word in command[1:]:
        for pattern, reason in READ_WORDS.items():
            if re.match(pattern, word):
                return reason
    return ""


def read(command: list[str], whole: bool) -> None:
    """Let the command line read a command; raises click.UsageError for what it does not know.

    whole: whether it must be complete, with values that fit; else only the names of commands and options are looked at.
    """
    found: click.Command = app
    rest = command[1:]
    while isinstance(found, click.Group) and rest:
        context = click.Context(found)
        known = found.get_command(context, rest[0])
        if known is None and found is not app and "run" in found.commands:  # `sweep FILE` is `sweep run FILE`
            known, rest = found.commands["run"], ["run", *rest]
        if known is None:
            raise click.UsageError(f"there is no command '{rest[0]}'")
        found, rest = known, rest[1:]
    if whole:
        found.make_context(command[1], list(rest))
        return
    options = {"-h", "--help", *(name for one in found.params for name in one.opts)}
    for word in " ".join(rest).replace("[", " ").replace("]", " ").split():
        if word.startswith("-") and word not in options:
            raise click.UsageError(f"'{' '.join(command)}': there is no option {word}")


def shortened(command: list[str]) -> list[str]:
    """The same command with few episodes."""
    result = list(command[1:])
    if result[0] not in ("run", "evaluate"):
        return result
    few = {"--episodes": FEW[result[1] in rf.problems()], "--steps": SHORT}
    for option, most in few.items():
        if option in result:
            at = result.index(option) + 1
            result[at] = str(min(int(result[at]), most))
    if result[0] == "run" and not {"--episodes", "--resume"} & set(result):
        result += ["--episodes", str(few["--episodes"])]
    return result


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_the_commands_of_a_page_work(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in [*map(words, BEFORE.get(page.name, [])), *commands(page)]:
        line = " ".join(command)
        reason = why_not_run(command)
        if reason:
            read(command, whole=not stands_for_others(command))
            continue
        assert command[1] in RUN, f"{line}: say in this file whether '{command[1]}' is run, or why not"
        status = main(shortened(command))
        assert status == 0, f"{line}: {capsys.readouterr().err}"


@pytest.mark.parametrize("page", [page for page in PAGES if inline(page)], ids=lambda page: page.name)
def test_commands_in_the_text_of_a_page_exist(page: Path) -> None:
    for command in inline(page):
        read(command, whole=False)


def test_most_commands_are_run_and_all_pages_are_looked_at() -> None:
    found = [command for page in PAGES for command in commands(page)]
    run = [command for command in found if not why_not_run(command)]
    assert len(found) > 60
    assert len(run) > len(found) / 2
    assert {"run", "certify", "report", "evaluate", "transitions", "solve", "check", "list"} <= {c[1] for c in run}
    mentioned = "\n".join(page.read_text() for page in PAGES).count("\nresetfree ")
    assert mentioned <= len(found)  # no block is left out because of its language


@pytest.mark.parametrize(
    "line",
    [
        "resetfree rum grid-v0",
        "resetfree run grid-v0 --episode 5",
        "resetfree run gym:CartPole-v1 --operators terminal",
        "resetfree machine cartpole --hertz 50",
        "resetfree sweep FILE.toml --worker 3",
        "resetfree sweep stats DIR --json --afresh",
        "resetfree run gym:Hopper-v5 --primal neural-search --episodes many",
    ],
)
def test_a_wrong_command_is_found(line: str) -> None:
    command = words(line)
    with pytest.raises(click.UsageError):
        read(command, whole=not stands_for_others(command))


@pytest.mark.parametrize(
    "line",
    ["resetfree run grid-v0 --set slop=0.1", "resetfree certify none.rfrun", "resetfree solve grid-v9"],
)
def test_a_command_that_fails_is_found(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not why_not_run(words(line))
    assert main(shortened(words(line))) == 2


def test_other_commands_of_the_pages_have_their_targets_scripts_options_and_extras() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    seen = 0
    for page in PAGES:
        text = page.read_text()
        shell = "\n".join(fenced(text))
        made = re.findall(r"^make ([\w-]+)", shell, flags=re.M) + re.findall(r"`make ([\w-]+)[^`]*`", unfenced(text))
        assert set(made) <= targets, page
        for script, options in re.findall(r"python ((?:benchmarks|examples)/[\w/]+\.py)([^;`\n]*)", text):
            source = (ROOT / script).read_text()
            beside = source + "".join(other.read_text() for other in (ROOT / script).parent.glob("*.py"))
            for option in re.findall(r"(?<!\S)--[a-z][\w-]*", options):
                assert f'"{option}"' in beside, (page, script, option)
            seen += 1
        for names in re.findall(r"(?:resetfree|\.)\[([\w,]+)\]", shell):
            assert set(names.split(",")) <= extras.keys(), (page, names)
    assert seen >= 8
