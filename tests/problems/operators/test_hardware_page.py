"""The commands of docs/hardware.md do what the page says."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import resetfree as rf
from resetfree.show.cli.progress import Tally, resets_line

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "hardware.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.S)
TOOLS = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def block(word: str) -> str:
    (found,) = [text for text in BLOCKS if word in text]
    return str(found)


def shell(text: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["sh", "-ec", text], cwd=folder, env=TOOLS, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def appear(path: Path, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_the_commands_of_the_folder_answer(tmp_path: Path) -> None:
    command = block("--operator ./desk").splitlines()[2].replace("--episodes", "--max-resets 2 --episodes")
    process = shell(f"exec {command}", tmp_path)
    try:
        for line in block("rm desk/request.json").splitlines():
            appear(tmp_path / "desk" / "request.json", process)
            subprocess.run(["sh", "-ec", line], cwd=tmp_path, check=True)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    (first, second) = rf.load(tmp_path / "lake.rfrun").interventions
    assert (first.who, first.why) == ("operator", "start")
    assert (second.who, second.why) == ("Kim", "reset")
    assert "belt slipped" in second.detail


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_endpoint_answer_and_a_machine_that_starts_by_itself_goes_on(tmp_path: Path) -> None:
    start = (
        block("if [ -e lake.rfrun ]")
        .replace("http:8765", "http --max-resets $most")
        .replace("\nresetfree", "\nexec resetfree")
    )
    for most in (1, 2):
        process = shell(f"most={most}\n{start}", tmp_path)
        try:
            appear(tmp_path / "lake.rfrun.operator.json", process)
            done = subprocess.run(
                ["sh", "-ec", block("token.txt")], cwd=tmp_path, env=TOOLS, capture_output=True, text=True, check=True
            )
            assert done.stdout == '{"ok": true}\n'
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 0, err
    found = rf.load(tmp_path / "lake.rfrun").interventions
    assert [(one.who, one.why) for one in found] == [("Kim", "start"), ("Kim", "resume")]
    assert (tmp_path / "token.txt").stat().st_mode & 0o77 == 0


def test_the_line_of_the_page_is_what_is_shown() -> None:
    tally = Tally()
    for k in range(1000):
        tally.note(k % 75 == 0 and k < 900, 8)
    assert f"\n{resets_line(tally, 4000, 667.0, None, 100)}\n" in PAGE
