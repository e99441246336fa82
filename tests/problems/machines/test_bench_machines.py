"""The benchmark of machines: what it computes from episodes, what it keeps of trials, and that a trial goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.machine_figures import (
    GOALS,
    NOTHING,
    Found,
    Goal,
    Line,
    Lived,
    last_tenth,
    middle,
    newest,
    reached,
    scores,
    table,
    windows,
    worst,
)
from benchmarks.machine_trials import TASKS, Cut, Notes, Trial, ended, heeding, line_of, run
from benchmarks.machines import BEGIN, END, in_words, main, read_lines
from tests.killing import rounds_of
from tests.waiting import LONG, until

import resetfree as rf
from resetfree.studies.engines import Workers

ROOT = Path(__file__).parents[3]


def lived(*episodes: tuple[int, float, bool]) -> Lived:
    """Episodes, each its steps, its reward a step, and whether it fell at its end."""
    found = NOTHING
    for steps, reward, fell in episodes:
        found = found.then(steps, steps * reward, fell=fell)
    return found


def line(task: str, seed: int, found: Lived, **other: Any) -> Line:
    """A line of a results file."""
    said: Line = {"task": task, "learner": "ours", "seed": seed, "limit": found.steps, "status": "limit"}
    said |= {name: getattr(found, name).tolist() for name in ("falls", "breaks", "lengths", "returns")} | {"lost": 0}
    return {**said, "steps": found.steps, "predicted": [0.5] * len(found.lengths), "cpu": 7.0, "gpu": 0.0, **other}


def slowly(found: Lived, goal: Goal, long: int) -> Found:
    """The same as `reached`, from the definition: try every stretch of episodes, the shortest first."""
    ends = np.cumsum(found.lengths).tolist()
    stops = {*found.falls.tolist(), *found.breaks.tolist()}
    for j, end in enumerate(ends):
        for i in range(j, -1, -1):
            begin = ends[i] - int(found.lengths[i])
            if end in found.falls or any(begin < stop < end for stop in stops):
                break
            if end - begin >= long:
                mean = found.returns[i : j + 1].sum() / (end - begin)
                if goal.least is None or mean >= goal.least:
                    return Found(int((found.falls < end).sum()), end)
                break
    return Found(len(found.falls), None)


def test_the_reward_is_that_of_the_window_and_not_of_what_was_before() -> None:
    found = lived((100, 9.0, True), (100, -5.0, False), (100, 1.0, False), (100, 2.0, False), (100, 3.0, False))
    assert [round(one.reward, 9) for one in windows(found, 200)] == [-2.0, 1.5, 2.5]
    assert reached(found, Goal(1.5), 200) == Found(1, 400)
    assert reached(found, Goal(2.6), 200) == Found(1, None)


def test_the_definition_agrees_on_random_lives() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        found = NOTHING
        for _ in range(rng.integers(1, 15)):
            fell = bool(rng.random() < 0.25)
            found = found.then(int(rng.integers(1, 5)) if fell else 4, float(rng.normal()), fell=fell)
            found = found.broken() if rng.random() < 0.1 else found
        for least in (None, 0.0, 0.2):
            long = int(rng.integers(1, 20))
            assert reached(found, Goal(least), long) == slowly(found, Goal(least), long)


def test_the_last_tenth_of_steps_in_whole_episodes() -> None:
    assert last_tenth(lived(*[(10, float(i), False) for i in range(20)])) == 18.5
    assert last_tenth(lived((90, 0.0, False), (9, 1.0, False))) == pytest.approx(9 / 99)
    assert last_tenth(lived((90, 0.0, False), (10, 1.0, False))) == 1.0


def test_what_was_not_reached_is_worse_than_all_that_was() -> None:
    found = [Found(1, None), Found(7, 5000), Found(3, 6000)]
    assert str(middle(found)) == "7"
    assert str(middle(found[:2])) == "4+"
    assert str(worst(found)) == "7+"
    assert str(worst(found[1:])) == "7"


def test_the_table_says_what_was_met_and_what_was_cut() -> None:
    up = lived((50, 1.0, True), *[(100, 1.0, False)] * 50)
    never = lived(*[(50, 1.0, True)] * 20)
    good, bad = line("Hopper-v5", 2001, up), line("Hopper-v5", 2002, never)
    first, second = scores([good], GOALS["Hopper-v5"])
    assert (first.middle, first.worst, first.met) == ("1", "1", True)
    assert (second.middle, second.met) == ("1+", False)
    assert scores([good, bad], GOALS["Hopper-v5"])[0].met is False
    assert scores([good, bad], GOALS["Hopper-v5"])[0].each == "1 20+"
    text = table([good, line("arm", 1, up, controller=1.0, status="cut")])
    assert "| Hopper-v5 | falls before 5,000 steps up | ours | 6 / 15 | 1 | 1 | 1 | yes |" in text
    assert "| arm | % of the controller's reward, last tenth | ours | 95 | 100 | 100 | 100+ | no |" in text
    assert "| arm | resets | ours | - / 10 | 1+ | 1+ | 1+ | no |" in text


def test_set_points_need_most_of_the_controllers_reward_and_few_resets() -> None:
    found = lived(*[(20, 0.9, True)] * 10, *[(100, 0.9, False)] * 30)
    assert [one.met for one in scores([line("arm", 1, found, controller=0.94)], ())] == [True, True]
    assert [one.met for one in scores([line("arm", 1, found, controller=0.96)], ())] == [False, True]
    more = lived((20, 0.9, True)).then(20, 18.0, fell=True)
    for _ in range(10):
        more = more.then(20, 18.0, fell=True)
    assert scores([line("arm", 1, more, controller=0.9)], ())[1].met is False


def test_the_newest_line_of_a_trial_counts() -> None:
    one = line("arm", 1, lived((10, 1.0, False)), controller=1.0)
    assert [own["status"] for own in newest([{**one, "status": "cut"}, one]).values()] == ["limit"]


def test_a_line_that_was_not_written_to_its_end_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    whole = json.dumps(line("arm", 1, lived((10, 1.0, False)))) + "\n"
    file.write_text(whole + whole[:40])
    assert len(read_lines(file)) == 1
    assert file.read_text() == whole + whole[:40]
    assert len(read_lines(file, repair=True)) == 1
    assert file.read_text() == whole


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--tasks", "Hoper"], "Argument --tasks: expected some of InvertedPendulum-v5"),
        (["--learners", ""], "Argument --learners: expected some of ours"),
        (["--seeds", "3:1"], "Argument --seeds: expected first:end"),
        (["--steps", "0"], "Argument --steps: expected a whole number of at least 1, got '0'"),
        (["--page", "x.md"], "A page needs a table"),
        (["--table", "nowhere.jsonl"], "There is no results file 'nowhere.jsonl'"),
        (["--table", __file__], "Line 1 of"),
    ],
)
def test_a_bad_option_is_one_sentence(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as status:
        sys.exit(main(given))
    printed = capsys.readouterr()
    assert status.value.code == 2
    assert printed.err.startswith(said)
    assert printed.err.count("\n") == 1
    assert not printed.out


def test_the_page_keeps_what_stands_around_its_table(tmp_path: Path) -> None:
    results, page = tmp_path / "r.jsonl", tmp_path / "page.md"
    results.write_text(json.dumps(line("CartPole-v1", 1, lived((10, 1.0, True)))) + "\n")
    page.write_text(f"# Mine\n\n{BEGIN}\nold\n{END}\n\nMy words.\n")
    assert main(["--table", str(results), "--page", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("# Mine\n")
    assert text.endswith(f"\n{END}\n\nMy words.\n")
    assert "| CartPole-v1 | falls before 5,000 steps up | ours | 2 / 11 | 1+ | 1+ | 1+ | no |" in text
    assert "old" not in text
    page.write_text("no marks")
    assert main(["--table", str(results), "--page", str(page)]) == 2
    assert page.read_text() == "no marks"


@pytest.mark.parametrize("name", TASKS)
def test_every_task_can_be_made(name: str) -> None:
    task = TASKS[name]
    problem = task.make()
    assert problem.horizon == 100
    assert isinstance(problem.actions, rf.Box) == task.continuous
    assert problem.terms.rewards.high - problem.terms.rewards.low == (5.0 if name == "upright-pendulum" else task.scale)
    problem.close()


def test_a_reward_beyond_its_range_does_not_end_a_run() -> None:
    problem = TASKS["Hopper-v5"].make()
    assert [problem.terms.rewards(None, own, False, {}) for own in (-1e9, -3.0, 2.0, 7.0, 1e9)] == [-3, -3, 2, 7, 7]
    assert problem.units == (-3.0, 7.0)  # so no reward is outside
    assert Cut(0.0, 1.0)(None, 0.25, False, {}) == 0.25
    problem.close()


def test_a_trial_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    """The record of both parts is in its line: episodes, falls, and the reset in between that is no fall."""
    first = Trial("CartPole-v1", "ours", 3, 60, tmp_path)
    before = run(first)
    assert before["status"] == "limit"
    assert before["steps"] >= 60 > before["steps"] - before["lengths"][-1]
    assert run(first) == before  # it has ended: nothing is played again
    trial = first._replace(limit=2 * before["steps"])
    assert line_of(trial)["status"] == "cut"
    after = run(trial)
    n = len(before["lengths"])
    assert after["status"] == "limit"
    assert after["lengths"][:n] == before["lengths"]
    assert after["breaks"] == [before["steps"]]
    assert after["cpu"] >= before["cpu"]
    assert set(after["falls"]) <= set(np.cumsum(after["lengths"]).tolist())
    assert after["returns"] == after["lengths"]  # 1 a step, in the environment's own units
    assert after["player"]["name"] == "model-search"


def test_rewards_are_in_the_environments_own_units(tmp_path: Path) -> None:
    done = run(Trial("InvertedDoublePendulum-v5", "ours", 3, 5, tmp_path))
    mean = sum(done["returns"]) / done["steps"]
    assert 5.0 < mean < 10.0  # and not a number in [0, 1]


def test_ours_ends_at_its_goals_and_others_at_their_limit() -> None:
    up = lived(*[(100, 1.0, False)] * 50)
    assert ended(Trial("CartPole-v1", "ours", 1, 30_000, Path()), up) == "reached"
    assert ended(Trial("Hopper-v5", "ours", 1, 30_000, Path()), up) == ""
    assert ended(Trial("InvertedPendulum-v5", "sac", 1, 30_000, Path()), up) == ""
    assert ended(Trial("InvertedPendulum-v5", "sac", 1, 5_000, Path()), up) == "limit"
    assert ended(Trial("arm", "ours", 1, 30_000, Path()), up) == ""


def test_rounds_that_a_kill_has_lost_are_counted(tmp_path: Path) -> None:
    """A round is noted when it was played: one that is not in the run file later was lost, and is so for good."""
    first = Trial("CartPole-v1", "ours", 3, 60, tmp_path)
    before = run(first)
    n = len(before["lengths"])
    assert before["lost"] == 0
    assert Notes(first).values["rounds"] == n
    Notes(first).write({"rounds": n + 2})  # as if the process had been killed before it could save two more
    cut = line_of(first)
    assert cut["lost"] == 2
    assert in_words(cut).endswith(", 2 rounds lost")
    after = run(first._replace(limit=before["steps"] + 1))
    assert len(after["lengths"]) > n
    assert after["lost"] == 2
    assert after["rounds"] == len(after["lengths"])
    assert table([after]).endswith("when a process was killed: CartPole-v1, ours, seed 3: 2.")
    assert "lost" not in in_words(before)
    assert "killed" not in table([before])


def long_round(job: tuple[bool, Path]) -> None:
    """A job that is in the middle of a round when it has to stop and saves afterwards, or one that waits for it."""
    first, file = job
    begun = file.with_suffix(".begun")
    while not first and not begun.exists():
        time.sleep(0.01)
    if first:
        with heeding() as requested:
            begun.touch()
            requested.wait()
            time.sleep(1.0)  # the rest of its round
            file.write_text("saved")


def test_a_round_that_takes_long_is_saved_when_the_command_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GRACE", "PATIENCE"):  # on a busy machine too
        monkeypatch.setattr(f"resetfree.studies.engines.{name}", LONG)
    file = tmp_path / "file"
    with Workers(2, long_round) as workers:
        next(workers.do(deque([(True, file), (False, file)])))
    assert file.read_text() == "saved"


def test_the_command_is_stopped_and_goes_on(tmp_path: Path) -> None:
    """A trial that is stopped by a signal has a line that says so; the next call plays on and ends it."""
    results = tmp_path / "r.jsonl"
    wanted = ["--tasks", "CartPole-v1", "--learners", "ours", "--seeds", "5", "--jobs", "1", "--out", str(results)]
    command = [sys.executable, "benchmarks/machines.py", *wanted]
    process = subprocess.Popen([*command, "--steps", "100000"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    file = tmp_path / "r.runs" / "CartPole-v1-ours-5.rfrun"
    until(lambda: process.poll() is not None or rounds_of(file))
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "Stopped: 1 of 1 trials are left, 1 of them begun." in said
    (cut,) = read_lines(results)
    assert cut["status"] == "cut"
    again = subprocess.run([*command, "--steps", "1"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not again.stderr  # one step was wanted, and more were played
    more = [*command, "--steps", str(cut["steps"] + 1)]
    assert "1 of 1" in subprocess.run(more, cwd=ROOT, capture_output=True, text=True, check=True).stderr
    assert [one["status"] for one in read_lines(results)] == ["cut", "limit"]
