"""Runs by the clock, with real processes: nothing is asserted about time, only counts and the replay from the file."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.bank import stop_at
from tests.problems.remote.machines_served import served
from tests.runs.live.quick_players import Mortal, Quick, Raising, WithCode
from tests.waiting import children, is_gone, surroundings, until

import resetfree as rf
from resetfree.core import EnvironmentFailed, Notice
from resetfree.runs.file.ledger import read
from resetfree.runs.live import board as board_folder
from resetfree.runs.live import threads as recorder
from resetfree.runs.resuming import whole_run

PROBLEM = "gym:CartPole-v1"
OPTIONS = {"horizon": 10}


def learn(problem: Any = PROBLEM, primal: Any = Quick, **more: Any) -> rf.Run:
    """A short run at a rate; its learner has the usual class, so that a busy machine does not starve it."""
    own: dict[str, Any] = {"problem": OPTIONS} if isinstance(problem, str) else {}
    given = {"episodes": 12, "seed": 3, "rate": 1000.0, "learner": "usual", "settings": own, **more}
    return rf.learn(problem, primal() if isinstance(primal, type) else primal, "constant-penalty", B=1.0, **given)


def replayed(run: rf.Run, problem: Any = PROBLEM, primal: Any = Quick) -> None:
    """Everything in the file is what its players do with it, bit for bit."""
    options = OPTIONS if isinstance(problem, str) else None
    for claim in whole_run(rf.load(run.path, problem, options, primal=primal)):  # type: ignore[arg-type]
        assert claim.holds, claim


def test_a_run_at_a_rate_is_replayed_from_its_file_bit_for_bit(tmp_path: Path) -> None:
    seen: list[int] = []
    run = learn(path=tmp_path / "a.rfrun", progress=lambda game, this: seen.append(this.k))
    assert seen == list(range(1, 13))
    assert run.spec["timing"] == {"rate": 1000.0}
    c = run.columns
    assert (c["based_on"] < c["k"]).all()
    assert c["based_on"][0] == 0
    assert len(set(c["plan"])) == len(set(c["based_on"]))
    fell = np.flatnonzero(c["reset"][:-1])
    assert (c["based_on"][fell + 1] == fell + 1).all()  # after a reset the plan contains it
    assert (c["lateness"] >= 0).all()
    words = " ".join(one.what for one in run.notes)
    assert "The process that acts: It runs" in words
    assert "The process that learns: It runs" in words
    assert run.policy.predict(np.zeros(4))[0] in (0, 1)  # what was learned in the other process is known here
    replayed(run)


def test_without_a_file_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(board_folder, "SHARED", tmp_path / "none")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run = learn(episodes=3)
    assert (len(run), run.path) == (3, None)
    assert run.policy.predict(np.zeros(4))[0] in (0, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_learner_that_is_killed_comes_back_and_no_round_is_lost_or_learned_twice(tmp_path: Path) -> None:
    with pytest.warns(Notice, match="The learner ended .killed by SIGKILL"):
        run = learn(primal=Mortal(str(tmp_path)), path=tmp_path / "a.rfrun", episodes=25, checkpoint_every=0.01)
    assert len(run) == 25
    assert {one.name for one in tmp_path.glob("killed-*")} == {"killed-7", "killed-14", "killed-21"}
    assert sum("The learner ended" in one.what for one in run.notes) == 3
    replayed(run, primal=Mortal)


def test_acting_waits_for_a_learner_that_falls_back_too_far_and_says_so(tmp_path: Path) -> None:
    with pytest.warns(Notice, match="max_staleness"):
        run = learn(primal=Mortal(slow=0.3), path=tmp_path / "a.rfrun", max_staleness=2)
    assert run.plan_ages.max() <= 2
    assert any("safe action is held" in one.what for one in run.notes)
    replayed(run, primal=Mortal)


def test_a_learner_that_raises_ends_the_run_with_its_sentence_and_the_rounds_are_saved(tmp_path: Path) -> None:
    with pytest.raises(rf.RunError, match="The learner raised ArithmeticError: too hot"):
        learn(primal=Raising, path=tmp_path / "a.rfrun", episodes=10_000)
    assert len(read(tmp_path / "a.rfrun").columns["k"]) >= 3


def test_a_policy_that_holds_code_is_refused_before_the_first_round(tmp_path: Path) -> None:
    with pytest.raises(rf.InvalidInput, match="Got a function in"):
        learn(primal=WithCode, path=tmp_path / "a.rfrun")


def test_a_machine_is_learned_on_at_its_own_rate_and_the_run_is_resumed(tmp_path: Path) -> None:
    with served(tmp_path, lockstep=True, seed=2) as machine, machine.problem(horizon=10, actions=2) as problem:
        first = learn(problem, path=tmp_path / "a.rfrun", rate="own", max_resets=1, episodes=100)
        assert first.columns["reset"].sum() == 1
        run = learn(problem, path=tmp_path / "a.rfrun", rate="own", max_resets=2, episodes=100, resume=True)
        assert len(run) > len(first)
        assert run.columns["reset"].sum() == 2
        assert [one.why for one in run.interventions] == ["start", "resume"]
        replayed(run, problem)


def test_a_machine_that_falls_silent_fails_the_run_and_loses_nothing(tmp_path: Path) -> None:
    with served(tmp_path, lockstep=True, seed=2) as machine:

        def leave(game: Any, this: Any) -> None:
            if this.k == 3:
                machine_side: Any = problem.env.unwrapped
                machine_side.client.wire.send = lambda packet: None  # nothing arrives any more
                machine_side.timeout = 0.5

        silent = pytest.raises(EnvironmentFailed, match="MachineSilent")
        with machine.problem(horizon=10, actions=2) as problem, silent:
            learn(problem, path=tmp_path / "a.rfrun", rate=50.0, episodes=1000, progress=leave)
    assert len(read(tmp_path / "a.rfrun").columns["k"]) >= 3


def test_an_acting_process_that_is_killed_is_resumed(tmp_path: Path) -> None:
    file = tmp_path / "a.rfrun"
    script = (
        "from tests.runs.live.test_live import learn; from pathlib import Path; "
        f"learn(path=Path({str(file)!r}), episodes=100_000, checkpoint_every=0.05)"
    )
    with subprocess.Popen([sys.executable, "-c", script], env=surroundings()) as process:
        until(lambda: file.exists() and len(read(file).columns["k"]) > 20)
        (learner,) = children(process.pid)
        process.kill()
    until(lambda: is_gone(learner))
    before = read(file).columns
    n = len(before["k"])

    with pytest.raises(rf.Stopped) as stopped:
        learn(path=file, episodes=100_000, resume=True, progress=stop_at(n + 10))
    run = stopped.value.run
    assert len(run) >= n + 10
    for name, column in before.items():
        np.testing.assert_equal(list(run.columns[name][:n]), list(column), err_msg=name)
    replayed(run)


@pytest.mark.parametrize(("rate", "pause"), [(1000.0, 0.0005), (100.0, 0.002)])
def test_a_round_is_written_when_the_next_one_has_begun(
    rate: float, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []
    monkeypatch.setattr(recorder, "time", SimpleNamespace(sleep=paused.append, monotonic=time.monotonic))
    run = learn(episodes=3, rate=rate)
    assert paused == [pause] * len(run)


def test_ctrl_c_saves_the_run_and_ends_the_learner(tmp_path: Path) -> None:
    file = tmp_path / "a.rfrun"
    words = ["run", PROBLEM, "--primal", "tests.runs.live.quick_players:Quick", "--dual", "constant-penalty"]
    words += ["--bound", "1", "--rate", "1000", "--learner", "usual", "--episodes", "100000", "--set", "horizon=10"]
    words += ["--max-staleness", "50"]
    command = [sys.executable, "-m", "resetfree.show.cli", *words, "--out", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=surroundings()) as process:
        until(lambda: file.exists() and len(read(file).columns["k"]) > 5)
        (learner,) = children(process.pid)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    again = f"--resume --out {file} --primal tests.runs.live.quick_players:Quick --learner usual --max-staleness 50"
    assert f"Continue with: resetfree run gym:CartPole-v1 {again}\n" in said
    assert is_gone(learner)
    run = rf.load(file, PROBLEM, OPTIONS, primal=Quick)
    assert f"Stopped after {len(run)} of 100000 episodes" in said
    replayed(run)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"problem": "grid-v0", "settings": None}, rf.InvalidInput, "played step by step"),
        ({"delay": 2}, rf.InvalidInput, "at a rate or with a delay"),
        ({"rate": None, "max_staleness": 3}, rf.InvalidInput, "needs a 'rate'"),
        ({"rate": -1.0}, rf.InvalidInput, "'rate'"),
        ({"rate": "own"}, rf.InvalidInput, "states no rate of its own"),
        ({"max_staleness": 0}, rf.InvalidInput, "max_staleness"),
        ({"learner": "moon"}, rf.UnknownName, "no learner 'moon'"),
    ],
    ids=["not-stepped", "delay", "no-rate", "negative", "own", "staleness", "learner"],
)
def test_what_cannot_be_played_at_a_rate_is_one_sentence(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        learn(path=tmp_path / "a.rfrun", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_player_that_no_other_process_can_import_is_refused(tmp_path: Path) -> None:
    class Local(Quick):
        name = "local"

    with pytest.raises(rf.InvalidInput, match="put it into a module of its own"):
        learn(primal=Local, path=tmp_path / "a.rfrun")
    assert not (tmp_path / "a.rfrun").exists()
