"""Every example runs as it stands, without warnings, and says what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "adding_a_method.py": "6 episodes, 0 resets",
    "adding_a_player.py": "'curious' keeps the contract",
    "fleet.py": "of all machines together",
    "first_problem.py": "1000 episodes of the best reset-free policy: 0 resets",
    "reduction.py": "holds: Resets",
    "learn.py": "stopped after 700 episodes",
    "logs.py": "from its log",
}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example(path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=True)
    assert SAYS[path.name] in done.stdout
    assert "FAILS" not in done.stdout
