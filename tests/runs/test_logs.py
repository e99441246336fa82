"""Logs with named columns as data: what they mean, in every form, and the sentence for each thing that does not fit."""

import csv
import sys
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import resetfree as rf
from resetfree.core.state import pack
from resetfree.problems.gym.flattening import NamedBox
from resetfree.runs.dataset_loading import gather
from resetfree.show.cli import main

HOT = "temperature>80"


class Kettle(gym.Env[Any, Any]):
    """A kettle that is heated and cools down; above 80 degrees it trips."""

    observation_space = NamedBox(np.array([0.0, 0.0]), np.array([1.0, 100.0]), ("level", "temperature"))
    action_space = spaces.Box(0.0, 1.0, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.x = np.array([0.5, 60.0])
        return self.x.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.x = np.array([0.5, self.x[1] + 20.0 * float(action[0]) - 6.0])
        return self.x.copy(), 1.0 - abs(self.x[1] - 70.0) / 100.0, False, False, {}


def kettle(**options: Any) -> Any:
    return rf.from_gym(Kettle(), **{"horizon": 10, "reset_when": HOT, "reward_range": (0, 1), **options})


ROWS: dict[str, list[Any]] = {  # a life with one trip after the third action
    "level": [0.5] * 6,
    "temperature": [60.0, 64.0, 68.0, 82.0, 60.0, 64.0],
    "heater": [0.5, 0.5, 1.0, 0.0, 0.5, None],
    "reward": [0.9, 0.9, 0.8, 0.0, 0.9, None],
    "remark": ["", "", "", "tripped", "put back", ""],
}
TABLE = {"action" if name == "heater" else name: column for name, column in ROWS.items()}


def forms(table: dict[str, list[Any]], folder: Path) -> dict[str, Any]:
    """One table in every form."""
    pandas, polars, arrow = import_module("pandas"), import_module("polars"), import_module("pyarrow")
    parquet = import_module("pyarrow.parquet")
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(["" if cell is None else cell for cell in row.values()] for row in rows)
    (folder / "german.csv").write_text((folder / "log.csv").read_text().replace(",", ";"))
    parquet.write_table(arrow.table(table), folder / "log.parquet")
    numbers = {name: np.array(column, dtype=np.float64) for name, column in table.items() if name != "remark"}
    (folder / "log.npz").write_bytes(pack(numbers))
    return {
        "dictionary": table,
        "rows": rows,
        "pandas": pandas.DataFrame(table),
        "polars": polars.DataFrame(table),
        "arrow": arrow.table(table),
        "csv": folder / "log.csv",
        "semicolons": folder / "german.csv",
        "parquet": str(folder / "log.parquet"),
        "npz": folder / "log.npz",
    }


def digest(data: Any, problem: Any) -> str:
    given = gather(data, problem)
    return str(given.about(given.rows())["digest"])


def test_a_log_in_every_form_is_the_same(tmp_path: Path) -> None:
    made = forms(TABLE, tmp_path)
    assert {digest(data, kettle()) for data in made.values()} == {digest(TABLE, kettle())}
    mixed = gather([made["pandas"], made["csv"], [made["rows"]]][:2], kettle())
    assert mixed.sources == ["a table", "log.csv"]
    assert len(mixed.episodes) == 4


def test_where_it_fell_is_a_known_danger_and_what_it_does_there_is_not_learned() -> None:
    first, second = gather(TABLE, kettle()).episodes
    assert first.states.tolist() == [[0.5, 60], [0.5, 64], [0.5, 68], [0.5, 82]]
    assert (first.actions.ravel().tolist(), first.reset) == ([0.5, 0.5, 1.0], True)
    assert second.states.tolist() == [[0.5, 60], [0.5, 64]]
    assert (second.actions.ravel().tolist(), second.reset) == ([0.5], False)


def test_a_run_begins_with_a_log_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = forms(TABLE, tmp_path)["csv"], str(tmp_path / "a.rfrun")
    run = rf.learn(kettle(), "model-search", episodes=1, data=path, path=out)
    assert run.spec["data"] == {**run.spec["data"], "episodes": 2, "steps": 4, "resets": 1, "from": ["log.csv"]}
    assert int(run.realised_resets[-1]) == int(run.columns["reset"].sum())  # that of the log is none of them
    assert any("columns are not used: remark" in note.what for note in run.notes)
    words = ["run", "pits-v0", "--primal", "support-elimination", "--episodes", "2", "--out", str(tmp_path / "b.rfrun")]
    assert main([*words, "--data", str(path)]) == 2
    said = capsys.readouterr().err
    assert "no column for the sensor 'observation' of 'pits-v0': name one 'observation'" in said


def columns(data: Any, problem: Any) -> list[Any]:
    return [
        (one.states.tolist(), one.actions.tolist(), one.rewards.tolist(), one.reset) for one in data_of(data, problem)
    ]


def data_of(data: Any, problem: Any) -> list[rf.Episode]:
    return list(gather(data, problem).episodes)


def test_names_by_convention_next_columns_and_vectors_say_the_same() -> None:
    seen = np.stack([TABLE["level"], TABLE["temperature"]], axis=1)
    rows = slice(0, 3)
    base = {"action": TABLE["action"][rows], "reward": TABLE["reward"][rows]}
    by_place = {"obs_0": seen[rows, 0], "obs_1": seen[rows, 1], "next_obs_0": seen[1:4, 0], "next_obs_1": seen[1:4, 1]}
    by_name = {"Level": seen[rows, 0], "Temperature": seen[rows, 1], "level_next": seen[1:4, 0]}
    by_name["temperature_next"] = seen[1:4, 1]
    vectors = {"observations": list(seen[rows]), "next_observations": list(seen[1:4])}
    (wanted,) = columns({**base, **by_place}, kettle())
    assert wanted[3] is True
    for one in (by_name, vectors, {"state": seen[rows], "next_state": seen[1:4]}):
        assert columns({**base, **one}, kettle()) == [wanted]


def test_episodes_end_where_the_table_says_so() -> None:
    table: dict[str, Any] = {"level": [0.5] * 6, "temperature": [60.0, 61, 62, 63, 64, 65]}
    table |= {"action_0": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "reward": [1.0] * 6}
    whole = [5]  # where the last action led is not known
    for name, column, lengths in (
        (None, None, whole),
        ("episode", ["a", "a", "a", "b", "b", "b"], [2, 2]),
        ("step", [1, 2, 3, 7, 8, 9], [2, 2]),
        ("truncated", [False, False, True, False, False, False], [2, 2]),
        ("time", [0, 1, 2, 30, 31, 32], whole),
    ):
        given = table if name is None else {**table, name: column}
        assert [len(one.actions) for one in data_of(given, kettle())] == lengths, name
    follows = {**table, "next_level": [0.5] * 6, "next_temperature": [61.0, 62, 99, 64, 65, 66]}
    assert [(len(one.actions), one.reset) for one in data_of(follows, kettle())] == [(3, True), (3, False)]


def test_a_reset_in_a_log_counts_whatever_the_problem_sees(tmp_path: Path) -> None:
    table = {**TABLE, "temperature": [60.0, 64, 68, 79, 60, 64], "reset": [False, False, True, False, False, False]}
    with pytest.raises(rf.InvalidInput, match=r"Row 3 of the data of the table is a reset, .* 'next_level'"):
        gather(table, kettle())
    table["action"] = [0.5, 0.5, 1.0, None, 0.5, None]
    fell, after = data_of(table, kettle())
    assert (fell.reset, fell.states[-1].tolist(), after.states[0].tolist()) == (True, [0.5, 79.0], [0.5, 60.0])
    table["terminated"] = table.pop("reset")  # the problem says what a termination means
    assert [one.reset for one in data_of(table, kettle())] == [False, False]
    assert [one.reset for one in data_of({**table, "action": TABLE["action"]}, kettle())] == [False, False]
    with pytest.raises(rf.InvalidInput, match="Row 3 of the data of the table is a reset"):
        gather({**table, "action": TABLE["action"]}, kettle(reset_when="terminated"))


def test_the_transitions_of_a_run_are_a_log_too(tmp_path: Path) -> None:
    run = rf.learn("pits-v0", "uniform", episodes=20)
    assert int(run.realised_resets[-1]) > 0
    frame = import_module("pandas").DataFrame(rf.transitions(run))
    lake = rf.from_gym("gym:FrozenLake-v1", horizon=20, is_slippery=False, reset_when="terminated and observation!=15")
    for problem, source in ((rf.make("pits-v0").problem(), run), (lake, rf.learn(lake, "ucbvi", episodes=9, B=9.0))):
        assert digest(source, problem) == digest(rf.transitions(source), problem)
    assert digest([run], rf.make("pits-v0").problem()) == digest(frame, rf.make("pits-v0").problem())
    second = rf.learn("pits-v0", "support-elimination", episodes=20, data=[run])
    assert second.spec["data"]["from"] == ["a run"]
    assert second.spec["data"]["resets"] == run.realised_resets[-1]


def test_observations_of_several_parts_and_a_reward_of_your_own() -> None:
    class Plant(Kettle):
        observation_space: Any = spaces.Dict(heat=spaces.Box(0, 100, (2,)), lamp=spaces.Discrete(2))

    problem = rf.from_gym(
        Plant(), horizon=9, reset_when="lamp>0", reward=lambda o, r, end, info: o["heat"][1] / 100, reward_range=(0, 1)
    )
    table = {"heat[0]": [1.0, 2.0], "heat[1]": [30.0, 40.0], "lamp": [0, 0], "action": [0.5, None]}
    assert columns(table, problem) == [([[1.0, 30.0, 0.0], [2.0, 40.0, 0.0]], [[0.5]], [0.4], False)]


def test_arrays_in_an_npz_with_the_documented_names(tmp_path: Path) -> None:
    life = {"observations": np.array([[0.5, 60], [0.5, 70]]), "actions": np.array([[0.5]]), "rewards": np.ones(1)}
    (tmp_path / "life.npz").write_bytes(pack({**life, "terminated": np.zeros(1, dtype=bool)}))
    (one,) = data_of(tmp_path / "life.npz", kettle())
    assert one.states.tolist() == [[0.5, 60], [0.5, 70]]


def test_flat_observations_of_several_parts_are_taken_in_the_order_of_their_names() -> None:
    class Plant(Kettle):
        observation_space: Any = spaces.Dict(heat=spaces.Box(0, 100, (2,)), lamp=spaces.Discrete(2))

    problem = rf.from_gym(Plant(), horizon=9, reset_when="lamp>0", reward_range=(0, 1))
    life = {"observations": np.array([[1, 30, 0], [2, 40, 0]]), "actions": [[0.5]], "rewards": [1.0]}
    (one,) = gather({**life, "terminated": [False]}, problem).episodes
    assert one.states.tolist() == [[1.0, 30.0, 0.0], [2.0, 40.0, 0.0]]
    wide = {**life, "observations": np.zeros((2, 4)), "terminated": [False]}
    must = (
        r"observations of the data must be 3 numbers each, heat\[0\], heat\[1\], lamp, or arrays by name \(heat, lamp\)"
    )
    with pytest.raises(rf.InvalidInput, match=must + r"\. Got an array \[2, 4\] instead"):
        gather(wide, problem)


def changed(**parts: Any) -> dict[str, Any]:
    return {name: column for name, column in {**TABLE, **parts}.items() if column is not ...}


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (
            changed(temperature=..., temp=[60.0] * 6),
            r"no column 'temperature', and have one for 'level'.*perhaps 'temp'",
        ),
        (
            changed(level=..., temperature=...),
            r"no column for the sensor 'level' .*name one 'level' or 'observation_0'",
        ),
        (
            changed(action=...),
            r"no column for the action of 'Kettle': name one 'action'\. They have level, temperature",
        ),
        (changed(reward=...), "no column for the reward: name one 'reward', or state reward=f to from_gym"),
        (changed(level=["full"] * 6), "column 'level' of the data of the table must hold numbers.*Got 'full' in row 1"),
        (changed(level=[0.5, None] * 3), r"column 'level' .* must hold a number in every row\. Got none in row 2"),
        (changed(level=[0.5] * 5), "must have columns of one length, 6. Got 5 in 'level'"),
        (changed(Level=[0.5] * 6), "two columns that read alike, 'level' and 'Level'"),
        (changed(reset=[2] * 6), "column 'reset' of the data of the table must be True or False in every row. Got"),
        (changed(done=[False] * 6), "column 'done' .* name it 'terminated' or 'truncated'"),
        (changed(reward=[None] * 6), r"reward .* must be a number in each row\. Got none in row 1"),
        (changed(action=[50.0] * 6), r"must be 1 number in \[0, 1\].* if it is in other units, convert it"),
        (changed(action=[[1.0, 2.0]] * 6), r"column 'action' .* must hold 1 numbers in each row \(action\)\. Got 2"),
        ({name: [] for name in TABLE}, "hold no rows"),
        ([{"level": 1.0}, {"temperature": 2.0}], "must have a 'level', as the first one. Row 2 has none"),
    ],
    ids=lambda value: None if isinstance(value, str) else "table",
)
def test_what_does_not_fit_is_said_with_its_column(table: Any, sentence: str) -> None:
    with pytest.raises(rf.InvalidInput, match=sentence) as caught:
        gather(table, kettle())
    assert "\n" not in str(caught.value)


