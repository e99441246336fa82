"""The limits equal what a search through all deterministic learners finds, and elimination stays within them."""

from typing import Any

import numpy as np
import pytest
from tests.players.elimination.test_elimination_bound import KINDS, small
from tests.players.elimination.test_support_elimination import resets_of
from tests.show.cli.commands import run, run_json
from tests.theory.every_learner import RESET, Table, all_tables, least_mean, least_worst, renamings

import resetfree as rf
from resetfree.players.elimination.support_elimination import SupportElimination
from resetfree.show.report.comparison import heading
from resetfree.show.report.html_tables import limit_words
from resetfree.studies.suites import AUTO, SUITES
from resetfree.studies.suites.suite_runner import Entry, PlayedEntry, compare
from resetfree.theory.assumptions import feasibility
from resetfree.theory.reset_limits import PermutationBound, depends_on_step, permutation_bound, size_limit


def as_mdp(table: Table) -> rf.FiniteMDP:
    """The table as a problem of the package; its last state is the reset state."""
    n, n_actions = table.n, len(table.outcome[0])
    transition = np.zeros((table.layers, n + 1, n_actions, n + 1))
    for node, row in enumerate(table.outcome):
        for a, out in enumerate(row):
            transition[node // n, node % n, a, out] = 1.0  # RESET is the last one
    transition[:, n, :, n] = 1.0
    assert RESET == -1
    rows, reward, reset = transition if table.layers > 1 else transition[0], np.zeros((n + 1, n_actions)), [False] * n
    return rf.FiniteMDP(rows, reward, [*reset, True], table.horizon, start=table.start, restart=table.restart)


SIZES = [(1, 1, 1, 1), (1, 2, 1, 1), (1, 4, 2, 1), (2, 2, 1, 1), (2, 2, 2, 1), (1, 2, 2, 2), (1, 3, 2, 2)]
SLOW_SIZES = [(2, 2, 3, 1), (2, 3, 2, 1), (3, 2, 2, 1), (1, 2, 3, 3)]


@pytest.mark.parametrize(
    ("n", "n_actions", "horizon", "layers"), [*SIZES, *(pytest.param(*s, marks=pytest.mark.slow) for s in SLOW_SIZES)]
)
def test_the_limit_is_the_value_of_the_game_over_all_problems(
    n: int, n_actions: int, horizon: int, layers: int
) -> None:
    tables = all_tables(n, n_actions, horizon, layers)
    assert size_limit(as_mdp(tables[0]), per_step=layers > 1) == least_worst(tables)


def test_some_of_these_problems_have_nodes_from_which_a_reset_cannot_be_avoided() -> None:
    """So that the search is not about the easy case only: there, unsafe pairs outnumber the limit."""
    over = [table for table in all_tables(2, 2, 2) if rf.limit(as_mdp(table)).unsafe > 2]
    assert over
    assert all(rf.limit(as_mdp(table)).promised == 2 for table in over)


def test_feasibility_of_the_package_is_the_word_by_word_one() -> None:
    for seed in range(40):
        table = random_table(seed)
        assert feasibility(as_mdp(table)).holds == table.feasible()


def random_table(seed: int, layers: int = 1) -> Table:
    rng = np.random.default_rng(seed)
    n, n_actions = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    outcome = rng.integers(-1, n, size=(n * layers, n_actions))
    outcome[rng.random(outcome.shape) < 0.3] = RESET
    rows = tuple(tuple(map(int, row)) for row in outcome)
    return Table(n, layers, layers if layers > 1 else 2, rows, 0, int(rng.integers(n)))


@pytest.mark.parametrize("layers", [1, 2])
def test_the_limit_with_actions_named_anew_is_the_value_of_the_game_over_all_names(layers: int) -> None:
    found = set()
    for seed in range(150):
        table = random_table(seed, layers)
        names = renamings(table)
        if not table.feasible() or len(names) > 12:
            continue
        mdp = as_mdp(table)
        if layers > 1 and mdp.transition.stationary:  # the two steps are alike by chance
            continue
        result = permutation_bound(mdp)
        assert result == PermutationBound(least_worst(names), exact=True), seed
        found.add(result.resets)
    assert len(found) >= 3  # the test is about something


def test_a_search_that_ends_early_gives_a_smaller_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(2, 1, 2, ((RESET, RESET, 1), (RESET, RESET, 0)), 0, 0)
    whole = permutation_bound(as_mdp(table))
    assert whole == PermutationBound(4, exact=True)
    values = []
    for most in (1, 3, 6):
        monkeypatch.setattr("resetfree.theory.reset_limits.POSITIONS", most)
        part = permutation_bound(as_mdp(table))
        assert part is not None
        assert not part.exact
        values.append(part.resets)
    assert values == sorted(values)
    assert values[-1] <= 4


@pytest.mark.parametrize(("n", "n_actions", "horizon"), [(1, 3, 1), (2, 3, 2), (3, 2, 2), (3, 2, 1)])
def test_in_expectation_no_learner_does_better(n: int, n_actions: int, horizon: int) -> None:
    """The chain of the proof, each action as likely as any other to be the one that does not fall."""
    tables = [
        Table(n, 1, horizon, tuple(tuple(chosen(n, s, a == safe[s]) for a in range(n_actions)) for s in range(n)), 0, 0)
        for safe in np.ndindex(*[n_actions] * n)
    ]
    found = rf.limit(as_mdp(tables[0]))
    for episodes in range(found.episodes):
        assert found.expected_after(episodes) <= least_mean(tables, episodes) + 1e-12
    assert found.expected == found.expected_after(found.episodes) == n * (n_actions - 1) / 2
    assert least_mean(tables, found.episodes) == pytest.approx(found.expected)


def chosen(n: int, s: int, safe: bool) -> int:
    return (s + 1) % n if safe else RESET


@pytest.mark.parametrize("kind", KINDS)
def test_elimination_stays_within_the_limit_on_every_path(kind: str) -> None:
    sharper = 0
    for seed in range(15):
        for horizon in (1, 2):
            mdp = small(kind, horizon, seed)
            for player in (SupportElimination(), SupportElimination(pooled=False)):
                most = size_limit(mdp, depends_on_step(mdp) or player.pooled is False)
                resets, unsafe = resets_of(mdp, 60, seed, player)
                assert resets <= most, (seed, horizon, player.pooled)
                sharper += most < unsafe
    assert sharper or kind == "stationary"


def test_numbers_of_episodes() -> None:
    found = rf.limit(rf.make("grid-v0"))
    assert [found.after(k) for k in (0, 7, 40, 10**9)] == [0, 7, 40, 40]
    assert [found.expected_after(k) for k in (0, 3, 4, 71, 79, 80)] == [0.0, 0.0, 2.0, 16.0, 18.0, 20.0]
    bad: Any = 2.5
    with pytest.raises(rf.InvalidInput, match="number of episodes of a limit"):
        found.after(bad)


def test_the_command_shows_limits_beside_what_elimination_does(capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "limit", "grid-v0", "--episodes", "200")
    assert (data["limit"], data["unsafe"], data["elimination_never_exceeds"]) == (40, 18, 18)
    assert data["realised_resets"]["support-elimination"] <= 18
    status, out, _ = run(capsys, "limit", "grid-v0", "--episodes", "200")
    assert status == 0
    assert "No learner stays below" in out
    assert f"{data['realised_resets']['support-elimination']}  happened to support-elimination" in out
    # Whoever exceeds 18 has another bound, which is named beside it.
    beyond = [name for name, resets in data["realised_resets"].items() if resets > data["elimination_never_exceeds"]]
    assert beyond == ["guarded-linear"]
    assert " ".join(out.split()).count("which keeps steps apart: never more than 144") == 1
    assert run_json(capsys, "limit", "grid-v0", "--no-run")["realised_resets"] == {}
    status, out, _ = run(capsys, "limit", "footnote-v0", "--no-run")
    assert "promises nothing here" in out
    status, out, err = run(capsys, "limit", "continuous-linear-v0")
    assert (status, out) == (2, "")
    assert "whose states are a continuum" in err


def test_reports_and_suites_show_the_limit() -> None:
    assert "below 40 on every path" in limit_words(rf.make("grid-v0"))
    assert "61 triples (h, s, a) are unsafe" in limit_words(rf.make("doors-v0"))
    entries = [Entry(case, method, False, "not played") for case in SUITES["smoke"].cases[:2] for method in [AUTO]]
    rows = compare([PlayedEntry(entry, 0.0, ()) for entry in entries]).rows
    assert heading(rows["grid-v0"]).endswith("unsafe 18, limit 40")
    assert rows["thresholds-v0"][0].limit == 4
