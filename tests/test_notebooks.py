"""The notebooks run from the first cell to the last, without warnings, and show what they promise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"
SAYS = {
    "first_steps.ipynb": ["problem: grid-v0, 300 episodes", "claims hold", "was the aim", "steps", "goals"],
    "your_own_environment.ipynb": ["problem: Tank, 400 episodes", "worth", "problem: tank, 300 episodes"],
}
# Runs the cells in one namespace, and shows the value of the last expression of each as a notebook would.
RUNNER = """
import ast, json, sys
from pathlib import Path
names = {"__name__": "__main__"}
for i, cell in enumerate(json.loads(Path(sys.argv[1]).read_text())["cells"]):
    if cell["cell_type"] != "code":
        continue
    tree, where = ast.parse("".join(cell["source"])), f"cell {i}"
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), where, "eval"), names)
        print(repr(value))
        views = [getattr(value, name)() for name in ("_repr_html_", "_repr_png_") if hasattr(value, name)]
        assert not views or any(view and len(view) > 100 for view in views), f"nothing is shown of {value!r}"
"""


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebook(path: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-W", "error", "-c", RUNNER, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    for said in SAYS[path.name]:
        assert said in done.stdout, done.stdout


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_are_kept_without_output(path: Path) -> None:
    data = json.loads(path.read_text())
    assert (data["nbformat"], data["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in data["cells"]}) == len(data["cells"])
    for cell in data["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
