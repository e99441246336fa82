"""The pages `docs/adding_*.md` are true: what they print is a package of somebody else's that works as they say."""

import re
import tomllib
from pathlib import Path

import pytest
from tests.core.sample_package import install, python

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("adding_*.md"))
# What the commands of a page print, among other things.
SAYS = {
    "adding_a_command.md": ["run file fifty.rfrun", "resetfree certify fifty.rfrun check every claim 4"],
    "adding_a_dual_player.md": ["haggler", "Raises the price after each reset", "against haggler"],
    "adding_a_family.md": ["corridor Corridors with a hole at the end", "corridor:8, episodes of 10 actions"],
    "adding_a_player.md": ["curious", "curious against projected-gradient", "named.rfrun"],
    "adding_a_problem.md": ["ring-v0", "ring-v0, episodes of 6 actions"],
    "adding_an_operator.md": ["arm An arm puts the machine back", "performed"],
    "adding_features.md": ["sines", "frequency=1.0", "gym:CartPole-v1, episodes of 20 actions"],
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


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.S)


def files(page: Path) -> dict[str, str]:
    """The modules that a page prints, by path."""
    text = page.read_text()
    found = dict(re.findall(r"^`(mine/\w+\.py)`:\n\n```python\n(.*?)```", text, flags=re.S | re.M))
    for source in re.findall(r"\{literalinclude\} \.\./(examples/\S+)", text):
        (name,) = re.findall(r"as `(mine/\w+\.py)`", text)
        found[name] = (ROOT / source).read_text()
    return found


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages in one package, with the entry points that they print."""
    modules = {"mine/__init__.py": ""}
    points: dict[str, dict[str, str]] = {}
    for page in PAGES:
        modules |= files(page)
        for block in blocks(page, "toml"):
            for group, own in tomllib.loads(block)["project"]["entry-points"].items():
                points.setdefault(group, {}).update(own)
    groups = ("players", "problems", "features", "commands", "families", "operators")
    assert set(points) == {f"resetfree.{group}" for group in groups}
    return install(tmp_path_factory.mktemp("installed"), modules, points)


def test_every_page_is_checked() -> None:
    assert {page.name for page in PAGES} == set(SAYS)
    assert all(len(files(page)) == 1 for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_prints_works(page: Path, package: Path, tmp_path: Path) -> None:
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    done = python(DRIVER.format(lines=lines), package, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    said = " ".join(done.stdout.split())
    for words in SAYS[page.name]:
        assert words in said
    if page.name == "adding_an_operator.md":
        assert (tmp_path / "lake.log").read_text().startswith("start: the run starts\n")


def test_what_a_package_adds_can_be_used_in_python_and_is_remembered(package: Path, tmp_path: Path) -> None:
    code = """
import resetfree as rf
from resetfree.runs.trusted_options import trusted_options
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
