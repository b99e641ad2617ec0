"""What a command's signature declares, read from words and variables."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest

from engine.cli.parsing import Argument, Misuse, Option, parameters, values


class Color(StrEnum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


def doubled(text: str) -> int:
    """A parser of our own."""
    if not text.isdigit():
        raise Misuse(f"{text!r} has no double")
    return int(text) * 2


def command(
    where: Annotated[Path, Argument(metavar="WHERE", help="A place.")],
    note: Annotated[str | None, Argument(metavar="NOTE", help="A word.")] = None,
    *,
    count: Annotated[int | None, Option("--count", envvar="X_COUNT", metavar="N", least=1, most=9, help="Few.")] = None,
    twice: Annotated[int, Option("--twice", envvar="X_TWICE", metavar="N", parser=doubled, help="Doubled.")] = 0,
    color: Annotated[Color, Option("--color", envvar="X_COLOR", help="Which.")] = Color.RED,
    name: Annotated[list[str] | None, Option("--name", envvar="X_NAME", metavar="S", help="Several.")] = None,
    loud: Annotated[bool, Option("--loud", envvar="X_LOUD", help="Aloud.")] = False,
) -> None:
    """Do something."""


def several(words: Annotated[list[str] | None, Argument(metavar="WORDS", help="All that follow.")] = None) -> None:
    """Take what there is."""


def read(*words: str, **environ: str) -> dict[str, Any]:
    """What `command` is called with, defaults left out."""
    taken = parameters(command)
    found = values(taken, words, environ)
    assert found is not None
    standing = {each.name: each.default for each in taken}
    return {name: value for name, value in found.items() if value != standing[name]}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["here"], {"where": Path("here")}),
        (["here", "there"], {"where": Path("here"), "note": "there"}),
        (["--count", "2", "here"], {"where": Path("here"), "count": 2}),
        (["here", "--count=2", "there"], {"where": Path("here"), "note": "there", "count": 2}),
        (["here", "--twice", "4"], {"where": Path("here"), "twice": 8}),
        (["here", "--color", "blue", "--loud"], {"where": Path("here"), "color": Color.BLUE, "loud": True}),
        (["here", "--name", "a", "--name", "b c"], {"where": Path("here"), "name": ["a", "b c"]}),
        (["here", "--count", "2", "--count", "3"], {"where": Path("here"), "count": 3}),
        (["--name", "--loud", "here"], {"where": Path("here"), "name": ["--loud"]}),
        (["--name=", "here"], {"where": Path("here"), "name": [""]}),
        (["--", "--loud"], {"where": Path("--loud")}),
        (["-"], {"where": Path("-")}),
    ],
)
def test_words_are_read_in_any_order_as_what_their_parameters_hold(words: list[str], found: dict[str, Any]) -> None:
    assert read(*words) == found


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({"X_COUNT": "7"}, {"count": 7}),
        ({"X_TWICE": "7"}, {"twice": 14}),
        ({"X_NAME": "a b"}, {"name": ["a", "b"]}),
        ({"X_LOUD": "Yes"}, {"loud": True}),
        ({"X_LOUD": "off"}, {}),
        ({"X_COUNT": ""}, {}),
    ],
)
def test_a_variable_stands_for_an_option_that_is_not_given(environ: dict[str, str], found: dict[str, Any]) -> None:
    assert read("here", **environ) == {"where": Path("here")} | found


def test_the_command_line_goes_before_the_environment() -> None:
    assert read("here", "--count", "2", X_COUNT="no number") == {"where": Path("here"), "count": 2}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "WHERE is missing"),
        (["a", "b", "c"], "'c' is one word too many"),
        (["a", "--colour", "red"], "there is no option --colour (did you mean --color?)"),
        (["a", "-x"], "there is no option -x"),
        (["a", "--count"], "--count needs a value"),
        (["a", "--loud=yes"], "--loud takes no value"),
        (["a", "--count", "many"], "--count: 'many' is no whole number"),
        (["a", "--count", "0"], "--count: 0 is not 1 to 9"),
        (["a", "--count", "10"], "--count: 10 is not 1 to 9"),
        (["a", "--color", "green"], "--color: 'green' is none of red, blue"),
        (["a", "--twice", "much"], "--twice: 'much' has no double"),
    ],
)
def test_what_cannot_be_read_is_named_with_what_is_allowed(words: list[str], said: str) -> None:
    with pytest.raises(Misuse) as refusal:
        read(*words)

    assert str(refusal.value) == said


def test_a_variable_that_cannot_be_read_is_named_itself() -> None:
    with pytest.raises(Misuse, match=r"^X_LOUD: 'perhaps' is none of 1, true"):
        read("here", X_LOUD="perhaps")


@pytest.mark.parametrize(("words", "found"), [([], None), (["a"], ["a"]), (["a", "--", "b", "--c"], ["a", "b", "--c"])])
def test_an_argument_that_is_a_list_takes_all_the_words_left(words: list[str], found: list[str] | None) -> None:
    assert values(parameters(several), words, {}) == {"words": found}


def test_help_is_given_whatever_is_missing() -> None:
    assert values(parameters(command), ["--help"], {}) is None


@pytest.mark.parametrize(
    ("least", "most", "bounds"), [(1, None, "at least 1"), (None, 9, "at most 9"), (0, 9, "0 to 9"), (None, None, "")]
)
def test_the_bounds_of_a_number_are_told(least: int | None, most: int | None, bounds: str) -> None:
    assert Option("--n", envvar="X_N", help="A number.", least=least, most=most).bounds == bounds
