"""From what a source answered to one Arrow batch with a schema: the only place where rows become columns.

Columns are the union of all rows' keys, in the order they are first seen. A column that is null throughout stays out of
the batch and is named as untyped, unless its type was declared. Equal data gives equal Arrow bytes whichever way it
came: the batch owns its buffers, starts at offset 0 and holds zeros under its nulls (run.journal.recorded-batch).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.corpus.schema import Schema, assembled, refuse_names
from engine.corpus.types import logical_type
from engine.errors import ContextfulError, SourceShape
from engine.pipeline import columns, withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from engine.pipeline.columns import Downgrade, Landing, Site
    from engine.pipeline.declaration import Treatment

_UNPROTECTED: Mapping[str, Treatment] = {}


@dataclass(frozen=True, slots=True)
class Shaped:
    """A pull as a batch: its rows, the schema of its typed columns, what landed as less than it was, what dropped."""

    batch: pa.RecordBatch
    schema: Schema
    downgrades: tuple[Downgrade, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def untyped(self) -> tuple[str, ...]:
        """The columns that held nothing but nulls."""
        return self.schema.untyped


def shape(
    rows: Any,
    *,
    declared: Mapping[str, str],
    table: str,
    place: str,
    protected: Mapping[str, Treatment] = _UNPROTECTED,
) -> Shaped:
    """Shape `rows` (mappings, an Arrow table or a record batch) under the `declared` types; `place` names the page.

    `protected` are classes by lower-case name: a dropped column is left out unseen, and no error quotes a value of the
    others. Raise `SourceShape` for a row that is no mapping or a declaration that is no type, `ColumnNameRefused` for a
    name no table takes, `StoreSchemaIncompatible` for a value or a mixture without a type, naming its row.
    """
    # SQL finds a column whatever its case, and so does what is declared of it.
    types = {name.lower(): _declared_type(name, spelling, place=place) for name, spelling in declared.items()}
    if isinstance(rows, pa.Table | pa.RecordBatch):
        from engine.pipeline import tabular  # noqa: PLC0415 - with Arrow's functions 40 ms that only Arrow need pay

        names, count = tabular.names(rows, table=table, place=place), rows.num_rows

        def land(site: Site) -> Landing | None:
            return tabular.land(rows.column(site.column), logical=types.get(site.column.lower()), site=site)
    else:
        mappings = _mappings(rows, place=place, quoted=_withheld if protected else columns.shown)
        names, count = _names(mappings, place=place), len(mappings)
        refuse_names(names, table=table, place=place)

        def land(site: Site) -> Landing | None:
            return columns.land(_values(mappings, site.column), logical=types.get(site.column.lower()), site=site)

    kept = tuple(name for name in names if protected.get(name.lower()) != "drop")
    sites = [columns.Site(table, name, place, protected=name.lower() in protected) for name in kept]
    shaped = _shaped(kept, [_landed(site, land) for site in sites], count=count)
    return replace(shaped, dropped=tuple(name for name in names if name not in kept))


def taken(batch: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    """The rows of the batch at the ascending positions `rows`, in buffers of their own."""
    first = rows[0] if rows else 0
    if rows != list(range(first, first + len(rows))):
        return batch.take(pa.array(rows, pa.int64()))
    # One run of rows, as a source in the order of its clock leaves: copied, it spares the import of Arrow's functions.
    copies = [pa.concat_arrays([column.slice(first, len(rows))]) for column in batch.columns]
    return assembled(copies, batch.schema, rows=len(rows))


def _landed(site: Site, land: Callable[[Site], Landing | None]) -> Landing | None:
    try:
        return land(site)
    except ContextfulError:
        raise
    except Exception as problem:  # whatever a library stumbles over, its message may quote the value
        if not site.protected:
            raise
        found = f"values that cannot be read, {type(problem).__name__} ({withheld.COLUMN})"
        raise site.refusal(columns.UNDECLARED, found) from None


def _declared_type(name: str, spelling: str, *, place: str) -> str:
    try:
        return logical_type(spelling)
    except ValueError as problem:
        raise SourceShape(place=place, path=f"types.{name}", found=repr(spelling), expected=str(problem)) from None


def _mappings(rows: Iterable[Any], *, place: str, quoted: Callable[[Any], str]) -> list[dict[Any, Any]]:
    """The rows as dicts. Raise `SourceShape` at the first that is no mapping."""
    listed = rows if isinstance(rows, list) else list(rows)
    if set(map(type, listed)) <= {dict}:
        return listed
    for number, row in enumerate(listed, 1):
        if not isinstance(row, Mapping):
            found = f"{type(row).__name__} {quoted(row)}"
            raise SourceShape(place=place, path=f"row {number}", found=found, expected="an object with named fields")
    return [dict(row) for row in listed]


def _withheld(_: Any) -> str:
    return f"({withheld.CONTENT})"


def _names(rows: list[dict[Any, Any]], *, place: str) -> tuple[str, ...]:
    """The union of all rows' keys, in first-seen order."""
    if not rows:
        return ()
    union = set().union(*rows)
    names = tuple(rows[0] if len(rows[0]) == len(union) else dict.fromkeys(chain.from_iterable(rows)))
    if odd := [name for name in names if not isinstance(name, str)]:
        raise SourceShape(place=place, path="the keys of a row", found=repr(odd[0]), expected="text")
    return names


def _values(rows: list[dict[Any, Any]], name: str) -> list[Any]:
    try:
        return list(map(itemgetter(name), rows))
    except KeyError:
        return [row.get(name) for row in rows]


def _shaped(names: Sequence[str], landings: Sequence[Landing | None], *, count: int) -> Shaped:
    landed = [landing for landing in landings if landing]
    untyped = tuple(name for name, landing in zip(names, landings, strict=True) if not landing)
    schema = Schema(tuple(landing.column for landing in landed), untyped)
    batch = assembled([landing.array for landing in landed], schema.arrow(), rows=count)
    return Shaped(batch, schema, tuple(landing.downgrade for landing in landed if landing.downgrade))
