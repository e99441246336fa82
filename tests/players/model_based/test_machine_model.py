"""The model of a machine and the search in it: what is judged, imagined and trusted."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.players.model_based import machine_model, machine_search
from resetfree.players.model_based.machine_model import (
    Experience,
    MachineModel,
    fit_machine,
    latest_and_any,
    learned_caution,
    rollout,
)
from resetfree.players.model_based.machine_search import MachineSearch
from resetfree.players.model_based.reset_classifier import ResetClassifier, fit_classifier, walls
from resetfree.players.model_based.search_state import SAVABLE, Candidate, rollout_starts
from resetfree.players.model_based.smooth_regression import Draws, draw_functions

Floats = NDArray[np.float64]
LIMIT = 1.0  # of the first sensor
NO_ROWS = np.zeros(0, dtype=np.int64)
AWAY = np.array([[3.0, 0.0, 0.0]])  # theta that pushes to where it leans
BACK = np.array([[-3.0, -2.0, 0.0]])  # theta that pushes back


def step(s: Floats, a: Floats) -> Floats:
    """A rod that falls over unless it is pushed back: its angle and its speed."""
    speed = s[..., 1] + 0.1 * (2.0 * s[..., 0] + 3.0 * a[..., 0])
    return np.stack([s[..., 0] + 0.1 * speed, speed], axis=-1)


def lived(falls: int, seed: int = 0) -> Experience:
    """Random pushes until the rod falls, so many times."""
    rng, steps, dead = np.random.default_rng(seed), [], []
    for _ in range(falls):
        s = rng.uniform(-0.1, 0.1, 2)
        while abs(s[0]) < LIMIT:
            a = rng.uniform(-1.0, 1.0, 1)
            after = step(s, a)
            steps.append((s, a, 1.0 - s[0] ** 2, after))
            s = after
        dead.append(s)
    before, action, reward, after_all = (np.array(part) for part in zip(*steps, strict=True))
    return Experience(before, action, reward, after_all, before, np.array(dead))


def fitted(falls: int = 4, **changes: Any) -> MachineModel:
    bounds = (np.full(2, -np.inf), np.full(2, np.inf))
    given: dict[str, Any] = {"draws": 4, "caution": 0.3, "rng": np.random.default_rng(0), **changes}
    return fit_machine(lived(falls), bounds, **given)


def life(theta: Floats, model: MachineModel, start: Floats) -> int:
    """True steps before a fall, up to 1,000."""
    s = start
    for n in range(1000):
        if abs(s[0]) >= LIMIT:
            return n
        z = (s - model.scaling.centre) / model.scaling.scale
        s = step(s, np.tanh(theta[:, :2] @ z + theta[:, 2]))
    return 1000


def test_the_judge_finds_an_interval_from_few_falls() -> None:
    """A fall is an angle beyond 1, among six sensors that say nothing: 30 falls say more than the nearest of them."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(3000, 7)) * np.array([0.7, 1, 1, 1, 1, 1, 1])
    is_dead = np.abs(z[:, 0]) > 1.0
    known, fell, new = z[:400][~is_dead[:400]], z[:1000][is_dead[:1000]][:30], z[2000:][is_dead[2000:]]
    classifier = fit_classifier(known, fell)
    near = [((one - fell) ** 2).sum(axis=1).min() < ((one - known) ** 2).sum(axis=1).min() for one in new]
    assert classifier.resets(new).mean() > 0.8 > 0.4 > np.mean(near)
    assert classifier.resets(z[2000:][np.abs(z[2000:, 0]) > 1.2]).mean() > 0.95
    assert classifier.resets(z[2000:][np.abs(z[2000:, 0]) < 0.8]).mean() < 0.05


@pytest.mark.parametrize("far", [30.0, 1e4, 1e9, 1e150])
def test_a_fall_that_is_far_away_is_judged(far: float) -> None:
    """As of a machine that has stood still for long, whose sensors hardly moved."""
    lived = np.random.default_rng(0).normal(size=(500, 11))
    dead = np.zeros((1, 11))
    dead[0, :3] = far, -far, far
    classifier = fit_classifier(lived, dead)
    assert classifier.resets(dead).all()
    assert not classifier.resets(lived).any()


