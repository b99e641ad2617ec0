"""The secret guard: what masks credentials before anything is recorded, and shortens what an error shows.

A known secret becomes `${NAME}`, its percent-encoded spelling `${NAME:url}`, and `unmask` puts both back where a
stored position is asked again. A span of a well-known credential shape becomes `[masked:<kind>]` for good. Secrets
shorter than six characters are left alone: such a value stands in ordinary data by chance, and masking it would damage
rows without hiding anything. Numbers, binary columns and column names are not text and pass as they are.

Masking is pure and idempotent: what a mask wrote splits the text, and only the pieces between are searched, until none
of them holds anything. So every pass leaves less to search, and a second guard finds nothing.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, quote_plus

from engine.credentials import BEARER, MARKS, SHAPES, TRACES
from engine.shapes import is_utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

ERROR_CAP: Final = 2048
"""Bytes of the longest recorded error (run.record.error-cap)."""

SHORTEST_SECRET: Final = 6
"""Characters of the shortest known secret that is masked."""

_SMALL: Final = 16_384
"""Bytes of text that `re` has looked through before Arrow's search is set up, let alone imported, which takes 40 ms."""

_COMMON: Final = ' etaoinsrhldcumpfgwybvk",.0123456789-_:/{}[]ESTAIRNOLCDMP'


