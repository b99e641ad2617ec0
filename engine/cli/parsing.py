"""What a command takes, declared in its function's signature, and read from words and variables.

Each parameter is annotated with an `Option` or, where it is asked for by its place, an `Argument`; its Python type says
what its text becomes. The standard library does it alone: a kit for command lines brought a validator that was built
anew for every option, and cost each command more than a fifth of a second.
"""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin, get_type_hints

from engine.errors import Config, NamedError, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

HELP: Final = "--help"
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off", ""), False),
}


class Misuse(Exception):
    """Something of a command line that cannot be understood: the text says what stood there and what is allowed."""


@named
class UsageError(NamedError, Config):
    """A command line that cannot be understood, as the user is told."""

    says = "{problem}"
    remedy = "{command} --help shows what there is"

    command: str
    problem: str


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
    kind: type
    many: bool
    default: Any

    @property
    def shown(self) -> str:
        """How the command line spells it."""
        return self.declared.name if isinstance(self.declared, Option) else self.declared.metavar

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def choices(self) -> dict[str, Any]:
        """The words it may be and what each stands for, where it is one of a few."""
        return {str(member.value): member for member in self.kind} if issubclass(self.kind, Enum) else {}

    def value(self, text: str, *, place: str) -> Any:
        """What `text`, found at `place`, stands for. Raise `Misuse`."""
        try:
            return self._read(text)
        except Misuse as problem:
            raise Misuse(f"{place}: {problem}") from None

    def _read(self, text: str) -> Any:
        if isinstance(self.declared, Option) and self.declared.parser:
            return self.declared.parser(text)
        if isinstance(self.declared, Option) and self.kind is int:
            return self.declared.whole(text)
        if self.kind is bool:
            return _chosen(text.strip().lower(), _BOOLEANS)
        if self.choices:
            return _chosen(text, self.choices)
        return self.kind(text)


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a command's function, as its signature declares them."""
    hints = get_type_hints(function, include_extras=True)
    return [_parameter(each, hints[each.name]) for each in inspect.signature(function).parameters.values()]


def truth(text: str) -> bool:
    """Whether a variable of the environment says yes; anything unknown says no."""
    return _BOOLEANS.get(text.strip().lower(), False)


def values(taken: Sequence[Parameter], words: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any] | None:
    """What a command's function is called with, or None where help is asked for. Raise `Misuse`.

    A variable stands for an option that is not on the command line; an empty one stands for nothing.
    """
    options = {each.shown: each for each in taken if isinstance(each.declared, Option)}
    placed = [each for each in taken if isinstance(each.declared, Argument)]
    given, rest = _sorted_out(words, options)
    if HELP in given:
        return None
    for each in placed:
        count = len(rest) if each.many else 1
        given[each.shown], rest = rest[:count], rest[count:]
    if rest:
        raise Misuse(f"{rest[0]!r} is one word too many")
    return {each.name: _value(each, given.get(each.shown), environ) for each in taken}


def near(word: str, known: Iterable[str]) -> str:
    """A guess at what was meant, to be put behind a complaint, or nothing."""
    import difflib

    found = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def _parameter(found: inspect.Parameter, hint: Any) -> Parameter:
    annotation, declared = get_args(hint)
    alone = next(each for each in _alternatives(annotation) if each is not NoneType)
    many = get_origin(alone) is list
    return Parameter(found.name, declared, get_args(alone)[0] if many else alone, many, found.default)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)


def _sorted_out(words: Sequence[str], options: Mapping[str, Parameter]) -> tuple[dict[str, list[str]], list[str]]:
    """The texts of each option, and the words that belong to none."""
    given: dict[str, list[str]] = {}
    rest: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word == "--":
            rest.extend(waiting)
        elif not word.startswith("-") or word == "-":
            rest.append(word)
        else:
            name, assigned, text = word.partition("=")
            given.setdefault(name, []).append(_text(name, text if assigned else None, waiting, options))
    return given, rest


def _text(name: str, assigned: str | None, following: Iterator[str], options: Mapping[str, Parameter]) -> str:
    """The text of the option `name`: what is assigned to it, or the word that follows."""
    if name != HELP and name not in options:
        raise Misuse(f"there is no option {name}{near(name, options)}")
    if name == HELP or options[name].kind is bool:
        if assigned is not None:
            raise Misuse(f"{name} takes no value")
        return "yes"
    text = next(following, None) if assigned is None else assigned
    if text is None:
        raise Misuse(f"{name} needs a value")
    return text


def _value(taken: Parameter, texts: list[str] | None, environ: Mapping[str, str]) -> Any:
    place, declared = taken.shown, taken.declared
    if texts is None and isinstance(declared, Option) and (text := environ.get(declared.envvar)):
        place, texts = declared.envvar, text.split() if taken.many else [text]
    if not texts:
        if taken.required:
            raise Misuse(f"{place} is missing")
        return taken.default
    read = [taken.value(text, place=place) for text in texts]
    return read if taken.many else read[-1]


def _chosen(text: str, known: Mapping[str, Any]) -> Any:
    if text not in known:
        raise Misuse(f"{text!r} is none of {', '.join(filter(None, known))}")
    return known[text]
