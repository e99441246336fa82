"""Compiled rounds of Algorithm 1 are those of the plain loop, bit for bit, and what they cannot play is refused."""

from typing import Any

import numpy as np
import pytest
from benchmarks.compiled_rounds import compiled_rounds

import resetfree as rf
from resetfree.core.state import dump
from resetfree.game.loop import begin, play
from resetfree.players.linear.algorithm1 import algorithm1
from resetfree.theory.oracle import Evaluator

LINEAR = {"n_states": 5, "n_actions": 3, "d": 3, "horizon": 2}
CASES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "intervals": (rf.make("ledge-v0", places=3, horizon=3), "optimistic", {"width": "proved", "anytime": True}),
    "intervals, pooled": (rf.make("grid-v0"), "realised", {"width": "proved", "pooled": True}),
    "coins": (rf.make("thresholds-v0").replace(noise="bernoulli"), "exact", {"width": "proved"}),
    "literal": (rf.make("thresholds-v0").replace(boundary="literal"), "optimistic", {"width": "proved"}),
    "ends reset": (
        rf.make("drawn-v0", rows="S.X/..G", slip=0.2, horizon=3, closed=True),
        "realised",
        {"width": "proved"},
    ),
    "layered": (rf.make("coin-chain-v0", m=2), "realised", {"width": "proved"}),
    "determinants": (rf.make("random-linear-v0", **LINEAR), "exact", {"width": "proved", "anytime": True}),
    "determinants, pooled": (rf.make("random-linear-v0", **LINEAR), "realised", {"width": "proved", "pooled": True}),
    "nearly linear": (
        rf.make("random-linear-v0", **LINEAR, epsilon=0.5),
        "exact",
        {"width": "proved", "epsilon_p": 0.3, "epsilon_r": 0.1, "pooled": True},
    ),
    "tuned": (rf.make("grid-v0"), "optimistic", {}),
    "tuned, pooled": (rf.make("grid-v0"), "realised", {"pooled": True}),
    "tuned, features": (rf.make("random-linear-v0"), "optimistic", {"anytime": True}),
    "theory": (rf.make("grid-v0"), "optimistic", {"width": "theory"}),
}
EPISODES = 300


@pytest.mark.parametrize("case", CASES)
def test_they_are_the_rounds_of_the_plain_loop(case: str) -> None:
    mdp, feedback, settings = CASES[case]
    problem, (primal, dual) = mdp.problem(), algorithm1(B=5.0, **settings)
    plain, compiled = (begin(problem, primal, dual, episodes=EPISODES, seed=7) for _ in range(2))
    rounds = list(play(problem, primal, dual, plain, episodes=EPISODES, feedback=feedback, oracle=Evaluator(mdp)))
    parts = [
        compiled_rounds(problem, primal, dual, compiled, episodes=k, feedback=feedback) for k in (1, 100, EPISODES)
    ]
    found = {name: np.concatenate([getattr(part, name) for part in parts]) for name in parts[0]._fields}
    wanted = {
        "s1": [this.s1 for this in rounds],
        "lam": [this.lam for this in rounds],
        "v_r": [this.plan.v_r for this in rounds],
        "v_c": [this.plan.v_c for this in rounds],
        "exact_r": [this.exact[0] for this in rounds if this.exact],
        "exact_c": [this.exact[1] for this in rounds if this.exact],
        "reset": [this.episode.reset for this in rounds],
    }
    for name, column in wanted.items():
        np.testing.assert_array_equal(found[name], column, err_msg=name)
    assert 0 < sum(wanted["reset"]) < EPISODES
    assert len({*wanted["lam"]}) > 1 or case == "theory"
    assert (plain.k, plain.s1) == (compiled.k, compiled.s1)
    assert plain.rng.bit_generator.state == compiled.rng.bit_generator.state
    assert dump(plain.dual) == dump(compiled.dual)
    one, two = dump(plain.primal), dump(compiled.primal)
    assert one.keys() == two.keys()
    for name, array in one.items():
        same = two[name][..., : array.shape[-1]] if name in ("successor", "seen") else two[name]
        np.testing.assert_array_equal(array, same, err_msg=name)


def refused(mdp: Any, **settings: Any) -> str:
    """The words with which a game is refused."""
    problem, (primal, dual) = mdp.problem(), algorithm1(B=5.0, **settings)
    game = begin(problem, primal, dual, episodes=10, seed=0)
    with pytest.raises(rf.InvalidInput) as raised:
        compiled_rounds(problem, primal, dual, game, episodes=10)
    return str(raised.value)


def test_what_they_cannot_play_is_refused() -> None:
    assert "contexts" in refused(rf.make("contexts-v0"))
    assert "Gaussian" in refused(rf.make("grid-v0").replace(noise=0.1))
    assert "lagged" in refused(rf.make("grid-v0"), lagged=True)
    problem, (primal, dual) = rf.make("grid-v0").problem(), algorithm1(B=5.0)
    game = begin(problem, primal, dual, episodes=10, seed=0)
    game.primal.k += 1
    with pytest.raises(rf.InvalidInput, match="no data from before"):
        compiled_rounds(problem, primal, dual, game, episodes=10)
    assert "LargeLinearState" in refused(rf.make("pits-v0", n=60))
    xi = np.eye(2)[np.arange(12) % 2]
    assert "on a line" in refused(rf.make("grid-v0").replace(xi=xi))
    problem, (primal, dual) = rf.make("grid-v0").problem(), algorithm1(B=5.0)
    game = begin(problem, primal, dual, episodes=10, seed=0)
    with pytest.raises(rf.InvalidInput, match="a feedback among"):
        compiled_rounds(problem, primal, dual, game, episodes=10, feedback="guessed")
