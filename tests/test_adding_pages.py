"""The page `docs/adding.md` is true: what it prints is a package of somebody else's that works as it says."""

import re
import tomllib
from pathlib import Path

import pytest
from tests.core.sample_package import install, python

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "adding.md").read_text()
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.S | re.M))
# What the commands of a section print, among other things.
SAYS = {
    "A command": ["run file fifty.rfrun", "resetfree certify fifty.rfrun check every claim 4"],
    "A dual player": ["haggler", "Raises the price after each reset", "against haggler"],
    "A family of environments": ["corridor Corridors with a hole at the end", "corridor:8, episodes of 10 actions"],
    "A method that brings a system back": ["shuttle"],
    "A player": ["curious", "curious against projected-gradient", "named.rfrun"],
    "A problem": ["ring-v0", "ring-v0, episodes of 6 actions"],
    "An operator": ["arm An arm puts the machine back", "performed"],
    "A feature map": ["sines", "frequency=1.0", "gym:CartPole-v1, episodes of 20 actions"],
}
DRIVER = """
import runpy, shlex, sys
from resetfree.show.cli import main
for line in {lines!r}:
    words = shlex.split(line)
    if words[0] == "python":
        runpy.run_module(words[2], run_name="__main__")
    elif main(words[1:]) != 0:
        sys.exit(f"failed: {{line}}")
"""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.S)


def files(text: str) -> dict[str, str]:
    """The modules that a section prints, by path."""
    found = {}
    for source in re.findall(r"\{literalinclude\} \.\./(examples/\S+)", text):
        (name,) = re.findall(r"as `(mine/\w+\.py)`", text)
        found[name] = (ROOT / source).read_text()
    return found


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All sections in one package, with the entry points that the page prints."""
    modules = {"mine/__init__.py": ""}
    points: dict[str, dict[str, str]] = {}
    for section in SAYS:
        modules |= files(SECTIONS[section])
    for block in blocks(PAGE, "toml"):
        for group, own in tomllib.loads(block)["project"]["entry-points"].items():
            points.setdefault(group, {}).update(own)
    groups = ("players", "problems", "features", "commands", "families", "operators")
    assert set(points) == {f"resetfree.{group}" for group in groups}
    return install(tmp_path_factory.mktemp("installed"), modules, points)


def test_every_section_is_checked() -> None:
    assert {section for section, text in SECTIONS.items() if blocks(text, "sh")} == set(SAYS)
    assert all(len(files(SECTIONS[section])) == 1 for section in SAYS)


@pytest.mark.parametrize("section", SAYS)
def test_what_a_section_prints_works(section: str, package: Path, tmp_path: Path) -> None:
    lines = [line for block in blocks(SECTIONS[section], "sh") for line in block.splitlines()]
    done = python(DRIVER.format(lines=lines), package, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    said = " ".join(done.stdout.split())
    for words in SAYS[section]:
        assert words in said
    if section == "An operator":
        assert (tmp_path / "lake.log").read_text().startswith("start: the run starts\n")


def test_what_a_package_adds_can_be_used_in_python_and_is_remembered(package: Path, tmp_path: Path) -> None:
    code = """
import resetfree as rf
from resetfree.runs.recall import trusted_options
run = rf.learn("ring-v0", "curious", "haggler", episodes=30, path="a.rfrun", settings={"dual": {"step": 0.2}})
again = rf.load("a.rfrun")  # an installed problem is made again by itself
assert again.regret.tolist() == run.regret.tolist()
assert again.policy.rule.probabilities.tolist() == run.policy.rule.probabilities.tolist()
assert rf.make("ring-v0", n=5).n_states == 5 and "ring-v0" in rf.problems()
lake = rf.from_gym("gym:FrozenLake-v1", horizon=10)
run = rf.learn(lake, "uniform", "haggler", episodes=10, operator=rf.OperatorReset(by="arm:b.log"))
assert {one.who for one in run.interventions} == {"arm"} and open("b.log").read()
for call, sentence in (
    (lambda: rf.learn("corridor:1", episodes=1), "A corridor must have a length from 2"),
    (lambda: trusted_options({"problem": "ring-v0", "problem_options": {"n": 10**7}}), "which is large"),
    (lambda: rf.make("ring-v0", n=1), "The ring needs n >= 2"),
    (lambda: rf.learn("ring-v0", "haggler", episodes=1), "There is no primal player 'haggler'"),
):
    try:
        call()
    except rf.ResetFreeError as error:
        assert sentence in str(error), error
    else:
        raise AssertionError(sentence)
"""
    done = python(code, package, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
