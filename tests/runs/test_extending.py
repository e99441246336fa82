"""A run goes on beyond its plan: with the same rounds whenever that is decided, and with no claim beyond the plan."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bank import edit, stop_at

import resetfree as rf
from resetfree.game.contract import depends_on_length
from resetfree.players import discover, make_player
from resetfree.runs.file.ledger import read, read_spec_of
from resetfree.runs.resuming import whole_run
from resetfree.show.cli import main
from resetfree.show.studio.files import RunFolder
from resetfree.show.studio.following import Following
from resetfree.show.studio.frames import scene_of
from resetfree.studies.engines.batched import play_batch
from resetfree.theory.certificates import RATES

PLANNED, WANTED = 12, 20
VECTORS = {name for name, cls in discover("primal").items() if cls.vectors_only} | {"stored-linear"}
PLAYERS = [
    *(("primal", name) for name, cls in discover("primal").items() if rf.Choices in cls.action_spaces),
    *(("dual", name) for name in discover("dual")),
]


def asked(role: str, name: str) -> dict[str, Any]:
    if name in VECTORS:
        problem: Any = rf.from_gym("gym:CartPole-v1", horizon=10)
        return {"problem": problem, "primal": name, "dual": "projected-gradient", "feedback": "optimistic", "B": 20.0}
    if role == "primal":
        return {"problem": "grid-v0", "primal": name}
    return {"problem": "random-linear-v0", "primal": "linear-ucb", "dual": name}


def same(one: rf.Run, other: rf.Run) -> bool:
    return one.columns.keys() == other.columns.keys() and all(
        np.array_equal(column, other.columns[name], equal_nan=column.dtype.kind == "f")
        for name, column in one.columns.items()
        if column.dtype != object
    )


@pytest.mark.parametrize(("role", "name"), PLAYERS, ids=[f"{role} {name}" for role, name in PLAYERS])
def test_every_player_goes_on_with_the_same_rounds_whenever_it_is_extended(
    role: str, name: str, tmp_path: Path
) -> None:
    of: dict[str, Any] = {**asked(role, name), "seed": 3}
    short = rf.learn(**of, episodes=PLANNED, path=tmp_path / "finished.rfrun")
    late = rf.learn(**of, episodes=WANTED, path=tmp_path / "finished.rfrun", resume=True)

    with pytest.raises(OSError):  # noqa: PT011
        rf.learn(**of, episodes=PLANNED, path=tmp_path / "killed.rfrun", progress=stop_at(5, error=OSError))
    early = rf.learn(**of, episodes=WANTED, path=tmp_path / "killed.rfrun", resume=True)
    assert len(late) == len(early) == WANTED
    assert late.spec["episodes"] == PLANNED
    assert late.spec["persistent"] or same(late, early)  # a persistent environment is elsewhere after a restart
    rounds = {key: column[:PLANNED] for key, column in late.columns.items()}
    assert same(dataclasses.replace(late, columns=rounds), short)
    if not late.spec["persistent"]:
        assert [c.lhs for c in whole_run(rf.load(tmp_path / "killed.rfrun", of["problem"]))] == [0, 0, 0]


PROVED = {"width": "theory"}
DEPEND = [
    *(("primal", name, settings) for name, settings in (("linear-ucb", PROVED), ("ucbvi", PROVED), ("politex", {}))),
    ("primal", "support-elimination", PROVED),  # its statement does not name the logarithm in its width
    *(("primal", name, {}) for name in ("mdp-exp2", "triple-q")),
    *(("dual", name, {}) for name in ("constant-step", "optimistic-gradient", "virtual-queue", "search")),
]
DO_NOT: list[tuple[str, str, dict[str, Any]]] = [
    *(("primal", name, {}) for name in ("support-elimination", "uniform")),
    *(("dual", name, {}) for name in ("projected-gradient", "adagrad-norm", "counting")),
]


@pytest.mark.parametrize(
    ("role", "name", "settings", "depends"),
    [*((*one, True) for one in DEPEND), *((*one, False) for one in DO_NOT)],
    ids=[" ".join([role, name, *settings]) for role, name, settings in (*DEPEND, *DO_NOT)],
)
def test_it_is_known_whose_constants_depend_on_the_plan(
    role: Any, name: str, settings: dict[str, Any], depends: bool
) -> None:
    takes_bound = "B" in {field.name for field in dataclasses.fields(discover(role)[name])}
    player = make_player(role, name, {**settings, **({"B": 3.0} if takes_bound else {})})
    assert depends_on_length(player, rf.make("grid-v0").problem(), 60, 6000) is depends


def test_claims_that_need_the_plan_end_with_it(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    theory: dict[str, Any] = {"settings": {"primal": {"width": "theory"}}, "path": path, "episodes": 30}
    before = {c.claim: c for c in rf.learn("grid-v0", "linear-ucb", "constant-step", **theory).certificates()}
    assert before[RATES[0]].status == "proved"
    run = rf.learn("grid-v0", "linear-ucb", "constant-step", **{**theory, "episodes": 31}, resume=True)
    after = {c.claim: c for c in run.certificates()}
    assert all(
        c.status == "not applicable" and "tuned from episode 31 on" in c.why for c in (after[claim] for claim in RATES)
    )
    gone = [claim for claim, c in before.items() if c.status == "proved" and after[claim].status == "tuned"]
    assert any("V* is at most" in claim for claim in gone)
    assert not any(c.refuted for c in after.values())
    (note,) = run.notes
    assert "'linear-ucb' and 'constant-step' depend on that number and are tuned from episode 31 on" in note.what
    assert rf.load(path).notes == run.notes


def test_claims_that_hold_for_every_length_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    rf.learn("pits-v0", "support-elimination", episodes=30, path=path)
    run = rf.learn("pits-v0", "support-elimination", episodes=60, path=path, resume=True)
    claims = [c for c in run.certificates() if "no more resets happened" in c.claim]
    assert [(c.status, c.holds) for c in claims] == [("proved", True)] * 2  # by unsafe pairs, and by sizes
    assert run.notes[0].what.endswith("no constant of its players depends on that number")


def test_fewer_episodes_are_refused_and_none_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    rf.learn("grid-v0", episodes=30, path=path)
    rf.learn("grid-v0", episodes=40, path=path, resume=True)
    for fewer in (39, 30, 5):
        with pytest.raises(
            rf.RunError, match=f"has 40 episodes, of which 40 are played: .* 40 or more, not for {fewer}"
        ):
            rf.learn("grid-v0", episodes=fewer, path=path, resume=True)
    with pytest.raises(rf.InvalidInput, match="'episodes' of a run must be"):
        rf.learn("grid-v0", episodes=0, path=path, resume=True)
    assert len(rf.learn("grid-v0", path=path, resume=True)) == 40
    assert len(rf.learn("grid-v0", path=path, episodes=41, resume=True)) == 41
    assert read(path).finished
    assert read(path).episodes == 41


def test_an_extension_that_a_file_forges_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    rf.learn("grid-v0", episodes=30, path=path)
    rf.learn("grid-v0", episodes=40, path=path, resume=True)
    statement, wrong = "UPDATE meta SET json = ? WHERE key = 'extended'", ("30", '"40"', "1e99", "true")
    for text in ("{}", "[", "[1]", *(f'{{"episodes": {one}}}' for one in wrong)):
        edit(path, statement, values=(text,))
        with pytest.raises(rf.RunError, match="is damaged or was not written by resetfree"):
            rf.load(path)
    edit(path, statement, values=('{"episodes": 50}',))
    with pytest.raises(rf.RunError, match="its meta does not fit its digest"):
        rf.learn("grid-v0", episodes=50, path=path, resume=True)


def test_the_command_line_extends_and_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = str(tmp_path / "a.rfrun")
    base = ["run", "grid-v0", "--out", file]
    theory = ["--dual", "constant-step", "--set", "width=theory"]
    assert main([*base, "--primal", "linear-ucb", *theory, "--episodes", "30"]) == 0
    assert main([*base, "--resume", "--verbose", "--episodes", "45"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "45 (planned: 30) in" in shown
    assert "primal: tuned from episode 31 on" in shown
    assert "dual: tuned from episode 31 on" in shown
    assert "planned for 30 episodes, extended to 45" in shown
    assert main([*base, "--resume", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["episodes"], data["planned"], data["episodes_played"]) == (45, 30, 45)
    assert main(["certify", file, "--replay", "--strict"]) == 0
    assert "bit for bit" in capsys.readouterr().out
    assert main([*base, "--resume", "--episodes", "20"]) == 2
    assert "not for 20." in capsys.readouterr().err
    assert main(["report", file, "--out", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert "45 (planned 30)" in page
    assert "tuned from episode 31 on" in page
    assert "a theorem covers it as it is played: the multiplier" not in page
    for followed in (Following("a", RunFolder(tmp_path)).lanes[0].scene, scene_of(read_spec_of(Path(file)))):
        assert followed is not None
        spec = followed.to_dict()["spec"]
        for role in ("primal", "dual"):
            assert spec["statements"][role]["covered"] == (spec["episodes"] == 30)
            assert ("tuned from episode 31 on. Otherwise: " in spec["statements"][role]["why"]) == (
                spec["episodes"] == 45
            )


def test_the_studio_says_that_nothing_is_proved_of_what_data_taught(tmp_path: Path) -> None:
    old = rf.learn("grid-v0", "ucbvi", episodes=3, path=tmp_path / "old.rfrun")
    theory = {"primal": {"width": "theory"}}
    rf.learn("grid-v0", "linear-ucb", episodes=3, settings=theory, data=old, path=tmp_path / "new.rfrun")
    said = scene_of(read_spec_of(tmp_path / "new.rfrun")).to_dict()["spec"]["statements"]
    assert not said["primal"]["covered"]
    assert said["primal"]["why"].startswith("it began with 3 episodes of data, which no theorem covers. Otherwise: ")
    assert said["dual"]["covered"]


def test_a_batch_is_as_long_as_its_plan() -> None:
    pair = (make_player("primal", "ucbvi"), make_player("dual", "counting"))
    assert play_batch(rf.make("grid-v0"), *pair, episodes=5, seeds=[1]).run(0).episodes == 5


def test_a_run_that_is_resumed_without_a_seed_has_that_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    rf.learn("grid-v0", "ucbvi", episodes=3, seed=7, path=path)
    again = rf.learn("grid-v0", "ucbvi", episodes=5, resume=True, path=path)
    whole = rf.learn("grid-v0", "ucbvi", episodes=3, seed=7, path=tmp_path / "b.rfrun")
    assert (len(again), again.spec["seed"]) == (5, 7)
    assert np.array_equal(again.columns["s1"][:3], whole.columns["s1"])
    with pytest.raises(rf.RunError, match="seed"):
        rf.learn("grid-v0", "ucbvi", episodes=5, resume=True, path=path, seed=0)
