"""Used by `make wheel` with the Python of a fresh environment: the installed package, not this checkout, is whole."""

import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import resetfree as rf


def main() -> None:
    """Check the metadata and the files, then learn, resume and report with the installed command."""
    home = Path(rf.__file__).parent
    assert home.is_relative_to(sys.prefix), f"{home} is not the installed package"
    about = metadata("resetfree")
    assert about["Author"] == "The resetfree authors"
    assert "Paper, https://arxiv.org/abs/2301.02389" in (about.get_all("Project-URL") or [])
    assert about["License-Expression"] == "MIT"
    assert any(line.startswith("Operating System :: ") for line in about.get_all("Classifier") or [])
    for part in ("py.typed", "show/studio/static/index.html"):
        assert (home / part).exists(), f"{part} is not in the wheel"
    command = str(Path(sys.executable).with_name("resetfree"))
    for words in (
        ["run", "grid-v0", "--episodes", "200", "--steps", "400", "--out", "grid.rfrun"],
        ["run", "grid-v0", "--resume", "--out", "grid.rfrun"],
        ["certify", "grid.rfrun", "--strict"],
        ["report", "grid.rfrun", "-o", "grid.html"],
    ):
        subprocess.run([command, *words], check=True, stdout=subprocess.DEVNULL)
    print(rf.load("grid.rfrun"))


if __name__ == "__main__":
    main()
