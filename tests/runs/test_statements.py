"""What is proved of a run is asked of its players: whatever a file says, it cannot turn tuned into proved."""

import dataclasses
import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

import resetfree as rf
from resetfree.game.contract import Statement
from resetfree.players.tabular.references import Uniform
from resetfree.runs.file import runfile
from resetfree.runs.resuming import CHECKPOINT, ROUNDS, SPEC, whole_run
from resetfree.show.cli.certify import certify as command
from resetfree.show.cli.progress import _stated
from resetfree.show.cli.run_summary import show, summary
from resetfree.show.report.groups import collect
from resetfree.show.report.html_tables import guarantee, settings
from resetfree.show.studio.frames import scene_of
from resetfree.theory.certificates import certify
from resetfree.theory.certificates.record import CLAIM, DIGEST


def edited(file: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    """The run file with its spec changed by hand."""
    connection = sqlite3.connect(file)
    with connection:
        spec = json.loads(connection.execute("SELECT json FROM spec").fetchone()[0])
        edit(spec)
        connection.execute("UPDATE spec SET json = ?", (json.dumps(spec),))
    connection.close()
    return file


def cover(spec: dict[str, Any]) -> None:
    for said in spec["statements"].values():
        said |= {"covered": True, "why": "a theorem covers it"}


def saved(path: Path, problem: Any = "grid-v0", primal: str = "linear-ucb", **asked: Any) -> Path:
    rf.learn(problem, primal, "projected-gradient", **{"feedback": "optimistic", "episodes": 60, **asked}, path=path)
    return path


def proved(run: rf.Run) -> set[str]:
    return {c.claim for c in certify(run) if c.status == "proved"}


def test_a_forged_cover_proves_nothing(tmp_path: Path) -> None:
    file = saved(tmp_path / "a.rfrun")
    honest = proved(rf.load(file))
    forged = rf.load(edited(file, cover))
    assert forged.spec["statements"]["primal"]["covered"]
    assert proved(forged) == honest
    caught = next(c for c in certify(forged) if c.claim == CLAIM)
    assert (caught.holds, caught.status, caught.witness) == (False, "checked", "primal.covered")
    assert "edited, or written by another version" in caught.why
    for options in ([], ["--replay"]):
        result = CliRunner().invoke(command, [str(file), "--strict", "--json", *options])
        assert result.exit_code == 1
        claims = json.loads(result.output)["certificates"]
        assert {c["claim"] for c in claims if c["status"] == "proved" and "rate" in c["claim"]} == set()


@pytest.mark.parametrize(
    ("edit", "where"),
    [
        (lambda spec: spec["statements"]["primal"]["constants"].update(beta_r=1e-6), "primal.constants.beta_r"),
        (lambda spec: spec["statements"]["primal"]["constants"].pop("p"), "primal.constants.p"),
        (lambda spec: spec["statements"]["dual"]["constants"].update(B=1e9), "dual.constants.B"),
        (lambda spec: spec["statements"]["dual"]["constants"].update(more=True), "dual.constants.more"),
        (lambda spec: spec["statements"]["primal"].update(most_resets=3.0), "primal.most_resets"),
        (lambda spec: spec.update(B_source="oracle", persistent=True), "persistent"),
    ],
)
def test_every_forged_entry_is_named_and_used_for_nothing(tmp_path: Path, edit: Any, where: str) -> None:
    file = saved(tmp_path / "a.rfrun", settings={"primal": {"width": "theory"}})
    before = [c.to_dict() for c in certify(rf.load(file))]
    after = certify(rf.load(edited(file, edit)))
    caught = next(c for c in after if c.claim == CLAIM)
    assert (caught.holds, caught.witness) == (False, where)
    noticed = (CLAIM, DIGEST)
    assert not next(c for c in after if c.claim == DIGEST).holds
    assert [c.to_dict() for c in after if c.claim not in noticed] == [c for c in before if c["claim"] not in noticed]


def test_players_that_cannot_be_asked_prove_nothing(tmp_path: Path) -> None:
    mdp = rf.make("grid-v0").replace(horizon=5)  # no registered problem
    file = edited(saved(tmp_path / "a.rfrun", mdp, settings={"primal": {"width": "theory"}}), cover)
    assert not any("rate" in claim or "upper bounds" in claim for claim in proved(rf.load(file)))
    about = next(c for c in certify(rf.load(file)) if c.claim == CLAIM)
    assert not about.applies
    assert "is not what it was" in about.why
    given = certify(rf.load(file, mdp))  # with the problem the players can be asked
    assert next(c for c in given if "R_p(pi*) is at most its rate" in c.claim).status == "proved"
    odd = saved(tmp_path / "b.rfrun", settings={"primal": {"width": "theory"}})
    strange: list[tuple[str, dict[str, Any]]] = [
        ("mine", {}),
        ("linear-ucb", {"B": [1, 2]}),
        ("linear-ucb", {"B": "x"}),
    ]
    for name, kept in strange:
        run = rf.load(odd)
        run = dataclasses.replace(run, spec={**run.spec, "primal": {"name": name, "settings": kept}})
        assert not any("rate" in claim for claim in proved(run))
        assert "cannot be made again to state" in next(c for c in certify(run) if c.claim == CLAIM).why


@dataclasses.dataclass(frozen=True)
class Mine(Uniform):
    """A player that is nobody's but the user's, and promises what it cannot keep."""

    name = "mine"

    def statement(self, problem: rf.Problem, episodes: int) -> Statement:
        """Statements by the class at hand."""
        return Statement({}, True, "said by the player at hand", 0.0)


def test_a_player_at_hand_is_asked_itself(tmp_path: Path) -> None:
    player: rf.PrimalPlayer[Any] = Mine()
    run = rf.learn("grid-v0", player, "projected-gradient", episodes=20, path=tmp_path / "a.rfrun")
    assert run.statements["primal"]["why"] == "said by the player at hand"
    assert "There is no primal player 'mine'" in rf.load(tmp_path / "a.rfrun").statements["primal"]["why"]


@pytest.mark.parametrize("reached", ["given", "file"])
def test_an_environment_with_a_table_is_asked_itself(tmp_path: Path, reached: str) -> None:
    problem = rf.from_gym("gym:FrozenLake-v1", horizon=8)  # it has a model, which is another problem
    run = rf.learn(problem, episodes=20, path=tmp_path / "a.rfrun")
    if reached == "file":
        run = rf.load(tmp_path / "a.rfrun", rf.from_gym("gym:FrozenLake-v1", horizon=8))
    assert run.mdp is not None
    assert run.statements == run.spec["statements"]
    assert next(c for c in certify(run) if c.claim == CLAIM).holds


def test_whatever_shows_guarantees_asks_the_players(tmp_path: Path) -> None:
    def forge(spec: dict[str, Any]) -> None:
        cover(spec)
        spec["statements"]["primal"]["most_resets"] = 1.0

    file = edited(saved(tmp_path / "a.rfrun"), forge)
    (group,) = collect([file]).groups
    assert "tuned" in str(guarantee(group))
    assert "no theorem covers it as it is played" in str(settings(group))
    shown = io.StringIO()
    show(Console(file=shown, width=200), rf.load(file), summary(rf.load(file)))
    assert "No guarantee for the primal player (" in shown.getvalue()
    assert summary(rf.load(file))["most_further_resets"] is None
    assert _stated(file, fresh=False)[0] is None
    assert not scene_of(rf.load(file).spec).to_dict()["spec"]["statements"]["primal"]["covered"]
    outside = edited(file, lambda spec: spec.update(problem="my.module:problem"))
    assert not scene_of(rf.load(outside).spec).to_dict()["spec"]["statements"]["primal"]["covered"]


def test_playing_again_compares_the_checkpoint(tmp_path: Path) -> None:
    file = saved(tmp_path / "a.rfrun")
    claims = whole_run(rf.load(file))
    assert [c.claim for c in claims] == [ROUNDS, CHECKPOINT, SPEC]
    assert all(c.holds for c in claims)
    connection = sqlite3.connect(file)
    kept = runfile.read_checkpoint(connection, file)
    assert kept is not None
    name = next(name for name, array in kept.arrays.items() if array.dtype.kind == "f" and array.size)
    array = kept.arrays[name].copy()
    array.flat[0] = np.nextafter(array.flat[0], np.inf)
    for forged, where in (
        (dataclasses.replace(kept, arrays={**kept.arrays, name: array}), name),
        (dataclasses.replace(kept, arrays={k: v for k, v in kept.arrays.items() if k != name}), name),
        (dataclasses.replace(kept, s1=7 if kept.s1 != 7 else 8), "next start"),
        (dataclasses.replace(kept, rng={**kept.rng, "uinteger": 5}), "random numbers"),
    ):
        with connection:
            runfile.write_checkpoint(connection, forged)
        rounds, checkpoint, asked = whole_run(rf.load(file))
        assert (rounds.holds, checkpoint.holds, asked.holds) == (True, False, True)
        assert checkpoint.witness == where
    connection.close()


@pytest.mark.parametrize(
    ("edit", "where"),
    [
        (lambda spec: spec.update(B_source="given", B=spec["B"] + 1), "B"),
        (lambda spec: spec.update(n_actions=9), "n_actions"),
        (lambda spec: spec.update(horizon=9), "horizon"),
        (cover, "statements"),
        (lambda spec: spec["statements"]["dual"].update(why="a theorem of theorems"), "statements"),
        (lambda spec: spec["blueprint"].update(end_resets=True), "blueprint"),
    ],
)
def test_playing_again_compares_what_was_asked(tmp_path: Path, edit: Any, where: str) -> None:
    rounds, _, asked = whole_run(rf.load(edited(saved(tmp_path / "a.rfrun"), edit)))
    assert rounds.holds
    assert (asked.holds, asked.witness) == (False, where)


def test_settings_that_were_not_played_are_caught_by_playing_again(tmp_path: Path) -> None:
    """A proved width written into the settings is the file's word, and consistent; the rounds are not its rounds."""

    def forge(spec: dict[str, Any]) -> None:
        spec["primal"]["settings"]["width"] = "theory"

    rounds, _, _ = whole_run(rf.load(edited(saved(tmp_path / "a.rfrun"), forge)))
    assert not rounds.holds


def test_rounds_that_were_added_are_caught() -> None:
    run = rf.learn("grid-v0", "uniform", "projected-gradient", episodes=20)
    longer = {name: np.concatenate([column, column[-1:]]) for name, column in run.columns.items()}
    found = whole_run(dataclasses.replace(run, columns=longer))[0]
    assert (found.holds, found.witness) == (False, "round 21")


@pytest.mark.parametrize(("key", "value"), [("horizon", 800), ("n_actions", 50), ("n_states", 9), ("B", 1e6)])
def test_sizes_and_bounds_that_are_not_the_problems_are_caught(tmp_path: Path, key: str, value: float) -> None:
    run = rf.load(edited(saved(tmp_path / "a.rfrun"), lambda spec: spec.update({key: value})))
    caught = next(c for c in certify(run) if c.claim == CLAIM)
    assert (caught.holds, caught.witness) == (False, key)
