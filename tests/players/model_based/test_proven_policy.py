"""A machine that stands keeps the policy that has proven itself: when it is left, and when it is played again."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.players.neural.small_networks import Target

import resetfree as rf
from resetfree.core.state import load
from resetfree.players.model_based import machine_search
from resetfree.players.model_based.machine_model import Forecast
from resetfree.players.model_based.machine_search import (
    GAIN,
    GENTLE,
    LONG,
    LOSS,
    NOTHING,
    MachineSearchState,
)
from resetfree.players.model_based.model_search import ModelSearch
from resetfree.players.model_based.search_state import Candidate
from resetfree.players.testing.trial_problems import snapshot
from resetfree.problems.formula import TanhPolicy

PLAYER, STEPS = ModelSearch(), 100
ENOUGH = -(-LONG // (STEPS + 1))  # episodes after which a life is long: each has a row more than steps


def fresh(*rewards: float) -> MachineSearchState:
    """After an episode each that earned so much, by whose range gains and losses are measured."""
    state = PLAYER.init(Target(), 100, 0)
    assert isinstance(state, MachineSearchState)
    for reward in rewards:
        live(state, policy(0.5), reward)
    return state


def policy(weight: float | None = None) -> TanhPolicy:
    """The first one, or one whose weights are all the same."""
    first = fresh().policy
    assert isinstance(first, TanhPolicy)
    return first if weight is None else replace(first, weight=np.full_like(first.weight, weight))


def lived(reward: float, *, reset: bool = False) -> rf.Episode:
    """An episode with the same reward in every step."""
    first, after = policy(), None if reset else np.zeros(2)
    return rf.Episode(np.zeros((STEPS + 1, 2)), np.zeros((STEPS, len(first.low))), np.full(STEPS, reward), reset, after)


def live(state: MachineSearchState, played: TanhPolicy, reward: float, *, reset: bool = False, times: int = 1) -> None:
    """Episodes of a policy with the same reward in every step; the last one may end in a reset."""
    for i in range(times):
        episode, plan = lived(reward, reset=reset and i == times - 1), rf.Plan(played, 0.0, 0.0)
        PLAYER.update(state, rf.Round(1, episode.start, 200.0, plan, episode=episode, cost_signal=0.0, exact=None))


def test_a_long_life_without_a_reset_proves_a_policy() -> None:
    state, one = fresh(), policy(1.0)
    live(state, one, 0.4, times=ENOUGH - 1)
    assert state.rate == NOTHING
    live(state, one, 0.4)
    assert state.proven is one
    assert state.rate == pytest.approx(0.4)
    assert state.has_proven


def test_the_proven_policy_is_played_again_when_another_one_falls() -> None:
    state, one, two = fresh(), policy(1.0), policy(2.0)
    live(state, one, 0.4, times=ENOUGH)
    live(state, two, 0.9, reset=True)
    assert state.policy is one
    assert not state.stale  # a new idea comes only with more rows
    assert state.at == state.began == state.rows.n


@pytest.mark.parametrize("errors", [0.0, machine_search.ERRORS])
def test_what_varies_by_itself_is_no_reason_to_go_back(errors: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_search, "ERRORS", errors)
    state, one, two = fresh(), policy(1.0), policy(2.0)
    live(state, one, 0.4, times=ENOUGH)
    for reward in (0.6, 0.0, 0.3):
        live(state, two, reward)
    assert state.policy is (two if errors else one)


def test_it_is_played_again_when_another_one_earns_less_for_long() -> None:
    state, one, two = fresh(0.0, 1.0), policy(1.0), policy(2.0)
    live(state, one, 0.4, times=ENOUGH)
    live(state, two, 0.4 - 2.0 * LOSS, times=ENOUGH - 1)
    assert state.policy is two
    live(state, two, 0.4 - 2.0 * LOSS)
    assert state.policy is one


@pytest.mark.parametrize(("reward", "proven"), [(0.4 - 0.5 * LOSS, 1.0), (0.4 + 0.5 * LOSS, 2.0)])
def test_another_one_that_earns_about_as_much_goes_on(reward: float, proven: float) -> None:
    state = fresh(0.0, 1.0)
    live(state, policy(1.0), 0.4, times=ENOUGH)
    live(state, two := policy(2.0), reward, times=ENOUGH)
    assert state.policy is two
    assert state.proven.weight.flat[0] == proven


def test_a_proven_policy_that_falls_is_proven_no_longer() -> None:
    state, one = fresh(), policy(1.0)
    live(state, one, 0.4, times=ENOUGH)
    live(state, one, 0.4, reset=True)
    assert state.rate == NOTHING
    assert state.stale  # a plan comes next
    live(state, one, 0.4, times=ENOUGH - 1)  # the life that counts begins after the fall
    assert state.rate == NOTHING


def test_a_proven_policy_that_earns_less_than_it_did_is_proven_no_longer() -> None:
    """As one that fell elsewhere, was put back, and stands in a corner now."""
    state, one, two = fresh(), policy(1.0), policy(2.0)
    live(state, one, 0.8, times=ENOUGH)
    live(state, two, 0.8, reset=True)
    live(state, one, 0.8 - 2.0 * LOSS, times=ENOUGH - 1)
    assert state.has_proven
    state.stale = False
    live(state, one, 0.8 - 2.0 * LOSS)
    assert state.rate == NOTHING
    assert state.stale


def test_nothing_is_gone_back_to_before_a_policy_has_proven_itself() -> None:
    state, two = fresh(), policy(2.0)
    live(state, policy(1.0), 0.4, reset=True)
    live(state, two, 0.4, reset=True)
    assert state.policy is two
    assert state.stale


@given(lives=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 16), st.booleans()), max_size=8))
def test_what_is_proven_follows_a_plain_account_of_lives(lives: list[tuple[int, int, bool]]) -> None:
    """Lives of a policy each; rewards are sixteenths, so that their means are exact."""
    state, rate, proven = fresh(), NOTHING, 0
    for i, (times, sixteenths, reset) in enumerate(lives, 1):
        live(state, policy(float(i)), sixteenths / 16, reset=reset, times=times)
        if times - reset >= ENOUGH and sixteenths / 16 > rate:
            rate, proven = sixteenths / 16, i
        if reset and proven == i:
            rate = NOTHING
        assert state.rate == rate
        if rate != NOTHING:
            assert state.proven.weight.flat[0] == proven


def test_first_actions_are_small_ones_around_the_middle() -> None:
    first = policy()
    drawn = np.array([first.act(1, np.zeros(2), np.full(len(first.low), u)) for u in (0.0, 0.5, 1.0)])
    middle, half = (first.low + first.high) / 2.0, (first.high - first.low) / 2.0
    np.testing.assert_allclose(drawn, [middle - GENTLE * half, middle, middle + GENTLE * half])


PROMISES = [
    ((0.5, 0.4), (0.0, 0.0), True),
    ((0.4 + 0.5 * GAIN, 0.4), (0.0, 0.0), False),  # hardly more
    ((0.5, 0.4), (0.0, 0.2), False),  # as much as the resets that are imagined, wrongly, may cost
    ((0.5, 0.4), (0.3, 0.0), True),  # resets of a new policy are charged by lam, when it is searched for
]


@pytest.mark.parametrize(("reward", "reset", "more"), PROMISES)
def test_more_reward_is_more_than_imagined_resets_can_explain(
    reward: tuple[float, float], reset: tuple[float, float], more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    planning = 50
    search = machine_search.MachineSearch(None, np.zeros((3, 1)), 200.0, planning, 4, 1, 0)  # type: ignore[arg-type]
    earned, fallen = (np.repeat(np.array(part)[:, None], 3, axis=1) for part in (np.array(reward) * planning, reset))
    told = iter([Forecast(earned[:1], fallen[:1]), Forecast(earned[1:], fallen[1:])])
    monkeypatch.setattr(machine_search, "rollout", lambda *given: next(told))
    new, old = np.ones((1, 2)), np.zeros((1, 2))
    assert search._earns_more(Candidate(new), Candidate(old), np.zeros((3, 1)), np.zeros((planning, 3, 1))) is more


@pytest.mark.parametrize(("began", "rate"), [(1, 0.4), (10**6, 0.4), (0, float("inf")), (0, float("nan"))])
def test_what_a_file_says_of_it_is_checked(began: int, rate: float) -> None:
    state = fresh()
    live(state, policy(1.0), 1.5, times=ENOUGH)  # rewards may be outside of their scale
    state.check_loaded()
    state.began, state.rate = began, rate
    with pytest.raises(rf.InvalidInput):
        state.check_loaded()


def test_a_policy_on_trial_and_the_proven_one_are_both_read_back() -> None:
    state, one, two = fresh(), policy(1.0), policy(2.0)
    live(state, one, 0.4, times=ENOUGH)
    live(state, two, 0.4)
    other = fresh()
    for _ in range(ENOUGH + 1):
        other.rows.replay(lived(0.4))
    load(other, snapshot(state))
    assert (other.policy.weight.flat[0], other.proven.weight.flat[0]) == (2.0, 1.0)
    assert (other.rate, other.began, other.at) == (state.rate, state.began, state.at)
