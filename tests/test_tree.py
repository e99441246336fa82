"""The figures of the tree have budgets that may only fall, and the page that prints them is fresh."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
# Figures that each change of the sources or the tests moves a little: the page may lag behind by the slack of a budget.
MOVING = ("files_before_round_1", "code_lines", "test_lines", "import_share", "refusals", "largest_file")


@pytest.fixture(scope="module")
def tree() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tree_figures", ROOT / "benchmarks" / "tree.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def found(tree: ModuleType) -> dict[str, float]:
    figures: dict[str, float] = tree.figures(tree.Tree(ROOT / "src" / "resetfree"))
    return figures


def test_the_page_prints_the_figures_of_this_tree(tree: ModuleType, found: dict[str, float]) -> None:
    """If this fails: python benchmarks/tree.py --docs docs/architecture.md"""
    page = (ROOT / "docs" / "architecture.md").read_text()
    printed = page.split(tree.START)[1].split(tree.END)[0]
    for measure in tree.MEASURES:
        row = next(line for line in printed.splitlines() if line.startswith(f"| {measure.__doc__.rstrip('.')} |"))
        near = tree.SLACK if measure.__name__ in MOVING else 0.0
        assert float(row.split("|")[2]) == pytest.approx(found[measure.__name__], rel=near, abs=0), row


def test_a_figure_above_its_budget_far_below_it_or_without_one_is_found(tree: ModuleType) -> None:
    said = tree.findings(
        {"files": 11, "lines": 50, "calls": 3, "fits": 99}, {"files": 10, "lines": 80, "fits": 100, "old": 1}
    )
    assert sorted(said) == [
        "'files' is 11, above its budget of 10.",
        "'lines' fell to 50: lower its budget of 80 (--tighten).",
        "A budget for 'old', which nothing measures.",
        "No budget for 'calls', which is 3.",
    ]


def test_tightening_lowers_budgets_and_raises_none(tree: ModuleType) -> None:
    text = "# why\nfiles = 10  # 5\ncode_lines = 80\nimport_share = 9.5\n"
    assert (
        tree.tightened(text, {"files": 11, "code_lines": 50, "import_share": 8.25})
        == "# why\nfiles = 10  # 5\ncode_lines = 50\nimport_share = 8.25\n"
    )


SMALL = {
    "__init__.py": "",
    "core/__init__.py": "",
    "core/lone.py": "X = 1\n",
    "core/pair.py": "def f(a, b):\n    from resetfree.core.lone import X\n    return X\n",
    "players/__init__.py": "",
    "players/sac.py": 'from resetfree.players.net import N\n\n\nclass Sac:\n    name = "sac"\n',
    "players/net.py": "from resetfree.players.deep import D\n\n\nclass N:\n    pass\n",
    "players/deep.py": "class N:\n    pass\n\n\nD = 1\n",
    "show/cli.py": """from resetfree.core.pair import f
f(1, 2, 3, 4, 5, 6)
def g(self, a, b, *, c):
    raise InvalidInput('')
""",
}


def test_figures_of_a_small_tree_counted_by_hand(tree: ModuleType, tmp_path: Path) -> None:
    for name, text in SMALL.items():
        path = tmp_path / "src" / "resetfree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("a = 1\nb = 2\n")
    small = tree.Tree(tmp_path / "src" / "resetfree")
    measured = {m.__name__: m(small) for m in tree.MEASURES if m.__name__ != "files_before_round_1"}
    assert measured == {
        "files": 9,
        "code_lines": 13,
        "import_share": round(100 * 4 / 13, 1),
        "lone_importers": 1,  # pair, by show; lone, net and deep are imported from their own folder
        "modules_of_sac": 3,
        "modules_of_linear_ucb": 0,
        "widest_function": 3,
        "largest_function": 2,
        "largest_file": 5,
        "shared_class_names": 2,
        "long_calls": 1,
        "late_imports": 1,
        "refusals": 1,
        "named_players": 0,
        "test_lines": 2,
    }
