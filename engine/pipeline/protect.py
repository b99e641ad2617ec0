"""Protected columns: what a table's classes do to a pull before anything of it is recorded.

    pull ─▶ shape ─▶ secret guard ─▶ prepare ─▶ record ─▶ stage ─▶ commit

`drop` leaves the column out, `null` keeps the column and none of its values, `hash` puts a digest in each value's
place: HMAC-SHA-256 under the pepper over the value's canonical text, its first 32 hex digits. Nulls stay null. So equal
values have equal digests, on every page, in every table and run under one pepper, and a hashed key still deduplicates.
A column is protected whatever the case its name is written in.

What is recorded is the prepared batch: a replay lands it as it is, and only if it carries the identity of the rules the
run is pinned to. The raw values reach neither journal nor blobs, parts, errors or ledger.
"""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

import pyarrow as pa

from engine.corpus.schema import Column, Schema, assembled
from engine.errors import ExecutionPinMismatch, JournalRedactionConflict, SecretNotFound
from engine.pipeline.declaration import PEPPER
from engine.pipeline.texts import texts
from engine.pipeline.withheld import reading_protected
from engine.shapes import canonical_json, domain_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.pipeline.declaration import Table, Treatment
    from engine.pipeline.recording import PullMeta
    from engine.pipeline.source import Source
    from engine.shapes import Attempt

IDENTITIES: Final = (("shape", "1"), ("normalization", "1"), ("writer", "1"))
"""Versions of what makes a prepared recording: rows become columns (`shape`), a value becomes the text that is hashed
(`normalization`), a prepared batch becomes bytes (`writer`). A test holds each against recorded examples: raise one
when its example no longer holds, and what is pending under the older one is refused instead of mixed."""

DIGEST_CHARACTERS: Final = 32


@runtime_checkable
class Redacting(Protocol):
    """A source that declares removal: the columns that must not be recorded, or only that there are such."""

    journaled: bool
    removes: tuple[str, ...] | bool


