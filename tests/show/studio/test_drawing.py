"""Drawn grids: hand-solved fields, the repair, and agreement with the library on random ones."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import resetfree as rf
from resetfree.problems.finite.safety import safe_sets
from resetfree.show.studio.catalogue import TEMPLATES, catalogue, check_grid, options_of
from resetfree.theory.assumptions import feasibility, largest_closed_set, reachable_starts


def test_symbols_mean_what_they_say() -> None:
    mdp = rf.make("drawn-v0", rows="S.G/#XR", slip=0.0, horizon=3)
    assert mdp.n_states == 5  # the wall is no state
    assert mdp.state_names == ("0,0", "0,1", "0,2", "1,1", "1,2")
    assert mdp.reset.tolist() == [False, False, False, True, False]
    assert mdp.start.tolist() == [1, 0, 0, 0, 0]
    assert mdp.restart[0].tolist() == [0, 0, 0, 0, 1]
    assert mdp.reward[0, :, 0].tolist() == [0, 0, 1, 0, 0]
    assert mdp.action_names == ("up", "down", "left", "right")
    assert rf.make("drawn-v0", rows="S", stay=True).action_names[-1] == "stay"
    assert rf.make("drawn-v0", rows="R").start.tolist() == [1]  # starts where restarts are, by default


@pytest.mark.parametrize(
    ("grid", "holds", "breaking", "closable"),
    [
        ({"rows": ["S.", "X."], "slip": 0.0}, True, [], False),
        # Alone between two pits and two walls, with no way to stand still but pushing a wall: safe without slip.
        ({"rows": ["X", "S", "X"], "slip": 0.0}, True, [], False),
        ({"rows": ["X", "S", "X"], "slip": 0.1}, False, [1], False),  # with slip every push may end in a pit
        ({"rows": ["X", "S", "X"], "slip": 0.1, "stay": True}, True, [], False),
        # The middle cell is between two pits; its left neighbour can push the wall for ever.
        ({"rows": [".X", "S.", ".X"], "slip": 0.1, "horizon": 1}, False, [3], True),
    ],
)
def test_assumption_1_on_fields_solved_by_hand(
    grid: dict[str, Any], holds: bool, breaking: list[int], closable: bool
) -> None:
    found = check_grid(grid)
    assert (found["holds"], found["breaking"], found["closable"]) == (holds, breaking, closable)
    assert bool(found["why_not"]) == (not holds and not closable)


def test_closing_repairs_what_is_marked() -> None:
    grid = {"rows": [".X", "S.", ".X"], "slip": 0.1, "horizon": 1}
    broken = check_grid(grid)
    assert broken["stuck"] == [3]
    assert broken["path"][-1] == broken["witness"] == 3
    repaired = check_grid({**grid, "closed": True})
    assert repaired["holds"]
    assert repaired["breaking"] == []
    closed = rf.make("drawn-v0", **options_of({**grid, "closed": True}))
    assert closed.end_reset[closed.state_names.index("1,1")]


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_can_be_played(name: str) -> None:
    grid: dict[str, Any] = dict(TEMPLATES[name])
    found = check_grid(grid)
    assert found["holds"] or found["closable"]
    assert found["holds"] == (name != "bridge")
    run = rf.learn("drawn-v0", episodes=20, settings={"problem": options_of({**grid, "closed": not found["holds"]})})
    assert len(run) == 20


@settings(max_examples=60)
@given(
    rows=st.integers(1, 4).flatmap(
        lambda m: st.lists(st.text(".#XGgSR", min_size=m, max_size=m), min_size=1, max_size=4)
    ),
    slip=st.sampled_from([0.0, 0.2, 1.0]),
    horizon=st.integers(1, 5),
    stay=st.booleans(),
)
def test_the_page_says_what_the_library_says(rows: list[str], slip: float, horizon: int, stay: bool) -> None:
    grid = {"rows": rows, "slip": slip, "horizon": horizon, "stay": stay}
    if not {*"".join(rows)} & {"S", "R"}:
        with pytest.raises(rf.InvalidInput, match="start S or a restart R"):
            check_grid(grid)
        return
    found, mdp = check_grid(grid), rf.make("drawn-v0", **options_of(grid))
    assert mdp.layout is not None
    cell = mdp.layout.cell
    assert found["holds"] == feasibility(mdp).holds
    safe = safe_sets(mdp).states(1)
    assert found["hopeless"] == cell[~safe & ~mdp.reset].tolist()
    assert found["breaking"] == cell[reachable_starts(mdp).states & ~safe].tolist()
    if found["holds"]:
        return
    if found["closable"]:
        repaired = check_grid({**grid, "closed": True})
        assert repaired["holds"]
        assert found["stuck"] == cell[rf.close(mdp).end_reset].tolist()
    else:
        within = largest_closed_set(mdp)
        assert not (mdp.start[within].any() and mdp.restart[0][within].any())


BAD_GRIDS: list[Any] = [None, [], "S", {"rows": 5}, {"rows": []}, {"rows": [""]}, {"rows": ["S", "SS"]}]
BAD_GRIDS += [{"rows": ["S" * 31]}, {"rows": ["S"] * 31}, {"rows": "S/" * 100_000}, {"rows": ["S", 5]}, {"rows": ["."]}]
BAD_GRIDS += [{"rows": ["S"], "slip": 1.1}, {"rows": ["S"], "slip": "1"}, {"rows": ["S"], "slip": True}]
BAD_GRIDS += [{"rows": ["S"], "slip": float("nan")}, {"rows": ["S"], "horizon": 0}, {"rows": ["S"], "horizon": 201}]
BAD_GRIDS += [{"rows": ["S"], "horizon": 2.0}, {"rows": ["S"], "stay": 1}, {"rows": ["S"], "closed": "yes"}]
BAD_GRIDS += [{"rows": ["S?"]}, {"rows": ["S"], "import": "os"}, {"rows": ["S"], "horizon": 10**400}]


@pytest.mark.parametrize("grid", BAD_GRIDS)
def test_bad_grids_are_refused_in_one_sentence(grid: Any) -> None:
    with pytest.raises(rf.InvalidInput, match=r"^The|^A grid") as refusal:
        check_grid(grid)
    assert len(str(refusal.value)) < 300


def test_resets_by_hand_ask_for_each_and_play_the_same_model() -> None:
    asked = []
    run = rf.learn(
        "drawn-by-hand-v0",
        "uniform",
        episodes=40,
        seed=3,
        settings={"problem": options_of(TEMPLATES["garden"])},
        operator=rf.OperatorReset(by=lambda request: asked.append(request.why), who="test"),
    )
    resets = int(run.realised_resets[-1])
    assert resets > 0
    # One at the start; one after each reset, but for the last episode's if it was one.
    assert asked == ["start"] + ["reset"] * (resets - int(run.columns["reset"][-1]))
    assert [one.who for one in run.interventions] == ["test"] * len(asked)
    plain = rf.make("drawn-v0", **options_of(TEMPLATES["garden"]))
    assert run.mdp is not None
    for ours, theirs in zip(run.mdp.model, plain.model, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows by what they are called."""
    return {row["name"]: row for row in rows}


def test_every_setting_of_a_player_has_a_kind_that_the_page_can_draw() -> None:
    primal = catalogue()["players"]["primal"]
    linear = by_name(primal["linear-ucb"]["settings"])
    assert (linear["reg"]["kind"], linear["reg"]["optional"], linear["reg"]["default"]) == ("float", True, None)
    assert (linear["scale"]["kind"], linear["scale"]["optional"]) == ("float", False)
    assert linear["width"]["choices"] == ["tuned", "theory", "paper", "proved"]
    assert linear["lagged"]["kind"] == "bool"
    assert by_name(primal["stored-linear"]["settings"])["planning"]["kind"] == "int"
    for players in catalogue()["players"].values():
        for player in players.values():
            assert {row["kind"] for row in player["settings"]} <= {"int", "float", "bool", "str", "choice"}


def test_options_of_a_problem_have_their_choices() -> None:
    order = by_name(catalogue()["problems"]["contexts-v0"]["options"])["order"]
    assert (order["kind"], order["choices"], order["default"]) == ("choice", ["cycle", "random"], "cycle")
    assert by_name(catalogue()["problems"]["pits-v0"]["options"])["density"]["kind"] == "float"
