"""`resetfree count`: how many resets a run took."""

import click

import resetfree as rf


@click.command()
@click.argument("file", metavar="RUNFILE")
def count(file: str) -> None:
    """Print how many resets the run in RUNFILE took."""
    click.echo(int(rf.load(file).realised_resets[-1]))
