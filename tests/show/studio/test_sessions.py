"""Games that go on here: pause, step, speed, stop, resume; the run files are those of `learn`, bit for bit."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.bank import edit, same_rounds
from tests.show.studio.serving import GRID
from tests.waiting import until

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.registry import find_world
from resetfree.show.cli import main
from resetfree.show.cli.run_summary import summary
from resetfree.show.report import write_report
from resetfree.show.report.filming import FilmedEnv, KeptScenes
from resetfree.show.report.pictures import prepare_to_render
from resetfree.show.studio import limits
from resetfree.show.studio.catalogue import MACHINES, catalogue, check_grid, options_of, problem_options
from resetfree.show.studio.files import RunFolder
from resetfree.show.studio.following import Followed, Following, TimedHistory
from resetfree.show.studio.frames import History, RunScene, scene_of
from resetfree.show.studio.lanes import HISTORY, PushedEnv
from resetfree.show.studio.sessions import GameSession, Sessions
from resetfree.theory.certificates.anytime import resets_bound

TWO = [{"primal": "rule-elimination"}, {"primal": "linear-ucb"}]


@pytest.fixture
def sessions(tmp_path: Path) -> Any:
    made = Sessions(RunFolder(tmp_path))
    yield made
    made.stop_all()


def test_the_page_begins_with_what_auto_takes_beside_algorithm_1() -> None:
    assert catalogue()["lanes"] == [[one["primal"], "auto"] for one in TWO]


def finished(session: GameSession) -> None:
    until(lambda: not session.active)
    assert [lane.error for lane in session.lanes] == [""] * len(session.lanes)


def test_two_players_play_on_the_same_random_numbers_and_as_learn_does(sessions: Sessions) -> None:
    session = sessions.start({"grid": GRID, "lanes": TWO, "episodes": 150, "seed": 4})
    finished(session)
    for lane, asked in zip(session.lanes, TWO, strict=True):
        plain = rf.learn(
            "drawn-v0", asked["primal"], episodes=150, seed=4, settings={"problem": options_of(GRID)}
        )  # what the gate does between rounds changes nothing
        run = rf.load(lane.path)
        same_rounds(run, plain)
        frame = lane.frame(curves=True)
        assert frame["k"] == len(run) == 150
        assert frame["now"]["regret"] == pytest.approx(float(run.regret[-1]), rel=1e-5)
        assert frame["now"]["expected"] == pytest.approx(float(run.resets[-1]), rel=1e-5)
        assert frame["now"]["realised"] == run.realised_resets[-1]
        assert frame["curves"]["realised"] == run.realised_resets.tolist()


def test_pause_step_and_go(sessions: Sessions) -> None:
    session = sessions.start({"grid": GRID, "lanes": TWO, "episodes": 500, "paused": True})
    until(lambda: all(lane.state == "paused" for lane in session.lanes))
    assert [lane.k for lane in session.lanes] == [1, 1]  # the first round, then the pause
    for k in (2, 3, 4):
        session.gate.step()
        until(lambda k=k: all(lane.k == k and lane.state == "paused" for lane in session.lanes))  # type: ignore[misc]
    time.sleep(0.1)
    assert [lane.k for lane in session.lanes] == [4, 4]
    last = session.lanes[0].frame(curves=False)["last"]
    assert last["k"] == 4  # what is seen in a pause is the newest
    session.gate.set(paused=False)
    finished(session)
    assert [lane.state for lane in session.lanes] == ["done", "done"]


@pytest.mark.parametrize("pauses", [1, pytest.param(100, marks=pytest.mark.slow)])
def test_every_pause_finds_both_lanes_at_the_same_episode(sessions: Sessions, pauses: int) -> None:
    session = sessions.start({"problem": "grid-v0", "lanes": [{"primal": "uniform"}, {}], "episodes": 10**6})
    for _ in range(pauses):
        k = session.lanes[0].k + 500 // pauses
        session.gate.set(paused=False)
        until(lambda k=k: session.lanes[0].k > k)  # type: ignore[misc]
        session.gate.set(paused=True)
        until(lambda: all(lane.state == "paused" for lane in session.lanes))
        assert session.lanes[0].k == session.lanes[1].k
    k = session.lanes[0].k
    session.gate.step()
    until(lambda: all(lane.k == k + 1 and lane.state == "paused" for lane in session.lanes))


def test_a_pace_holds_two_lanes_to_the_same_episode(sessions: Sessions) -> None:
    session = sessions.start({"grid": GRID, "lanes": TWO, "episodes": 1000, "pace": 20.0})
    seen = []
    until(lambda: session.lanes[0].k >= 5)
    for _ in range(20):
        seen.append(abs(session.lanes[0].k - session.lanes[1].k))
        time.sleep(0.01)
    assert max(seen) <= 1
    session.stop()
    assert [lane.state for lane in session.lanes] == ["stopped", "stopped"]


def test_a_stopped_game_is_saved_and_goes_on_bit_for_bit(sessions: Sessions) -> None:
    lanes = [{"settings": {"primal": {"scale": 0.1}}}]
    session = sessions.start({"grid": GRID, "lanes": lanes, "episodes": 400, "pace": 50.0})
    until(lambda: session.lanes[0].k > 20)
    session.stop()
    k = len(rf.load(session.lanes[0].path))
    assert 20 < k == session.lanes[0].k < 400
    again = Sessions(sessions.folder)  # as after a restart of the server: nothing but the files
    other = again.resume(session.name, pace=0.0, paused=False)
    finished(other)
    run = rf.load(other.lanes[0].path)
    plain = rf.learn(
        "drawn-v0", episodes=400, settings={"problem": options_of(GRID), "primal": {"scale": 0.1}, "dual": {"C": 0.0}}
    )
    same_rounds(run, plain)
    assert run.spec["primal"]["settings"]["scale"] == 0.1
    assert other.lanes[0].frame(True)["now"]["realised"] == run.realised_resets[-1]


def test_a_reset_by_hand_waits_on_the_desk(sessions: Sessions) -> None:
    session = sessions.start({"grid": GRID, "by_hand": True, "lanes": [{"primal": "uniform"}], "episodes": 30})
    lane = session.lanes[0]
    asked = lane.request
    assert asked is not None
    assert asked["why"] == "start"
    assert session.frame(False)["lanes"][0]["state"] == "waiting"
    with pytest.raises(rf.RunError, match="another request"):
        session.answer(0, {"id": "made up"})
    while lane.active:
        request = lane.request
        if request is not None:
            session.answer(0, {"id": request["id"], "who": "me", "note": "done"})
        time.sleep(0.005)
    run = rf.load(lane.path)
    assert lane.state == "done"
    assert len(run.interventions) == 1 + run.realised_resets[-2]
    assert {one.who for one in run.interventions} == {"me"}


def test_stopping_while_a_reset_is_asked_for_saves_the_run(sessions: Sessions) -> None:
    session = sessions.start({"grid": GRID, "by_hand": True, "lanes": [{}], "episodes": 30})
    session.stop()
    assert session.lanes[0].state == "stopped"
    assert len(rf.load(session.lanes[0].path)) == 0


def test_only_so_many_games_go_on_at_once(sessions: Sessions) -> None:
    asked = {"grid": GRID, "lanes": [{}], "paused": True}
    names = {sessions.start(asked).name for _ in range(limits.RUNNING)}
    assert len(names) == limits.RUNNING
    with pytest.raises(rf.RunError, match="Stop one first"):
        sessions.start(asked)
    first = sessions.get(min(names))
    assert first is not None
    first.stop()
    assert sessions.start(asked).name not in names


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lanes": []}, "one or two pairs"),
        ({"lanes": [{}] * 3}, "one or two pairs"),
        ({"lanes": [{"primal": "nobody"}]}, "discovered"),
        ({"lanes": [{"primal": "linear-ucb", "settings": {"primal": {"scales": 1}}}]}, "no setting of primal player"),
        ({"lanes": [{"primal": "linear-ucb", "settings": {"primal": {"scale": "much"}}}]}, "scale"),
        ({"lanes": [{"primal": "linear-ucb", "settings": {"primal": {"scale": [1]}}}]}, "or None. Got .1. instead"),
        ({"episodes": 0}, "'episodes' of the request must be an integer from 1 to"),
        ({"episodes": 10**7}, "'episodes' of the request"),
        ({"seed": -1}, "seed"),
        ({"pace": -1}, "'pace' of the request"),
        ({"bound": "x"}, "bound"),
        ({"code": "import os"}, "no other keys"),
        ({"problem": "os:system", "grid": []}, "'grid' of the request must be a table"),
        ({"feedback": "none"}, "feedback"),
    ],
)
def test_bad_games_are_refused_in_one_sentence_and_leave_nothing(
    sessions: Sessions, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(rf.ResetFreeError, match=words):
        sessions.start({"grid": GRID, "lanes": [{}], **change})
    assert list(sessions.folder.path.iterdir()) == []
    assert not any(sessions.active().values())


@pytest.mark.parametrize(
    "asked",
    [
        {"problem": "os:system"},
        {"problem": "gym:Acrobot-v1"},
        {"problem": "gym:CartPole-v1", "options": {"horizon": 5}},
        {"problem": "pits-v0", "options": {"n": 100_000}},
        {"problem": "pits-v0", "options": {"n": 150}},
        {"problem": "grid-v0", "options": {"slip": [1]}},
        {"problem": "grid-v0", "options": {"nope": 1}},
        {"problem": "grid-v0", "by_hand": True},
        {},
        {"problem": "drawn-v0", "options": {"rows": "S" * 10_000}},
    ],
)
def test_no_other_problem_than_a_small_registered_one_is_made(sessions: Sessions, asked: dict[str, Any]) -> None:
    with pytest.raises(rf.ResetFreeError):
        sessions.start({"lanes": [{}], **asked})


def test_a_lane_that_cannot_begin_takes_its_partner_along(sessions: Sessions) -> None:
    wrong = {"primal": "linear-ucb", "settings": {"primal": {"scale": -1.0}}}
    with pytest.raises(rf.InvalidInput, match="scale"):
        sessions.start({"problem": "grid-v0", "lanes": [{"primal": "uniform"}, wrong]})
    assert [path for path in sessions.folder.path.iterdir() if path.suffix == ".rfrun"] == []


def test_curves_are_samples_of_complete_data(tmp_path: Path) -> None:
    run = rf.learn("grid-v0", "linear-ucb", episodes=3000, seed=1, path=tmp_path / "a.rfrun")
    history, c = History(scene_of(run.spec)), run.columns
    for row in zip(*(c[name] for name in HISTORY), strict=True):
        history.add(*row)
    shown = history.curves()
    assert len(shown["k"]) == limits.CURVE
    assert (shown["k"][0], shown["k"][-1]) == (1, 3000)
    at = np.array(shown["k"]) - 1
    assert shown["realised"] == run.realised_resets[at].tolist()
    np.testing.assert_allclose(shown["regret"], run.regret[at], rtol=1e-5)
    np.testing.assert_allclose(shown["expected"], run.resets[at], rtol=1e-5)
    np.testing.assert_allclose(shown["predicted"], run.predicted_resets[at], rtol=1e-5)
    np.testing.assert_allclose(shown["upper"], resets_bound(run.realised_resets[at], at + 1), atol=1e-3)
    assert history.now["upper"] == summary(run)["resets_bound"]  # one number in terminal and studio, not two
    few = History(scene_of(run.spec))
    assert few.curves()["k"] == []
    assert few.now["regret"] == 0.0


def test_frames_are_few_however_fast_the_rounds_are(sessions: Sessions) -> None:
    session = sessions.start({"grid": GRID, "lanes": [{}], "episodes": 3000})
    began = time.monotonic()
    finished(session)
    seconds = time.monotonic() - began
    assert session.lanes[0].k == 3000
    assert session.version <= limits.FRAMES * (seconds + 1) + 10  # sampled
    assert len(rf.load(session.lanes[0].path)) == 3000  # not the data


def test_a_file_shows_what_the_live_run_showed(sessions: Sessions) -> None:
    session = sessions.start({"grid": GRID, "lanes": TWO, "episodes": 200})
    finished(session)
    view = Following(session.name, sessions.folder)
    live, read = session.frame(True)["lanes"], view.frame(True)["lanes"]
    assert view.scene()["lanes"] == session.scene()["lanes"]
    for ours, theirs in zip(live, read, strict=True):
        assert theirs["state"] == "file"
        assert {**ours["now"], "pairs": 0} == {**theirs["now"], "pairs": 0}
        for name in ("k", "regret", "expected", "realised", "predicted", "lam", "upper"):
            assert ours["curves"][name] == theirs["curves"][name]
    kept = [lane["map"]["possible"] for lane in (live[0], read[0])]
    assert kept[0] == kept[1]


def test_only_new_rounds_of_a_file_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, path = RunFolder(tmp_path), tmp_path / "mine.rfrun"
    rf.learn("grid-v0", episodes=300, path=path, max_resets=2)
    before = len(rf.load(path))
    view = Following("mine", folder)
    assert (view.lanes[0].k, view.lanes[0].frame(False)["state"]) == (before, "interrupted")
    taken = _counted(monkeypatch)
    rf.learn("grid-v0", episodes=300, path=path, resume=True)
    view._seen = 0.0
    view.poll()
    assert view.lanes[0].k == 300
    assert len(taken) == 300 - before
    assert view.lanes[0].frame(False)["now"]["realised"] == rf.load(path).realised_resets[-1]
    assert view.lanes[0].frame(False)["state"] == "file"


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    taken: list[Any] = []
    usual: Callable[..., None] = History.add

    def add(self: History, *row: Any, **more: Any) -> None:
        taken.append(row)
        usual(self, *row, **more)

    monkeypatch.setattr(History, "add", add)
    return taken


CELL = {"rows": ["S"], "slip": 0.0, "horizon": 50}  # nothing to win and nowhere to go: stuck after 20 episodes


def asking_game(**more: Any) -> dict[str, Any]:
    return {"grid": CELL, "lanes": [{"primal": "uniform"}], "bound": 1, "episodes": 45, **more}


@pytest.mark.filterwarnings("ignore::resetfree.core.errors.Notice")
def test_a_game_by_hand_may_ask_when_it_is_stuck(tmp_path: Path) -> None:
    sessions = Sessions(RunFolder(tmp_path))
    with pytest.raises(rf.InvalidInput, match="Make help an action of it"):
        sessions.start(asking_game(ask="when-stuck"))  # nobody is there to ask
    with pytest.raises(rf.InvalidInput, match="'ask'"):
        sessions.start(asking_game(by_hand=True, ask="often"))
    session = sessions.start(asking_game(by_hand=True, ask="when-stuck"))
    (lane,), whys = session.lanes, []
    while lane.active:
        if (request := lane.request) is not None:
            whys.append(request["why"])
            session.answer(0, {"id": request["id"]})
        time.sleep(0.005)
    assert whys == ["start", "stuck", "stuck"]
    assert lane.frame(False)["now"]["asked"] == 2
    assert lane.scene is not None
    assert lane.scene.to_dict()["spec"]["ask"] == "when-stuck"
    run = rf.load(lane.path)
    assert (len(run.requested_resets), run.realised_resets[-1]) == (2, 0)
    followed = Following(session.name, RunFolder(tmp_path)).frame(False)["lanes"][0]
    assert (followed["now"]["asked"], followed["error"]) == (2, "")
    assert "goals" not in followed["now"]


def test_a_run_that_is_followed_shows_its_goals(tmp_path: Path) -> None:
    file = tmp_path / "lake.rfrun"
    given: dict[str, Any] = {"problem": {"horizon": 20, "is_slippery": False}}
    run = rf.learn("gym:FrozenLake-v1", episodes=40, seed=1, path=file, settings=given)
    shown = Following("lake", RunFolder(tmp_path))
    now = shown.frame(False)["lanes"][0]["now"]
    assert (now["goals"], now["realised"], now["asked"]) == (run.goals[-1], run.realised_resets[-1], 0)
    assert now["goals"] > 0
    assert shown.scene()["lanes"][0]["spec"]["after_goal"] == "restart for free"
    note = json.dumps({"k": 3, "why": "reset", "detail": 'he said "why": "stuck"'})
    edit(file, "UPDATE rounds SET goals = -3 WHERE k = 30")
    edit(file, "INSERT INTO interventions (json) VALUES (?)", values=(note,))
    forged = Following("lake", RunFolder(tmp_path)).frame(False)["lanes"][0]
    assert (forged["state"], forged["k"]) == ("failed", 29)
    assert forged["now"]["asked"] == 0


def test_asking_at_a_price_is_an_option_of_every_problem() -> None:
    assert all(one["options"][-1]["name"] == "help" for one in catalogue()["problems"].values())
    assert problem_options("pits-v0", {"help": 0.5}) == {"help": 0.5}
    with pytest.raises(rf.UnknownName, match="Did you mean 'help'"):
        problem_options("pits-v0", {"hlep": 0.5})
    broken = {"rows": ["SX", "X."], "slip": 0.1}
    assert not check_grid(broken)["holds"]
    assert check_grid({**broken, "help": 0.5})["holds"]  # whoever may ask is never lost
    assert "help" not in options_of(broken)
    with pytest.raises(rf.InvalidInput, match="'help'"):
        options_of({**broken, "help": -1})


def test_a_run_with_help_has_its_map(tmp_path: Path) -> None:
    run = rf.learn("pits-v0", episodes=3, settings={"problem": {"help": 0.5}})
    found = scene_of(run.spec).to_dict()
    assert found["oracle"], found["why"]
    assert found["map"]["actions"][-1] == "ask for help"


def scene(timing: object) -> RunScene:
    return scene_of({**rf.learn("grid-v0", episodes=1).spec, "timing": timing})


def history(timing: object, late: float, n: int = 2000) -> TimedHistory:
    """More rounds than there is room for at first."""
    found = TimedHistory(scene(timing))
    for k in range(1, n + 1):
        found.add(0, 1.0, False, 0.0, 0.0, 0.0)
        found.tick(max(k - 5, 0), missed=k % 2, lateness=late * (3 if k == 7 else 1), steps=8)
    return found


def test_the_clock_stands_beside_the_other_numbers() -> None:
    found = history({"rate": 50}, 0.001)
    assert found.now == {
        **{"regret": pytest.approx(found.now["regret"]), "expected": 0.0, "realised": 0, "predicted": 0.0, "lam": 1.0},
        **{"pairs": None, "newest_reset": 0, "lived": 0, "reward": None, "upper": pytest.approx(found.now["upper"])},
        **{"age": 4.0, "missed": 1000.0, "latest": 3.0, "rate": 50.0},
        "in_time": pytest.approx(100 * 16 / 17, rel=1e-5),
    }
    curves = found.curves()
    assert curves["k"][-1] == 2000
    assert curves["missed"] == [math.ceil(k / 2) for k in curves["k"]]
    assert curves["age"] == [min(k - 1, 4) for k in curves["k"]]
    assert set(curves["late"]) <= {1.0, 3.0}
    assert set(curves) - {"age", "missed", "late"} == set(History(scene(None)).curves())


def test_without_a_rate_there_is_no_lateness() -> None:
    now = history({"delay": 4}, math.nan, 10).now
    assert (now["age"], now["latest"], now["in_time"], now["rate"]) == (4.0, None, None, None)
    for strange in (10**400, "fast", -1, None, [1]):
        assert history({"rate": strange}, math.nan, 1).now["rate"] is None


def test_forgotten_rounds_leave_nothing() -> None:
    found = history({"rate": 50}, 0.001, 30)
    found.clear()
    assert found.k == 0
    found.add(0, 1.0, False, 0.0, 0.0, 0.0)
    found.tick(0, 0, 0.001, 8)
    assert (found.now["missed"], found.now["in_time"], found.now["latest"]) == (0.0, 100.0, 1.0)


@pytest.mark.parametrize(
    "clock", [(5, 0, 0.1, 8), (-1, 0, 0.1, 8), (1, -1, 0.1, 8), (1, 0, "x", 8), (1.5, 0, None, 8), (1, 0, None, b"")]
)
def test_a_clock_that_cannot_be_is_refused(clock: tuple[object, ...]) -> None:
    assert not Followed._clock_fits(5, *clock)
    assert Followed._clock_fits(5, 4, 0, None, 8)
    assert Followed._clock_fits(5)


def test_a_followed_run_shows_the_ages_of_its_plans(tmp_path: Path) -> None:
    run = rf.learn("grid-v0", episodes=60, path=tmp_path / "late.rfrun", delay=3)
    rf.learn("grid-v0", episodes=60, path=tmp_path / "new.rfrun")
    late, new = (Following(name, RunFolder(tmp_path)) for name in ("late", "new"))
    assert late.scene()["lanes"][0]["spec"]["timing"] == {"delay": 3}
    assert new.scene()["lanes"][0]["spec"]["timing"] is None
    lane = late.frame(True)["lanes"][0]
    assert lane["error"] == ""
    assert lane["curves"]["age"] == run.plan_ages.tolist()
    assert lane["now"]["age"] == run.plan_ages[-1]
    assert run.plan_ages.max() == 3
    assert (lane["now"]["missed"], lane["now"]["rate"], lane["now"]["realised"]) == (0, None, run.realised_resets[-1])
    assert not {"age", "missed"} & set(new.frame(True)["lanes"][0]["curves"])


def test_pushes_by_hand_are_in_the_run_file_and_wherever_it_is_shown(
    sessions: Sessions, capsys: pytest.CaptureFixture[str]
) -> None:
    session = sessions.start(
        {"problem": "gym:CartPole-v1", "lanes": [{"primal": "uniform"}], "bound": 1, "episodes": 4, "paused": True}
    )
    (lane,) = session.lanes
    until(lambda: lane.k == 1 and lane.state == "paused")
    for k, push in ((2, 0.5), (3, 0.0), (4, -1.0)):
        lane.push = push
        session.gate.step()
        until(lambda k=k: lane.k == k)  # type: ignore[misc]  # one press, one episode
    session.gate.set(paused=False)
    finished(session)
    run = rf.load(lane.path)
    steps = run.columns["steps"].tolist()
    assert [(one.k, one.pushed) for one in run.notes] == [(2, steps[1]), (4, steps[3])]
    words = f"pushed by hand in {steps[1] + steps[3]} steps of 2 episodes, from 2 to 4"
    assert "entry 3 of the machine's state by 0.03 before each:" in run.notes[0].what
    assert words in str(run)
    views = (session, Following(session.name, sessions.folder))
    assert [view.frame(False)["lanes"][0]["now"]["pushed"] for view in views] == [2, 2]
    write_report([lane.path], page := lane.path.with_suffix(".html"), film=False, details=False)
    assert words in page.read_text()
    assert main(["transitions", str(lane.path), "-o", str(lane.path.with_suffix(".npz"))]) == 0
    assert words in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("id", list(MACHINES))
def test_a_push_moves_a_machine_that_way(id: str) -> None:
    """Two copies with the same seed and action, one pushed: the entry that the machine names differs by the push."""
    ways = []
    for push in (0.0, 1.0):
        with find_world(id) as world:
            problem = world.problem
            assert isinstance(problem, GymProblem)
            prepare_to_render(problem.env, id)
            camera = FilmedEnv(problem.env, problem, 3, KeptScenes(), lambda kept: None)
            seen: list[float] = []
            lane = SimpleNamespace(push=push, pushed=0, see=lambda picture, seconds, seen=seen: seen.append(seconds))
            env = PushedEnv(camera, problem, id, lane)  # type: ignore[arg-type]
            env.reset(seed=1)
            env.step(problem.env.action_space.sample() * 0)
            assert [one.pushed for one in problem.noted] == [1] * bool(push)
            ways.append(float(getattr(env.unwrapped, MACHINES[id][0])[MACHINES[id][1]]))
            assert 0.0 < seen[0] < 0.2
    assert ways[1] - ways[0] == pytest.approx(MACHINES[id][2], rel=0.1)
