"""The bound of support elimination on every path of small problems of every kind, in all three of its forms."""

from collections import Counter

import numpy as np
import pytest
from tests.players.elimination.test_support_elimination import resets_of
from tests.players.tabular.test_large import assert_same
from tests.studies.batched.same_rounds import assert_same_rounds

import resetfree as rf
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.elimination.support_elimination import SupportElimination
from resetfree.problems.finite.composed import with_contexts
from resetfree.theory.assumptions import feasibility, unsafe_pairs

KINDS = ("stationary", "layered", "contexts", "ends")
FORGETFUL = ConstantPenalty(C=0.0)


def door(horizon: int = 1) -> rf.FiniteMDP:
    """Staying in 0 and going back there from 1 are resets at the end of an episode, and both pay; 2 is a reset state.

    An episode of one step has one set of allowed actions, as a life without end has: but 0 is a fine place to start.
    """
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 0] = transition[1, 0, 1] = transition[1, 1, 0] = transition[2, :, 2] = 1.0
    reward = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    return rf.FiniteMDP(transition, reward, [False, False, True], horizon, end_reset=[True, False, False])


def small(kind: str, horizon: int, seed: int) -> rf.FiniteMDP:
    """A random problem of two to four states, closed; each successor of a pair is equally likely, so paths vary."""
    rng = np.random.default_rng([KINDS.index(kind), horizon, seed])
    n, n_actions = int(rng.integers(2, 5)), int(rng.integers(2, 4))

    def task() -> rf.FiniteMDP:
        layers = horizon if kind == "layered" else 1
        support = rng.random((layers, n, n_actions, n)) < 0.3
        np.put_along_axis(support, rng.integers(n, size=(layers, n, n_actions, 1)), True, axis=3)
        support[:, 0, 0] = np.arange(n) == 0  # a place to stay, so that the problem can be closed
        reset = rng.random(n) < 0.3
        reset[0] = False
        if kind == "ends":
            support[:, 0, 0] = np.arange(n) == n - 1
            support[:, n - 1, 0] = np.arange(n) == n - 1
            reset[n - 1] = False
        end_reset = (rng.random(n) < 0.5) & (np.arange(n) < n - 1) if kind == "ends" else np.zeros(n)
        home = ~reset / (~reset).sum()
        rows = support / support.sum(axis=-1, keepdims=True)
        return rf.FiniteMDP(
            rows if kind == "layered" else rows[0], rng.random((n, n_actions)), reset, horizon, start=home,
            restart=home, end_reset=end_reset, boundary="literal" if rng.random() < 0.2 else "physical",
        )  # fmt: skip

    if kind != "contexts":
        return rf.close(task())
    one, other = task(), task()
    return rf.close(with_contexts([one, other.replace(boundary=one.boundary)], [[0.5, 0.5], [0.7, 0.3]]))


def test_an_episode_of_one_step_is_no_life_without_end() -> None:
    """Where it was read as one, 0 was given up as a start after its first reset, and nothing was forbidden there."""
    mdp = door()
    assert feasibility(mdp).holds
    assert unsafe_pairs(mdp) == 2
    for primal in (SupportElimination(), SupportElimination(pooled=False), "auto"):
        run = rf.learn(mdp, primal, episodes=500)
        assert 0 < run.realised_resets[-1] <= 2
        assert not [c.claim for c in run.certificates() if c.status == "proved" and not c.holds]
    assert_same(mdp, SupportElimination(), 40)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_no_path_exceeds_the_bound(kind: str, horizon: int) -> None:
    """Adversarial choices among the allowed actions, pooled where the dynamics allow it and not."""
    seen: Counter[str] = Counter()
    for seed in range(25):
        mdp = small(kind, horizon, seed)
        for player in (SupportElimination(), SupportElimination(pooled=False)):
            resets, bound = resets_of(mdp, 120, seed, player)
            assert resets <= bound, (seed, player.pooled)
            seen.update(reset=resets > 0, attained=resets == bound > 0)
    assert seen["reset"] >= 3  # the test is about something,
    assert seen["attained"] or kind == "contexts"  # and no smaller number would do


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_the_form_for_large_problems_plays_the_same(kind: str, horizon: int) -> None:
    for seed in range(4):
        for player in (SupportElimination(), SupportElimination(pooled=False)):
            assert_same(small(kind, horizon, seed), player, 25, seed)


@pytest.mark.parametrize(
    ("kind", "horizon", "pooled"),
    [
        ("door", 1, None),
        ("door", 1, False),
        ("ends", 1, None),
        ("stationary", 1, False),
        ("contexts", 1, None),
        *(
            pytest.param(kind, horizon, pooled, marks=pytest.mark.slow)
            for kind in KINDS
            for horizon in (2, 3)
            for pooled in (None, False)
        ),
    ],
)
def test_the_batched_engine_plays_the_same(kind: str, horizon: int, pooled: bool | None) -> None:
    mdp = door(horizon) if kind == "door" else small(kind, horizon, 1)
    player = SupportElimination(pooled=pooled)
    batch = assert_same_rounds(mdp, player, FORGETFUL, "realised", episodes=60, seeds=[0, 1, 2])
    assert batch.resets.max() <= unsafe_pairs(mdp, per_step=pooled is False)


def last_step_pays() -> rf.FiniteMDP:
    """Going to the reset state pays; the last action of an episode earns and leads nowhere, so there it is free."""
    transition = np.zeros((2, 2, 2))
    transition[0, 0, 0] = transition[0, 1, 1] = transition[1, :, 1] = 1.0
    return rf.FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0]], [False, True], 2, boundary="literal")


@pytest.mark.parametrize("pooled", [True, False])
def test_the_last_action_of_the_literal_boundary_is_free(pooled: bool) -> None:
    """pi* takes the pair there that is a reset at every other step: what forbids it everywhere excludes pi*."""
    mdp = last_step_pays()
    for name in ("support-elimination", "shared-elimination", "rule-elimination", "guarded-linear"):
        run = rf.learn(mdp, name, episodes=60, settings={"primal": {"pooled": pooled}})
        assert run.realised_resets[-1] <= 1, name
        assert run.columns["reward"][-1] == 1.0, name  # V*, where it was 0
    proved = SupportElimination(width="theory", pooled=pooled)
    run = rf.learn(mdp, proved, episodes=60)
    assert (run.columns["upper"] >= 1.0).all()
    assert not [str(c) for c in run.certificates() if c.refuted]
    assert_same(mdp, proved, 40)  # the form for large problems
    assert_same_rounds(mdp, proved, FORGETFUL, "realised", episodes=40, seeds=[0, 1])


@pytest.mark.parametrize("boundary", ["physical", "literal"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_proved_width_is_optimistic_whatever_the_boundary(kind: str, boundary: str) -> None:
    """V* <= upper in every round, by the oracle. p = 1e-6, so 48 runs fail by chance with less than 1e-4."""
    for horizon in (1, 2, 3):
        for seed in range(4):
            mdp = rf.close(small(kind, horizon, seed).replace(boundary=boundary))
            for pooled in (None, False):
                run = rf.learn(mdp, SupportElimination(width="theory", pooled=pooled, p=1e-6), episodes=60, seed=seed)
                best = rf.solve(mdp).value[run.columns["s1"].astype(np.int64)]
                assert (best <= run.columns["upper"] + 1e-9).all(), (horizon, seed, pooled)
                assert run.realised_resets[-1] <= unsafe_pairs(mdp, per_step=pooled is False)
