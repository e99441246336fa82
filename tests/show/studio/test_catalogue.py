"""What the page offers says what each setting takes, as it is declared."""

from __future__ import annotations

from typing import Any

from resetfree.show.studio.catalogue import catalogue


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
