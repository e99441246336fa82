"""What a new user sees on a terminal: help that is whole, a result in one sentence, and failures before the rest."""

import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import click
import pytest
from rich.console import Console
from tests.show.cli.commands import run, run_json

import resetfree as rf
from resetfree.problems.contract import Intervention, Note
from resetfree.show.cli import app, main
from resetfree.show.cli.certify import verdict
from resetfree.show.cli.common import Documented
from resetfree.show.cli.run_summary import _expected, earned, headline, show_brief, show_run, summary


def every(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from every(one, (*words, name))


COMMANDS = dict(every(app))


@pytest.mark.parametrize("words", [(), ("sweep",)], ids=["resetfree", "sweep"])
def test_without_words_help_is_help_and_no_error(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    bare, asked = run(capsys, *words), run(capsys, *words, "--help")
    assert bare == asked
    assert (bare[0], bare[2]) == (0, "")
    assert bare[1].count("\n") > 10


@pytest.mark.parametrize("columns", [80, 120])
def test_every_summary_is_whole_and_every_line_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for words, command in COMMANDS.items():
        out = run(capsys, *words, "--help")[1]
        assert max(map(len, out.splitlines())) <= columns, words
        said = " ".join(out.split())
        assert command.help is not None
        assert " ".join(command.help.split()) in said
        for name, one in command.commands.items() if isinstance(command, click.Group) else ():
            assert one.help is not None
            assert f"{name} {one.help.partition(chr(10))[0]}" in said
            assert "..." not in one.get_short_help_str(80)
    wide = run(capsys, "run", "--help")[1]
    assert (max(map(len, wide.splitlines())) > 80) == (columns > 80)


def test_help_says_a_range_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    pages = {words: run(capsys, *words, "--help")[1] for words in COMMANDS}
    assert [words for words, page in pages.items() if re.search(r"RANGE|INTEGER|FLOAT|[<>]=?x|x[<>]", page)] == []
    assert "--loss NUMBER         Share of packets that are lost.  [from 0 to 1]" in pages["machine",]
    assert "[default: 0; at least 0]" in " ".join(pages["run",].split())


def test_commands_are_grouped_and_every_option_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys)[1]
    headings = [line[:-1] for line in out.splitlines() if re.fullmatch(r"\w+:", line)]
    assert headings == ["Try", "Learn", "Inspect", "Compare", "Options", "Examples"]
    assert set(app.headings) == set(app.commands)
    for words, command in COMMANDS.items():
        lines = run(capsys, *words, "--help")[1].splitlines()
        listed = [line.split()[0].rstrip(",") for line in lines if line.startswith("  -")]
        own = [one.opts[0] for one in command.params if isinstance(one, click.Option)]
        assert sorted(listed) == sorted([*own, "-h"]), words


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(("resetfree", *words)))
def test_every_command_has_two_examples_that_its_parser_takes(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    assert isinstance(command, Documented)
    assert len(command.examples) == 2
    for _, line in command.examples:
        first, *left = shlex.split(line)
        assert first == "resetfree"
        assert tuple(left[: len(words)]) == words
        one: click.Command = app
        while isinstance(one, click.Group):
            left = left if left[0] in one.commands else ["run", *left]  # `sweep FILE`
            one, left = one.commands[left[0]], left[1:]
        one.make_context(one.name, left)  # raises if an option or a value is not taken


def played(*resets: int, episodes: int = 10, asked: int = 0) -> rf.Run:
    """A run whose resets were in these episodes."""
    made = rf.learn("grid-v0", "uniform", episodes=episodes)
    made.columns["reset"][:] = [k + 1 in resets for k in range(episodes)]
    people = [Intervention(k, "stuck", "", "environment", "", "", 0.0) for k in range(asked)]
    return replace(made, interventions=tuple(people))


def test_the_headline_says_how_many_resets_and_since_when_there_are_none() -> None:
    assert headline(played()) == "No resets in 10 episodes."
    assert headline(played(1)) == "1 reset in 10 episodes; none since episode 1."
    assert headline(played(2, 9)) == "2 resets in 10 episodes; none since episode 9."
    assert headline(played(2, 10)) == "2 resets in 10 episodes; the last in episode 10."
    assert headline(played(asked=2)) == "No resets in 10 episodes, and 2 requested when it was stuck."
    assert headline(replace(played(3), spec={**played(3).spec, "episodes": 40})).startswith("1 reset in 10 of 40 ")


def shown(made: rf.Run, width: int = 80) -> str:
    screen = io.StringIO()
    show_run(Console(file=screen, width=width, force_terminal=True), made, summary(made), verbose=True)
    return screen.getvalue()


def test_a_run_ends_with_a_sentence_a_table_one_dim_line_and_what_is_next(tmp_path: Path) -> None:
    file = tmp_path / "a b.rfrun"
    made = rf.learn("continuous-linear-v0", "uniform", "counting", episodes=20, feedback="realised", path=file)
    lines = shown(made, 400).splitlines()
    assert lines[:2] == [f"\x1b[1m{words}\x1b[0m" for words in (earned(made), headline(made))]
    dim = [line for line in lines if line.startswith("\x1b[2m")]
    assert len(dim) == 1
    assert dim[0].count("Not known") == 1
    assert not [line for line in lines if "not known" in line and line not in dim]
    assert not re.search(r"\d[eE][+-]?\d", "\n".join(lines))
    after = lines.index("\x1b[1mNext:\x1b[0m")
    assert [line.split("  ")[1] for line in lines[after + 1 :]] == [
        f"resetfree {command} '{file}'" for command in ("report", "evaluate", "certify")
    ]
    for line in lines[after + 1 :]:
        assert main([*shlex.split(line.split("  ")[1])[1:], "--help"]) == 0


def test_a_line_that_does_not_fit_ends_with_dots() -> None:
    made = rf.learn("grid-v0", episodes=20)
    note = asdict(Note(3, "this is long " * 9))
    show_brief(Console(file=(out := io.StringIO()), width=80), made, {**summary(made), "notes": [note]})
    (line,) = (one for one in out.getvalue().splitlines() if one.startswith("note"))
    assert len(line) == 80
    assert line.endswith("…")


def test_waiting_is_shown_only_where_an_operator_was_used() -> None:
    made = played(3)
    both = (
        Intervention(0, "start", "", "environment", "", "", 4e-5),
        Intervention(3, "reset", "", "kim", "", "", 90.0),
    )
    assert "waited" not in shown(replace(made, interventions=both[:1]))
    assert "1 reset by an operator; waited 90 s in all" in shown(replace(made, interventions=both))


def test_a_bound_on_the_last_episodes_is_shown_only_where_it_says_more_than_that_on_all() -> None:
    data = {"resets": None, "realised_resets": 5, "resets_bound": 15.5}
    recent = [{"episodes": 344, "resets": 0, "bound": bound} for bound in (16.6, 9.9)]
    said = [_expected({**data, "recent": one}, 600) for one in recent]
    assert said[0] == "at most 15.5 after 5 observed resets, with 95 % confidence"
    assert said[1] == f"{said[0]}; at most 9.9 of them in the last 344 episodes"
    assert _expected({**data, "recent": recent[0]}, 8).startswith("at most 8 after")  # there were no more episodes


def test_the_table_of_a_run_has_no_raw_constants_and_no_verdict_on_a_prediction_that_is_low_by_design() -> None:
    words = " ".join(shown(rf.learn("grid-v0", episodes=60), 400).split())
    assert "resets guaranteed" in words
    assert "scale=" not in words
    assert "too low" not in words


def test_certify_begins_with_a_summary_then_failures_then_all_claims(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "a.rfrun")
    made = rf.learn("grid-v0", episodes=50, path=file)
    claims = made.certificates()
    proved = sum(c.status == "proved" for c in claims)
    data = run_json(capsys, "certify", file)
    out = run(capsys, "certify", file)[1]
    assert out.splitlines()[1] == f"All {proved} proved claims hold."
    assert claims[0].claim not in out
    whole = " ".join(run(capsys, "certify", file, "--all")[1].split())
    assert all(c.claim in whole for c in claims)
    assert run_json(capsys, "certify", file, "--all") == data
    missed = [
        rf.Certificate("it is quick", 2.0, 1.0, status="tuned", why="a guess"),
        rf.Certificate("it is safe", 3.0, 1.0),
    ]
    monkeypatch.setattr(rf.Run, "certificates", lambda self: [*claims, *missed])
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    status, out, _ = run(capsys, "certify", file, "--strict")
    assert status == 1
    lines = out.splitlines()
    assert f"1 of {len(claims) + 2} claims must hold on this run, and does not." in lines[1]
    failing = next(line for line in lines if "it is safe" in line)
    tuned = next(line for line in lines if "it is quick" in line)
    assert "\x1b[1;31mfails" in failing
    assert "\x1b[33mnot met" in tuned
    assert "\x1b[1;31m" not in tuned
    assert lines.index(failing) < lines.index(tuned)


def test_nothing_proved_is_not_called_a_success() -> None:
    assert verdict([rf.Certificate.not_applicable("x", "y")]).startswith("Nothing is proved")
