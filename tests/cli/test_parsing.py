"""What a command's signature declares, read from words and variables, and what becomes of it in the help."""

from __future__ import annotations

import inspect
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest

from engine.cli.parsing import Argument, Misuse, Option, values


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


def several(
    words: Annotated[list[str] | None, Argument(metavar="WORDS", help="All that follow.")] = None,
    *,
    loud: Annotated[bool, Option("--loud", envvar="X_LOUD", help="Aloud.")] = False,
) -> None:
    """Take what there is.

    And no more.
    """


def required(*, why: Annotated[str, Option("--why", envvar="X_WHY", metavar="TEXT", help="A reason.")]) -> None:
    """Give a reason."""


def read(*words: str, **environ: str) -> dict[str, Any]:
    """What `command` is called with, defaults left out."""
    found = values(command, words, environ, path="do")
    assert found is not None
    standing = {each.name: each.default for each in inspect.signature(command).parameters.values()}
    assert found.keys() == standing.keys()
    return {name: value for name, value in found.items() if value != standing[name]}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["here"], {"where": Path("here")}),
        (["here", "there"], {"where": Path("here"), "note": "there"}),
        (["--count", "2", "here"], {"where": Path("here"), "count": 2}),
        (["here", "there", "--count=2"], {"where": Path("here"), "note": "there", "count": 2}),
        (
            ["--loud", "here", "there", "--count", "2"],
            {"where": Path("here"), "note": "there", "count": 2, "loud": True},
        ),
        (["here", "--twice", "4"], {"where": Path("here"), "twice": 8}),
        (["here", "--color", "blue", "--loud"], {"where": Path("here"), "color": Color.BLUE, "loud": True}),
        (["here", "--name", "a", "--name", "b c"], {"where": Path("here"), "name": ["a", "b c"]}),
        (["here", "--count", "2", "--count", "3"], {"where": Path("here"), "count": 3}),
        (["--name=--loud", "here"], {"where": Path("here"), "name": ["--loud"]}),
        (["--name", "-5", "here"], {"where": Path("here"), "name": ["-5"]}),
        (["-- a note --\n"], {"where": Path("-- a note --\n")}),
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
        ([], "the following arguments are required: WHERE"),
        (["a", "b", "c"], "unrecognized arguments: c"),
        (["a", "--colour", "red"], "unrecognized arguments: --colour red (did you mean --color?)"),
        (["a", "--colour=dark-red"], "unrecognized arguments: --colour=dark-red (did you mean --color?)"),
        (["a", "--col", "red"], "unrecognized arguments: --col red (did you mean --color?)"),
        (["a", "-x"], "unrecognized arguments: -x"),
        (["a", "--count"], "argument --count: expected one argument"),
        (["a", "--name", "--loud"], "argument --name: expected one argument"),
        (["a", "--loud=yes"], "argument --loud: ignored explicit argument 'yes'"),
        (["a", "--count", "many"], "argument --count: 'many' is no whole number"),
        (["a", "--count", "0"], "argument --count: 0 is not 1 to 9"),
        (["a", "--count", "10"], "argument --count: 10 is not 1 to 9"),
        (["a", "--color", "green"], "argument --color: 'green' is none of red, blue"),
        (["a", "--twice", "much"], "argument --twice: 'much' has no double"),
    ],
)
def test_what_cannot_be_read_is_named_with_what_is_allowed(words: list[str], said: str) -> None:
    with pytest.raises(Misuse) as refusal:
        read(*words)

    assert str(refusal.value) == said


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"X_LOUD": "perhaps"}, "X_LOUD: 'perhaps' is none of 1, true, t, yes, y, on, 0, false, f, no, n, off"),
        ({"X_COUNT": "0"}, "X_COUNT: 0 is not 1 to 9"),
        ({"X_COLOR": "green"}, "X_COLOR: 'green' is none of red, blue"),
        ({"X_TWICE": "much"}, "X_TWICE: 'much' has no double"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named_itself(environ: dict[str, str], said: str) -> None:
    with pytest.raises(Misuse) as refusal:
        read("here", **environ)

    assert str(refusal.value) == said


def test_a_variable_stands_for_an_option_that_is_required_too() -> None:
    assert values(required, [], {"X_WHY": "so"}, path="do") == {"why": "so"}
    with pytest.raises(Misuse, match=r"^the following arguments are required: --why$"):
        values(required, [], {"X_WHY": ""}, path="do")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], []),
        (["a"], ["a"]),
        (["a", "--", "b", "--c"], ["a", "b", "--c"]),
        (["--", "a", "--loud", "--help", "--", "-b"], ["a", "--loud", "--help", "--", "-b"]),
    ],
)
def test_an_argument_that_is_a_list_takes_all_the_words_left(words: list[str], found: list[str]) -> None:
    assert values(several, words, {}, path="do") == {"words": found, "loud": False}


def test_help_is_given_whatever_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert values(command, ["--help"], {"X_COUNT": "many"}, path="do it") is None

    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("usage: do it [--help] [--count N]")
    assert "--count N Few. [env var: X_COUNT; 1 to 9]" in shown
    assert "--color {red,blue} Which. [env var: X_COLOR; default: red]" in shown
    assert "--loud Aloud. [env var: X_LOUD]" in shown
    assert "WHERE A place." in shown


def test_help_begins_with_the_purpose_and_ends_with_what_more_there_is_to_know(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values(several, ["--help"], {}, path="do")

    shown = capsys.readouterr().out
    assert shown.index("Take what there is.") < shown.index("--loud ") < shown.index("And no more.")


@pytest.mark.parametrize(
    ("least", "most", "bounds"), [(1, None, "at least 1"), (None, 9, "at most 9"), (0, 9, "0 to 9"), (None, None, "")]
)
def test_the_bounds_of_a_number_are_told(least: int | None, most: int | None, bounds: str) -> None:
    assert Option("--n", envvar="X_N", help="A number.", least=least, most=most).bounds == bounds
