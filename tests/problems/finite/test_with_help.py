"""Composed problems: an action that asks for help, and products of contexts with the features of their tasks."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.property.random_mdps import closed_mdp, rough_mdp
from tests.property.strategies import exact, finite_problems

import resetfree as rf
from resetfree.players.dual import Space, functions
from resetfree.problems.finite.composed import MOST, original_value, with_contexts
from resetfree.problems.zoo.tables import ANY, table_mdp
from resetfree.show.cli import app
from resetfree.theory.assumptions import dual_class, feasibility, linearity
from resetfree.theory.oracle.fractions import solve_exactly
from resetfree.theory.oracle.linear_program import best_value
from resetfree.theory.sets import for_features

H = 5


def wedge() -> rf.FiniteMDP:
    """A field that pays 1 for work, and a corner that is safe for ever and worthless; nobody gets out of it."""
    moves = {("field", "work"): {"field": 1.0}, ("field", "wander"): {"corner": 1.0}, ("corner", ANY): {"corner": 1.0}}
    names = ("field", "corner", "pit"), ("work", "wander")
    return table_mdp("wedge", *names, moves, {("field", "work"): 1.0}, horizon=H, start=1, restart=0)


@pytest.mark.parametrize("price", [0.0, 0.5, 1.0, 1.5, 2.0, 3.5, 4.5, 7.0])
def test_the_optimum_asks_in_a_worthless_trap_exactly_while_a_call_still_pays(price: float) -> None:
    """From the corner at step h a call earns 1 in each of the H - h steps after it, and costs the price."""
    helped = rf.with_help(wedge(), price)
    answer = rf.solve(helped)
    assert original_value(answer.value[1], price, H) == pytest.approx(max(H - 1 - price, 0.0), abs=1e-12)
    assert original_value(answer.value[0], price, H) == pytest.approx(H, abs=1e-12)
    for h in range(1, H + 1):
        asks, gain = answer.policy[h - 1, 1] == 2, H - h - price
        if gain != 0:
            assert asks == (gain > 0), h
        assert answer.policy[h - 1, 0] == 0
    assert rf.solve(wedge()).value[1] == 0.0  # and without help the corner is worthless


def test_a_state_that_is_doomed_can_be_left_by_asking() -> None:
    moves = {("home", "stay"): {"home": 1.0}, ("home", "slide"): {"slope": 1.0}, ("slope", ANY): {"pit": 1.0}}
    doomed = table_mdp("slope", ("home", "slope", "pit"), ("stay", "slide"), moves, {}, horizon=3)
    assert not feasibility(doomed).holds
    assert feasibility(rf.with_help(doomed, 2.0)).holds
    assert rf.solve(rf.with_help(doomed, 2.0)).feasible.tolist() == [True, True, False]


@exact(60)
@given(mdp=finite_problems(), price=st.sampled_from([0.0, 0.125, 0.5, 2.0]))
def test_dynamic_programming_the_linear_program_and_fractions_agree_on_it(mdp: rf.FiniteMDP, price: float) -> None:
    helped = rf.with_help(mdp, price)
    answer, truth = rf.solve(helped), solve_exactly(helped)
    assert answer.feasible.tolist() == truth.feasible
    for s in np.flatnonzero(answer.feasible):
        assert answer.value[s] == pytest.approx(float(truth.value[s] or 0), abs=1e-9)
        assert best_value(helped, np.eye(mdp.n_states)[s]) == pytest.approx(answer.value[s], abs=1e-8)


@exact(60)
@given(seed=st.integers(0, 10**6), prices=st.tuples(st.floats(0, 4), st.floats(0, 4)).map(sorted))
def test_a_higher_price_is_never_worth_more_and_help_is_never_worth_less_than_none(
    seed: int, prices: list[float]
) -> None:
    mdp = rough_mdp(seed)
    alone = rf.solve(mdp)
    cheap, dear = (rf.solve(rf.with_help(mdp, price)) for price in prices)
    ours = [original_value(one.value, price, mdp.horizon) for one, price in zip((cheap, dear), prices, strict=True)]
    assert (cheap.feasible == dear.feasible).all()
    assert (cheap.feasible | ~alone.feasible).all()
    both = cheap.feasible
    assert (ours[0][both] >= ours[1][both] - 1e-9).all()
    assert (ours[1][alone.feasible] >= alone.value[alone.feasible] - 1e-9).all()


@exact(60)
@given(seed=st.integers(0, 10**6))
def test_at_a_price_that_no_call_can_earn_it_is_the_problem_without_help(seed: int) -> None:
    """With certain moves: otherwise even a dear call may be risked where it is needed rarely enough."""
    mdp = _certain(rough_mdp(seed))
    price = float(mdp.horizon + 1)
    answer, alone = rf.solve(rf.with_help(mdp, price)), rf.solve(mdp)
    good = alone.feasible
    assert original_value(answer.value[good], price, mdp.horizon) == pytest.approx(alone.value[good], abs=1e-9)
    at = answer.policy
    walk = int(np.flatnonzero(good)[0])
    for h in range(mdp.n_transitions):
        assert at[h, walk] < mdp.n_actions
        walk = int(mdp.transition.row(0 if mdp.transition.stationary else h, walk, int(at[h, walk]))[0][0])


def _certain(mdp: rf.FiniteMDP) -> rf.FiniteMDP:
    """The likeliest successor of everything, for certain."""
    t = mdp.transition
    heads = [int(t.indices[a + t.prob[a:b].argmax()]) for a, b in zip(t.indptr[:-1], t.indptr[1:], strict=True)]
    layers = np.eye(mdp.n_states)[heads].reshape(t.n_layers, mdp.n_states, t.n_actions, mdp.n_states)
    return mdp.replace(transition=layers[0] if t.stationary else layers)


def test_assumptions_features_contexts_and_noise_are_kept() -> None:
    linear = rf.with_help(rf.make("random-linear-v0"), 0.5)
    assert linear.phi is not None
    assert linear.phi.shape[2] == rf.make("random-linear-v0").phi.shape[2] + 1
    assert linearity(linear).holds
    contextual = rf.make("contexts-v0")
    helped = rf.with_help(contextual, 0.5)
    width = contextual.n_states // len(contextual.restart)
    for s in np.flatnonzero(~contextual.reset):
        successors, prob = helped.transition.row(0, int(s), contextual.n_actions)
        assert (successors // width == s // width).all()  # the context does not change within an episode
        assert prob.sum() == pytest.approx(1.0)
    assert rf.with_help(contextual.replace(noise=0.3), 0.5).noise == pytest.approx(0.2)
    assert rf.with_help(contextual.replace(noise="bernoulli"), 0.5).noise == "bernoulli"


def test_players_and_certificates_work_on_it_unchanged() -> None:
    helped = rf.with_help(wedge(), 0.5)
    run = rf.learn(helped, episodes=300, seed=1)
    assert run.columns["s1"][0] == 1
    assert (run.columns["s1"][-100:] == 0).all()  # it has asked, and stays in the field
    assert not [c for c in run.certificates() if c.refuted]
    late = float(run.regret[-1] - run.regret[-100])
    assert late == pytest.approx(0.0, abs=1e-6)


def test_every_registered_problem_takes_a_price_by_name(tmp_path: Path) -> None:
    assert rf.make("grid-v0", help=0.25, horizon=4).n_actions == 6
    file = str(tmp_path / "helped.rfrun")
    done = CliRunner().invoke(app, ["run", "grid-v0", "--set", "help=0.25", "--episodes", "5", "--out", file])
    assert done.exit_code == 0, done.output
    assert rf.load(file).mdp is not None  # made again by its name and its price
    assert len(rf.load(file).regret) == 5


@pytest.mark.parametrize("price", [-0.1, float("nan"), float("inf"), "dear", None])
def test_a_price_that_is_none_is_refused(price: object) -> None:
    with pytest.raises(rf.InvalidInput, match="'price' of with_help"):
        rf.with_help(wedge(), price)  # type: ignore[arg-type]


def test_what_is_no_finite_problem_and_what_is_too_large_is_refused() -> None:
    with pytest.raises(rf.InvalidInput, match="when-stuck"):
        rf.with_help(rf.from_gym("gym:CartPole-v1"), 0.5)  # type: ignore[arg-type]
    n = int(MOST**0.5) + 2
    from scipy import sparse

    many = rf.FiniteMDP(sparse.eye_array(n), np.zeros((n, 1)), np.zeros(n), 2, restart=np.full(n, 1 / n))
    with pytest.raises(rf.InvalidInput, match="possible transitions"):
        rf.with_help(many, 0.5)


def test_the_command_line_solves_it() -> None:
    done = CliRunner().invoke(app, ["solve", "footnote-v0", "--set", "help=0.5", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)


CHAIN = [[0.3, 0.7], [0.6, 0.4]]


def linear_tasks() -> list[rf.FiniteMDP]:
    """Two linear problems over the same states, with features of their own."""
    return [rf.make("random-linear-v0", seed=seed) for seed in (0, 1)]


def test_a_product_of_linear_problems_is_linear_in_the_lifted_features() -> None:
    tasks = linear_tasks()
    product = with_contexts(tasks, CHAIN)
    assert product.phi is not None
    assert product.xi is not None
    n, d = tasks[0].n_states, tasks[0].phi.shape[-1]  # type: ignore[union-attr]
    assert product.phi.shape == (2 * n, 4, 2 * d)
    finding = linearity(product)
    assert finding.holds, finding.sentence
    assert finding.detail["d"] == 2 * d
    for c, task in enumerate(tasks):
        block = product.phi[c * n : (c + 1) * n]
        assert task.phi is not None
        assert np.array_equal(block[..., c * d : (c + 1) * d], task.phi)
        assert np.count_nonzero(block) == np.count_nonzero(task.phi)
    assert rf.check(product)["dual class"].holds


def test_features_of_one_context_do_not_serve_another() -> None:
    """Without blocks the product is not linear: the lift is needed, and the check can fail."""
    tasks = linear_tasks()
    product = with_contexts(tasks, CHAIN)
    stacked = np.concatenate([task.phi for task in tasks if task.phi is not None])
    assert linearity(product, stacked).holds is False


def test_a_task_without_features_is_lifted_as_what_it_stands_for() -> None:
    linear, plain = linear_tasks()
    bare = plain.replace(phi=None, xi=None)
    product = with_contexts([linear, bare], CHAIN)
    assert product.phi is not None
    assert product.xi is not None
    n, d = linear.n_states, linear.phi.shape[-1]  # type: ignore[union-attr]
    assert product.phi.shape[-1] == d + n * 4
    assert np.array_equal(product.xi, np.repeat(np.eye(2), n, axis=0))
    assert linearity(product).holds
    assert with_contexts([bare, bare], CHAIN).phi is None
    assert with_contexts([bare, bare], CHAIN).xi is None


def test_a_learner_plays_the_product_with_its_features() -> None:
    run = rf.learn(with_contexts(linear_tasks(), CHAIN), "linear-ucb", episodes=30, seed=0)
    assert len(run) == 30
    assert all(c.holds for c in run.certificates() if c.status == "proved")


@pytest.mark.parametrize("seed", range(25))
def test_the_least_theta_lies_in_the_set_of_the_players(seed: int) -> None:
    """One definition of U: non-negative at every state, reset states too, so the players can play what is found."""
    rng = np.random.default_rng(seed)
    mdp = closed_mdp(seed)
    xi = rng.standard_normal((mdp.n_states, 3))
    xi[:, 0] = np.abs(xi[:, 0]) + (~mdp.reset) * 2.0
    xi /= np.linalg.norm(xi, axis=1, keepdims=True)
    mdp = mdp.replace(xi=xi)
    finding = dual_class(mdp)
    if finding.detail.get("theta") is None:
        assert finding.holds is not True
        return
    theta, B = np.asarray(finding.detail["theta"]), finding.detail["B"]
    assert (xi @ theta).min() >= -1e-8 * B
    assert for_features(xi, B).contains(theta, 1e-8 * B)
    among = functions(mdp.problem(), B * (1 + 1e-9), "auto", "test")
    assert isinstance(among, Space)
    assert np.allclose(among.moved(theta, 0, 0.0), theta, atol=1e-7 * B)


def test_a_reset_row_can_decide() -> None:
    """The grid with features that are negative only at a pit: the players' set excludes what would do elsewhere."""
    mdp = rf.make("grid-v0")
    pit = int(np.flatnonzero(mdp.reset)[0])
    xi = np.full((mdp.n_states, 2), [0.8, 0.0])
    xi[:, 1] = np.linspace(-0.6, 0.6, mdp.n_states)
    free = dual_class(mdp, xi)
    assert free.holds
    xi[pit] = -xi[int(free.detail["largest_at"])]  # whatever is positive there is negative here
    finding = dual_class(mdp, xi)
    assert finding.holds is False
    assert finding.detail["B"] is None
    assert not mdp.reset[finding.witness]


def test_a_reset_row_that_is_too_long_is_named() -> None:
    mdp = rf.make("grid-v0")
    pit = int(np.flatnonzero(mdp.reset)[0])
    xi = np.ones((mdp.n_states, 1))
    xi[pit] = 2.0
    finding = dual_class(mdp, xi)
    assert finding.holds is False
    assert finding.witness == pit


def test_a_multiplier_beyond_floats_is_not_bounded() -> None:
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = 1.0
    transition[0, 1] = [1.0, 1e-200, 0.0]
    transition[1, :] = [1.0, 0.0, 1e-200]
    for xi in (None, np.eye(3)):
        mdp = rf.FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [0, 0, 1], 2, xi=xi)
        finding = dual_class(mdp)
        assert finding.holds is None
        assert "exceeds what a float can hold" in finding.sentence
