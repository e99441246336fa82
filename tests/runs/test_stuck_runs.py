"""Runs that stand still: noted, shown everywhere, and helped if they may ask; a kill changes nothing."""

import io
import json
import runpy
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium import spaces
from rich.console import Console
from tests.bank import edit, same_rounds
from tests.show.cli import commands

import resetfree as rf
from resetfree.core import Notice, OperatorTimeout
from resetfree.problems.operators import Answer, Request
from resetfree.problems.operators.channel import sentence
from resetfree.show.cli.progress import Display
from resetfree.show.report import write_report
from resetfree.show.studio.following import Followed

ROOT = Path(__file__).parents[2]
WedgedRobot = runpy.run_path(str(ROOT / "examples" / "gym" / "wedged_robot.py"))["WedgedRobot"]
LEARNER: dict[str, Any] = {
    "worn": 4.8,
    "primal": "stored-linear",
    "dual": "constant-penalty",
    "feedback": "realised",
    "settings": {"primal": {"refit": 32}, "dual": {"C": 3.0}},
}
PLAIN: dict[str, Any] = {"primal": "uniform", "dual": "counting", "feedback": "realised"}


def robot(worn: float = 9.0) -> rf.Problem:
    return rf.from_gym(WedgedRobot(worn), horizon=25, reset_when="never", reward_range=(0, 1))


class Spy:
    """An operator that keeps the requests, and fails at one of them."""

    def __init__(self, fails_at: int = 0) -> None:
        self.requests: list[Request] = []
        self._fails_at = fails_at

    def perform(self, request: Request) -> Answer:
        self.requests.append(request)
        if request.why == "stuck" and self.stuck == self._fails_at:
            raise OperatorTimeout("Nobody came.")
        return Answer("spy")

    @property
    def stuck(self) -> int:
        return [one.why for one in self.requests].count("stuck")


def learned(worn: float = 9.0, **how: Any) -> rf.Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        return rf.learn(robot(worn), **{"episodes": 200, "seed": 1, **PLAIN, **how})


def test_a_wedged_robot_is_noted_and_warned_about() -> None:
    with pytest.warns(Notice, match="Stuck: in the last"):
        run = rf.learn(robot(), episodes=200, seed=1, **PLAIN)
    found = [one for one in run.notes if one.stuck]
    assert len(found) == 4
    first = found[0].k
    assert (run.columns["reward"][first - 20 : first] == 0).all()
    assert run.columns["reward"][: first - 20].max() > 10
    assert 'ask="when-stuck"' in found[0].what
    assert run.requested_resets == []
    assert f"STUCK, last reported in episode {found[-1].k}" in str(run)
    assert len(str(run).splitlines()) == 5


def test_it_asks_and_the_players_see_no_reset() -> None:
    spy = Spy()
    run = learned(ask="when-stuck", operator=spy)
    assert spy.stuck == len(run.requested_resets) == 4
    assert [one.k for one in run.interventions if one.why == "stuck"] == run.requested_resets
    assert "at [9." in spy.requests[1].detail
    assert "is stuck" in sentence(spy.requests[1])
    assert not run.columns["reset"].any()
    assert run.realised_resets[-1] == 0
    assert "0, 0 of them in the last 20; 4 more requested when it was stuck" in str(run)
    for k in run.requested_resets:  # the next episode starts in the middle, and the row says where the one before ended
        assert run.columns["next_start"][k - 1][0] > 9 > run.columns["s1"][k][0]
    assert run.columns["reward"].sum() > 2 * learned().columns["reward"].sum()
    assert not [one for one in run.certificates() if one.refuted]


class StickyMaze(gymnasium.Env[Any, Any]):
    """Five by five cells, the last pays and sends back to the first; who steps on the middle one sticks to it."""

    observation_space: spaces.Space[Any] = spaces.Discrete(25)
    action_space: spaces.Space[Any] = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        row, column = divmod(self.at, 5)
        down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[int(action)]
        if self.at != 12:
            self.at = min(max(row + down, 0), 4) * 5 + min(max(column + right, 0), 4)
        arrived = self.at == 24
        self.at = 0 if arrived else self.at
        return self.at, float(arrived), False, False, {}


def test_a_sticky_maze_is_noticed_and_left_by_asking() -> None:
    """A random walk seldom finds the way around it; without help it never does, on any of these seeds."""
    earned = {"never": 0.0, "when-stuck": 0.0}
    for seed in range(4):
        maze: dict[str, Any] = {"horizon": 30, "reset_when": "never", "reward_range": (0, 1)}
        runs = []
        for ask in ("never", "when-stuck"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Notice)
                runs.append(rf.learn(rf.from_gym(StickyMaze(), **maze), episodes=150, seed=seed, **PLAIN, ask=ask))
        alone, helped = runs
        stuck = [one for one in alone.notes if one.stuck]
        assert (alone.columns["s1"][stuck[0].k - 1 :] == 12).all()  # every alarm is true
        for run, ask in ((alone, "never"), (helped, "when-stuck")):
            earned[ask] += float(run.columns["reward"].sum())
        assert all(
            helped.columns["next_start"][k - 1] == 12 and helped.columns["s1"][k] == 0 for k in helped.requested_resets
        )
    assert earned["never"] == 0 < earned["when-stuck"]


