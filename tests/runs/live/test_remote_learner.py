"""A learner elsewhere and its relay, over a network that loses questions and answers: no round is lost or doubled."""

import random
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bank import edit, rows
from tests.runs.live.quick_players import Quick, Raising
from tests.runs.live.test_live import OPTIONS, PROBLEM, learn, replayed

import resetfree as rf
from resetfree.core.plain_tree import decode, encode
from resetfree.problems import State
from resetfree.runs.file import runfile
from resetfree.runs.live import acting, learner_location, remote_learner
from resetfree.runs.live.assignment import Assignment
from resetfree.runs.live.learner import Learner
from resetfree.runs.live.remote_learner import (
    MOVES,
    ROUNDS,
    LearnerRaised,
    Mirror,
    Relay,
    RemoteLearner,
    beginning,
    rounds_after,
)
from resetfree.runs.live.supervisor import Supervisor


class Direct(Supervisor):
    """Relay and learner in this process, with a network between them that is down by chance, and learners that die.

    Everything that is asked may be asked twice, because the question or the answer was lost.
    """

    chance = random.Random(5)
    lost = doubled = deaths = 0

    def start(self, assignment: Assignment) -> None:
        self._assignment, self._file = assignment.messages, assignment.file
        self._start: dict[str, Any] | None = None
        self._one = threading.Lock()  # the recorder and the thread that acts call it
        self._ended = False
        self._open()

    def _open(self) -> None:
        self._learner = RemoteLearner()
        self._relay = Relay(self._file, self.plans, self.checkpoints, self._call)
        self._relay.assign(self._assignment)

    def _call(self, method: str, *arguments: Any) -> bytes:
        while True:
            fate = self.chance.random()
            if fate < 0.2:
                Direct.lost += 1  # the question
                continue
            answer: bytes = getattr(self._learner, method)(*arguments)
            if fate > 0.4:
                return answer
            Direct.doubled += 1  # the answer is lost, and the question is asked again

    def begin(self, start: State) -> None:
        self._start = {"start": start}
        self.check()

    def look(self, *, ending: bool = False) -> None:
        self._ended = ending
        self.check()

    def check(self) -> None:
        with self._one:
            if self.chance.random() < 0.5:
                return  # the network is down: rounds wait in the run file
            if self.chance.random() < 0.1:
                Direct.deaths += 1
                self._shut()
                self._open()
            while self._relay.exchange(self._start, ending=self._ended):
                pass

    def scheduling(self) -> str:
        return "It runs here."

    def _shut(self) -> None:
        self._learner.close()
        self._relay.close()

    def close(self) -> None:
        self._shut()
        super().close()


def test_whatever_is_lost_every_round_is_learned_once_and_the_run_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every checkpoint is committed at once, so that a new learner continues from the newest."""
    monkeypatch.setattr(acting, "Supervisor", Direct)
    run = learn(path=tmp_path / "a.rfrun", episodes=60, checkpoint_every=0.0)
    assert list(run.columns["k"]) == list(range(1, 61))
    assert min(Direct.lost, Direct.doubled, Direct.deaths) > 5
    assert run.plan_ages.max() > 1
    replayed(run)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run file of 20 rounds, each with the plan of the round before the last."""
    file = tmp_path_factory.mktemp("played") / "a.rfrun"
    own = {"problem": OPTIONS}
    rf.learn(PROBLEM, Quick(), "constant-penalty", B=1.0, episodes=20, seed=3, delay=1, settings=own, path=file)
    return file


def mirrored(played: Path, file: Path) -> Mirror:
    mirror = Mirror(file)
    with runfile.reading(played) as connection:
        for number, part in enumerate(beginning(connection), 1):
            assert mirror.begin(number, part) == number
            assert mirror.begin(number, part) == number  # twice
            assert mirror.begin(number + 2, part) == number  # after a gap
    return mirror


