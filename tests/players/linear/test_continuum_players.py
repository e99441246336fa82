"""Algorithm 1 and the greedy composite on a continuum: the finite players on the same data, claims, files, widths."""

import dataclasses
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.linear.continuum import ContinuumState
from resetfree.players.linear.greedy_composite import GreedyComposite
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.problems.action_spaces import PairFeatures
from resetfree.problems.stepping import Step, SteppedProblem
from resetfree.theory.certificates import certify
from resetfree.theory.oracle import nodes

Floats = NDArray[np.float64]
H, A, D = 3, 3, 3


def model() -> rf.FiniteMDP:
    """A small linear problem with finitely many states."""
    mdp: rf.FiniteMDP = rf.make("random-linear-v0", n_states=6, n_actions=A, d=D, horizon=H)
    return mdp


class Looked(PairFeatures):
    """The features of a finite problem, for states that are numbers."""

    def __init__(self, phi: Floats) -> None:
        self.phi = phi

    @property
    def dimension(self) -> int:
        return int(self.phi.shape[2])

    @property
    def norm_bound(self) -> float:
        return float(np.sqrt((self.phi**2).sum(axis=2).max()))

    def __call__(self, states: Floats) -> Floats:
        return np.asarray(self.phi[states[:, 0].astype(np.int64)])


class Disguised(SteppedProblem):
    """A finite problem that does not say that it is one: its states are floats with features."""

    def __init__(self, mdp: rf.FiniteMDP) -> None:
        assert mdp.phi is not None
        self.inner = mdp.problem()
        self.name, self.horizon, self.n_actions, self.n_states = "disguised", mdp.horizon, mdp.n_actions, None
        self.stationary, self.n_transitions, self.end_resets = mdp.stationary, mdp.horizon, False
        self.phi, self.xi, self.pairs = None, None, Looked(mdp.phi)

    def first_start(self, u: float) -> float:
        return float(self.inner.first_start(u))

    def step(self, h: int, state: Any, action: Any, u: Floats) -> Step:
        raise NotImplementedError

    def leave(self, state: Any, reset: bool, u: Floats) -> Any:
        raise NotImplementedError


def as_numbers(episode: rf.Episode) -> rf.Episode:
    end = float(episode.next_start)
    return dataclasses.replace(episode, states=episode.states.astype(np.float64), next_start=end)


PLAYERS: dict[str, Any] = {
    "softmax": LinearUCB(B=4.0),
    "softmax, pooled": LinearUCB(B=4.0, pooled=True),
    "softmax, theory": LinearUCB(B=4.0, width="theory"),
    "greedy": GreedyComposite(B=4.0),
    "greedy, pooled": GreedyComposite(B=4.0, pooled=True),
    "greedy, theory": GreedyComposite(B=4.0, width="theory"),
}


@pytest.mark.parametrize("name", PLAYERS)
def test_stored_transitions_make_the_plans_of_the_finite_player(name: str) -> None:
    """Two implementations of one algorithm: sums over states against passes over transitions, on the same episodes."""
    mdp, plain, K = model(), PLAYERS[name], 40
    finite, hidden = mdp.problem(), Disguised(mdp)
    stored = dataclasses.replace(plain, switching="every")
    state = stored.init(hidden, K, 0)
    assert isinstance(state, ContinuumState)
    dual = ConstantPenalty(C=3.0)
    game = begin(finite, plain, dual, episodes=K, seed=1)
    for this in play(finite, plain, dual, game, episodes=K, feedback="realised"):
        plan = stored.plan(state, float(this.s1), this.lam)
        for one in ("v_r", "v_c", "upper"):
            assert getattr(plan, one) == pytest.approx(getattr(this.plan, one), abs=1e-8), (this.k, one)
        live = np.flatnonzero(~mdp.reset)
        for h in range(1, H + 1):
            rows = plan.policy.rows(h, live[:, None].astype(np.float64))
            assert rows == pytest.approx(np.asarray(this.plan.policy)[h - 1, live], abs=1e-5), (this.k, h)
        state = stored.update(state, this._replace(episode=as_numbers(this.episode)))
    assert state.data.switches == K


