"""A fleet between two sessions: its rounds since the checkpoint are learned again, and its machines go on."""

from math import inf

from resetfree.game.fleet import Fleet, FleetGame, HereCrew
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.recorded import FLEET, checked
from resetfree.runs.fleet.schedules import Recorded, RecordedFleet, WithPeople
from resetfree.runs.setup import Setup, rounds_of
from resetfree.theory.oracle import evaluator_of


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
        rows = [Recorded(one, *(columns[name][one.k - 1].item() for name in FLEET)) for one in played]
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
