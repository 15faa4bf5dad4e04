"""Options that a dataclass holds are options of each command that takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from dp_operators.budget.option_groups import with_option_groups


@dataclass(frozen=True, kw_only=True)
class Place:
    city: Annotated[str, typer.Option(help="Where it is.")]
    floors: Annotated[int, typer.Option("--levels", help="How high it is.", min=1)] = 3


@with_option_groups
def describe(name: Annotated[str, typer.Argument()], *, place: Place, loud: bool = False) -> None:
    """Describe a house."""
    typer.echo(f"{name} in {place.city}, {place.floors}{'!' if loud else ''}")


app = typer.Typer()
app.command()(describe)


def output(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


def test_fields_are_options_with_their_defaults_names_and_bounds() -> None:
    assert output("Lindens", "--city", "Kassel") == (0, "Lindens in Kassel, 3\n")
    assert output("Lindens", "--city", "Kassel", "--levels", "5", "--loud") == (0, "Lindens in Kassel, 5!\n")
    assert output("Lindens", "--city", "Kassel", "--levels", "0")[0] == 2


def test_a_field_without_default_is_required() -> None:
    code, printed = output("Lindens")
    assert code == 2
    assert "--city" in printed


def test_the_help_is_the_commands() -> None:
    code, printed = output("--help")
    assert code == 0
    assert [printed.index(word) for word in ("Describe a house", "--city", "--levels", "--loud")] == sorted(
        printed.index(word) for word in ("Describe a house", "--city", "--levels", "--loud")
    )
    assert "How high it is" in printed
