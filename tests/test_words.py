"""The dictionary of CONTRIBUTING.md holds wherever a person reads, and what breaks it is found."""

from pathlib import Path

import pytest
from benchmarks.words import Entry, dictionary, findings, in_name, in_source, in_text

ROOT = Path(__file__).parent.parent
ENTRIES = (
    Entry("luck", "noise", "anywhere"),
    Entry("stands still", "is stuck", "anywhere"),
    Entry("dead", "`terminated`", "name"),
    Entry("trace", "`gae_lambda`", "setting"),
)
PLAYER = """
class Mine(PrimalPlayer[int]):
    \"\"\"It stands
    still.\"\"\"

    trace: float = 0.9  # no Luck here
"""


def test_no_word_of_ours_is_left() -> None:
    assert not list(map(str, findings(ROOT)))


def test_the_dictionary_is_read_word_by_word() -> None:
    words = {entry.ours: entry for entry in dictionary(ROOT)}
    assert words["lucky"].say == "noise"
    assert words["dead"].where == "name"
    assert words["trace"].where == "setting"


@pytest.mark.parametrize(
    ("name", "found"),
    [("luck", 1), ("LuckOfDraws", 1), ("pluck", 0), ("dead", 1), ("_dead", 1), ("deadline", 0), ("trace", 0)],
)
def test_words_of_an_identifier(name: str, found: int) -> None:
    assert len(in_name(name, ENTRIES)) == found


def test_prose_is_read_across_lines_and_cases() -> None:
    assert [line for line, _ in in_text("Good Luck\nit stands\nstill; unlucky", ENTRIES)] == [1, 2]


def test_texts_comments_and_settings_of_a_module() -> None:
    assert sorted((line, entry.ours) for line, entry in in_source(PLAYER, ENTRIES)) == [
        (3, "stands still"), (6, "luck"), (6, "trace"),
    ]  # fmt: skip


def test_a_kept_name_may_stay() -> None:
    assert not list(in_source('key = "luck"\n', ENTRIES, ("luck",)))
