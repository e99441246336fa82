"""A simulator first: what was learned there is used on the machine, and its resets are not the machine's."""

from pathlib import Path

import pytest

import resetfree as rf
from resetfree.show.cli.run_summary import summary


def machine(slip: float = 0.12) -> rf.FiniteMDP:
    """A grid; the simulator slips less."""
    made: rf.FiniteMDP = rf.make("grid-v0", slip=slip)
    return made


def test_most_resets_happen_on_the_simulator_and_the_summary_says_how_many_were_saved() -> None:
    """At most a third of those from nothing, over four seeds."""
    saved = nothing = 0
    for seed in range(4):
        run = rf.learn(machine(), "support-elimination", simulator=machine(0.1), episodes=300, seed=seed)
        alone = rf.learn(machine(), "support-elimination", episodes=300, seed=seed)
        nothing += int(alone.realised_resets[-1])
        saved += int(run.realised_resets[-1])
        assert summary(run)["resets_saved"] == run.spec["data"]["resets"] - run.realised_resets[-1]
        assert summary(alone)["resets_saved"] is None
    assert nothing > 20
    assert 3 * saved <= nothing


def test_a_run_on_a_simulator_is_taken_as_it_is_and_a_resumed_run_needs_none(tmp_path: Path) -> None:
    """The file holds what the run began with."""
    before = rf.learn(machine(0.1), "support-elimination", episodes=100)
    path = tmp_path / "machine.rfrun"
    how = {"primal": "support-elimination", "simulator": before, "path": path}
    run = rf.learn(machine(), episodes=30, **how)  # type: ignore[arg-type]
    assert run.spec["data"]["resets"] == before.realised_resets[-1]
    more = rf.learn(machine(), episodes=60, resume=True, **how)  # type: ignore[arg-type]
    assert len(more) == 60


def test_the_simulator_is_played_until_as_many_episodes_in_a_row_had_no_reset() -> None:
    """Resets cost nothing there; what had one a moment ago is not tried on a machine."""
    played = []
    for seed in range(3):
        run = rf.learn(machine(), "support-elimination", simulator=machine(0.1), episodes=10, seed=seed)
        played.append(run.spec["data"]["episodes"])
        assert run.spec["episodes"] == 10
    assert max(played) > 10
    assert max(played) <= 40


def test_a_simulator_and_an_old_run_are_refused() -> None:
    """One of them."""
    old = rf.learn(machine(), episodes=5)
    with pytest.raises(rf.InvalidInput, match="simulator or with an old run"):
        rf.learn(machine(), episodes=5, simulator=machine(), start_from=old)
