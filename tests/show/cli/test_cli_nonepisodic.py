"""`resetfree nonepisodic`: the numbers of a life, one JSON object, one sentence for what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import resetfree as rf
from resetfree.players.tabular.nonepisodic import live
from resetfree.show.cli import main


def test_it_says_what_the_life_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonepisodic", "grid-v0", "--steps", "3000", "--seed", "4", "--set", "slip=0.1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    life = live(rf.make("grid-v0", slip=0.1), 3000, seed=4)
    assert said["resets"] == life.resets <= life.bound == said["most_resets"]
    assert said["reward"] == life.rewards.sum()
    assert said["regret"] == pytest.approx(3000 * said["best_average_reward"] - said["reward"])
    assert np.isclose(said["best_average_reward"], 1.0)
    assert main(["nonepisodic", "grid-v0", "--steps", "3000", "--seed", "4", "--set", "slip=0.1"]) == 0
    assert f"{life.resets} resets; at most {life.bound} on any path" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["doors-v0"], "A life without episodes needs a stationary problem. Got dynamics that change with the step"),
        (["continuous-linear-v0"], "Only finite problems have a life without episodes."),
        (["footnote-v0"], "from which resets cannot be avoided for ever"),
        (["grid-v0", "--steps", "0"], "The 'steps' of live must be an integer from 1 to 10000000. Got 0 instead."),
        (["grid-v0", "--width", "wide"], "The 'width' of live must be tuned or theory. Got 'wide' instead."),
    ],
)
def test_what_is_refused_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonepisodic", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1
