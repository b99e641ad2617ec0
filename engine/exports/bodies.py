"""Rows as the bodies of requests: one JSON document a batch, its bytes the same whenever it is sent."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXT: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_ESCAPED: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Body:
    """Batch number `ordinal` of an export, from 1 on."""

    ordinal: int
    content: bytes
    rows: int

    @cached_property
    def digest(self) -> str:
        """The SHA-256 (hex) of the content: the input of the step that sends it."""
        return hashlib.sha256(self.content).hexdigest()


def bodies(rows: Iterator[dict[str, Any]], *, export: str, size: int) -> Iterator[Body]:
    """The bodies of `rows`, `size` rows each but the last."""
    for ordinal in count(1):
        chunk = list(islice(rows, size))
        if not chunk:
            return
        yield Body(ordinal, _json({"export": export, "batch": ordinal, "rows": chunk}), len(chunk))


def _json(document: dict[str, Any]) -> bytes:
    try:
        return _TEXT.encode(document).encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can spell and UTF-8 cannot
        return _ESCAPED.encode(document).encode()