class SecretGuard:
    """Masks the secrets it knows, by name, and whatever has the shape of a credential."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._placeholders = dict(_spellings(known))
        self._search = _Search(self._placeholders, shapes=SHAPES, marks=MARKS)
        self._restorable = _Search(self._placeholders, shapes={}, marks=())
        # A spelling that is no UTF-8 occurs in bytes alone, neither in a column of text nor in JSON.
        self._tails = tuple(_rare_tail(spelling) for spelling in self._placeholders if is_utf8(spelling))
        self._traces = (*TRACES, BEARER, *map(re.escape, self._tails))

    def clears(self, text: bytes) -> bool:
        """Whether JSON text as `msgspec` writes it holds nothing that `value` would mask; it may say no too often.

        What is escaped there is escaped character by character, so that a part of a text is a part of it escaped.
        """
        return not any(first in text and trace.search(text) for first, trace in self._escaped)

    @cached_property
    def _escaped(self) -> tuple[tuple[bytes, re.Pattern[bytes]], ...]:
        literals = ("earer ", *(json.dumps(tail, ensure_ascii=False)[1:-1] for tail in self._tails))
        traces = (*TRACES, *map(re.escape, literals))
        firsts = (trace[0] for trace in (*TRACES, *literals))
        return tuple((first.encode(), re.compile(trace.encode())) for first, trace in zip(firsts, traces, strict=True))

    def text(self, text: str) -> tuple[str, int]:
        """`text` masked, and how many spans were."""
        return self._search.masked(text)

    def value(self, value: Any) -> tuple[Any, int]:
        """A JSON value with its texts and keys masked, and how many spans were."""
        return _walked(value, self._search)

    def bytes(self, value: bytes) -> tuple[bytes, int]:
        """Recorded bytes masked as the text they hold; what is no UTF-8 passes through unharmed around it."""
        masked, count = self.text(value.decode("utf-8", "surrogateescape"))
        return (masked.encode("utf-8", "surrogateescape"), count) if count else (value, 0)

    def position(self, value: Any) -> tuple[Any, int]:
        """A source's position with known secrets masked, and nothing that `unmask` could not restore.

        A cursor may well look like a credential and is still needed to ask for the next page.
        """
        return _walked(value, self._restorable)

    def batch(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """`batch` with its columns of text masked, and how many spans were; the same object where none was.

        One pass over the joined buffers tells which traces occur at all; only then are rows looked for, by those
        traces, and only such cells become Python values.
        """
        texts = list(_text_columns(batch))
        traces = _occurring(self._traces, [column for _, column in texts])
        if not traces:
            return batch, 0
        total = 0
        for position, column in texts:
            masked, count = self._column(column, traces)
            if count:
                batch = batch.set_column(position, batch.schema.field(position), masked)
                total += count
        return batch, total

    def _column(self, column: pa.Array[Any], traces: list[str]) -> tuple[pa.Array[Any], int]:
        import pyarrow as pa  # noqa: PLC0415 - the Worker shares this module and has no pyarrow
        import pyarrow.compute as pc  # noqa: PLC0415

        hits = pc.match_substring_regex(column, "|".join(traces))
        if not pc.any(hits).as_py():
            return column, 0
        values, total = column.to_pylist(), 0
        for row, (value, hit) in enumerate(zip(values, hits.to_pylist(), strict=True)):
            if value is not None and hit:
                values[row], count = self.text(value)
                total += count
        return pa.array(values, type=column.type), total


def unmask(value: Any, *, secrets: Mapping[str, str]) -> Any:
    """A stored position with the `secrets` put back where their placeholders stand.

    Give it the secrets of the position's own source alone: a server could write a placeholder into its link.
    """
    if not secrets:
        return value
    names = "|".join(map(re.escape, secrets))
    found = re.compile(rf"\$\{{({names})(:url)?\}}")
    return _mapped(value, lambda text: found.sub(lambda m: _restored(secrets[m[1]], encoded=m[2]), text))


def capped(text: str, *, guard: SecretGuard | None = None) -> str:
    """An error's text with credentials masked, cut with an ellipsis at 2 KiB of UTF-8 (run.record.error-cap)."""
    masked, _ = (guard or _SHAPES_ALONE).text(text)
    data = masked.encode("utf-8", "replace")
    if len(data) <= ERROR_CAP:
        return data.decode()
    return data[: ERROR_CAP - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS.decode()


_ELLIPSIS: Final = "…".encode()


class _Search:
    """One alternation of secrets and shapes, compiled when a text first holds one of its marks, tried on such alone."""

    def __init__(self, placeholders: Mapping[str, str], *, shapes: Mapping[str, str], marks: tuple[str, ...]) -> None:
        self._placeholders = placeholders
        self._shapes = shapes
        # One character is found some fifty times faster than a word, and most texts lack the rare ones.
        self._marks: dict[str, list[str]] = {}
        for mark in (*placeholders, *marks):
            self._marks.setdefault(_rarest(mark), []).append(mark)

    def masked(self, text: str) -> tuple[str, int]:
        """`text` masked to the point where nothing is left to mask, and how many spans were."""
        total = 0
        while self._marked(text):
            pieces = self._written.split(text)
            count = 0
            for position in range(0, len(pieces), 2):
                pieces[position], found = self._wanted.subn(self._replacement, pieces[position])
                count += found
            if not count:
                break
            text = "".join(pieces)
            total += count
        return text, total

    def _marked(self, text: str) -> bool:
        return any(
            character in text and any(mark in text for mark in marks) for character, marks in self._marks.items()
        )

    @cached_property
    def _written(self) -> re.Pattern[str]:
        written = {*self._placeholders.values(), *map(_masked, self._shapes)}
        return re.compile(f"({'|'.join(map(re.escape, sorted(written)))})")

    @cached_property
    def _wanted(self) -> re.Pattern[str]:
        known = [f"(?P<known>{'|'.join(map(re.escape, self._placeholders))})"] if self._placeholders else []
        shapes = (f"(?P<{kind}>{pattern})" for kind, pattern in self._shapes.items())
        return re.compile("|".join((*known, *shapes)), re.ASCII)

    def _replacement(self, found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        return self._placeholders[found[0]] if kind == "known" else _masked(kind)


def _masked(kind: str) -> str:
    return f"[masked:{kind.replace('_', '-')}]"


def _spellings(known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each spelling of each secret with its placeholder, the longest first: what contains another goes before it."""
    found: dict[str, str] = {}
    for name, secret in sorted(known.items()):
        if len(secret) < SHORTEST_SECRET:
            continue
        found.setdefault(secret, f"${{{name}}}")
        for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
            found.setdefault(escaped, f"${{{name}}}")
        # A variable of the environment may hold bytes that are no text.
        quoted = (quote(secret, safe=safe, errors="surrogateescape") for safe in ("", "/"))
        for encoded in (*quoted, quote_plus(secret, errors="surrogateescape")):
            found.setdefault(encoded, f"${{{name}:url}}")
            found.setdefault(re.sub("%..", lambda triplet: triplet[0].lower(), encoded), f"${{{name}:url}}")
    yield from sorted(found.items(), key=lambda pair: (-len(pair[0]), pair[0]))


def _rare_tail(secret: str) -> str:
    """The end of `secret`, at least six characters of it, that begins with its rarest one."""
    starts = range(len(secret) - SHORTEST_SECRET + 1)
    return secret[max(starts, key=lambda at: _rarity(secret[at])) :]


def _rarest(mark: str) -> str:
    return max(mark, key=_rarity)


def _rarity(character: str) -> int:
    """A place in the order from the most common character on; one that is not in it is the rarest."""
    return _COMMON.find(character) % 1000


def _walked(value: Any, search: _Search) -> tuple[Any, int]:
    counts = []

    def masked(text: str) -> str:
        text, count = search.masked(text)
        counts.append(count)
        return text

    return _mapped(value, masked), sum(counts)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with `change` made to each of its texts and keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        # A key that is no text has no place in JSON: it stays, and whoever records the value refuses it by its name.
        return {change(k) if isinstance(k, str) else k: _mapped(inner, change) for k, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(inner, change) for inner in value]
    return value


def _restored(secret: str, *, encoded: str | None) -> str:
    return quote(secret, safe="") if encoded else secret


def _text_columns(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Array[Any]]]:
    import pyarrow as pa  # noqa: PLC0415

    for position, column in enumerate(batch.columns):
        if pa.types.is_string(column.type):
            yield position, column


def _occurring(traces: tuple[str, ...], columns: list[pa.Array[Any]]) -> list[str]:
    """Which of the `traces` occur anywhere in the columns' joined buffers; a trace across two cells only costs time."""
    joined = b"\n".join(map(_data, columns))
    if len(joined) <= _SMALL:
        return [trace for trace in traces if re.search(trace.encode(), joined)]
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    ends = pa.py_buffer(b"".join(at.to_bytes(8, "little") for at in (0, len(joined))))
    page = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, pa.py_buffer(joined)])
    return [trace for trace in traces if pc.match_substring_regex(page, trace)[0].as_py()]


def _data(column: pa.Array[Any]) -> memoryview:
    """The bytes of the column's own cells: its part of the data buffer."""
    _, offsets, data = column.buffers()
    if offsets is None or data is None:
        return memoryview(b"")
    ends = memoryview(offsets).cast("B").cast("i")
    return memoryview(data)[ends[column.offset] : ends[column.offset + len(column)]]


_SHAPES_ALONE: Final = SecretGuard({})
