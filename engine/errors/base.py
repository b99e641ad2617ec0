"""The base of every named error: a message, perhaps a remedy, and facts as attributes."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from engine.instants import instant
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

    @property
    def first(self) -> str | None:
        """What must be done before anything goes on from what is recorded; None where it may go on as it is."""
        return None

    def saying(self, message: str) -> Self:
        """The same failure, its tag and facts kept, with another sentence."""
        other = copy(self)
        other.args, other._message = (message,), message  # noqa: SLF001 - its own copy
        return other

    def advising(self, remedy: str) -> Self:
        """The same failure with another next step."""
        other = copy(self)
        other.remedy = remedy
        return other

    def __str__(self) -> str:
        """The sentence, and the next step where there is one."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class NamedError(ContextfulError):
    """An error whose facts are declared fields and whose text is `says` (and `remedy`) filled in with them."""

    _declared: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **facts: Any) -> None:
        unknown = facts.keys() - set(self._declared)
        missing = [name for name in self._declared if name not in facts and not hasattr(type(self), name)]
        if unknown or missing:
            raise TypeError(f"{type(self).__name__} takes {self._declared}, not {tuple(facts)}")
        for name, value in facts.items():
            setattr(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        shown = {name: _shown(name, value) for name, value in self.facts.items()}
        remedy = type(self).remedy
        super().__init__(self.says.format_map(shown), remedy=remedy.format_map(shown) if remedy else None)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy by the facts: the sentence follows from them."""
        return _again, (type(self), self.__dict__)

    @property
    def facts(self) -> dict[str, Any]:
        """The declared facts by name."""
        return {name: getattr(self, name) for name in self._declared}


def described(error: ContextfulError) -> dict[str, Any]:
    """An error as JSON shows it everywhere: name, tag, message and the facts it carries, instants as text."""
    told = {name: _shown(name, value) for name, value in error.facts.items()}
    return {"name": type(error).__name__, "tag": str(error.tag), "message": str(error), "remedy": error.remedy} | {
        name: value for name, value in told.items() if name not in {"name", "tag", "message"}
    }


@dataclass_transform(kw_only_default=True, eq_default=False)
def named(cls: type[E]) -> type[E]:
    """Make a class of declared facts an error: keyword-only fields, told apart by identity as exceptions are.

    It is what a dataclass would be without the code that one compiles: sixty of those cost every command 30 ms.
    """
    own = cls.__annotations__
    names = (name for name, annotation in own.items() if not annotation.startswith("ClassVar"))
    cls._declared = tuple(dict.fromkeys((*cls._declared, *names)))
    return cls


def _again(kind: type[NamedError], state: dict[str, Any]) -> NamedError:
    error = kind.__new__(kind)
    error.__dict__.update(state)
    return error


def _shown(name: str, value: Any) -> Any:
    return instant(value) if name.endswith(("_until", "_at")) else value
