"""Help as people read it: grouped commands and options, whole summaries, two examples each, up to 100 columns wide."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

WIDEST = 100  # columns: longer lines are hard to read
WHOLE = 10_000  # characters of a summary before it is cut: never
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDEST}

Examples = Sequence[tuple[str, str]]  # what each does, and the command


class _Page(click.HelpFormatter):
    """Help with bold headings, which are plain where output is no terminal."""

    def write_heading(self, heading: str) -> None:
        """A heading in bold."""
        super().write_heading(click.style(heading, bold=True))


class _PageContext(click.Context):
    """A context whose help is a `_Page`."""

    formatter_class = _Page


class Documented(click.Command):
    """A command with examples, whose options may be in groups.

    examples: what each does, and the command; they are parsed by a test.
    groups: headings and the options under them; the others come last.
    """

    context_class = _PageContext

    def __init__(
        self, *args: Any, examples: Examples = (), groups: Mapping[str, Sequence[str]] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.examples, self.groups = tuple(examples), dict(groups or {})

    def format_options(self, context: click.Context, page: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        options = [one for one in self.get_params(context) if isinstance(one, click.Option)]
        left = {option.opts[0]: option for option in options}
        for heading, names in [*self.groups.items(), ("Options", None)]:
            chosen = list(left) if names is None else names
            found = [left.pop(name).get_help_record(context) for name in chosen if name in left]
            if lines := [one for one in found if one is not None]:
                with page.section(heading):
                    page.write_dl(lines)

    def format_epilog(self, context: click.Context, page: click.HelpFormatter) -> None:
        """Write the examples, each below what it does."""
        super().format_epilog(context, page)
        if self.examples:
            with page.section("Examples"):
                for what, line in self.examples:
                    page.write_text(click.style(f"# {what}", dim=True))
                    page.write(f"{'':>{page.current_indent}}$ {line}\n")


class DocumentedGroup(Documented, click.Group):
    """Commands under headings; without any, its help, with exit status 0."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.headings: dict[str, str] = {}

    def add_under(self, heading: str, *commands: click.Command) -> None:
        """Add commands under a heading."""
        for command in commands:
            self.add_command(command)
            self.headings[str(command.name)] = heading

    def list_commands(self, context: click.Context) -> list[str]:
        """Names of the commands, in the order in which they were added."""
        return list(self.commands)

    def parse_args(self, context: click.Context, words: list[str]) -> list[str]:
        """Print the help if there are no words."""
        if not words and not context.resilient_parsing:
            click.echo(context.get_help(), color=context.color)
            context.exit(0)
        return super().parse_args(context, words)

    def format_options(self, context: click.Context, page: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(context, page)
        super().format_options(context, page)

    def format_commands(self, context: click.Context, page: click.HelpFormatter) -> None:
        """Write every command with its whole summary, under its heading."""
        under: dict[str, list[tuple[str, str]]] = {heading: [] for heading in self.headings.values()}
        for name in self.list_commands(context):
            command = self.get_command(context, name)
            if command is not None and not command.hidden:
                heading = self.headings.get(name, "From other packages" if self.headings else "Commands")
                under.setdefault(heading, []).append((name, command.get_short_help_str(WHOLE)))
        width = max((len(name) for rows in under.values() for name, _ in rows), default=0)
        for heading, rows in under.items():
            if rows:
                with page.section(heading):
                    page.write_dl([(name.ljust(width), summary) for name, summary in rows])


def words_of(line: str) -> list[str]:
    """The words of an example after `resetfree`."""
    first, *others = shlex.split(line)
    assert first == "resetfree", line
    return others
