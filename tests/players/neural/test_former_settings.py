"""Settings that were renamed: the former names give the same run with a notice, and files that hold them go on."""

import json
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.players.neural.small_networks import LATEST, SMALL, Target
from tests.runs.forging import forge

import resetfree as rf
from resetfree.core.errors import Notice
from resetfree.players import discover, make_player, settings
from resetfree.runs.setup import split_settings
from resetfree.show.cli import main

FORMER = {"trace": 0.9, "value_weight": 0.4, "entropy_weight": 0.01, "largest_gradient": 0.7}
TODAY = {"gae_lambda": 0.9, "vf_coef": 0.4, "ent_coef": 0.01, "max_grad_norm": 0.7}
COLUMNS = ("reward", "reset", "v_r_hat", "v_c_hat", "lam")


def learned(given: dict[str, Any], **options: Any) -> rf.Run:
    how: dict[str, Any] = {"episodes": 8, "seed": 5, "settings": {"primal": {**LATEST, **given}}, **options}
    return rf.learn(Target(), "ppo", **how)


def with_former_names(connection: sqlite3.Connection) -> None:
    """The spec as the version before wrote it."""
    (text,) = connection.execute("SELECT json FROM spec").fetchone()
    spec = json.loads(text)
    old = {new: old for old, new in discover("primal")["ppo"].former_settings.items()}
    spec["primal"]["settings"] = {old.get(name, name): value for name, value in spec["primal"]["settings"].items()}
    assert spec["primal"]["settings"]["trace"] == 0.9
    connection.execute("UPDATE spec SET json = ?", (json.dumps(spec),))


@pytest.mark.parametrize("name", [name for name in SMALL if name != "goal-search"])  # which never had others
def test_former_names_are_settings_no_longer(name: str) -> None:
    cls = discover("primal")[name]
    known = settings(cls)
    assert cls.former_settings
    assert not cls.former_settings.keys() & known.keys()
    assert set(cls.former_settings.values()) <= known.keys()
    for old, new in cls.former_settings.items():
        with pytest.warns(Notice, match=f"the setting '{old}' of '{name}' is now '{new}'"):
            assert getattr(make_player("primal", name, {old: known[new]}), new) == known[new]
        with pytest.raises(rf.InvalidInput, match=f"give only '{new}'"):
            make_player("primal", name, {old: known[new], new: known[new]})


def test_a_bare_former_name_belongs_to_its_player() -> None:
    found = split_settings({"trace": 0.9, "primal.value_weight": 0.4}, [], "ppo", "constant-penalty")
    assert found["primal"] == {"trace": 0.9, "value_weight": 0.4}


def test_a_former_name_on_the_command_line_is_noted_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "gym:Pendulum-v1", "--primal", "ppo", "--set", "trace=0.9", "--set", "horizon=5", "--episodes", "2"]
    words += ["--set", "reset_when=reward<=-12", "--set", "reward_low=-17", "--set", "reward_high=0"]
    words += ["--out", str(tmp_path / "run.rfrun")]
    assert main(words) == 0, capsys.readouterr().err
    assert "Note: the setting 'trace' of 'ppo' is now 'gae_lambda'" in capsys.readouterr().err
    assert rf.load(tmp_path / "run.rfrun").spec["primal"]["settings"]["gae_lambda"] == 0.9


def test_a_file_with_former_names_is_resumed_and_certified_without_a_notice(tmp_path: Path) -> None:
    whole, parts = learned(TODAY), tmp_path / "parts.rfrun"
    learned(TODAY, path=parts, max_resets=1)
    forge(parts, with_former_names)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        again = learned(TODAY, path=parts, resume=True)
        loaded = rf.load(parts, Target())
        assert loaded.player_again("primal").vf_coef == 0.4
        applied = [one for one in loaded.certificates() if one.status in ("checked", "identity")]
        assert applied
        assert [str(one) for one in applied if not one.holds] == []
    assert loaded.spec["primal"]["settings"]["trace"] == 0.9  # a file stays as it was written
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", Notice)
        former = learned(FORMER)
    assert any("'trace'" in str(one.message) for one in said)
    for name in COLUMNS:
        assert whole.columns[name].tolist() == again.columns[name].tolist() == former.columns[name].tolist(), name
    with pytest.raises(rf.RunError, match=r"gae_lambda=0\.9, not gae_lambda=0\.8"):
        learned({**TODAY, "gae_lambda": 0.8}, path=parts, resume=True)