def test_asked_resets_count_among_those_that_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "robot.rfrun"
    run = learned(ask="when-stuck", max_resets=2, path=file)
    assert len(run) < 200
    assert len(run.requested_resets) == 2
    more = learned(ask="when-stuck", max_resets=3, path=file, resume=True)
    assert len(more.requested_resets) == 3


@pytest.mark.parametrize("how", [PLAIN, LEARNER], ids=["uniform", "stored-linear"])
@pytest.mark.parametrize("fails_at", [1, 3])
def test_a_run_whose_request_was_not_answered_goes_on_bit_for_bit(
    tmp_path: Path, how: dict[str, Any], fails_at: int
) -> None:
    """Checkpoints are rare, so that requests before are replayed too."""
    asked: dict[str, Any] = {**how, "ask": "when-stuck"}
    whole = learned(**asked)
    assert len(whole.requested_resets) >= fails_at
    file = tmp_path / "robot.rfrun"
    with pytest.raises(OperatorTimeout):
        learned(path=file, operator=Spy(fails_at), checkpoint_every=1000.0, **asked)
    again = learned(path=file, resume=True, **{**how})
    assert len(again.requested_resets) == len(whole.requested_resets) - 1  # that one was performed when the run went on
    same_rounds(whole, again)
    assert [one.k for one in again.notes if one.stuck] == [one.k for one in whole.notes if one.stuck]


def test_a_resumed_run_asks_as_it_began(tmp_path: Path) -> None:
    file = tmp_path / "robot.rfrun"
    learned(ask="when-stuck", max_resets=1, path=file)
    with pytest.raises(rf.RunError, match="was made with ask='when-stuck', not 'never'"):
        learned(ask="never", path=file, resume=True)


def test_nobody_can_be_asked_about_a_finite_problem_and_other_words_are_refused() -> None:
    with pytest.raises(rf.InvalidInput, match="with_help"):
        rf.learn("grid-v0", ask="when-stuck", episodes=5)
    with pytest.raises(rf.InvalidInput, match="'ask' of learn"):
        rf.learn("grid-v0", ask="always", episodes=5)  # type: ignore[arg-type]


def test_a_finite_run_is_noted_without_a_warning() -> None:
    run = rf.learn("edge-first-step-v0", episodes=300, seed=0)
    assert any(one.stuck for one in run.notes)
    assert "with_help" in run.notes[0].what


def test_it_is_shown_in_summary_json_report_and_studio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = str(ROOT / "examples" / "gym" / "wedged_robot.py")
    (tmp_path / "wedge_here.py").write_text(f"import runpy\nWedged = runpy.run_path({example!r})['WedgedRobot']\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "robot.rfrun"
    text = "run wedge_here:Wedged --primal uniform --dual counting --feedback realised --seed 1 --episodes 200 --set"
    text += " horizon=25 --set reset_when=never --set reward_low=0 --set reward_high=1 --out"
    words = (*text.split(), str(file))
    status, out, told = commands.run(capsys, *words, "--ask", "when-stuck")
    assert status == 0
    assert "Note: Stuck: in the last 20 episodes" in told
    assert "STUCK" in out
    assert "No resets in 200 episodes, and 4 requested when it was stuck." in out
    assert "waited" not in out  # no operator was used
    data = json.loads(commands.run(capsys, *words, "--ask", "when-stuck", "--overwrite", "--json")[1])
    assert data["asked_resets"] == 4
    assert data["realised_resets"] == 0
    assert [one["stuck"] for one in data["notes"]] == [True] * 4
    page = tmp_path / "report.html"
    write_report([file], page)
    assert "A run is stuck: " in page.read_text()
    assert "resets requested when stuck" in page.read_text()
    followed = Followed(file)
    followed.poll()
    assert followed.frame(False)["stuck"].startswith("Episode ")


def test_the_display_is_loud_while_it_lasts() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100)
    with Display(200, console=console) as display:

        def note(game: Any, this: Any) -> None:
            display._due = 0.0  # draw every round
            display(game, this)

        learned(progress=note)
    assert "STUCK since episode" in shown.getvalue()


def test_a_note_of_a_file_may_be_anything(tmp_path: Path) -> None:
    rf.learn("grid-v0", "uniform", episodes=2, path=(file := tmp_path / "a.rfrun"))
    for text in ("[]", "{", '{"stuck": true}', json.dumps({"stuck": True, "k": "x", "what": 3}), "null", "1e999"):
        edit(file, "INSERT INTO meta (key, json) VALUES ('note', ?)", values=(text,))
        followed = Followed(file)
        followed.poll()
        assert followed.frame(False)["stuck"] == ""