def test_broken_files_and_missing_packages_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "short.csv").write_text("a,b\n1\n")
    with pytest.raises(rf.InvalidInput, match="its line 2 has 1 cells for 2 columns"):
        gather(tmp_path / "short.csv", kettle())
    (tmp_path / "x.json").write_text("[]")
    for name, why in (
        ("x.json", r"must be a run file, or its name must end in one of \.npz, \.parquet, \.csv, \.tsv, \.txt\.$"),
        ("none.xlsx", r"cannot be read: No such file or directory\.$"),
        (".", r"cannot be read: Is a directory\.$"),
    ):
        with pytest.raises(rf.InvalidInput, match=rf"^The data '.*{name}' {why}" if name != "." else why):
            gather(tmp_path / name, kettle())
    path = forms(TABLE, tmp_path)["parquet"]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(rf.InvalidInput, match="needs PyArrow: install resetfree with the extra 'sweep'"):
        gather(path, kettle())
    absent = types.SimpleNamespace(load_dataset=lambda name: Path("/nowhere./x..").read_text())
    monkeypatch.setitem(sys.modules, "minari", absent)
    with pytest.raises(
        rf.InvalidInput, match=r"'a/b-v0' \(get it by 'minari download'\): FileNotFoundError: .*[^.]\.$"
    ):
        gather("minari:a/b-v0", kettle())
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(rf.InvalidInput, match="needs it: install resetfree with the extra 'minari'"):
        gather("minari:D4RL/pen/human-v2", kettle())
