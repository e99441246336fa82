"""Plans are read ahead: the newest one, once, whole, and what is wrong with one is raised where the run is played."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from tests.runs.live.quick_players import Quick
from tests.runs.live.test_live import learn, replayed
from tests.waiting import until

import resetfree as rf
from resetfree.core import Notice
from resetfree.game.delayed import HeldPlan
from resetfree.runs.file.ledger import read
from resetfree.runs.live import threads as callback_thread
from resetfree.runs.live.board import Board
from resetfree.runs.live.threads import KEPT, PlanReader


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    with Board.make(tmp_path / "plans") as made:
        yield made


def plan(number: int) -> HeldPlan:
    return HeldPlan.of(number, 0.5, rf.Plan(np.full((100, 100), float(number)), 1.0, 0.25))


def test_the_newest_plan_is_there_without_being_asked_for(board: Board) -> None:
    with PlanReader(board, {}) as reader:
        assert reader.newest is None
        kept: list[Any] = []
        for number in range(1, 3 * KEPT):
            posted = board.post(plan(number).data, tag=number)
            until(lambda number=number: reader.newest is not None and reader.newest.number == number)  # type: ignore[misc]
            found = reader.newest
            assert found is not None
            assert (found.number, found.digest, found.held.based_on) == (number, posted.digest, number)
            kept.append(found.held.plan.policy)
        reader.check()
    for number, policy in enumerate(kept, 1):
        np.testing.assert_array_equal(policy, np.full((100, 100), float(number)))  # whoever keeps one has it


def test_what_is_no_plan_is_raised_where_the_run_is_played(board: Board) -> None:
    with PlanReader(board, {}) as reader:
        board.post(b"no plan")
        until(lambda: reader._failure is not None)
        with pytest.raises(rf.InvalidInput, match="The bytes of a plan"):
            reader.check()
        assert reader.newest is None


def test_callbacks_see_every_round_once_and_in_order_with_what_acted_in_it(tmp_path: Path) -> None:
    seen: list[int] = []
    said: list[str] = []
    kept: list[int] = []

    class Watching:
        def begin(self, session: rf.Session) -> None:
            said.append(f"begin {session.k}")

        def __call__(self, session: rf.Session) -> None:
            assert session.k == session.round.k == session.row["k"]
            assert session.policy.predict(np.zeros(4))[0] == int(np.argmax(session.round.plan.policy(1, np.zeros(4))))
            session.save()
            seen.append(session.k)
            kept.append(len(session.columns()["k"]))  # committed before it is called

        def end(self, session: rf.Session) -> None:
            said.append(f"end {session.k}")

    run = learn(path=tmp_path / "a.rfrun", callbacks=[Watching(), rf.LogEvery(6, to=said.append)])
    assert seen == list(range(1, 13))
    assert all(n >= k for n, k in zip(kept, seen, strict=True))
    assert [words.split(":")[0] for words in said] == ["begin 0", "episode 6 of 12", "episode 12 of 12", "end 12"]
    replayed(run)


@pytest.mark.slow
def test_a_callback_ends_the_run_and_one_that_is_slow_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callback_thread, "LONG", 0.1)

    def slow(session: rf.Session) -> str | None:
        time.sleep(0.3)  # an episode lasts a hundredth of a second
        return "that is enough" if session.k == 3 else None

    with pytest.warns(Notice, match=r"The callbacks took [\d.]+ s after episode 1, longer than an episode lasts"):
        run = learn(path=tmp_path / "a.rfrun", episodes=100_000, callbacks=[slow])
    assert run.ended is not None
    assert (run.ended.kind, run.ended.why, run.ended.k) == ("callback", "that is enough", len(run))
    assert len(run) > 3  # acting did not wait
    more = learn(path=tmp_path / "a.rfrun", episodes=100_000, max_resets=10**6, steps=10, resume=True)
    assert len(more) == len(run)  # its steps are spent: nothing was played


def test_what_a_callback_raises_ends_the_run_which_is_saved(tmp_path: Path) -> None:
    def breaks(session: rf.Session) -> None:
        if session.k == 2:
            raise ArithmeticError("no disk")

    with pytest.raises(ArithmeticError, match="no disk") as raised:
        learn(path=tmp_path / "a.rfrun", episodes=100_000, callbacks=[breaks])
    assert any("'breaks', after episode 2" in note for note in raised.value.__notes__)
    assert len(read(tmp_path / "a.rfrun").columns["k"]) >= 2


class Trap(gymnasium.Env[Any, Any]):
    """Pays for a while after a reset, and then stands still until the next one."""

    action_space, observation_space = spaces.Discrete(2), spaces.Box(-1.0, 1.0, (4,), np.float64)
    metadata: dict[str, Any] = {}  # noqa: RUF012
    paid = 100  # steps

    def __init__(self) -> None:
        self._left = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = self.paid
        return np.full(4, 0.5), {}

    def step(self, action: int) -> Any:
        self._left = max(self._left - 1, 0)
        at = np.full(4, 0.1) if not self._left else np.linspace(-0.5, 0.5, 4) * (self._left / self.paid)
        return at, float(self._left > 0), False, False, {}


@pytest.mark.parametrize("ask", ["when-stuck", "never"])
def test_a_run_that_stands_still_is_noticed_and_put_back_if_it_may_ask(tmp_path: Path, ask: Any) -> None:
    problem = rf.from_gym(Trap(), horizon=25, name="trap", reset_when="terminated", reward_range=(0, 1))
    resets = {"max_resets": 2} if ask == "when-stuck" else {}
    with pytest.warns(Notice, match="Stuck: in the last"):
        run = learn(problem, Quick, path=tmp_path / "a.rfrun", episodes=60, rate=1000.0, ask=ask, **resets)
    notes = [one for one in run.notes if one.stuck]
    assert notes
    assert notes[0].k >= 24
    assert not run.columns["reset"].any()
    if ask == "never":
        assert (len(run), run.requested_resets) == (60, [])
        assert "To have it put back then" in notes[0].what
        return
    assert len(run.requested_resets) >= 1
    assert [one.why for one in run.interventions][:2] == ["start", "stuck"]
    k = run.requested_resets[0]
    np.testing.assert_array_equal(run.columns["s1"][k], np.full(4, 0.5))
    assert run.columns["reward"][k] > 20  # it earns again
    replayed(run, problem)
    with pytest.raises(rf.InvalidInput, match="with a delay"):
        rf.learn("gym:CartPole-v1", ask=ask, delay=1)
