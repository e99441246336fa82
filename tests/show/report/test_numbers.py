"""What the figures show is what the runs say, at the episodes that are shown, and intervals are those of the tables."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.show.report.conftest import EPISODES
from tests.show.report.reading import Page, read

import resetfree as rf
from resetfree.players.elimination.rule_elimination import RuleElimination
from resetfree.problems.knowledge import Factor, Factors
from resetfree.runs.file.runfile import connect, read_checkpoint
from resetfree.runs.recall import danger_of
from resetfree.show.report import build, maps, players, style, write_report
from resetfree.show.report.figures import POINTS, curve, growth, shown
from resetfree.show.report.groups import Collection, Group, collect, rate
from resetfree.show.report.html_tables import certificates, failures, overview
from resetfree.show.report.learning_curves import figures, time_line
from resetfree.show.report.maps import policy_map
from resetfree.studies.statistics import interval
from resetfree.theory.certificates import anytime
from resetfree.theory.regret import dual_regret, primal_regret

Files = dict[str, list[Path]]


@pytest.fixture(scope="module")
def single(files: Files, tmp_path_factory: pytest.TempPathFactory) -> tuple[rf.Run, Page]:
    path = tmp_path_factory.mktemp("single") / "report.html"
    write_report(files["ucb"][:1], path)
    return rf.load(files["ucb"][0]), read(path)


@pytest.fixture(scope="module")
def seeds(files: Files, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[rf.Run], Page]:
    path = tmp_path_factory.mktemp("seeds") / "report.html"
    write_report(files["auto"], path)
    return [rf.load(file) for file in files["auto"]], read(path)


def at(page: Page, figure: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([int(k) for k in page.data(figure)["k"]])


def test_curves_of_one_run_are_the_run_bit_for_bit(single: tuple[rf.Run, Page]) -> None:
    run, page = single
    star = run.solution.lambda_hat[run.rounds.s1] + 1
    wanted = {
        ("g1-regret", "regret"): run.regret,
        ("g1-regret-log", "regret"): run.regret,
        ("g1-resets", "resets"): run.resets,
        ("g1-resets-log", "resets"): run.resets,
        ("g1-resets", "realised"): run.realised_resets,
        ("g1-resets-log", "realised"): run.realised_resets,
        ("g1-resets", "predicted"): run.predicted_resets,
        ("g1-resets", "upper"): np.minimum(
            anytime.resets_upper(run.realised_resets, anytime.SHOWN), np.arange(1, EPISODES + 1)
        ),
        ("g1-game-regret", "primal"): primal_regret(run.rounds, run.solution),
        ("g1-game-regret", "dual_zero"): dual_regret(run.rounds, 0.0),
        ("g1-game-resets", "dual_star"): dual_regret(run.rounds, at_starts=star),
    }
    reward = run.columns["reward"]
    tenth = [reward[k - (k // 10 or 1) : k].mean() for k in at(page, "g1-reward").tolist()]  # as the tile at the end
    assert page.numbers("g1-reward", "reward_mean") == pytest.approx(tenth)
    for (figure, name), values in wanted.items():
        k = at(page, figure)
        assert k[0] == 1
        assert k[-1] == EPISODES
        for side in ("mean", "low", "high"):
            assert page.numbers(figure, f"{name}_{side}") == values[k - 1].astype(float).tolist()


def test_the_sum_of_the_players_regrets_is_regret(single: tuple[rf.Run, Page]) -> None:
    _, page = single
    column = {
        name: np.array(page.numbers("g1-game-regret", f"{name}_mean")) for name in ("primal", "dual_zero", "regret")
    }
    np.testing.assert_allclose(column["primal"] + column["dual_zero"], column["regret"], atol=1e-8)
    assert min(page.numbers("g1-game-resets", "slack_mean")) >= -1e-8


def test_the_time_line_has_every_reset(seeds: tuple[list[rf.Run], Page]) -> None:
    runs, page = seeds
    data = page.data("g1-time-line")
    for seed, run in enumerate(runs):
        mine = [int(k) for s, k in zip(data["seed"], data["k"], strict=True) if int(s) == seed]
        assert mine == (np.flatnonzero(run.columns["reset"]) + 1).tolist()


def test_means_and_intervals_are_those_of_the_tables(seeds: tuple[list[rf.Run], Page]) -> None:
    runs, page = seeds
    for figure, name, values in (
        ("g1-regret", "regret", [run.regret for run in runs]),
        ("g1-resets", "realised", [run.realised_resets for run in runs]),
    ):
        for i, k in enumerate(at(page, figure)[:: POINTS // 8]):
            expected = interval([float(v[k - 1]) for v in values])
            row = i * (POINTS // 8)
            found = [page.numbers(figure, f"{name}_{side}")[row] for side in ("mean", "low", "high")]
            np.testing.assert_allclose(found, [expected.mean, expected.low, expected.high], rtol=1e-12, atol=1e-12)


def test_multipliers_are_those_that_were_played(single: tuple[rf.Run, Page]) -> None:
    run, page = single
    k = at(page, "g1-multiplier")
    assert page.numbers("g1-multiplier", "lam") == run.columns["lam"][k - 1].tolist()
    by_state = dict(
        zip(
            page.numbers("g1-multiplier-starts", "state"), page.numbers("g1-multiplier-starts", "lam_mean"), strict=True
        )
    )
    for state in np.unique(run.columns["s1"]):
        last = np.flatnonzero(run.columns["s1"] == state)[-1]
        assert by_state[float(state)] == run.columns["lam"][last]


def test_maps_show_the_oracle_and_what_the_players_kept(files: Files, seeds: tuple[list[rf.Run], Page]) -> None:
    runs, page = seeds
    mdp, solution = runs[0].mdp, runs[0].solution
    assert mdp is not None
    tried, allowed = [], []
    for file in files["auto"]:
        connection = connect(file, "ro")
        saved = read_checkpoint(connection, file)
        connection.close()
        assert saved is not None
        tried.append(saved.arrays["primal.data.tried"].sum(axis=(0, 2)))
        allowed.append(saved.arrays["primal.allowed"][0].sum(axis=1))
    assert page.numbers("g1-map", "safe_actions") == solution.safe_actions[0].sum(axis=1).tolist()
    assert page.data("g1-map")["action"] == [mdp.action_names[a] for a in solution.policy[0]]
    assert page.numbers("g1-map", "reset") == mdp.reset.astype(int).tolist()
    assert page.numbers("g1-visits", "visits_mean") == np.mean(tried, axis=0).tolist()
    assert sum(tried[0]) == runs[0].columns["steps"].sum(), "a step is an action taken"
    assert page.numbers("g1-learned", "not_ruled_out_mean") == np.mean(allowed, axis=0).tolist()
    assert "oracle; the run file holds no learned policy" in page.figures["g1-map"].caption


@pytest.mark.parametrize("n_steps", [8, 3])
def test_a_learned_policy_is_shown_where_the_run_has_one(files: Files, n_steps: int) -> None:
    run = rf.load(files["one"][0])
    assert run.mdp is not None
    group = Group("g1", "a run", (run,))
    table = np.eye(5)[np.full((n_steps, 12), 3)]
    object.__setattr__(group, "arrays", [{"primal.policy": table}])  # as a player that keeps its policy saves it
    drawing = policy_map(group, run.mdp, run.solution)
    learned = n_steps == run.mdp.horizon
    assert ("last policy of the run with seed 0" in drawing.caption) == learned
    expected = [3] * 12 if learned else run.solution.policy[0].tolist()
    assert drawing.data["action"] == [run.mdp.action_names[a] for a in expected]


def test_returns_before_they_were_scaled_have_a_figure(files: Files) -> None:
    run = rf.load(files["one"][0])
    run.columns["original_return"][:] = -7.5
    drawn = {d.name: d for d in figures(Group("g1", "a run", (run,)))}
    assert drawn["g1-original"].data["original_mean"].tolist() == [-7.5]
    assert "g1-original" not in {d.name for d in figures(Group("g1", "a run", (rf.load(files["one"][0]),)))}


def test_many_resets_are_drawn_together_and_counted_one_by_one(files: Files) -> None:
    run = rf.load(files["ucb"][0])
    n = 40_000
    columns = {name: np.resize(column, n) for name, column in run.columns.items()}
    columns["k"], columns["reset"] = np.arange(1, n + 1), np.arange(n) % 5 != 0
    long = rf.Run(run.spec, columns, None, None, 0.0)
    drawing = time_line(Group("g1", "a run", (long,)))
    assert "a mark is one or more" in drawing.caption
    assert sum(drawing.data["resets"]) == 32_000
    assert (drawing.data["after_k"][0], drawing.data["up_to_k"][-1]) == (0, n)
    assert len(drawing.svg) < 200_000


def test_without_counts_visits_are_starts_and_say_so(single: tuple[rf.Run, Page]) -> None:
    run, page = single
    assert "the run file holds starts only" in page.figures["g1-visits"].caption
    assert "g1-learned" not in page.figures
    counted = np.bincount(run.columns["s1"], minlength=12)
    assert page.numbers("g1-visits", "visits_mean") == counted.tolist()


@given(st.integers(1, 10**7), st.booleans())
def test_what_is_shown_has_both_ends_and_is_short(n: int, log: bool) -> None:
    k = shown(n, log)
    assert k[0] == 1
    assert k[-1] == n
    assert (np.diff(k) > 0).all()
    assert len(k) <= POINTS
    assert n > POINTS or len(k) == n


@given(st.integers(2, 6), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_curves_agree_with_the_interval_of_one_point(n: int, length: int, seed: int) -> None:
    values = list(np.random.default_rng(seed).normal(size=(n, length)))
    found = curve(values, np.array([1, length]) if length > 1 else np.array([1]))
    for i, k in enumerate(found.k):
        one = interval([v[k - 1] for v in values])
        np.testing.assert_allclose(
            (found.mean[i], found.low[i], found.high[i]), (one.mean, one.low, one.high), atol=1e-12
        )


@given(st.floats(-0.5, 2.0), st.floats(0.1, 100.0), st.integers(16, 5000))
def test_the_exponent_of_a_power_is_found(exponent: float, factor: float, n: int) -> None:
    found = growth([factor * np.arange(1.0, n + 1) ** exponent], n)
    assert found is not None
    assert found.exponent.mean == pytest.approx(exponent, abs=1e-6)
    assert (found.first, found.last, found.n, found.without) == (n // 4, n, 1, 0)


def test_runs_that_are_not_positive_have_no_exponent_and_are_counted() -> None:
    k = np.arange(1.0, 101)
    found = growth([k, -k], 100)
    assert found is not None
    assert (found.n, found.without) == (1, 1)
    assert growth([-k], 100) is None
    assert growth([k], 5) is None


def test_tuned_runs_have_no_theorems_bound_and_covered_ones_their_own(files: Files) -> None:
    tuned, covered = collect(files["ucb"]).groups[0], collect(files["theory"]).groups[0]
    for claim in ("Regret is at most its rate", "Resets are at most their rate"):
        why = rate(tuned, claim)
        assert isinstance(why, str)
        assert "tuned" in why
        found = rate(covered, claim)
        assert not isinstance(found, str)
        k, values, certificate = found
        (at_end,) = [c for c in covered.runs[0].certificates() if c.claim == claim]
        assert k[-1] == len(covered.runs[0])
        assert values[-1] == at_end.rhs == certificate.rhs
        part = rf.learn(
            "random-linear-v0",
            "linear-ucb",
            "projected-gradient",
            episodes=100,
            settings={"primal": {"width": "theory"}},
        )
        half = rf.Run(part.spec, {n: c[: k[-2]] for n, c in part.columns.items()}, part.mdp, None, 0.0)
        (before,) = [c for c in half.certificates() if c.claim == claim]
        assert values[-2] == before.rhs


def test_the_table_of_certificates_keeps_proved_and_tuned_apart(files: Files) -> None:
    group = collect(files["ucb"]).groups[0]
    page = Page(certificates(group))
    claims = [c for found in group.certificates for c in found]
    assert {c.status for c in claims} >= {"proved", "tuned"}
    guaranteed, _ = str(certificates(group)).split("<caption>Tuned: no theorem")
    for c in claims:
        text = Page(guaranteed.split("<table>")[1].split("</table>")[0]).text if c.status == "proved" else page.text
        assert c.claim in text
    assert not [c.claim for c in claims if c.status == "tuned" and f">{c.claim}<" in guaranteed]
    assert "2/2" in page.text
    assert failures([group]) == []


def test_the_overview_shows_regret_beside_resets_and_what_is_guaranteed(files: Files) -> None:
    groups = collect([*files["auto"], *files["theory"]]).groups
    text = " ".join(Page(overview(groups)).text.split())
    runs = [rf.load(f) for f in files["auto"]]
    for mean in (np.mean([r.regret[-1] for r in runs]), np.mean([r.resets[-1] for r in runs])):
        assert f"{mean:.3g} [" in text
    assert "≤ 18 resets on every path" in text
    assert "theorem, its bound vacuous at this K" in text


PLAYED = 60


def timed(seed: int, spec: dict[str, Any], lateness: float) -> rf.Run:
    """A run with the columns of a clock: every third episode misses two deadlines, plans are up to three rounds old."""
    run = rf.learn("grid-v0", episodes=PLAYED, seed=seed)
    k = np.arange(PLAYED)
    clock = {
        "based_on": np.maximum(k - 3, 0),
        "plan": k,
        "missed": np.where(k % 3 == 2, 2, 0),
        "lateness": np.where(k == 30, 4 * lateness, lateness),
    }
    return dataclasses.replace(run, spec={**run.spec, "timing": spec}, columns={**run.columns, **clock})


def group(spec: dict[str, Any], lateness: float, n: int = 2) -> Group:
    return Group("g1", "timed", tuple(timed(seed, spec, lateness) for seed in range(n)))


def page(one: Group) -> tuple[list[str], str]:
    with style.look():
        drawn, text = build(Collection([one], [], []), details=True)
    return [drawing.name for drawing in drawn], text


def test_a_run_by_the_clock_shows_its_clock() -> None:
    one = group({"rate": 100.0}, 0.0005)
    names, text = page(one)
    assert {"g1-plan-ages", "g1-deadlines", "g1-lateness"} <= set(names)
    assert "The clock and the age of plans" in text
    steps = sum(int(run.columns["steps"].sum()) for run in one.runs)
    said = players.clock_summary(one)
    assert said in text
    assert said.startswith("100 steps per second; 80 deadlines missed (")
    assert f"({100 * steps / (steps + 80):.1f} % of commands in time)" in said
    assert "the latest command 2 ms after its tick; plans up to 3 rounds old, 2.9 on average" in said
    assert f"{sum(int(run.realised_resets[-1]) for run in one.runs):,} resets" in said


def test_the_numbers_behind_the_figures_are_those_of_the_columns() -> None:
    with style.look():
        ages, deadlines, late = players.clock_figures(group({"rate": 100.0}, 0.0005, n=1))
    assert ages.data["oldest_mean"].tolist() == [0, 1, 2, *[3] * (PLAYED - 3)]
    assert ages.data["age_mean_mean"][-1] == pytest.approx((0 + 1 + 2 + 3 * (PLAYED - 3)) / PLAYED)
    assert deadlines.data["missed_mean"][-1] == 2 * (PLAYED // 3)
    assert late.data["latest_mean"][[29, 30, 59]] == pytest.approx([0.5, 2.0, 2.0])


def test_a_run_with_delay_has_plans_that_are_old_and_no_clock() -> None:
    one = group({"delay": 3}, float("nan"))
    names, _ = page(one)
    assert "g1-plan-ages" in names
    assert not {"g1-deadlines", "g1-lateness"} & set(names)
    assert players.clock_summary(one).startswith("plans up to 3 rounds old, 2.9 on average; ")


def test_nothing_is_shown_of_a_clock_that_was_not_there() -> None:
    one = Group("g1", "plain", (rf.learn("grid-v0", episodes=PLAYED),))
    names, text = page(one)
    assert players.clock_figures(one) == []
    assert not [name for name in names if "plan-ages" in name]
    assert "age of plans" not in text


def test_runs_with_other_delays_are_other_groups(tmp_path: Path) -> None:
    files = [tmp_path / f"{delay}-{seed}.rfrun" for delay in (0, 2) for seed in range(2)]
    for i, file in enumerate(files):
        rf.learn("grid-v0", episodes=PLAYED, seed=i % 2, path=file, delay=2 * (i // 2))
    made = write_report(files, tmp_path / "report.html")
    assert {"g1-plan-ages", "g2-plan-ages"} <= set(made.figures)
    text = (tmp_path / "report.html").read_text()
    assert "(delay = 0)" in text
    assert "(delay = 2)" in text
    assert "plans up to 0 rounds old" in text
    assert "plans up to 2 rounds old" in text


def test_beliefs_are_drawn_from_the_run_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "rules.rfrun"
    asked: dict[str, Any] = {"episodes": 40, "seed": 1, "feedback": "realised", "settings": {"dual": {"C": 0.0}}}
    first = rf.learn("grid-v0", RuleElimination(moves="relative"), "constant-penalty", path=file, **asked)
    run = rf.load(file)
    assert [one.what for one in run.decisions] == [one.what for one in first.decisions] != []
    here, there = danger_of(first), danger_of(run)
    assert here is not None
    assert there is not None
    assert np.array_equal(here.belief, there.belief)
    assert there.factors.parts == here.factors.parts
    (drawing,) = maps.danger_figures(Group("g1", "rules", (run,)))
    assert drawing.name == "g1-danger"
    assert drawing.caption.startswith("Learned: " + "; ".join(one.what for one in run.decisions))
    assert "above 0.4 is held back" in drawing.caption
    assert len(drawing.data["belief"]) == 5 * 12
    places = maps.by_place(there, 0, 1)
    assert places.shape == (5, 3, 4)
    np.testing.assert_array_equal(drawing.data["belief"], places.ravel())
    fatal = there.belief[np.flatnonzero((there.factors.values == [1, 1]).all(axis=1))]
    assert (fatal == places[:, 1, 1]).all()


def test_players_without_beliefs_have_no_picture() -> None:
    run = rf.learn("grid-v0", "support-elimination", "constant-penalty", episodes=3, settings={"dual": {"C": 0.0}})
    assert maps.danger_figures(Group("g1", "pairs", (run,))) == []


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"parts": [[1]], "actions": []}', '{"parts": [], "actions": 3}'])
def test_factors_of_a_damaged_checkpoint_are_refused(text: str) -> None:
    with pytest.raises(rf.InvalidInput, match="names and values"):
        Factors.from_text(text, np.zeros((2, 1), dtype=np.int64), 2)
    good = Factors((Factor("row"),), np.zeros((2, 1), dtype=np.int64))
    with pytest.raises(rf.InvalidInput, match="names and values"):
        Factors.from_text(good.text(), good.values, 3)
