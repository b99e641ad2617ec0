"""What a command takes, declared in its function's signature and read by the standard library's `argparse`.

Each parameter is annotated with an `Option` or, where it is asked for by its place, an `Argument`; its Python type says
what its text becomes. Only that translation is ours, and the variable that stands for an option: a kit that translates
signatures itself brought a validator that was built anew for every option, and cost each command a fifth of a second.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import partial
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, NoReturn, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

HELP: Final = "--help"
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off", ""), False),
}
_UNDECODED: Final = re.compile(r"[\ud800-\udfff]")
# Without a width it would ask the terminal for one at every option that is added, and import archivers to do so.
_FORMATTER: Final = partial(argparse.HelpFormatter, width=80, max_help_position=30)


class Misuse(argparse.ArgumentTypeError):
    """Something of a command line that cannot be understood: the text says what stood there and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A word asked for by its place."""

    metavar: str
    help: str


@dataclass(frozen=True, slots=True)
class Option:
    """A word asked for by a name, and the variable that stands for it; without a `metavar` a flag or a choice.

    `parser` makes a value of its text, or raises `Misuse`; whole numbers are allowed from `least` to `most`.
    """

    name: str
    _: KW_ONLY
    envvar: str
    help: str
    metavar: str = ""
    parser: Callable[[str], Any] | None = None
    least: int | None = None
    most: int | None = None

    @property
    def bounds(self) -> str:
        """Which whole numbers are allowed, nothing where all are."""
        if self.most is not None:
            return f"at most {self.most}" if self.least is None else f"{self.least} to {self.most}"
        return "" if self.least is None else f"at least {self.least}"

    def whole(self, text: str) -> int:
        """`text` as a whole number that is allowed. Raise `Misuse`."""
        try:
            number = int(text)
        except ValueError:
            raise Misuse(f"{text!r} is no whole number") from None
        if (self.least is not None and number < self.least) or (self.most is not None and number > self.most):
            raise Misuse(f"{number} is not {self.bounds}")
        return number


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a command's function: `kind` is the type of one value, `many` says that it takes a list."""

    name: str
    declared: Option | Argument
    kind: type[Any]
    many: bool
    default: Any

    def read(self, text: str) -> Any:
        """What `text` stands for. Raise `Misuse`."""
        if _UNDECODED.search(text):
            raise Misuse(
                f"{text!r} holds bytes that are no text in {sys.getfilesystemencoding()}, the shell's encoding"
            )
        if isinstance(self.declared, Option) and (self.declared.parser or self.kind is int):
            return (self.declared.parser or self.declared.whole)(text)
        if self.kind is bool:
            return _chosen(text.strip().lower(), _BOOLEANS)
        if issubclass(self.kind, StrEnum):
            return _chosen(text, {each: each for each in self.kind})
        return self.kind(text)


class Parser(argparse.ArgumentParser):
    """Raises `Misuse` where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise Misuse(message)


def parser(path: str, purpose: str) -> Parser:
    """A parser that takes `--help` alone: it shows the first paragraph of `purpose`, what there is, and the rest."""
    first, _, rest = inspect.cleandoc(purpose).partition("\n\n")
    made = Parser(path, description=first, epilog=rest, formatter_class=_FORMATTER, add_help=False, allow_abbrev=False)
    made.add_argument(HELP, action="help", help="Show this and exit.")
    return made


def parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    """The parameters of a command's function, as its signature declares them."""
    hints = get_type_hints(function, include_extras=True)
    for each in inspect.signature(function).parameters.values():
        annotation, declared = get_args(hints[each.name])
        alone = get_args(annotation)[0] if isinstance(annotation, UnionType) else annotation  # None comes second
        many = get_origin(alone) is list
        yield Parameter(each.name, declared, get_args(alone)[0] if many else alone, many, each.default)


def values(
    function: Callable[..., Any], words: Sequence[str], environ: Mapping[str, str], *, path: str
) -> dict[str, Any] | None:
    """What a command's function is called with, or None where help was asked for and shown. Raise `Misuse`.

    A variable stands for an option that is not on the command line; an empty one stands for nothing.
    """
    taken, reader = list(parameters(function)), parser(path, function.__doc__ or "")
    for each in taken:
        _add(each, reader, environ)
    try:
        found, unknown = reader.parse_known_args(words)
    except SystemExit:
        return None
    options = [(each, each.declared) for each in taken if isinstance(each.declared, Option)]
    if unknown:
        guess = near(unknown[0].partition("=")[0], (option.name for _, option in options))
        raise Misuse(f"unrecognized arguments: {' '.join(unknown)}{guess}")
    given = vars(found)
    return given | {each.name: _standing(each, option, environ) for each, option in options if each.name not in given}


def truth(text: str) -> bool:
    """Whether a variable of the environment says yes; anything unknown says no."""
    return _BOOLEANS.get(text.strip().lower(), False)


def near(word: str, known: Iterable[str]) -> str:
    """A guess at what was meant, to be put behind a complaint, or nothing."""
    import difflib

    found = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def _add(each: Parameter, reader: Parser, environ: Mapping[str, str]) -> None:
    declared, required = each.declared, each.default is inspect.Parameter.empty
    told: dict[str, Any] = {"help": declared.help, "metavar": declared.metavar or None, "type": each.read}
    if isinstance(declared, Argument):
        count = "*" if each.many else None if required else "?"
        reader.add_argument(each.name, nargs=count, default=each.default, **told)
        return
    default = f"default: {each.default}" if isinstance(each.default, str) else ""
    facts = "; ".join(filter(None, (f"env var: {declared.envvar}", default, declared.bounds)))
    told |= {"action": "append"} if each.many else {}
    told |= {"choices": list(each.kind)} if issubclass(each.kind, StrEnum) else {}
    told = {"action": "store_true"} if each.kind is bool else told
    told |= {"dest": each.name, "default": argparse.SUPPRESS, "help": f"{declared.help} [{facts}]"}
    reader.add_argument(declared.name, required=required and not environ.get(declared.envvar), **told)


def _standing(each: Parameter, option: Option, environ: Mapping[str, str]) -> Any:
    """What stands for an option that is not given: what its variable says, or its default. Raise `Misuse`."""
    text = environ.get(option.envvar)
    if not text:
        return each.default
    try:
        return [each.read(word) for word in text.split()] if each.many else each.read(text)
    except Misuse as problem:
        raise Misuse(f"{option.envvar}: {problem}") from None


def _chosen(text: str, known: Mapping[str, Any]) -> Any:
    if text not in known:
        raise Misuse(f"{text!r} is none of {', '.join(filter(None, known))}")
    return known[text]
