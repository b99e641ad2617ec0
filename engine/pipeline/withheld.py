"""What an error says in place of a value that nobody may read: one of a protected column, or of a row that has some.

A source quotes what it stumbles over before anyone knows which column that belongs to. So while the pull of a table
with protected columns is read, nothing of its content is quoted at all.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from engine.errors import ContextfulError
from engine.execution.failures import failure_of

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMN: Final = "value withheld: the column is protected"
CONTENT: Final = "content withheld: the table has protected columns"

_protected: ContextVar[bool] = ContextVar("protected", default=False)


@contextmanager
def reading_protected() -> Iterator[None]:
    """Quote nothing of what is read inside the block: foreign errors keep their type and lose their message."""
    token = _protected.set(True)
    try:
        yield
    except ContextfulError:
        raise
    except Exception as raised:  # whatever it was, its message may hold a value
        raise type(failure_of(raised))(f"{type(raised).__name__} ({CONTENT})") from None
    finally:
        _protected.reset(token)


def withholding() -> bool:
    """Whether what is being read may not be quoted."""
    return _protected.get()


def quotable(text: str) -> str:
    """`text` as an error may quote it."""
    return CONTENT if withholding() else text
