"""A player that is defined elsewhere says its own batched form, and the engine plays it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.studies.batched.same_rounds import assert_same_rounds

import resetfree as rf
from resetfree.players import BatchedForm, discover, has_batched_form
from resetfree.players.batched import BatchedPlan, backward, exact_at
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.problems import State
from resetfree.studies.engines.batched import faster_engine, play_batch


@dataclass
class Weights:
    """The policy, and how often it has been reset."""

    policy: Any
    resets: int


@dataclass(frozen=True)
class Leaning(rf.PrimalPlayer[Weights]):
    """Takes the first action with probability `lean`, and more often after each reset; else any."""

    name: ClassVar[str] = "leaning"
    lean: float = 0.3

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Weights:
        return Weights(np.zeros((problem.horizon, problem.n_states or 0, problem.n_actions)), 0)

    def plan(self, state: Weights, s1: State, lam: float) -> rf.Plan:
        lean = 1.0 - (1.0 - self.lean) / (1.0 + state.resets)
        policy = np.full_like(state.policy, (1.0 - lean) / state.policy.shape[2])
        policy[:, :, 0] += lean
        return rf.Plan(policy, 0.0, 0.0, lam)

    def update(self, state: Weights, round: rf.Round) -> Weights:
        state.resets += round.episode.reset
        return state

    def batched_form(self, problem: rf.Problem, episodes: int) -> BatchedForm:
        return BatchedForm(LeaningProgram(), {"lean": self.lean})


@dataclass(frozen=True)
class LeaningProgram:
    """The same for many rows."""

    samples_actions: bool = True

    def begin(self, shape: Any, given: dict[str, Any]) -> Any:
        return np.zeros(len(given["lean"]), dtype=np.int32)

    def plan(self, scene: Any, state: Any, turn: Any, evaluate: bool) -> Any:
        (shape, tables, given), (s1, lam, _, u) = scene, turn
        lean = 1.0 - (1.0 - given["lean"]) / (1.0 + state)

        def step(values: Any, h: Any) -> Any:
            rest = (1.0 - lean) / shape.n_actions + 0.0 * values[0]
            return values, [rest + lean, *[rest] * (shape.n_actions - 1)]

        _, actions, exact, _ = backward(shape, tables, step, 1, u.action, len(lam), evaluate=evaluate, keep=False)
        return BatchedPlan(actions, 0.0 * lam, 0.0 * lam, lam, exact_at(exact, s1), None)

    def learn(self, scene: Any, state: Any, path: Any, lam: Any, plan: Any) -> Any:
        return state + path.reset


@dataclass
class Seen:
    """Rounds so far."""

    n: int


@dataclass(frozen=True)
class Rising(rf.DualPlayer[Seen]):
    """A multiplier that rises by `slope` in every round."""

    name: ClassVar[str] = "rising"
    slope: float = 0.5

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Seen:
        return Seen(0)

    def multiplier(self, state: Seen, s1: State, ask: Callable[[float], rf.Plan]) -> float:
        return self.slope * state.n

    def update(self, state: Seen, round: rf.Round) -> Seen:
        state.n += 1
        return state

    def batched_form(self, problem: rf.Problem, episodes: int) -> BatchedForm:
        return BatchedForm(RisingProgram(), {"slope": self.slope})


@dataclass(frozen=True)
class RisingProgram:
    """The same for many rows."""

    def begin(self, given: dict[str, Any]) -> Any:
        return np.zeros(len(given["slope"]), dtype=np.int32)

    def multiplier(self, given: dict[str, Any], state: Any, s1: Any) -> Any:
        return given["slope"] * state

    def learn(self, given: dict[str, Any], state: Any, s1: Any, k: Any, g: Any, was_reset: Any) -> Any:
        return state + 1


def test_players_from_elsewhere_are_played_in_batches() -> None:
    batch = assert_same_rounds(rf.make("grid-v0"), Leaning(), Rising(), "realised", episodes=60, seeds=[3, 4])
    assert batch.resets.sum() > 0
    assert batch.columns["lam"][0, -1] == 0.5 * 59
    two = play_batch(
        rf.make("grid-v0"), [Leaning(), Leaning(lean=0.9)], Rising(), episodes=60, seeds=[3, 4], evaluate=True
    )
    np.testing.assert_array_equal(two.columns["v_c"][:2], batch.columns["v_c"])
    assert (two.columns["v_c"][2:, 0] != batch.columns["v_c"][:, 0]).all()


def test_the_faster_engine_knows_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resetfree.studies.engines.batched.accelerator", lambda: True)
    assert faster_engine(10_000, Leaning(), Rising()) == "batched"


def test_a_subclass_must_say_its_own_form() -> None:
    class Bolder(LinearUCB):
        """Plays otherwise than the player it comes from."""

        name: ClassVar[str] = "bolder"

    assert has_batched_form(LinearUCB)
    assert not has_batched_form(Bolder)
    with pytest.raises(rf.InvalidInput, match="Got 'bolder' instead"):
        play_batch(rf.make("coin-chain-v0", m=3), Bolder(B=5.0), Rising())


def test_the_players_here_that_have_a_form() -> None:
    known = {
        role: [name for name, cls in discover(role).items() if has_batched_form(cls)] for role in ("primal", "dual")
    }
    assert known == {
        "primal": ["greedy-composite", "linear-ucb", "support-elimination", "ucbvi"],
        "dual": ["constant-penalty", "counting", "one-multiplier", "projected-gradient"],
    }
