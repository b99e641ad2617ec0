"""The base of every named error: a message, perhaps a remedy, and facts as attributes."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from engine.clock import instant
from engine.shapes import FailureTag

NOT_NOW = 75
BAD_USAGE = 2
CANCELED = 130

E = TypeVar("E", bound="NamedError")


class ContextfulError(Exception):
    """Base of all: a message, perhaps a remedy, and facts."""

    tag: ClassVar[FailureTag] = FailureTag.PERMANENT
    exit_code: ClassVar[int] = 1
    says: ClassVar[str] = ""
    remedy: str | None = None

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self._message = message
        self.remedy = remedy or type(self).remedy

    @property
    def facts(self) -> dict[str, Any]:
        """The declared facts by name: what the sentence was made of."""
        return {}

    @property
    def message(self) -> str:
        """The sentence without the remedy."""
        return self._message

    def saying(self, message: str) -> Self:
        """The same failure, its tag and facts kept, with another sentence."""
        other = copy(self)
        other.args, other._message = (message,), message  # noqa: SLF001 - its own copy
        return other

    def __str__(self) -> str:
        """The sentence, and the next step where there is one."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class NamedError(ContextfulError):
    """An error whose facts are dataclass fields and whose text is `says` (and `remedy`) filled in with them."""

    def __post_init__(self) -> None:
        shown = {name: _shown(name, value) for name, value in self.facts.items()}
        remedy = type(self).remedy
        super().__init__(self.says.format_map(shown), remedy=remedy.format_map(shown) if remedy else None)

    @property
    def facts(self) -> dict[str, Any]:
        """The declared facts by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]


def _shown(name: str, value: Any) -> Any:
    return instant(value) if name.endswith(("_until", "_at")) else value


@dataclass_transform(kw_only_default=True, eq_default=False)
def named(cls: type[E]) -> type[E]:
    """Make a class of declared facts an error: keyword-only fields, told apart by identity as exceptions are."""
    return dataclass(kw_only=True, eq=False)(cls)
