"""`resetfree bench autonomy`: a ledger that goes on where it stopped, and the page that is made of it."""

import json
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from tests.show.cli.commands import refused, run, run_json

from resetfree.problems.autonomy.plane import Tabletop
from resetfree.studies.suites import autonomy as suite

SMALL = ("--set", "hidden=8", "--set", "batch=8", "--steps", "200", "--every", "100")


def test_methods_are_compared_in_one_file_and_on_one_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, page = tmp_path / "r.jsonl", tmp_path / "page.md"
    words = ("bench", "autonomy", "--methods", "medal,fbrl", "--seeds", "0:2", *SMALL, "--out", str(file))
    data = run_json(capsys, *words)
    assert data["trials"] == 4
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line["status"] for line in lines} == {"done"}
    for line in lines:
        assert [n for n, _ in line["deployed"]] == [100, 200]
        assert {"interventions", "requested", "turns", "timeouts", "taken"} <= line.keys()
    run_json(capsys, *words, "--page", str(page))
    assert len(file.read_text().splitlines()) == 4  # nothing was played again
    text = page.read_text()
    assert "| medal-sac | 2 |" in text
    (command,) = [line for line in text.splitlines() if line.startswith("resetfree bench autonomy")]
    methods, rest = command.split(" --methods ")[1].split(" ", 1)
    assert sorted(methods.split(",")) == ["fbrl", "medal-sac"]
    assert rest.startswith("--tasks tabletop-small-v0 --seeds 0:2 --steps 200 --every 100")


def test_a_trial_that_was_cut_is_marked_and_played_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    words = ("bench", "autonomy", "--methods", "naive", "--seeds", "0:1", *SMALL, "--out", str(file))
    run_json(capsys, *words, "--limit", "1", "--steps", "1000000")
    assert json.loads(file.read_text())["status"] == "cut"
    assert run_json(capsys, *words, "--limit", "1", "--steps", "1000000", "--only-page")["rows"][0]["cut"] == 1
    run_json(capsys, *words, "--limit", "1", "--steps", "1000000")
    assert len(file.read_text().splitlines()) == 2


def test_what_a_method_refuses_is_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("bench", "autonomy", "--methods", "vaprl", "--seeds", "0:1", *SMALL, "--out", str(tmp_path / "r.jsonl"))
    status, _, err = run(capsys, *words, "--set", "demonstrated=0.0")
    assert status == 0
    assert "needs demonstrations" in err


def test_a_method_of_your_own_is_named_by_its_class(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_method.py").write_text(Path("examples/adding_a_method.py").read_text())
    monkeypatch.chdir(tmp_path)
    words = ("bench", "autonomy", "--methods", "own_method:Shuttle,naive", "--seeds", "0:1", *SMALL, "--out", "r.jsonl")
    assert {row["method"] for row in run_json(capsys, *words)["rows"]} == {"own_method:Shuttle", "naive"}
    words = ("bench", "autonomy", "--methods", "own_method:Nobody", "--seeds", "0:1", *SMALL, "--out", "r.jsonl")
    assert "Got 'own_method:Nobody', which does not import" in refused(capsys, *words)


def test_methods_without_a_shield_are_refused_and_the_others_played(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("bench", "autonomy", "--methods", "auto,naive", "--tasks", "tabletop-small-edge-v0", "--seeds", "0:1")
    file = tmp_path / "r.jsonl"
    options = ("--shield", "0.4", "--set", "batch=8", "--steps", "200", "--every", "100")
    status, _, err = run(capsys, *words, *options, "--out", str(file))
    assert status == 0
    assert "The method 'auto' has no shield: play it without '--shield'." in err
    assert [json.loads(line)["status"] for line in file.read_text().splitlines()] == ["refused", "done"]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--seeds", "5"), "must be FIRST:END"),
        (("--methods", "nothing"), "nothing"),
        (("--tasks", "CartPole-v1"), "CartPole-v1"),
        (("--together", "--tasks", "peg-edge-v0"), "must be a tabletop"),
        (("--together", "--methods", "ha2020"), "ha2020"),
    ],
)
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], match: str
) -> None:
    said = refused(capsys, "bench", "autonomy", *SMALL, "--out", str(tmp_path / "r.jsonl"), *words)
    assert match in said


class Counting(Tabletop):
    """A tiny table that counts by itself what happens on it."""

    made: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        super().__init__(walls=False, size=0.15, hold=20)
        self.fell: list[bool] = []  # of each step
        self.resets, self.paid = 0, 0.0
        self.made.append(self)

    def reset(self, **options: Any) -> Any:
        self.resets += 1
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        found = super().step(action)
        self.fell.append(found[2])
        self.paid += found[1]
        return found


@pytest.mark.parametrize("method", ["naive", "paint"])
def test_the_ledger_agrees_with_what_the_environment_counts(method: str) -> None:
    if "counting-v0" not in gymnasium.registry:
        made: Any = Counting
        gymnasium.register("counting-v0", made)
    options = {"hidden": 16, "batch": 16, "learning_starts": 50, **({"sure": 0.2} if method == "paint" else {})}

    def played(steps: int) -> tuple[suite.Line, Any, Any]:
        Counting.made.clear()
        line = suite.play(suite.AutonomyTrial(method, "counting-v0", 0, steps, 200, options, None))
        return line, Counting.made[0], max(Counting.made[1:], key=lambda env: len(env.fell))

    line, test, env = played(600)
    assert (line["taken"], line["interventions"]) == (len(env.fell), sum(env.fell))
    assert line["rewards"][-1] == pytest.approx(env.paid / len(env.fell), abs=1e-6)
    assert test.resets == suite.TESTS * len(line["deployed"])
    assert env.resets in {1 + line["interventions"] + line["requested"] - due for due in (0, 1)}  # the last may be due
    assert (line["requested"] > 0) is (method == "paint")
    if method == "naive":  # a fall in the very last step counts, too
        last = int(np.flatnonzero(env.fell)[3]) + 1
        line, _, env = played(last)
        assert (line["interventions"], sum(env.fell), env.resets) == (4, 4, 4)