def test_without_falls_no_state_is_a_reset_state() -> None:
    classifier = fit_classifier(np.random.default_rng(0).normal(size=(9, 3)), np.zeros((0, 3)))
    assert not classifier.resets(1e6 * np.eye(3)).any()


def test_walls_are_the_fewest_ends_that_explain_all_falls() -> None:
    """Two falls are at the same end of the first sensor, another is elsewhere, and one is at no end at all."""
    low, high = -np.ones(3), np.ones(3)
    dead = np.array([[-1.2, 0.0, 0.0], [-1.4, -1.5, 0.0], [0.0, 0.0, 3.0], [0.5, 0.5, 0.5]])
    lowest, highest = walls(low, high, dead)
    np.testing.assert_allclose(lowest, [-1.1, -np.inf, -np.inf])
    np.testing.assert_allclose(highest, [np.inf, np.inf, 2.0])
    assert not np.isfinite(np.concatenate(walls(low, high, dead[:0]))).any()


def test_two_falls_at_a_limit_of_one_sensor_among_many_show_it() -> None:
    """What else the falls have in common is no matter; without walls, the judge misses what comes next."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(3000, 14))
    dead, alive = states[states[:, 0] < -2.0], states[states[:, 0] > -2.0]
    classifier = fit_classifier(alive[:2000], dead[:2])
    walled = ResetClassifier(classifier.weight, *walls(alive.min(axis=0), alive.max(axis=0), dead[:2]))
    assert walled.resets(dead[2:]).mean() > 0.5 > 0.25 > classifier.resets(dead[2:]).mean()
    assert walled.resets(alive).mean() < 0.05


def test_the_slope_of_a_judge_with_walls_is_that_of_differences() -> None:
    rng = np.random.default_rng(1)
    classifier = ResetClassifier(rng.normal(size=7), np.array([-0.5, -np.inf, -1.0]), np.array([np.inf, 0.7, 1.0]))
    z = rng.normal(size=(50, 3))
    rises = [(classifier.logit(z + way) - classifier.logit(z - way)) / 2e-6 for way in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(classifier.gradient(z), np.stack(rises, axis=1), atol=1e-6)
    behind = np.maximum(z - classifier.highest, classifier.lowest - z).max(axis=1) > 0.0
    assert classifier.resets(z)[behind].all()


def test_what_is_imagined_is_what_happens() -> None:
    """Lives of two policies, imagined after four falls and played: the one falls and the other does not."""
    model = fitted()
    starts = np.random.default_rng(3).uniform(-0.1, 0.1, size=(8, 2))
    forecast = rollout(model, np.stack([AWAY, BACK]), model.scaling(starts), np.zeros((100, 8, 2)))
    assert (forecast.reset[0] > 0.99).all()
    assert (forecast.reset[1] < 0.01).all()
    assert all(life(AWAY, model, s) < 100 for s in starts)
    assert all(life(BACK, model, s) == 1000 for s in starts)
    assert forecast.value(200.0)[1] > forecast.value(200.0)[0] + 150.0
    np.testing.assert_allclose(forecast.reward[1], 100.0, atol=2.0)


def test_lives_that_ended_are_left_out_without_effect_on_the_others() -> None:
    model = fitted()
    starts, noise = model.scaling(np.full((4, 2), 0.05)), np.random.default_rng(0).normal(size=(60, 4, 2))
    both = rollout(model, np.stack([AWAY, BACK]), starts, noise)
    for i, theta in enumerate((AWAY, BACK)):
        alone = rollout(model, theta[None], starts, noise)
        np.testing.assert_allclose(both.reward[i], alone.reward[0], rtol=1e-6)
        np.testing.assert_allclose(both.reset[i], alone.reset[0], rtol=1e-6)


def test_outside_of_all_that_was_lived_in_is_dangerous_by_how_far() -> None:
    careless, careful = fitted(caution=0.0), fitted(caution=1.0)
    beyond = careful.high + np.array([0.0, 0.5]) * (careful.high - careful.low)
    beyond[0] = 0.0
    inside = np.zeros(1)
    assert careless.danger(beyond[None], inside)[0][0] in (0.0, 1.0)
    assert careful.danger(beyond[None], inside)[0][0] >= 0.5
    assert careful.danger(np.zeros((1, 2)), inside)[0][0] == 0.0


def of_a_set_point(n: int, seed: int) -> Experience:
    """Three sensors that swing, and the way to a set point: steps depend on the former, the reward on the latter."""
    rng = np.random.default_rng(seed)
    s, a = rng.normal(size=(n, 4)), rng.uniform(-1.0, 1.0, size=(n, 1))
    after = s + 0.1 * np.concatenate([np.sin(2.0 * s[:, :3]) + a, np.zeros((n, 1))], axis=1)
    return Experience(s, a, np.sin(2.0 * s[:, 3]), after, s, np.zeros((0, 4)))


def test_the_reward_has_scales_of_its_own() -> None:
    """It is known from 60 steps; with the scales that it would share with the steps it is not."""
    seen, new = of_a_set_point(60, 0), of_a_set_point(400, 1)
    bounds = np.full(4, -np.inf), np.full(4, np.inf)
    model = fit_machine(seen, bounds, draws=1, caution=0.3, rng=np.random.default_rng(0))

    def known(fit: Draws) -> float:
        x = np.concatenate([model.scaling(new.before), new.action], axis=1)
        left = fit.values(x, np.zeros(400, dtype=np.int64))[:, -1] - new.reward
        return 1.0 - float((left**2).mean() / new.reward.var())

    z = model.scaling(seen.before)
    targets = np.concatenate([model.scaling(seen.after) - z, seen.reward[:, None]], axis=1)
    shared = draw_functions(np.concatenate([z, seen.action], axis=1), targets, 1, np.random.default_rng(0))
    assert known(model.rewards) > 0.99 > 0.5 > known(shared)
    assert model.rewards.length[3] < 0.2 * model.rewards.length[:3].min()


def test_no_reward_is_expected_that_was_never_earned() -> None:
    seen, model = lived(4), fitted()
    assert (model.smallest[2], model.largest[2]) == (seen.reward.min(), seen.reward.max())
    assert (model.largest[:2] > ((seen.after - seen.before) / model.scaling.scale).max(axis=0)).all()


def test_the_caution_of_a_model_is_learned() -> None:
    model, states = fitted(), lived(4).before
    assert model.caution == learned_caution(model.scaling(states), 4, 0.3)
    assert model.caution != 0.3


def search(model: MachineModel, **changes: Any) -> MachineSearch:
    starts = np.random.default_rng(3).uniform(-0.1, 0.1, size=(6, 2))
    given: dict[str, Any] = {"lam": 200.0, "planning": 60, "population": 12, "rounds": 12, "seed": 5, **changes}
    return MachineSearch(model, starts, **given)


def test_a_policy_found_in_the_model_stands_in_the_world() -> None:
    """After two falls; the machine then stands for 1,000 steps from ten starts."""
    model = fitted(falls=2)
    found = search(model).best(Candidate(np.zeros((1, 3))), living=False).theta
    starts = np.random.default_rng(9).uniform(-0.1, 0.1, size=(10, 2))
    assert [life(found, model, s) for s in starts] == [1000] * 10


def test_a_policy_that_lives_is_kept_while_the_model_is_wrong_about_it() -> None:
    model, away = fitted(), Candidate(AWAY)
    assert search(model).best(away, living=True) is away  # it lives, and the model says that it falls
    assert search(model).best(away, living=False) is not away  # it fell, as the model says
    better = search(model).best(Candidate(BACK), living=True).theta  # the model is right about it, and may improve it
    found_value = rollout(model, np.stack([BACK, better]), model.scaling(np.full((4, 2), 0.05)), np.zeros((60, 4, 2)))
    assert found_value.value(200.0)[1] > found_value.value(200.0)[0] - 1.0


def test_the_same_search_finds_the_same() -> None:
    model = fitted()
    one, two = (search(model, rounds=3).best(Candidate(BACK), living=False).theta for _ in range(2))
    np.testing.assert_array_equal(one, two)


def rows_of(lives: list[int]) -> ReplayBuffer:
    """Lives of so many rows, each but the last ended by a reset."""
    n = sum(lives)
    dead = np.zeros(n, dtype=np.bool_)
    dead[np.cumsum(lives[:-1]) - 1] = True
    return ReplayBuffer(n, np.arange(n, dtype=np.float64)[:, None], np.zeros((n, 1)), np.zeros(n), dead)


def test_nothing_is_imagined_from_states_shortly_before_a_fall() -> None:
    lives = [30, 25, 10, 40]
    rows = rows_of(lives)
    starts = rollout_starts(rows, rows.n, 500, NO_ROWS, np.random.default_rng(0)).ravel().astype(int).tolist()
    began = [0, 30, 55, 65]
    assert starts[:4] == began
    allowed = set(range(30 - SAVABLE - 1)) | set(range(30, 55 - SAVABLE - 1)) | set(range(65, 105))
    assert set(starts[4:]) == allowed


def test_a_machine_that_has_only_fallen_is_imagined_from_where_it_began() -> None:
    rows = rows_of([5, 5, 5, 0])
    assert rollout_starts(rows, rows.n, 8, NO_ROWS, np.random.default_rng(0)).ravel().tolist() == [0.0, 5.0, 10.0]


def test_half_of_what_is_imagined_from_follows_a_surprise() -> None:
    """But for surprises shortly before a fall."""
    rows, surprising = rows_of([30, 40]), np.array([25, 45, 60])
    starts = rollout_starts(rows, rows.n, 12, surprising, np.random.default_rng(0)).ravel().astype(int)[2:]
    assert sorted(starts[::2]) == [45, 45, 45, 60, 60, 60]
    assert len(set(starts[1::2]) - set(surprising)) > 2


def test_surprises_are_steps_that_the_model_misses() -> None:
    """A sensor that moves by itself twice among steps that follow a law."""
    seen, struck = of_a_set_point(200, 0), [17, 140]
    seen.after[struck, 3] += 2.0
    bounds = np.full(4, -np.inf), np.full(4, np.inf)
    model = fit_machine(seen, bounds, draws=4, caution=0.3, rng=np.random.default_rng(0))
    assert np.flatnonzero(model.surprised(seen)).tolist() == struck


def test_a_long_life_is_not_forgotten() -> None:
    rows = latest_and_any(1000, 101, np.random.default_rng(0))
    assert rows[-50:].tolist() == list(range(950, 1000))
    assert len(set(rows.tolist())) == 101
    assert rows[:51].min() < 100 < 850 < rows[:51].max() < 950
    assert latest_and_any(101, 101, np.random.default_rng(0)).tolist() == list(range(101))


@pytest.mark.parametrize("name", ["TRUSTED", "BEYOND"])
def test_constants_are_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the gate open a living policy is replaced on a wrong model; without room beyond, steps are those seen."""
    if name == "TRUSTED":
        monkeypatch.setattr(machine_search, "TRUSTED", 1.0)
        assert search(fitted()).best(Candidate(AWAY), living=True).theta is not AWAY
    else:
        wide = fitted()
        monkeypatch.setattr(machine_model, "BEYOND", 0.0)
        assert (fitted().largest[:2] < wide.largest[:2]).all()


def test_a_policy_without_measure_is_not_searched_around() -> None:
    """As a crafted file may hold one: the search begins from nothing instead of ending in an error of its library."""
    found = search(fitted(), rounds=2).best(Candidate(np.full((1, 3), 1e308)), living=False)
    assert np.abs(found.theta).max() < machine_search.STEEPEST