@dataclass(frozen=True, slots=True)
class Protection:
    """What one table's classes do; `treatments` by the lower-case name of the column. Without any it does nothing."""

    treatments: Mapping[str, Treatment] = field(default_factory=dict)
    pepper: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, table: Table, source: Source, *, pepper: str | None) -> Self:
        """The protection of `table`, read from `source`.

        Raise `JournalRedactionConflict` where the source declares removal that the table's classes do not admit
        (run.journal.redacting-source), `SecretNotFound` where a digest is wanted and there is no pepper.
        """
        treatments = {name.lower(): column.treatment for name, column in table.columns.items() if column.treatment}
        _admit_removal(source, treatments, table=table.name)
        hashing = "hash" in treatments.values()
        if hashing and not pepper:
            raise SecretNotFound(name=PEPPER, path=f"the hashed columns of table {table.name}")
        return cls(treatments, (pepper or "").encode("utf-8", "surrogateescape") if hashing else b"")

    @property
    def identities(self) -> tuple[tuple[str, str], ...]:
        """What the owner of a protected table pins beside its plan (run.journal.prepared-owner): never the pepper."""
        if not self.treatments:
            return ()
        pepper = hashlib.sha256(b"contextful.pepper\0" + self.pepper).hexdigest() if self.pepper else "none"
        declared = domain_hash("contextful.classes", canonical_json(dict(self.treatments)))
        return tuple(sorted((*IDENTITIES, ("classes", declared), ("pepper", pepper))))

    @property
    def writer(self) -> str | None:
        """What marks a recording prepared under these identities; None for a table without classes."""
        return domain_hash("contextful.prepared", canonical_json(self.identities)) if self.treatments else None

    def reading(self) -> AbstractContextManager[None]:
        """The block in which a pull is read: errors inside quote nothing where columns are protected."""
        return reading_protected() if self.treatments else nullcontext()

    def meta(self, found: PullMeta) -> PullMeta:
        """The facts of a pull as they are recorded: protected columns are told only by what lands of them."""
        if not self.treatments:
            return found
        return replace(
            found,
            types={name: spelling for name, spelling in found.types.items() if not self._covers(name)},
            schema=Schema(tuple(self._column(column) for column in found.schema.columns), found.schema.untyped),
            downgrades=tuple(event for event in found.downgrades if not self._covers(event.path)),
            prepared=self.writer,
        )

    def batch(self, guarded: pa.RecordBatch, found: Schema) -> pa.RecordBatch:
        """`guarded`, shaped as `found` without the dropped columns, with no value of a protected column left in it."""
        if not any(self._covers(column.name) for column in found.columns):
            return guarded
        prepared = Schema(tuple(map(self._column, found.columns)))
        arrays = [self._array(array, column) for array, column in zip(guarded.columns, found.columns, strict=True)]
        return assembled(arrays, prepared.arrow(), rows=guarded.num_rows)

    def admit(self, meta: PullMeta, attempt: Attempt) -> None:
        """Raise `ExecutionPinMismatch` unless the pull was prepared as this run would (run.journal.prepared-replay)."""
        if meta.prepared != self.writer:
            pinned, asked = (canonical_json({"prepared": writer}) for writer in (meta.prepared, self.writer))
            raise ExecutionPinMismatch(
                scope=attempt.scope, execution_id=attempt.execution_id, pinned=pinned, asked=asked
            )

    def absent(self, names: Iterable[str]) -> tuple[str, ...]:
        """The protected columns that are not among `names`."""
        present = {name.lower() for name in names}
        return tuple(name for name in self.treatments if name not in present)

    def _covers(self, name: str) -> bool:
        return name.lower() in self.treatments

    def _column(self, column: Column) -> Column:
        """The column as it lands. How large its values were is not told: the largest of them is one of them."""
        treatment = self.treatments.get(column.name.lower())
        if treatment == "hash":
            return Column(column.name, "string")
        if treatment == "null":
            return replace(column, largest=None if column.largest is None else 0)
        return column

    def _array(self, array: pa.Array[Any], column: Column) -> pa.Array[Any]:
        treatment = self.treatments.get(column.name.lower())
        if treatment == "hash":
            return pa.array(digests(texts(array, column.type), pepper=self.pepper), type=pa.string())
        return pa.nulls(len(array), array.type) if treatment == "null" else array


def digests(values: Iterable[str | None], *, pepper: bytes) -> list[str | None]:
    """The digest of each text under `pepper`; None stays None.

    The same as `hmac.digest(pepper, text, "sha256").hex()[:32]`, its keyed halves computed once for all of them.
    """
    inner, outer = _keyed(pepper, 0x36), _keyed(pepper, 0x5C)
    found: list[str | None] = []
    for value in values:
        if value is None:
            found.append(None)
            continue
        inside, outside = inner.copy(), outer.copy()
        inside.update(value.encode())
        outside.update(inside.digest())
        found.append(outside.digest()[: DIGEST_CHARACTERS // 2].hex())
    return found


def _keyed(pepper: bytes, pad: int) -> hashlib._Hash:
    """One of HMAC's two halves: SHA-256 that has read the padded key (RFC 2104)."""
    block = hashlib.sha256().block_size
    key = pepper if len(pepper) <= block else hashlib.sha256(pepper).digest()
    return hashlib.sha256(bytes(byte ^ pad for byte in key.ljust(block, b"\0")))


def _admit_removal(source: Source, treatments: Mapping[str, Treatment], *, table: str) -> None:
    if not isinstance(source, Redacting) or not source.journaled or not source.removes:
        return
    if isinstance(source.removes, bool):
        raise JournalRedactionConflict(table=table, source=source.connector.id, columns="columns it does not name")
    bare = [name for name in source.removes if name.lower() not in treatments]
    if bare:
        raise JournalRedactionConflict(table=table, source=source.connector.id, columns=", ".join(bare))