def test_a_copy_takes_every_round_once_and_nothing_after_a_gap(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resetfree.runs.live.remote_learner.MOST_ROWS", 6)
    with mirrored(played, tmp_path / "b.rfrun") as mirror, runfile.reading(played) as connection:
        first, last, more = rounds_after(connection, 0)
        assert (last, more) == (6, True)
        beyond, last, more = rounds_after(connection, 14)
        assert (last, more) == (20, False)
        assert mirror.add(beyond) == 0
        assert mirror.add(first) == mirror.add(first) == 6
        assert mirror.add(rounds_after(connection, 4)[0]) == 10  # overlaps
        assert mirror.add(beyond) == 10
        assert mirror.add(rounds_after(connection, 10)[0]) == 16
        assert mirror.add(rounds_after(connection, 16)[0]) == 20
        assert mirror.add(rounds_after(connection, 20)[0]) == 20  # none
    for table in ("spec", "meta", "checkpoints", ROUNDS, MOVES):
        assert rows(tmp_path / "b.rfrun", table) == rows(played, table), table


def test_a_part_that_names_another_table_is_refused(played: Path, tmp_path: Path) -> None:
    with (
        mirrored(played, tmp_path / "b.rfrun") as mirror,
        pytest.raises(rf.InvalidInput, match="rows of one of its tables"),
    ):
        mirror.begin(mirror.parts + 1, encode({"table": "problem", "rows": [[0, np.zeros(3, np.uint8)]]}))


def assignment_of(played: Path, primal: Any, boards: Path) -> Assignment:
    dual = rf.load(played).player_again("dual")
    known = {"phi": None, "xi": None, "room": 0}
    return Assignment(played, boards, 0.0, 100, False, ray=None, primal=primal, dual=dual, known=known)


@contextmanager
def relayed(played: Path, primal: Any, folder: Path) -> Iterator[tuple[Relay, Supervisor]]:
    """A learner of that run, the relay to it and the boards."""
    learner, boards = RemoteLearner(), folder / "boards"
    boards.mkdir()
    file = folder / "b.rfrun"
    shutil.copy(played, file)
    edit(file, "DELETE FROM checkpoints")  # all rounds are learned again
    with (
        Supervisor(boards) as made,
        Relay(file, made.plans, made.checkpoints, lambda name, *all: getattr(learner, name)(*all)) as relay,
    ):
        relay.assign(assignment_of(file, primal, boards).messages)
        yield relay, made
    learner.close()


def test_a_side_that_lost_count_is_set_right(played: Path, tmp_path: Path) -> None:
    with relayed(played, Quick(), tmp_path) as (relay, boards):
        relay.acknowledged = 15  # it is 0
        assert relay.exchange(None, ending=False)
        assert relay.acknowledged == 0
        assert not relay.exchange(None, ending=True)
        assert relay.acknowledged == 20
        assert boards.checkpoints.newest().tag == 20


def test_a_new_learner_holds_the_plan_that_the_one_before_left_on_the_board(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is killed after its plan of round 5 and before its checkpoint.

    Round 7 is played with that plan, after the second one has saved a checkpoint of round 6.
    """
    assert list(rf.load(played).columns["based_on"][5:7]) == [4, 5]
    file, boards = tmp_path / "b.rfrun", tmp_path / "boards"
    shutil.copy(played, file)
    boards.mkdir()
    with Supervisor(boards) as made, closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM checkpoints")
        for table in (ROUNDS, MOVES):
            connection.execute(f"DELETE FROM {table} WHERE k > 5")
        connection.commit()
        assignment = assignment_of(file, Quick(), boards)
        with monkeypatch.context() as killed, Learner(assignment, made.plans, made.checkpoints) as first:
            killed.setattr(first, "save", lambda: None)
            first.work()
        assert (made.plans.newest().tag, made.checkpoints.newest().number) == (5, 0)
        with Learner(assignment, made.plans, made.checkpoints) as second:
            connection.execute("ATTACH ? AS whole", (str(played),))
            for k in (6, 7):
                for table in (ROUNDS, MOVES):
                    connection.execute(f"INSERT INTO {table} SELECT * FROM whole.{table} WHERE k = ?", (k,))
                connection.commit()
                second.work()
                assert second.k == k
                found = made.checkpoints.take(lambda data: decode(data, {}))
                assert found is not None
                checkpoint = runfile.Checkpoint(k, 1.0, {}, found[1]["s1"], found[1]["arrays"])
                runfile.write_checkpoint(connection, checkpoint)
                connection.commit()


def test_what_a_learner_raises_comes_back(played: Path, tmp_path: Path) -> None:
    with relayed(played, Raising(), tmp_path) as (relay, _), pytest.raises(LearnerRaised) as caught:
        relay.exchange(None, ending=False)
    said = caught.value.said
    assert (said["type"], said["known"], said["words"]) == ("ArithmeticError", False, "ArithmeticError: too hot")
    assert "quick_players.py" in said["trace"]


def test_what_a_killed_learner_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed = tmp_path / f"{remote_learner.PREFIX}{2**22 + 1}-x"
    killed.mkdir()
    learner = RemoteLearner()
    (own,) = tmp_path.iterdir()
    assert own != killed
    learner.close()
    assert list(tmp_path.iterdir()) == []


def test_places_are_parsed_and_what_is_wrong_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert rf.RayLearner.parse("ray").cluster == "10.0.0.1:6379"
    assert rf.RayLearner.parse("ray:auto").cluster == "auto"
    assert rf.RayLearner.parse("ray:local").cluster is None
    assert rf.RayLearner.parse("ray://head:10001", {"gpus": 1}) == rf.RayLearner("ray://head:10001", gpus=1)
    monkeypatch.delenv("RAY_ADDRESS")
    assert rf.RayLearner.parse("ray").cluster is None
    for text, settings in (("ray:", {}), ("ray", {"gpus": -1}), ("ray", {"priority": "high"})):
        with pytest.raises(rf.InvalidInput):
            rf.RayLearner.parse(text, settings)
    with pytest.raises(rf.UnknownName, match="Did you mean 'gpus'"):
        rf.RayLearner.parse("ray", {"gpu": 1})


def test_ray_that_is_not_installed_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_location, "find_spec", lambda name: None)
    with pytest.raises(rf.InvalidInput, match="needs Ray: install resetfree with the extra 'ray'"):
        learn(path=tmp_path / "a.rfrun", learner="ray")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "error", "sentence"),
    [
        ({"rate": None, "learner": "ray"}, rf.InvalidInput, "The learner 'ray' needs a 'rate'"),
        ({"rate": None, "learner": rf.RayLearner("auto")}, rf.InvalidInput, "The learner 'ray' needs a 'rate'"),
        ({"learner": "ray:127.0.0.10:1"}, rf.RunError, "at '127.0.0.10:1' cannot be reached: Connection refused"),
        ({"learner": "rays"}, rf.UnknownName, "Did you mean 'ray'"),
    ],
    ids=["no-rate", "no-rate-object", "refused", "misspelt"],
)
def test_a_learner_on_ray_that_cannot_be_is_one_sentence(
    tmp_path: Path, more: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        learn(path=tmp_path / "a.rfrun", **more)
    assert list(tmp_path.iterdir()) == []
