"""Methods that bring a system back themselves: each test is about the one mechanism that its paper adds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.players.neural.small_networks import AUTONOMY, TURNS

import resetfree as rf
from resetfree.players import discover, make_player
from resetfree.players.neural.autonomy import together
from resetfree.players.neural.autonomy.leave_no_trace import AbortingPolicy
from resetfree.players.neural.autonomy.shield import Region, ShieldedPolicy, candidates
from resetfree.players.neural.autonomy.turns import BACKWARD, FORWARD, AimedPolicy, TurnPlayer, TurnState, improve_each
from resetfree.players.neural.networks import Minibatch
from resetfree.players.neural.sac import AGENT, Learning
from resetfree.problems.autonomy.plane import Tabletop, moved_mug, mug_at_goal, mug_is_lost

TASK = "gym:tabletop-small-v0"


def problem(name: str = TASK, horizon: int = 10) -> Any:
    return rf.from_gym(name, horizon=horizon, reward_range=(0.0, 1.0))


def player(name: str, **options: Any) -> Any:
    return make_player("primal", name, {**TURNS, **options})


def begun(name: str, **options: Any) -> tuple[Any, TurnState]:
    one = player(name, **options)
    return one, one.init(problem(), 100, 0)


def learned(name: str, task: str = TASK, episodes: int = 12, **options: Any) -> rf.Run:
    return rf.learn(problem(task), player(name, **options), episodes=episodes, seed=1)


def with_values(state: TurnState, agent: int, q: float) -> None:
    """Let all critics of an agent say q everywhere."""
    tree = jax.tree.map(np.array, state.tree)
    weight, bias = tree["critics"][-1]
    weight[agent], bias[agent] = 0.0, q
    state.learned = [np.array(leaf) for leaf in state.form.flatten_up_to(tree)]
    state.gradient_steps = 1


def in_states(state: TurnState, n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, 9))


def test_turns_alternate_and_the_forward_policy_is_deployed() -> None:
    one, state = begun("fbrl", turn=20)
    s = np.append(Tabletop(size=0.4).starts[0], [-1.0, 0.0, 0.0, 0.0, 0.0])
    agents = []
    for k in range(6):
        agents.append(state.agent)
        states = np.tile(s + 0.3, (11, 1))
        episode = rf.Episode(states, np.zeros((10, 3)), np.zeros(10), k == 5, states[-1])
        state = one.update(state, rf.Round(k + 1, states[0], 0.0, rf.Plan(None, 0.0, 0.0), episode, 0.0, None))
    assert agents == [FORWARD, FORWARD, BACKWARD, BACKWARD, FORWARD, FORWARD]
    assert (state.agent, state.steps, one.turns(state)) == (FORWARD, 0, (3, 2))  # the reset ended the last, no time-out
    assert len(state.backward) == 22
    back = state.actor(BACKWARD, state.guidance.starts[0])
    assert isinstance(back, AimedPolicy)
    np.testing.assert_array_equal(back.outputs(s)[0], back.outputs(s + np.array([0.0] * 5 + [1.0] * 4))[0])
    deployed = one.greedy(state, 0.0)
    assert not isinstance(deployed, AimedPolicy)
    assert not np.array_equal(deployed.outputs(s)[0], back.outputs(s)[0])


def test_a_context_has_its_own_goals_rewards_and_price() -> None:
    one, state = begun("fbrl", relabelled=1.0, price=1.0)
    state.rows.terminated[5] = True
    index, rng = np.arange(0, 40).reshape(4, 10), np.random.default_rng(0)
    taken = state.rows.taken(state.rows.n)[:40].reshape(4, 10)
    for agent in (FORWARD, BACKWARD):
        batch = one.context(state, state.tree, agent, index, rng, lam=2.0)
        flat = batch.next_state.reshape(-1, 9).astype(np.float64)
        found = state.guidance.reward(flat) if agent == FORWARD else state.guidance.home(flat)
        found = np.where(batch.terminated.ravel() > 0, -3.0, found)
        np.testing.assert_allclose(batch.reward.ravel()[taken.ravel()], found[taken.ravel()])
        goals = {tuple(goal) for goal in batch.state[..., 5:].reshape(-1, 4).round(3).tolist()}
        assert len(goals) == (4 if agent == FORWARD else 1)
    assert batch.reward.ravel()[4] == -3.0


def test_agents_are_trained_side_by_side_and_do_not_mix() -> None:
    _, state = begun("fbrl")
    rng = np.random.default_rng(0)
    shapes = (1, 2, 16, 9), (1, 2, 16, 3), (1, 2, 16), (1, 2, 16, 9), (1, 2, 16)
    batch = Minibatch(*(rng.normal(size=shape).astype(np.float32) for shape in shapes))
    other = batch._replace(reward=batch.reward + np.array([0.0, 1.0], np.float32)[:, None])
    agents = {name: state.tree[name] for name in AGENT if name in state.tree}
    numbers: Any = {"count": 1, "seed": 0, "first": 0, "lam": 0.0, "how": Learning(1e-3, 0.9, 0.1)}
    a, b = (improve_each(agents, one, **numbers)["critics"][0][0] for one in (batch, other))
    np.testing.assert_array_equal(a[0], b[0])
    assert not np.array_equal(a[1], b[1])


def test_the_backward_reward_of_medal_tells_demonstrations_from_what_the_policy_visits() -> None:
    one, state = begun("medal-sac", hidden=32, classifier_steps=5.0)
    visits = in_states(state, 300) + np.array([0.0, 3.0] + [0.0] * 7)
    state.latest[:300], state.kept = visits, 300
    tree, before = dict(state.tree), one.reward(state, state.tree, BACKWARD, visits).mean()
    for step in range(10):
        state.gradient_steps = step
        tree = one.fit_others(state, tree, np.arange(5), 10)
    shown, met = (one.reward(state, tree, BACKWARD, s).mean() for s in (state.rows.state[: state.forth], visits))
    assert met < before < shown
    assert shown > 4 * met


def test_novelty_is_what_was_not_visited() -> None:
    one, state = begun("r3l", hidden=32, novelty_steps=5.0)
    tree = dict(state.tree)
    for step in range(10):
        state.gradient_steps = step
        tree = one.fit_others(state, tree, np.flatnonzero(state.rows.taken(state.forth)), 10)
    known = state.rows.state[: state.forth]
    old, new = (one.reward(state, tree, BACKWARD, s).mean() for s in (known, known + np.array([2.0] * 2 + [0.0] * 7)))
    assert new > 2 * old


def test_the_forward_policy_is_aborted_where_the_least_value_of_the_reset_policy_is_low() -> None:
    one, state = begun("leave-no-trace-sac", settled=0, q_min=0.5, gamma=0.9)
    s, u = in_states(state, 1)[0], np.full(3, 0.5)
    for q, agent in ((4.0, BACKWARD), (6.0, FORWARD)):  # shares 0.4 and 0.6
        with_values(state, BACKWARD, q)
        policy = one.plan(state, s, 0.0).policy
        assert isinstance(policy, AbortingPolicy)
        expected = state.actor(agent, state.guidance.starts[0] if agent == BACKWARD else None)
        np.testing.assert_array_equal(policy.act(1, s, u), expected.act(1, s, u))
    tree = jax.tree.map(np.array, state.tree)
    tree["critics"][-1][1][BACKWARD, -1] = 1.0  # one of the ensemble
    state.learned = [np.array(leaf) for leaf in state.form.flatten_up_to(tree)]
    assert one.plan(state, s, 0.0).policy.aborts(s, u)
    assert not isinstance(player("leave-no-trace-sac", settled=10**6).plan(state, s, 0.0).policy, AbortingPolicy)


def test_the_curriculum_moves_towards_the_start_as_values_grow() -> None:
    one, state = begun("vaprl", gamma=0.9, threshold=0.5)
    start, away = state.guidance.starts[0], {}
    for q in (0.0, 9.0):
        with_values(state, FORWARD, q)
        turn = one.next_turn(state, in_states(state, 1)[0], False)
        away[q] = np.linalg.norm(turn.aim - start)
    assert away[9.0] < 0.5 < away[0.0]
    state.aimed = True
    assert one.next_turn(state, in_states(state, 1)[0], False).aim is None  # then the task


def test_a_graph_of_tasks_leads_back_to_a_start_and_on_from_there() -> None:
    one, state = begun("mtrf")
    start, goals = state.guidance.starts[0], state.guidance.goals
    home = np.concatenate([start, [-1.0], goals[0]])
    far = np.concatenate([goals[1], [-1.0], goals[0]])
    assert one.next_turn(state, home, False).aim.tolist() in goals.tolist()
    np.testing.assert_array_equal(one.next_turn(state, far, False).aim, start)


@pytest.mark.parametrize(
    ("q", "steps", "ends"), [(10.0, 10, True), (10.0, 4, False), (0.0, 10, False), (0.0, 50, True)]
)
def test_competence_ends_a_turn_after_its_least_length(q: float, steps: int, ends: bool) -> None:
    one, state = begun("risc", gamma=0.9, least=5, turn=50, eagerness=1.0)
    with_values(state, FORWARD, q)
    state.steps = steps
    assert one.over(state, in_states(state, 1)[0], there=False) is ends


def test_what_fails_the_test_of_irreversibility_is_worth_nothing_and_calls_for_help() -> None:
    one, state = begun("paint", hidden=32, test_steps=5.0)
    lost = in_states(state, 60) + np.array([0.0, 0.0, 3.0] + [0.0] * 6)
    rows = slice(40, 100)
    state.rows.state[rows], state.rows.terminated[rows] = lost, True
    assert one.fails(state, state.tree, lost).any()
    tree = dict(state.tree)
    lived = np.flatnonzero(~state.rows.terminated[: state.rows.n])
    for step in range(10):
        state.gradient_steps = step
        tree = one.fit_others(state, tree, lived, 10)
    fails, others = (one.fails(state, tree, s) for s in (lost, state.rows.state[lived]))
    assert fails.mean() > 0.9
    assert others.mean() < 0.1
    state.rows.terminated[rows] = False
    state.rows.terminated[:3] = True  # labelled ones are few: the test is the same
    batch = one.context(state, tree, FORWARD, np.arange(40, 90)[None], np.random.default_rng(0), lam=0.0)
    assert batch.terminated.mean() > 0.8
    state.learned = [np.array(leaf) for leaf in state.form.flatten_up_to({**state.tree, "test": tree["test"]})]
    assert one.needs_help(state, lost[0])
    assert not one.needs_help(state, state.rows.state[lived[0]])


def test_help_that_a_player_requests_is_performed_and_recorded() -> None:
    class Anxious(discover("primal")["naive"]):  # type: ignore[misc]
        name = "anxious"

        def needs_help(self, state: TurnState, s1: Any) -> bool:
            return state.rows.n - state.shown > 40

    run = rf.learn(problem(), Anxious(**TURNS), episodes=8, seed=0)
    assert [one.why for one in run.interventions].count("stuck") >= 4


def test_the_multiplier_grows_with_falls_and_prices_them() -> None:
    run = rf.learn(problem("gym:workspace-v0", 50), player("ha2020"), episodes=30, seed=0)
    assert run.spec["dual"]["name"] == "counting"
    assert run.realised_resets[-1] > 0
    assert run.columns["lam"][-1] > run.columns["lam"][0]


@pytest.mark.parametrize("name", AUTONOMY)
def test_every_method_plays_its_task_and_says_what_it_needs(name: str) -> None:
    run = learned(name)
    assert len(run) == 12
    assert not run.spec["statements"]["primal"]["covered"]
    assert run.policy.predict(np.zeros(9))[0].shape == (3,)
    with pytest.raises(rf.NotCertifiable, match="needs a task that states its goals and starts"):
        player(name).init(rf.from_gym("gym:Pendulum-v1", horizon=5), 5, 0)


@pytest.mark.parametrize("name", ["medal-sac", "vaprl"])
def test_methods_that_need_demonstrations_say_so(name: str) -> None:
    with pytest.raises(rf.NotCertifiable, match="needs demonstrations"):
        player(name, demonstrated=0.0).init(problem(), 5, 0)


def test_a_table_of_a_method_stands_for_its_networks_where_actions_are_a_box() -> None:
    run = rf.learn(problem(), "medal", episodes=2, settings={"primal": TURNS})
    assert run.spec["primal"]["name"] == "medal-sac"
    assert rf.learn("grid-v0", "medal", episodes=2).spec["primal"]["name"] == "medal"


def test_dynamics_are_the_same_for_numpy_and_jax() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.2, 1.2, (500, 5))
    x[:250, 2:4] = x[:250, :2] + rng.uniform(-0.4, 0.4, (250, 2))
    a, goals = rng.uniform(-1.0, 1.0, (500, 3)), rng.uniform(-0.4, 0.4, (500, 4))
    for walls in (True, False):
        ours, theirs = moved_mug(x, a, walls, 0.4), moved_mug(jnp.asarray(x), jnp.asarray(a), walls, 0.4, jnp)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
        np.testing.assert_array_equal(mug_is_lost(ours, 0.4), mug_is_lost(theirs, 0.4))
        s = np.concatenate([ours, ours[:, :4] + goals / 2], axis=1)
        np.testing.assert_array_equal(mug_at_goal(s), mug_at_goal(jnp.asarray(s)))
    assert mug_is_lost(ours, 0.4).any()
    assert mug_at_goal(s).any()


def test_learners_in_one_program_take_the_turns_of_their_methods() -> None:
    names = ["naive", "fbrl", "medal-sac", "vaprl", "mtrf"]
    trials: list[tuple[TurnPlayer, int]] = [(player(name, turn=20, learning_starts=20), 3) for name in names]
    env = Tabletop(size=0.4, hold=20)
    found = list(together.train(trials, env, 200, 100, episode=20))
    assert [n for n, _, _ in found] == [100, 200]
    _, success, counts = found[-1]
    assert success.shape == (5,)
    assert counts[:, 1].tolist() == [10] * 5
    again = list(together.train(trials, env, 200, 100, episode=20))
    np.testing.assert_array_equal(again[-1][2], counts)


def test_learners_in_one_program_lose_the_mug_and_those_with_a_test_request_help() -> None:
    options = {"turn": 20, "learning_starts": 20, "hidden": 32}
    trials: list[tuple[TurnPlayer, int]] = [(player(name, **options), 3) for name in ("paint", "leave-no-trace-sac")]
    *_, (_, _, counts) = together.train(trials, Tabletop(walls=False, size=0.1, hold=20), 600, 600, episode=20)
    assert (counts[:, 0] > 3).all()
    assert counts[0, 4] > 0
    assert counts[1, 4] == 0


class Recording(Tabletop):
    """A tiny table that keeps the pair of state and action before each fall, on the scale of their ranges."""

    def __init__(self) -> None:
        super().__init__(walls=False, size=0.15, hold=20)
        self.fatal: list[Any] = []

    def step(self, action: Any) -> Any:
        high = self.observation_space.high[:5]  # type: ignore[attr-defined]
        pair = np.append((self.x / high + 1.0) / 2.0, (np.clip(action, -1.0, 1.0) + 1.0) / 2.0)
        found = super().step(action)
        if found[2]:
            self.fatal.append(pair)
        return found


@pytest.mark.filterwarnings("ignore::resetfree.core.errors.Notice")
def test_behind_a_shield_all_pairs_that_resets_follow_are_apart() -> None:
    closest, falls = {}, {}
    for radius in (0.0, 0.4):
        env, one = Recording(), player("naive", shield=radius, learning_starts=10**6)
        run = rf.learn(rf.from_gym(env, horizon=20, reward_range=(0.0, 1.0)), one, episodes=300, seed=0)
        falls[radius] = len(env.fatal)
        apart = np.abs(np.array(env.fatal)[:, None] - np.array(env.fatal)).max(axis=2)
        closest[radius] = apart[np.triu_indices(falls[radius], 1)].min()
        assert run.realised_resets[-1] == falls[radius]
    assert 2 <= falls[0.4] < falls[0.0] / 2
    assert closest[0.0] < 0.4 < closest[0.4]
    assert run.spec["statements"]["primal"]["constants"]["most_permitted"] == 3.0**8


def test_a_shield_takes_the_nearest_permitted_action_and_refuses_what_has_no_limits() -> None:
    guidance = problem().guidance
    region, s = Region.of(problem(), guidance, "naive"), np.zeros(9)
    push = np.array([0.9, 0.0, 1.0])

    class Push(rf.Policy):
        def act(self, h: int, s: Any, u: Any) -> Any:
            return push

    fatal = region.scaled(s, push)[None]
    assert ShieldedPolicy(Push(), region, np.zeros((0, 8)), 0.2).act(1, s, None).tolist() == push.tolist()
    assert ShieldedPolicy(Push(), region, fatal, 0.2).act(1, s, None).tolist() == [0.0, 0.0, 1.0]
    assert ShieldedPolicy(Push(), region, fatal, 0.2).act(1, s + 0.9, None).tolist() == push.tolist()  # another state
    everywhere = np.concatenate([np.tile(fatal[:, :5], (27, 1)), candidates(3)], axis=1)
    assert ShieldedPolicy(Push(), region, everywhere, 0.3).act(1, s, None).shape == (3,)  # none is permitted
    unbounded = rf.from_gym("gym:flip-cheetah-v0", horizon=5)
    with pytest.raises(rf.NotCertifiable, match="finite limits"):
        player("naive", shield=0.1).init(unbounded, 5, 0)
