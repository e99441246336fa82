"""The docs are true: every name in them imports, every test they cite exists, no object of the paper is missing."""

import ast
import importlib
import re
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import resetfree as rf
from resetfree.show.cli import main

ROOT = Path(__file__).parents[1]
SRC = Path(rf.__file__).parent
README = (ROOT / "README.md").read_text()


def find(name: str) -> Any:
    """The object behind a dotted name."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise LookupError(name)


def rows(table: int = 0) -> list[list[str]]:
    """Cells of one of the paper map's tables: its objects, or the labels of the paper's source."""
    text = (ROOT / "docs" / ("paper_map.md", "api/paper_labels.md")[table]).read_text()
    lines = re.findall(r"(?:^\|.*\n)+", text, flags=re.M)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def paper_lines(docstring: str | None) -> str:
    """What a docstring says of the paper: from `Paper:` to the end of the paragraph."""
    return " ".join(" ".join(part.split("\n\n")[0].split()) for part in (docstring or "").split("Paper:")[1:])


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_object_of_the_paper_has_a_name_whose_docstring_says_so(row: list[str]) -> None:
    _, _, name, words = row
    assert words in paper_lines(find(name.strip("`")).__doc__)


def test_every_docstring_that_names_the_paper_is_in_the_map() -> None:
    mapped = {find(row[2].strip("`")) for row in rows()}
    missing = []
    for path in SRC.rglob("*.py"):
        module = ".".join(("resetfree", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__")
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and "Paper:" in (ast.get_docstring(node) or ""):
                found = getattr(importlib.import_module(module), node.name)
                if found not in mapped and not module.startswith(
                    "resetfree.theory.oracle"
                ):  # second and third ways to a value
                    missing.append(f"{module}.{node.name}")
    assert not missing


def labels() -> list[str]:
    """Every label of the paper's source, by name; the source itself is not ours to ship."""
    return (ROOT / "tests" / "golden" / "paper_labels.txt").read_text().splitlines()


def test_every_label_of_the_paper_is_in_the_map_with_code_or_a_page() -> None:
    table = {label.strip("`"): where for label, _, where in rows(1)}
    assert list(table) == labels()
    for label, where in table.items():
        names, pages = re.findall(r"`(resetfree[\w.]*)`", where), re.findall(r"\]\(\.\./(\w+\.md)", where)
        assert names or pages, label
        for name in names:
            find(name)
        assert all((ROOT / "docs" / page).exists() for page in pages)


@pytest.mark.parametrize("source", [ROOT.parent / "shared" / "paper.tex"])
def test_the_labels_are_those_of_the_source_where_it_lies_beside_the_checkout(source: Path) -> None:
    if not source.exists():
        pytest.skip("the paper's source is not beside the checkout")
    assert re.findall(r"\\label\{([^}]*)\}", source.read_text()) == labels()


def test_everything_that_runs_of_the_paper_is_in_a_label_or_cited() -> None:
    """Numbered statements of the first table come from labels: their code is in the second one."""
    labelled = " ".join(where for _, _, where in rows(1))
    numbered = [row for row in rows() if re.match(r"(Theorem|Lemma|Corollary|Assumption|Definition) \d\.\d$", row[1])]
    assert len(numbered) > 15
    parts = {row[1]: [other[2] for other in rows() if other[1] == row[1]] for row in numbered}
    assert [where for where, names in parts.items() if not any(name in labelled for name in names)] == []


@pytest.mark.parametrize("page", ["readings.md", "paper_map.md"])
def test_names_and_tests_in_the_docs_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    for name in re.findall(r"`(resetfree(?:\.\w+)+)`", text):
        find(name)
    for file, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text):
        assert f"def {test}(" in (ROOT / file).read_text()


def test_every_reading_is_there() -> None:
    text = (ROOT / "docs" / "readings.md").read_text()
    assert [f"A{i}" for i in range(1, 27)] == re.findall(r"^\| (A\d+) ", text, flags=re.M)


@pytest.mark.parametrize(("which", "file"), [(0, "cartpole.rfrun"), (1, "pump.rfrun")])
def test_the_examples_of_the_readme_run_and_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], which: int, file: str
) -> None:
    code = re.findall(r"```python\n(.*?)```", README, flags=re.S)[which]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / file).exists()
    lines = capsys.readouterr().out.splitlines()
    if which == 0:
        falls, steps = map(int, re.findall(r"\d+", lines[-2]))
        assert 1 <= falls <= 4 < 5000 < steps <= 6000
    else:
        assert (lines[0], lines[-1]) == ("True", "True")
        assert lines[1].startswith(re.findall(r"# (4\.\d+)\.\.\.", code)[0])


def test_the_run_of_the_readme_falls_as_often_as_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rounding differs between processors, and with it the moment of a fall: "a fall or two" may be one more."""
    line = next(one for one in README.splitlines() if one.startswith("resetfree run CartPole-v1"))
    assert "200 episodes, a fall or two" in line
    path = tmp_path / "pole.rfrun"
    assert main(["run", "CartPole-v1", "--out", str(path)]) == 0
    run = rf.load(path)
    assert len(run) == 200
    assert 1 <= run.realised_resets[-1] <= 3
    assert not run.columns["reset"][50:].any()  # then it stands
    assert "Reward 100 per episode at the end" in capsys.readouterr().out


def test_the_readme_is_short_and_its_pictures_are_here_and_small() -> None:
    text = README
    assert len(text.split()) < 900  # two minutes; long measurements are in docs
    shown = re.findall(r'!\[[^\]]*\]\(([^)]+)\)|<img src="([^"]+)"', text)
    pictures = [ROOT / (one or other) for one, other in shown]
    assert {path.name for path in pictures} >= {"studio.gif", "crane.gif"}
    assert all(0 < path.stat().st_size < 1_500_000 for path in pictures)
    assert not re.search(r'(src="|!\[[^\]]*\]\()http', text)


def test_the_badges_say_what_the_project_file_says() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "pictures" / "badges.py"))
    folder = ROOT / "docs" / "pictures" / "badges"
    assert {path.stem for path in folder.iterdir()} == set(made["badges"]())
    for name, words in made["badges"]().items():
        assert (folder / f"{name}.svg").read_text(encoding="utf-8") == made["drawn"](*words)
        assert f"docs/pictures/badges/{name}.svg" in (ROOT / "README.md").read_text()


@cache
def sentences_of_the_code() -> list[str]:
    """Every text of the code, with one mark for each value that is put into it."""
    found = []
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(str(v.value) if isinstance(v, ast.Constant) else "\0" for v in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return [" ".join(text.split()) for text in found]


def test_messages_that_a_page_quotes_are_ours() -> None:
    ours = sentences_of_the_code()
    quoted = re.findall(r"^\| \"(.*?)\" \|", (ROOT / "docs" / "surprises.md").read_text(), flags=re.M)
    assert len(quoted) >= 8
    for message in quoted:
        pattern = re.compile(".*?".join(re.escape(part) for part in re.split("…|'…'", message)), flags=re.S)
        assert any(pattern.search(text) for text in ours), message


def test_pages_that_messages_name_exist() -> None:
    named = {name for text in sentences_of_the_code() for name in re.findall(r"docs/(\w+\.md)", text)}
    assert {"goals.md", "own_environment.md", "hardware.md"} <= named
    assert [name for name in sorted(named) if not (ROOT / "docs" / name).exists()] == []
