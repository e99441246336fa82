"""The command line: people get text, programs one JSON object, bad input one sentence and status 2."""

import json
import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.show.cli.commands import PAPER, refused, run, run_json

import resetfree as rf
from resetfree.players.nonepisodic import live
from resetfree.problems.features import discover, make_features


def test_demo_draws_and_checks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = run(capsys, "demo", "--out", str(tmp_path / "new"))
    assert status == 0
    assert "V* 8.000" in out
    assert " resets in 10,000 episodes; none since episode " in out
    assert "\nNext:\n  resetfree studio" in out
    for name in ("grid-v0.png", "learning.png"):
        assert (tmp_path / "new" / name).read_bytes().startswith(b"\x89PNG")
    data = run_json(capsys, "demo", "--out", str(tmp_path / "new"))  # its own run file is replaced
    assert data["assumptions_hold"]
    assert data["claims_hold"]
    assert data["claims"] >= 20
    assert data["realised_resets"] < 100
    certified = run_json(capsys, "certify", data["run_file"], "--strict")
    assert certified["holds"]
    assert certified["stored"]


@pytest.mark.parametrize("raised", ["zlib.error('in the middle')", "OSError(5, 'in the middle')", "MemoryError()"])
def test_an_interrupt_that_a_library_answers_with_an_error_is_an_interrupt(
    raised: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a stream of Matplotlib does that is interrupted in a write, and cannot be closed then."""

    def write(*arguments: object, **options: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            raise eval(raised)

    file = tmp_path / "a.rfrun"
    run(capsys, "run", "grid-v0", "--primal", "uniform", "--episodes", "20", "--out", str(file))
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", write)
    assert run(capsys, "report", str(file), "--figures", str(tmp_path))[::2] == (130, "Stopped.\n")
    monkeypatch.setattr("signal.raise_signal", lambda number: None)  # the same error without an interrupt
    if raised.startswith("zlib"):
        with pytest.raises(zlib.error):
            run(capsys, "report", str(file), "--figures", str(tmp_path))
    else:
        assert run(capsys, "report", str(file), "--figures", str(tmp_path))[0] == 2


def test_list_shows_every_problem(capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "list", "problems")
    assert [row["id"] for row in data["problems"]] == list(rf.problems())
    _, out, _ = run(capsys, "list")
    assert all(id in out for id in rf.problems())


def test_list_shows_every_feature_map(capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_json(capsys, "list", "features")["features"]
    assert [row["name"] for row in rows] == list(discover())
    for row in rows:
        assert row["summary"].endswith(".")
        shown = {key: float("inf") if value == "inf" else value for key, value in row["settings"].items()}
        assert make_features(row["name"], shown) == discover()[row["name"]]()  # what is shown are the defaults
    _, out, _ = run(capsys, "list", "features")
    assert all(name in out for name in discover())


@pytest.mark.parametrize("id", sorted(rf.problems()))
def test_solve_works_on_every_problem(capsys: pytest.CaptureFixture[str], id: str) -> None:
    data = run_json(capsys, "solve", id)
    assert data["problem"] == id
    assert len(data["value"]) == len(data["lambda_hat"])
    status, out, _ = run(capsys, "solve", id)
    assert (status, id in out) == (0, True)


def test_solve_gives_the_oracle_s_answer_in_floats_and_fractions(capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "solve", "grid-v0", "--exact", "--verify")
    assert data["value"][3] == 8
    assert data["value"][5] is None
    assert data["exact"]["value"][0] == "22910937/50000000"
    assert data["lambda_star"][2] == pytest.approx(38.8664632)
    assert max(data["disagreement"].values()) < 1e-9
    assert len(data["policy"]) == 8
    _, out, _ = run(capsys, "solve", "grid-v0", "--exact", "--verify")
    assert "22910937/50000000" in out


def test_solve_takes_options_starts_and_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "field.svg"
    words = ("solve", "pits-v0", "--set", "n=6", "--set", "slip=0.1", "--starts", "0,0;0,1", "--picture", str(picture))
    data = run_json(capsys, *words)
    assert (data["n_states"], data["horizon"]) == (36, 12)
    assert sum(x is not None for x in data["lambda_hat"]) == 2
    assert "<svg" in picture.read_text()


def test_solve_says_when_multipliers_would_take_long(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("solve", "pits-v0", "--set", "n=60", "--set", "slip=0.1")
    assert set(run_json(capsys, *words)["lambda_hat"]) == {None}
    assert "--starts" in run(capsys, *words)[1]
    data = run_json(capsys, *words, "--starts", "0,0")
    assert data["lambda_hat"][0] is not None
    assert data["policy"] is None


def test_check_accepts_rejects_and_names_the_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "check", "grid-v0", "--theorems")["holds"]
    assert run_json(capsys, "check", "random-linear-v0")["holds"]
    data = run_json(capsys, "check", "footnote-v0")
    assert not data["holds"]
    assert data["findings"][0]["witness"] == rf.make("footnote-v0").state_names.index("bad")
    status, out, _ = run(capsys, "check", "footnote-v0", "--strict")
    assert status == 1
    assert "bad" in out
    assert run(capsys, "check", "grid-v0", "--strict", "--theorems")[0] == 0


BAD = {
    ("solve", "grid-v1"): "There is no problem 'grid-v1'. Did you mean 'grid-v0'?",
    ("solve", "grid-v0", "--set", "slope=1"): "There is no option of problem 'grid-v0' 'slope'.",
    ("solve", "grid-v0", "--set", "slip"): "must be KEY=VALUE. Got 'slip' instead.",
    ("solve", "grid-v0", "--set", "horizon=much"): "must be an integer from 1 to",
    ("solve", "grid-v0", "--set", "horizon=0"): "Got 0 instead.",
    ("solve", "grid-v0", "--starts", "99"): "must name states of the problem. Got '99' instead.",
    ("solve", "footnote-v0", "--starts", "bad"): "No reset-free policy exists from state bad",
    ("solve", "thresholds-v0", "--picture", "x.png"): "Only problems with a map can be drawn.",
    ("solve", "grid-v0", "--picture", "/dev/null/x.png"): "must go to a file that can be written.",
    ("solve", "grid-v0", "--picture", "x.docx"): "must go to a file that can be written.",
    ("check", "continuous-linear-v0", "--theorems"): "Only finite problems have theorems that can be checked.",
    ("check", "no_such_module:thing"): "must be a registered id or module:factory. Got 'no_such_module:thing'",
    ("check", "json:nothing"): "which does not import",
    ("check", "math:pi"): "Got 'math:pi', which is float and cannot be called, instead.",
    ("check", "json:dumps"): "must return a problem. It raised",
    ("check", "builtins:dict"): "must return a FiniteMDP, a Problem or a gymnasium.Env. It returned dict instead.",
    ("solve", "pits-v0", "--set", "n=60", "--exact"): "instead.",
    ("list", "plants"): "is not one of 'problems', 'players', 'features', 'operators', 'families', 'methods', 'suites'",
    ("solve",): "Missing argument 'PROBLEM'",
    ("fly",): "No such command 'fly'",
    ("demo", "--out", "/dev/null/x"): "must be a folder that can be made.",
    ("nonepisodic", "doors-v0"): "needs a stationary problem. Got dynamics that change with the step",
    ("nonepisodic", "continuous-linear-v0"): "Only finite problems have a life without episodes.",
    ("nonepisodic", "footnote-v0"): "from which resets cannot be avoided for ever",
    ("nonepisodic", "grid-v0", "--steps", "0"): "'steps' of live must be an integer from 1 to 10000000. Got 0 instead.",
    ("nonepisodic", "grid-v0", "--width", "wide"): "'width' of live must be tuned or theory. Got 'wide' instead.",
    ("bench", "large"): "is not one of 'smoke', 'small', 'full'",
    ("bench", "smoke", "--methods", "algorithm 2"): "There is no method 'algorithm 2'. Did you mean 'algorithm 1'?",
    ("bench", "smoke", "--problems", "moon-v0"): "There is no problem in suite 'smoke' 'moon-v0'.",
    ("bench", "smoke", "--redo", "nothing"): "There is no method 'nothing'.",
    ("bench", "smoke", "--seeds", "0"): "0 is not from 1 to 100000.",
    ("bench", "smoke", "--out", "/dev/null/r"): "The results file '/dev/null/r' cannot be written",
    ("bench", "smoke", "--out", "r.png"): "must not end in .png",
}
HTTP = ("grid-v0", "--operator", "http")
RUN = {
    ("grid-v0", "--primal", "linear-ubc"): "Did you mean 'linear-ucb'?",
    ("grid-v0", "--dual", "nobody"): "There is no dual player 'nobody'.",
    ("grid-v0", "--episodes", "0"): "0 is not at least 1.",
    ("grid-v0", "--seed", "-1"): "-1 is not at least 0.",
    ("grid-v0", "--max-resets", "0"): "0 is not at least 1.",
    ("grid-v0", "--operator", "terminal"): "'grid-v0' resets itself: it takes no operator.",
    ("grid-v0", "--operator", "http"): "'grid-v0' resets itself: it takes no operator.",
    ("grid-v0", "--operator", "./desk"): "'grid-v0' resets itself: it takes no operator.",
    ("grid-v0", "--operator", "termnal"): "must be terminal, http, http:PORT, none or a folder",
    ("grid-v0", "--operator", "http:70000"): "must be an integer from 0 to 65535. Got 70000 instead.",
    ("grid-v0", "--operator-deadline", "5"): "needs an '--operator'. Got none instead.",
    (*HTTP, "--operator-deadline", "0"): "must be a number above 0 and at most 1000000000, or None. Got 0.0",
    ("grid-v0", "--feedback", "loud"): "'loud' is not one of 'auto', 'optimistic', 'realised', 'exact'",
    ("grid-v0", "--bound", "nan"): "must be a finite number that is not negative. Got nan instead.",
    ("grid-v0", "--set", "B=4"): "must name its owner: primal.B or dual.B.",
    ("grid-v0", "--set", "scal=4"): "There is no setting 'scal'. Did you mean 'scale'?",
    ("grid-v0", "--set", "primal.scal=4"): "Did you mean 'scale'?",
    ("grid-v0", "--set", "primal.scale=wide"): "must be a finite number that is not negative. Got 'wide' instead.",
    ("grid-v0", "--set", "dual.B=true"): "must be a positive number or None. Got True instead.",
    ("grid-v0", "--resume"): "There is no run file",
    ("grid-v0", "--resume", "--overwrite", "--out", "plant.py"): "is not a run file of resetfree.",
    ("grid-v0", "--overwrite", "--out", "plant.py"): "is not a run file of resetfree.",
    ("grid-v0", "--out", "."): "exists.",
    ("grid-v0", "--out", "/dev/null/x.rfrun"): "must lie in a folder. Got '/dev/null', which is not a folder.",
    ("gym:CartPole-v1", "--primal", "linear-ucb", "--bound", "5"): "needs a finite problem.",
    ("gym:CartPole-v1", "--primal", "uniform", "--dual", "projected-gradient"): "needs a bound B on the multipliers",
}
MACHINE = {
    ("--primal", "stored-linear",): "Players that take them as they are: auto, goal-search, mbpo,",
    ("--set", "actions=20000",): "must have at most 10000 actions",
    ("--set", "actions=1",): "must be a number of grid points from 2",
    ("--set", "actions=boxes",): "must be box, or grid points per dimension",
    ("--set", "observe=math:pi",): "must be a function of the observation, or module:function",
    ("--set", "observe=math:nothing",): "which does not import",
    ("--set", "reset_when=observation[9]>0",): "are called observation[0]",
    ("--set", "waves=-1",): "The 'waves' of model-search",
}  # fmt: skip
TIMED: dict[tuple[str, ...], str] = {
    ("--rate", "fast"): "must be a number of steps per second, or own",
    ("--rate", "0"): "'rate'",
    ("--rate", "10", "--delay", "1"): "at a rate or with a delay",
    ("--max-staleness", "5"): "needs a 'rate'",
    **{("--delay", delay): "delay" for delay in ("-1", "1.5", "x", str(10**30))},
}
QUICK = ("gym:CartPole-v1", "--primal", "tests.runs.live.quick_players:Quick", "--dual", "constant-penalty")
BAD |= {("run", *PAPER, *words): sentence for words, sentence in RUN.items()}
BAD |= {("run", "gym:InvertedPendulum-v5", *words): sentence for words, sentence in MACHINE.items()}
BAD |= {("run", *QUICK, "--bound", "1", "--set", "horizon=10", *words): sentence for words, sentence in TIMED.items()}


@pytest.mark.parametrize("words", BAD, ids=" ".join)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plant.py").write_text("# not a run file")
    assert BAD[words] in refused(capsys, *words)
    assert [path.name for path in tmp_path.iterdir()] == ["plant.py"]


def test_a_user_s_own_factory_is_found_where_the_command_is_run(tmp_path: Path) -> None:
    (tmp_path / "plant.py").write_text(
        "import resetfree as rf\ndef small(horizon=4):\n    return rf.make('grid-v0', horizon=horizon)\n"
    )
    words = [sys.executable, "-m", "resetfree.show.cli", "solve", "plant:small", "--set", "horizon=5", "--json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ})
    assert json.loads(done.stdout)["horizon"] == 5


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m resetfree.show.cli list --json | head -c 10"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


PLANE = ("continuous-linear-v0", "--set", "dimension=2", "--set", "horizon=2")


def test_a_continuum_is_solved_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    solved = run_json(capsys, "solve", *PLANE)
    assert len(solved["value"]) == len(solved["states"]) == 21
    assert solved["states"][-1] == [1.0, 1.0]
    assert "states in [0, 1]^2" in run(capsys, "solve", *PLANE)[1]
    checked = run_json(capsys, "check", *PLANE)
    assert checked["holds"]
    assert checked["findings"][2]["detail"]["B"] == pytest.approx(max(solved["lambda_star"]), rel=0.2)


def test_a_continuum_is_played_certified_replayed_and_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--set", "problem.dimension=2", "--set", "problem.horizon=2", "--set", "primal.width=proved")
    played = run_json(capsys, "run", "continuous-linear-v0", *PAPER, *options, "--episodes", "25", "--out", "a.rfrun")
    assert played["regret"] is not None
    assert 0 < played["resets"] < 25
    found = run_json(capsys, "certify", "a.rfrun", "--strict", "--replay")
    assert not [c for c in found["certificates"] if c["status"] == "proved" and not c["holds"]]
    assert any(
        c["claim"].startswith("both players play every round again") and c["holds"] for c in found["certificates"]
    )
    assert run_json(capsys, "evaluate", "a.rfrun", "--episodes", "20")
    assert "holds code" in refused(capsys, "export", "a.rfrun", "-o", "a.npz")
    assert run(capsys, "report", "a.rfrun", "-o", "a.html")[0] == 0
    text = Path("a.html").read_text()
    assert "continuous-linear-v0" in text
    status, out, _ = run(capsys, "run", "continuous-linear-v0", *PAPER, *options, "--episodes", "25", "--out", "b")
    assert (status, "no model of this problem" in out) == (0, False)


def test_nonepisodic_says_what_the_life_was(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("nonepisodic", "grid-v0", "--steps", "3000", "--seed", "4", "--set", "slip=0.1")
    said = run_json(capsys, *words)
    life = live(rf.make("grid-v0", slip=0.1), 3000, seed=4)
    assert said["resets"] == life.resets <= life.bound == said["most_resets"]
    assert said["reward"] == life.rewards.sum()
    assert said["regret"] == pytest.approx(3000 * said["best_average_reward"] - said["reward"])
    assert np.isclose(said["best_average_reward"], 1.0)
    assert f"{life.resets} resets; at most {life.bound} on any path" in run(capsys, *words)[1]
