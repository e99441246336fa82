"""Two more schedules of fleets: with people who perform the resets, in real time, and of rounds on record.

In real time a machine is over with its episode when it says so, and people are waited for: time is in seconds.
"""

import time
from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

from resetfree.core.errors import InvalidInput
from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.game.fleet import Fleet, FleetGame, HereCrew, UnderWay
from resetfree.game.loop import Game
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.recorded import FLEET, RecordedRound, checked
from resetfree.runs.fleet.crews import Hosts
from resetfree.runs.setup import Setup, rounds_of
from resetfree.theory.oracle import evaluator_of


class WithPeople(Fleet):
    """The schedule of a fleet in real time.  before: seconds of earlier sessions."""

    def start_clock(self, before: float) -> None:
        """Begin."""
        self._zero = time.monotonic() - before
        self._busy: dict[int, tuple[int, float]] = {}  # by machine: its operator, and since when

    def _now(self) -> float:
        return time.monotonic() - self._zero

    def before(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> None:
        """Have machines reset and begin, until an episode is over."""
        assert isinstance(game, FleetGame)
        crew = self.crew
        assert isinstance(crew, Hosts)
        self._plans.clear()
        while True:
            game.now = self._now()
            self._help(game)
            self._begin(primal, dual, game)
            machine, found = crew.next_one()
            game.now, one = self._now(), game.machines[machine - 1]
            if machine in self._busy:
                who, since = self._busy.pop(machine)
                game.busy[who] += game.now - since
                game.free[who] = 0.0
                one.start, one.waits, one.ready = found, found is None, game.now
            elif found is None and self._problem.persistent:
                game.lose(machine)
            elif found is None:
                crew.begin(machine, game.under_way[machine], self._chance(game, machine, again=True))
            else:
                self._results[machine] = found
                game.last = machine, game.under_way.pop(machine)
                game.s1 = game.last[1].start
                return

    def _help(self, game: FleetGame) -> None:
        """See `Fleet`; also before the first episodes."""
        for i, one in self._whole(game):
            if one.start is None and not one.waits and i not in game.under_way and i not in self._busy:
                one.waits = True
        waiting = [(-one.pay, one.ready, i) for i, one in self._whole(game) if one.waits]
        for who, free in enumerate(game.free):
            if free > 0.0 or not waiting:
                continue
            waiting.remove(first := min(waiting))
            machine, one = first[2], game.machines[first[2] - 1]
            self._busy[machine], game.free[who] = (who, game.now), 1.0
            one.waits, one.waited, one.operator = False, game.now - one.ready, who + 1
            one.ready = inf  # until it is performed
            words = f"episode {one.begun} of machine {machine} ended in a reset state" if one.begun else "it begins"
            self.crew.begin_reset(machine, game.chance(machine, 1).random(), one.why, words, who)  # type: ignore[attr-defined]

    def _take(self, game: FleetGame, machine: int) -> None:
        """Its end is heard of later."""


class FleetRecord(NamedTuple):
    """A round of a fleet on record."""

    round: RecordedRound
    machine: int
    number: int
    began: float
    ended: float
    waited: float
    operator: int


class RecordedFleet(Fleet):
    """The schedule of rounds on record, from the one after the checkpoint on: their plans are made again."""

    def replays(self, game: FleetGame, rounds: Sequence[FleetRecord]) -> None:
        """Say which rounds they are."""
        self._rows, self._first, self._begun = rounds, game.k, game.begun
        self._made: dict[int, UnderWay] = {one.number: one for one in game.under_way.values()}  # by number

    def before(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> None:
        """Make the plans that rest on the present states, and take the next round."""
        assert isinstance(game, FleetGame)
        self._plans.clear()
        for row in self._rows[game.k - self._first :]:
            if row.round.based_on == game.k:
                held, tries = self._planned(primal, dual, game, row.round.s1)
                rest = row.began, row.waited, row.operator
                self._made[row.number] = UnderWay(row.number, row.round.s1, *rest, held, tries)
        row = self._rows[game.k - self._first]
        if row.number not in self._made:
            raise InvalidInput(f"round {row.round.k} rests on a round that was over before the checkpoint")
        machine = game.machines[row.machine - 1]
        machine.begun += row.number > self._begun
        machine.waits = False
        game.begun, game.now = max(game.begun, row.number), row.ended
        game.under_way.pop(row.machine, None)
        game.last = row.machine, self._made.pop(row.number)
        game.s1 = row.round.s1
        self._results[row.machine] = row.round.episode


def go_on_as_fleet(setup: Setup, ledger: Ledger, schedule: Fleet) -> None:
    """Put the game after the last round of its file, from that of its checkpoint.

    Machines that keep a state of their own must be reset first. All others go on where they stand: with the episodes
    that were under way at the checkpoint, or with new ones.
    """
    game, problem = setup.game, setup.world.problem
    assert isinstance(game, FleetGame)
    if game.k < ledger.last:
        columns = ledger.contents().columns
        played = checked(problem, ledger.played(game.k + 1, ledger.last))
        rows = [FleetRecord(one, *(columns[name][one.k - 1].item() for name in FLEET)) for one in played]
        replayed = RecordedFleet(problem, HereCrew([problem]), episodes=ledger.last)
        replayed.replays(game, rows)
        for one in ledger.played(1, game.k) if problem.n_states is not None else ():
            replayed.learned(one.episode)
        oracle = evaluator_of(setup.world.mdp, problem) if setup.spec["feedback"] == "exact" else None
        for _ in rounds_of(setup, episodes=ledger.last, oracle=oracle, schedule=replayed):
            pass
    if problem.n_states is not None:
        for played_before in ledger.played(1, ledger.last):
            schedule.learned(played_before.episode)
    if isinstance(schedule, WithPeople):  # what they were doing is begun again
        schedule.start_clock(game.now)
        game.free = [0.0] * len(game.free)
        for being_reset in (one for one in game.machines if one.ready == inf):
            being_reset.waits, being_reset.ready = True, game.now
    if problem.persistent:
        for machine in range(1, len(game.machines) + 1):
            game.lose(machine)
        game.s1 = None