def test_plans_are_kept_until_a_determinant_has_doubled() -> None:
    problem, dual, K = rf.make("continuous-linear-v0").problem(), ConstantPenalty(C=3.0), 300
    player = LinearUCB(B=4.0)
    game = begin(problem, player, dual, episodes=K, seed=0)
    policies = []
    for this in play(problem, player, dual, game, episodes=K, feedback="realised"):
        policies.append(this.plan.policy)
        data = game.primal.data
        assert (data.now.log_det - data.then.log_det).max() < np.log(2)
        assert this.plan.policy.lam == 4.0  # the next of 0, 1, 2, 4
    changes = sum(a is not b for a, b in pairwise(policies))
    assert changes == data.switches - (policies[-1] is not player.plan(game.primal, 0.5, 3.0).policy)
    most = data.horizon * 4 * np.log2(1 + K / 4)
    assert 5 < data.switches <= most
    gram = np.linalg.inv(data.now.inverse[0])
    assert np.linalg.slogdet(gram)[1] - 4 * np.log(player.ridge()) == pytest.approx(data.now.log_det[0], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear-ucb", "greedy-composite"])
def test_the_work_of_an_episode_does_not_grow_up_to_a_hundred_thousand(name: str) -> None:
    """Transitions that passes read, by counting, not by the clock; planned anew in episode k it would be 3 k."""
    K, problem = 100_000, rf.make("continuous-linear-v0", dimension=2, horizon=3).problem()
    player: Any = LinearUCB(B=8.0) if name == "linear-ucb" else GreedyComposite(B=8.0)
    dual = ConstantPenalty(C=6.0)
    game = begin(problem, player, dual, episodes=K, seed=0)
    read, plans = [0], [0]
    for this in play(problem, player, dual, game, episodes=K, feedback="realised"):
        if this.k % (K // 10) == 0:
            read.append(game.primal.read)
            plans.append(game.primal.data.switches)
    each = np.diff(read) / (K // 10)
    print(f"\n{name}: transitions read per episode {each.round(1).tolist()}, plans {plans}")
    assert each[5:].mean() <= 1.5 * each[1:5].mean()
    assert each.max() <= 300  # of three times 100,000


def test_a_level_costs_nothing_in_regret() -> None:
    """V* - (V_r - lam V_c) <= V* - (V_r - level V_c), and V* <= upper of the level, on exact values."""
    run = learned(episodes=80, width="theory")
    c, level = (
        run.columns,
        np.where(run.columns["lam"] > 0, 2.0 ** np.ceil(np.log2(np.maximum(run.columns["lam"], 1))), 0),
    )
    assert (c["v_r"] - c["lam"] * c["v_c"] >= c["v_r"] - level * c["v_c"] - 1e-12).all()
    assert (run.solution.value <= c["upper"] + 1e-9).all()


def learned(problem: dict[str, Any] | None = None, episodes: int = 60, path: Path | None = None, **own: Any) -> rf.Run:
    options = {"dimension": 2, "horizon": 3, **(problem or {})}
    return rf.learn(
        "continuous-linear-v0", "linear-ucb", "projected-gradient", episodes=episodes, seed=1, path=path,
        feedback="optimistic", settings={"problem": options, "primal": own},
    )  # fmt: skip


@pytest.mark.parametrize("width", ["theory", "proved"])
def test_every_claim_of_the_finite_case_is_certified(width: str) -> None:
    run = learned(width=width)
    found = {c.claim: c for c in certify(run)}
    assert not [str(c) for c in found.values() if c.refuted]
    wanted = (
        "every start is a state outside the reset set",
        "Resets are at most R_p(pi*) + R_d(lambda*)",
        "Regret equals R_p(pi*) + R_d(0)",
        "the gap to the saddle-point (pi*, lambda_hat) is at most R_p(pi*)",
        "V_r - lambda_hat V_c is at most V* in every round",
        "the dual player's online regret against lambda* is at most its bound",
        "V* is at most what the primal player names as above it",
        "the primal player's V_r is at least that of the policy it played",
        "the primal player's V_c is at most that of the policy it played",
        "R_p(pi*) is at most its rate",
        "Regret is at most its rate",
        "Resets are at most their rate",
        "Resets are at most what the resets so far allow",
    )
    for words in wanted:
        one = next(c for claim, c in found.items() if claim.startswith(words))
        assert one.applies, (words, one.why)
        assert one.status in ("proved", "checked", "identity"), (words, one.why)
    assert run.spec["B"] == pytest.approx(nodes.solve(run.continuum).largest_multiplier + 1)  # type: ignore[arg-type]


def test_the_greedy_composite_is_optimistic_too() -> None:
    for width in ("theory", "proved"):
        run = rf.learn(
            "continuous-linear-v0", "greedy-composite", "projected-gradient", episodes=40, seed=1,
            feedback="realised", settings={"problem": {"dimension": 2, "horizon": 3}, "primal": {"width": width}},
        )  # fmt: skip
        found = {c.claim: c for c in certify(run)}
        one = found["V* is at most what the primal player names as above it, in every round"]
        assert (one.status, one.holds) == ("proved", True)
        assert not [str(c) for c in found.values() if c.refuted]


def test_a_tuned_run_learns_and_a_file_gives_it_back(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    run = learned({"dimension": 1}, episodes=400, path=path)
    again = rf.load(path)
    assert again.regret.tolist() == run.regret.tolist()
    assert again.resets[-1] == pytest.approx(run.resets[-1])
    late = run.columns["v_c"][-100:].mean()
    assert late < 0.5 * run.columns["v_c"][:100].mean()
    assert [str(c) for c in certify(again)] == [str(c) for c in certify(again)]
    changed = {**again.columns, "s1": np.where(again.columns["k"] == 3, 1.5, again.columns["s1"])}
    forged = certify(dataclasses.replace(again, columns=changed))
    assert any(c.refuted and c.claim.startswith("every start is a state") for c in forged)


def test_what_is_refused() -> None:
    line = rf.make("continuous-linear-v0").problem()
    for width in ("proved", "theory"):
        assert LinearUCB(B=9.0, width=width).statement(line, 100).covered
    assert not LinearUCB(B=9.0, width="proved", anytime=True).statement(line, 100).covered
    assert not LinearUCB(B=9.0).statement(line, 100).covered
    with pytest.raises(rf.InvalidInput, match="GB of features of states"):
        LinearUCB(B=9.0).init(line, 10**7, 0)
    mdp = model()
    hidden = Disguised(mdp)
    hidden.stationary = False
    with pytest.raises(rf.InvalidInput, match="must be false for dynamics that change"):
        LinearUCB(B=1.0, pooled=True).init(hidden, 10, 0)
    hidden.end_resets = True
    with pytest.raises(rf.InvalidInput, match="every action moves the agent"):
        GreedyComposite(B=1.0).init(hidden, 10, 0)
