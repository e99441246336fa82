"""`OperatorReset` by function and by folder; what `learn` keeps of it whatever happens."""

import functools
import json
import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.problems.operators.plant import Counter, Plant
from tests.waiting import LONG, appear, until

import resetfree as rf
from resetfree.core import EnvironmentFailed, OperatorTimeout
from resetfree.core.readable import duration
from resetfree.problems.operators import Answer, Request
from resetfree.problems.operators.channel import LONGEST, check_reply, clean
from resetfree.runs.file.ledger import read
from resetfree.show.cli import progress
from resetfree.show.cli.progress import Tally, resets_line
from resetfree.theory.certificates.anytime import resets_upper

FELL = Request("cart", "reset", "the pole fell")


def learn(problem: Any = None, **asked: Any) -> rf.Run:
    usual: dict[str, Any] = {"episodes": 60, "seed": 3, "feedback": "realised"}
    return rf.learn(Plant() if problem is None else problem, Counter(), "counting", **{**usual, **asked})


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Do it in another thread, and fail if it failed."""
    failed: list[BaseException] = []

    def call() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert not failed


def when(path: Path, work: Callable[[], object]) -> AbstractContextManager[None]:
    """Meanwhile, do it as soon as the file is there."""
    return meanwhile(lambda: (appear(path), work())[0])


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (None, Answer("operator")),
        ("was  stuck\n", Answer("operator", "was stuck")),
        (Answer("Kim", "bent"), Answer("Kim", "bent")),
        (Answer("", "bent"), Answer("operator", "bent")),
    ],
)
def test_a_function_says_what_it_likes(said: Any, answer: Answer) -> None:
    heard: list[Request] = []

    def ask(request: Request) -> Any:
        heard.append(request)
        return said

    for deadline in (None, LONG):
        assert rf.OperatorReset(ask, deadline).perform(FELL) == answer
    assert heard == [FELL, FELL]


def test_a_function_that_fails_or_says_nonsense() -> None:
    def fail(request: Request) -> None:
        raise OSError("the gripper is jammed")

    for deadline in (None, LONG):
        with pytest.raises(OSError, match="jammed"):
            rf.OperatorReset(fail, deadline).perform(FELL)
        with pytest.raises(rf.InvalidInput, match=r"must return an Answer, text or None\. Got int instead"):
            rf.OperatorReset(lambda request: 3, deadline).perform(FELL)  # type: ignore[arg-type,return-value]


def test_a_function_is_not_waited_for_longer_than_the_deadline() -> None:
    never = threading.Event()
    with pytest.raises(OperatorTimeout, match=r"No operator performed the reset of 'cart' within 0\.05 seconds\."):
        rf.OperatorReset(lambda request: str(never.wait(LONG)), 0.05).perform(FELL)
    never.set()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"by": "telephone"}, "'http:PORT', a folder .a Path. or a function. Got 'telephone'"),
        ({"by": None}, "Got None instead"),
        ({"by": "http:99999"}, "must be an integer from 0 to 65535. Got 99999"),
        ({"by": Path(__file__)}, "must be a folder"),
        ({"deadline": 0}, r"must be a number above 0 and at most 1000000000, or None. Got 0 instead"),
        ({"deadline": float("inf")}, "Got inf instead"),
        ({"deadline": float("nan")}, "Got nan instead"),
        ({"deadline": True}, "Got True instead"),
        ({"deadline": "soon"}, "Got 'soon' instead"),
        ({"who": "\n"}, "'who' of OperatorReset must be text"),
        ({"address": Path("x")}, "for 'http' only"),
    ],
)  # fmt: skip
def test_bad_arguments_are_one_sentence(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(rf.InvalidInput, match=sentence):
        rf.OperatorReset(**asked)


@given(st.text(alphabet=st.characters(), max_size=80))
def test_what_is_shown_and_kept_is_one_plain_line(text: str) -> None:
    line = clean(text)
    assert line.isprintable()
    assert line == clean(line) == line.strip()
    json.dumps(line, ensure_ascii=False).encode()
    assert len(clean(text * 200)) <= LONGEST["note"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(JSON | st.fixed_dictionaries({}, optional={"id": JSON | st.just("r1"), "who": JSON, "note": JSON, "stop": JSON}))
def test_only_a_reply_is_taken_for_one(reply: Any) -> None:
    good = (
        isinstance(reply, dict)
        and set(reply) <= {"id", "who", "note", "stop"}
        and reply.get("id") == "r1"
        and isinstance(reply.get("who", ""), str)
        and isinstance(reply.get("note", ""), str)
        and isinstance(reply.get("stop", False), bool)
    )
    try:
        assert check_reply(reply, "r1", must_name=True) is reply
        assert good
    except (ValueError, LookupError):
        assert not good


def test_by_folder_the_request_is_there_and_is_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "desk"
    request, answer = folder / "request.json", folder / "answer.json"
    folder.mkdir(parents=True)
    answer.write_text('{"note": "from yesterday"}')
    with rf.OperatorReset(folder, deadline=LONG) as operator:

        def write() -> None:
            asked = json.loads(appear(request).read_text())
            assert {**asked, "id": "", "asked": ""} == {
                "id": "", "problem": "cart", "why": "reset", "detail": "the pole fell", "asked": "", "seconds": LONG,
            }  # fmt: skip
            answer.write_text('{"id": "another", "note": "late"}')  # not for this request: left alone
            until(lambda: "is not taken: The answer is for another request" in capsys.readouterr().err)
            answer.write_text("{")  # being written
            time.sleep(0.35)
            answer.write_text(json.dumps({"id": asked["id"], "who": "Kim", "note": "bent\x07"}))

        with meanwhile(write):
            assert operator.perform(FELL) == Answer("Kim", "bent")
        assert sorted(p.name for p in folder.iterdir()) == ["lock"]
        with when(request, request.unlink):
            assert operator.perform(FELL) == Answer("operator")
        with when(request, lambda: answer.write_text('{"stop": true}')), pytest.raises(KeyboardInterrupt):
            operator.perform(FELL)
        with pytest.raises(rf.InvalidInput, match="is used by another run"):
            rf.OperatorReset(folder).perform(FELL)
    with pytest.raises(OperatorTimeout, match=r"within 0\.2 seconds"):
        rf.OperatorReset(folder, deadline=0.2).perform(FELL)
    assert sorted(p.name for p in folder.iterdir()) == ["lock"]


def test_a_folder_that_is_gone_is_no_answer(tmp_path: Path) -> None:
    folder = tmp_path / "desk"
    gone = pytest.raises(OperatorTimeout, match="is gone")
    with when(folder / "request.json", lambda: shutil.rmtree(folder)), gone:
        rf.OperatorReset(folder, deadline=LONG).perform(FELL)
    if os.geteuid() != 0:
        folder.mkdir(mode=0o500)
        with pytest.raises(rf.InvalidInput, match="cannot be used: Permission denied"):
            rf.OperatorReset(folder).perform(FELL)


def test_who_when_why_and_how_long_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    asked: list[Request] = []
    seen: list[int] = []

    def ask(request: Request) -> Answer:
        asked.append(request)
        seen.append(len(rf.load(path)))  # all that was played is safe before anybody is asked
        time.sleep(0.002)
        return Answer("Kim", f"number {len(asked)}")

    plant = Plant()
    usual = plant.operator
    run = learn(plant, path=path, operator=rf.OperatorReset(ask))
    assert plant.operator is usual
    resets = run.columns["reset"]
    ends = (np.flatnonzero(resets) + 1).tolist()
    wanted = [k for k in [0, *ends] if k < 60]
    assert [one.k for one in run.interventions] == wanted == seen
    assert [one.why for one in run.interventions] == ["start"] + ["reset"] * (len(wanted) - 1)
    assert [one.detail for one in run.interventions] == [f"number {i + 1}" for i in range(len(wanted))]
    assert all(one.who == "Kim" and one.seconds >= 0.002 for one in run.interventions)
    assert asked[0] == Request("plant", "start", "it was switched on")
    assert all(one.asked < one.answered and one.asked.endswith("+00:00") for one in run.interventions)
    assert rf.load(path).interventions == run.interventions


def test_nobody_comes_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    came: list[str] = []

    def ask(request: Request) -> None:
        came.append(request.why)
        if len(came) in (4, 5):
            raise OperatorTimeout("Nobody came.")

    operator = rf.OperatorReset(ask)
    with pytest.raises(OperatorTimeout):
        learn(path=path, operator=operator)
    saved = rf.load(path)
    assert len(saved) == read(path).k
    assert saved.realised_resets[-1] == 3
    assert len(saved.interventions) == 3
    with pytest.raises(OperatorTimeout):  # nor the second time
        learn(path=path, operator=operator, resume=True)
    assert len(rf.load(path)) == len(saved)
    run = learn(path=path, operator=operator, resume=True)
    assert came[3:6] == ["reset", "resume", "resume"]
    assert len(run) == 60
    assert run.columns["reward"][: len(saved)].tobytes() == saved.columns["reward"].tobytes()
    assert [one.why for one in run.interventions].count("resume") == 1


def test_a_file_is_kept_as_soon_as_somebody_did_something(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"

    def nobody(request: Request) -> None:
        raise OperatorTimeout("Nobody came.")

    with pytest.raises(OperatorTimeout):
        learn(path=path, operator=rf.OperatorReset(nobody))
    assert not path.exists()  # nothing was played and nothing was performed
    plant = Plant()
    plant.fails_after_reset = True
    with pytest.raises(EnvironmentFailed):
        learn(plant, path=path, operator=rf.OperatorReset(lambda request: "in vain"))
    assert [one.detail for one in rf.load(path).interventions] == ["in vain"]
    with pytest.raises(OperatorTimeout):
        learn(path=path, operator=rf.OperatorReset(nobody), resume=True)
    run = learn(path=path, operator=rf.OperatorReset(lambda request: None), resume=True)
    assert [one.why for one in run.interventions[:2]] == ["start", "resume"]


def test_who_wants_to_stop_is_obeyed(tmp_path: Path) -> None:
    def stop(request: Request) -> None:
        if request.why == "reset":
            raise KeyboardInterrupt

    with pytest.raises(rf.Stopped, match="of 60 episodes, saved in") as stopped:
        learn(path=tmp_path / "a.rfrun", operator=rf.OperatorReset(stop))
    assert int(stopped.value.run.realised_resets[-1]) == 1
    with pytest.raises(rf.Stopped, match="Stopped after 0 of 60"):
        learn(path=tmp_path / "b.rfrun", operator=rf.OperatorReset(lambda request: stop(Request("", "reset", ""))))


def test_no_more_resets_than_were_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    came: list[str] = []
    operator = rf.OperatorReset(lambda request: came.append(request.why))
    for most in (1, 4):
        run = learn(path=path, resume=most > 1, max_resets=most, operator=operator)
        assert len(run) < 60
        assert run.realised_resets[-1] == run.columns["reset"][-1] + most - 1 == most
    assert came == ["start", "resume", "reset", "reset"]
    assert len(learn(path=path, resume=True, max_resets=4, operator=operator)) == len(run)
    assert len(came) == 4  # nobody is asked for what will not be played
    assert len(learn(path=path, resume=True, operator=operator)) == 60
    for bad in (0, True, 1.5, "3"):
        with pytest.raises(rf.InvalidInput, match="'max_resets' of a run must be a positive integer"):
            learn(max_resets=bad)


class Old(Plant):
    """One that nobody can be handed to."""

    def perform_reset(self, u: float, why: str) -> Any:  # type: ignore[override]
        return super().perform_reset(u, why)


def test_an_operator_is_for_problems_that_need_one() -> None:
    operator = rf.OperatorReset(lambda request: None)
    with pytest.raises(rf.InvalidInput, match="'grid-v0' resets itself: it takes no operator"):
        rf.learn("grid-v0", episodes=3, operator=operator)
    with pytest.raises(rf.InvalidInput, match=r"'perform_reset' of the problem 'plant' must take \(u, why, operator\)"):
        learn(Old(), operator=operator)
    assert len(learn(Old())) == 60


def tally_of(resets: list[bool], steps: int = 3) -> Tally:
    return Tally.of({"reset": np.array(resets, dtype=np.bool_), "steps": np.full(len(resets), steps)})


@given(st.lists(st.booleans(), max_size=200))
def test_the_recent_bound_is_what_it_is_defined_as(resets: list[bool]) -> None:
    tally, k = tally_of(resets), len(resets)
    beginnings = [0, *(2**i for i in range(20))]
    since = max(b for b in beginnings if b <= k / 2)
    i = beginnings.index(since)
    found = sum(resets[since:])
    length, lately, bound = tally.recent
    assert (length, lately) == (k - since, found)
    least = min(  # straight from the formula
        (t * found + math.log((j + 1) * (j + 2) * (i + 1) * (i + 2) / 0.05)) / (1 - math.exp(-t))
        for j in range(32)
        if (t := 2.0 ** (1 - j)) > 0
    )
    assert bound == pytest.approx(least, rel=1e-9)
    assert tally.further(7) == pytest.approx(7 * (min(least / (k - since), 1.0) if k else 1.0))
    assert tally.upper == float(resets_upper(sum(resets), 0.05))
    assert tally.mean_steps == (3 * k / sum(resets) if any(resets) else None)


def test_the_recent_bound_holds_after_every_episode_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 learners that adapt to their own resets; more than 36 of them may break it with probability below 1e-3.

    The number that does is at most binomial(400, 0.05): P(more than 36) = 2.4e-4.
    """
    monkeypatch.setattr(progress, "resets_upper", functools.cache(resets_upper))  # the same numbers, sooner
    chance = np.random.default_rng(11)
    broken = 0
    for _ in range(400):
        tally, probability = Tally(), chance.uniform(0.02, 0.6)
        expected = [0.0]
        failed = False
        for k in range(1, 257):
            reset = bool(chance.random() < probability)
            tally.note(reset, 1)
            expected.append(expected[-1] + probability)
            length, _, bound = tally.recent
            failed |= expected[k] - expected[k - length] > bound
            probability = min(max(probability * (0.7 if reset else 1.02), 0.005), 0.9)
        broken += failed
    assert broken <= 36


@given(
    st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 10**6), st.floats(0, 1e8),
    st.none() | st.floats(0, 1e6), st.integers(12, 100), st.integers(1, 10**7),
)  # fmt: skip
def test_the_line_fits(
    resets: list[bool], remaining: int, seconds: float, most: float | None, width: int, steps: int
) -> None:
    tally = tally_of(resets, steps)
    line = resets_line(tally, remaining, seconds, most, width)
    assert len(line) <= width
    assert line.startswith(f"{sum(resets) or 'no'} reset")
    longer = resets_line(tally, remaining, seconds, most, 100)
    assert "expected ≤" in longer
    assert len(longer) <= 100


def test_times_are_said_in_a_unit_that_suits() -> None:
    for seconds in (0.0, 1e-3, 0.0431, 1.0, 119.0, 7199.0, 1e5, 1e7):
        number, unit = duration(seconds).split()
        length = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600, "days": 86_400}[unit]
        assert float(number) * length == pytest.approx(seconds, rel=0.05)
