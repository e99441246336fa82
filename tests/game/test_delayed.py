"""The game with delay: against a naive one that keeps all states, and against the game without delay."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.game.naive_delay import play_naively

import resetfree as rf
from resetfree.game.delayed import Delay, Delayed, HeldPlan, RecordedDelays, begin_delayed, play_delayed, start_for_plan
from resetfree.game.loop import begin, play
from resetfree.players import make_player
from resetfree.players.model_based.model_search import LinearScores
from resetfree.players.testing import trial_problems as trial

BOX = "model-search, box"
FEW = {"population": 4, "rounds": 1, "planning": 5, "starts": 1}  # a search that takes no time
PAIRS: dict[str, tuple[str, tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]] = {
    "ucbvi": ("physical", ("ucbvi", {}), ("projected-gradient", {"B": 3.0})),
    "linear-ucb, lagged": ("physical", ("linear-ucb", {"B": 3.0, "lagged": True}), ("one-multiplier", {"B": 3.0})),
    "support-elimination": ("physical", ("support-elimination", {}), ("constant-penalty", {"C": 1.0})),
    "politex": ("physical", ("politex", {"B": 3.0}), ("search", {"B": 3.0})),
    "model-search": (trial.VECTORS, ("model-search", FEW), ("constant-penalty", {"C": 5.0})),
    BOX: (trial.BOX, ("model-search", FEW), ("constant-penalty", {"C": 5.0})),
}


def pair(name: str) -> tuple[rf.Problem, Any, Any]:
    corner, (primal, own), (dual, other) = PAIRS[name]
    return trial.corners()[corner], make_player("primal", primal, own), make_player("dual", dual, other)


def delayed(name: str, schedule: Any, episodes: int, seed: int = 3) -> list[rf.Round]:
    problem, primal, dual = pair(name)
    game = begin_delayed(problem, primal, dual, episodes=episodes, seed=seed)
    return list(play_delayed(problem, primal, dual, game, episodes=episodes, schedule=schedule))


def assert_same(one: list[rf.Round], other: list[rf.Round]) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert trial.same_round(a, b), f"round {a.k}"


class SameChance:
    """The random numbers of the game with delay, in the order in which the game without takes them."""

    def __init__(self, seed: int) -> None:
        self.seed, self.k = seed, 0

    def random(self, n: int) -> Any:
        self.k += 1
        return np.random.default_rng([self.seed, self.k]).random(n)


@pytest.mark.parametrize("name", PAIRS)
def test_without_delay_it_is_the_game_of_the_loop(name: str) -> None:
    rounds = delayed(name, Delay(0), 25)
    problem, primal, dual = pair(name)
    game = begin(problem, primal, dual, episodes=25, seed=3)
    game.s1, game.rng = rounds[0].s1, SameChance(3)  # type: ignore[assignment]
    assert_same(rounds, list(play(problem, primal, dual, game, episodes=25)))
    assert [this.based_on for this in rounds] == [this.k - 1 for this in rounds]


@pytest.mark.parametrize("name", [*(name for name in PAIRS if name != BOX), pytest.param(BOX, marks=pytest.mark.slow)])
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_any_delays_give_the_rounds_of_a_game_that_keeps_all_states(name: str, data: st.DataObject) -> None:
    chosen: list[int] = []

    class Drawn(Delayed):
        """Any plan that is admissible: not older than the newest reset and the plan before it."""

        def is_needed(self, j: int) -> bool:
            return True

        def based_on(self, k: int, fell: int) -> int:
            newest = max(fell, *chosen, 0) if chosen else fell
            chosen.append(data.draw(st.integers(newest, k - 1)))
            return chosen[-1]

    rounds = delayed(name, Drawn(), 12)
    naive = play_naively(*pair(name), lambda k, fell, before: chosen[k - 1], episodes=12, seed=3)
    assert_same(rounds, naive)
    assert [this.based_on for this in rounds] == chosen
    assert_same(delayed(name, RecordedDelays(chosen), 12), rounds)


@pytest.mark.parametrize("rounds", [1, 5])
def test_a_fixed_delay_rests_on_an_older_round_or_the_newest_reset(rounds: int) -> None:
    played = delayed("ucbvi", Delay(rounds), 40)
    falls = [this.k for this in played if this.episode.reset]
    assert falls
    for this in played:
        fell = max((k for k in falls if k < this.k), default=0)
        assert this.based_on == max(0, this.k - 1 - rounds, fell)
    naive = play_naively(*pair("ucbvi"), lambda k, fell, _: max(0, k - 1 - rounds, fell), episodes=40, seed=3)
    assert_same(played, naive)


def test_a_persistent_environment_is_planned_for_while_the_operator_works() -> None:
    problem = rf.make("drawn-by-hand-v0")
    primal, dual = make_player("primal", "uniform", {}), make_player("dual", "projected-gradient", {"B": 3.0})
    planned: list[Any] = []

    class Watched(type(primal)):  # type: ignore[misc]
        """Remembers the starts that it is asked about."""

        def plan(self, state: Any, s1: Any, lam: float) -> rf.Plan:
            planned.append(int(s1))
            made: rf.Plan = super().plan(state, s1, lam)
            return made

    watched = Watched()
    game = begin_delayed(problem, watched, dual, episodes=30, seed=1)
    rounds = list(play_delayed(problem, watched, dual, game, episodes=30, schedule=Delay(0)))
    lives = [this.s1 for this, before in zip(rounds[1:], rounds, strict=False) if before.episode.reset]
    assert lives
    assert rounds[0].s1 == planned[0]
    life, starts = rounds[0].s1, [rounds[0].s1]
    for this, before in zip(rounds[1:], rounds, strict=False):
        starts.append(start_for_plan(before.episode.next_start, life))
        life = this.s1 if before.episode.reset else life
    assert planned == starts
    assert_same(
        rounds, play_naively(rf.make("drawn-by-hand-v0"), primal, dual, lambda k, fell, _: k - 1, episodes=30, seed=1)
    )


@pytest.mark.parametrize("based_on", [[1], [0, 2], [0, 1, 0], [-1]])
def test_impossible_delays_are_refused(based_on: list[int]) -> None:
    with pytest.raises(rf.InvalidInput, match="must rest on one of"):
        RecordedDelays(based_on)


def test_a_plan_from_before_a_reset_is_refused() -> None:
    fell = next(this.k for this in delayed("ucbvi", Delay(0), 40) if this.episode.reset)
    recorded = [min(k, fell - 1) for k in range(40)]
    with pytest.raises(rf.InvalidInput, match=f"must rest on the reset in round {fell}"):
        delayed("ucbvi", RecordedDelays(recorded), 40)


def test_a_plan_survives_its_bytes_and_any_other_bytes_are_refused() -> None:
    plan = rf.Plan(LinearScores(np.array([[0.5, -1.0]]), np.zeros(1)), 1.5, 0.25)
    held = HeldPlan.of(7, 2.0, plan)
    again = HeldPlan.read(held.data)
    assert (again.based_on, again.lam, again.plan.v_r, again.digest) == (7, 2.0, 1.5, held.digest)
    assert again.plan.policy.same(plan.policy)
    plan.policy.weight[:] = 0.0
    assert held.plan.policy.weight[0, 0] == 0.5  # what a player does with its arrays later does not matter
    for data in (b"", held.data[:-1], held.data.replace(b'"lam"', b'"law"')):
        with pytest.raises(rf.InvalidInput):
            HeldPlan.read(data)
    with pytest.raises(rf.InvalidInput, match="a function"):
        HeldPlan.of(0, 0.0, rf.Plan(lambda h, s: np.ones(2) / 2, 0.0, 0.0))
