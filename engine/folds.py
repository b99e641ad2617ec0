"""The pass over the reserved table: rows appended one object each become one Parquet object that holds them all.

    append ⟲ ──200 rows lie apart──▶ create the fold ──▶ delete what it holds
                                     │                    │
    killed before: nothing happened  │   killed between: rows stand twice and are read once

Two engines that fold at once create the same object or two that overlap; a row is known by the name it was appended
under, so it counts once. Folds of one level are folded again, so that a long history stays a handful of objects.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from engine.corpus.fetch import contents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.ports import Objects

APART: Final = 200
"""Rows that lie apart when a pass folds them (run.record.record-folds)."""

ALIKE: Final = 20
"""Folds of one level when a pass makes them one of the next."""

AT_ONCE: Final = 10_000
"""Rows that one pass folds at most."""

_FOLDS: Final = "folds/"
_FOLD: Final = re.compile(r"(?P<level>\d+)-(?P<first>\d+)-(?P<last>\d+)-[0-9a-f]{32}\.parquet")

Records = dict[str, bytes]
"""Rows by the name each was appended under."""


class Folds:
    """The rows below `prefix`, which ends in a slash, wherever they lie by now."""

    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix
        self._apart: int | None = None

    def appended(self) -> None:
        """Note one more row, and fold once enough lie apart; whatever the pass raises, the next row brings it again.

        Only the first row and those past the trigger look at the store, so that an append costs no listing.
        """
        self._apart = None if self._apart is None else self._apart + 1
        if self._apart is not None and self._apart < APART:
            return
        self._apart = len(self._listed()[0])
        if self._apart >= APART:
            self.fold()
            self._apart = len(self._listed()[0])

    def fold(self) -> None:
        """Fold what is due, the rows first and then folds of each level."""
        with self._objects.turn(self._prefix.rstrip("/")):
            apart, folds = self._listed()
            if len(apart) >= APART:
                folds[0].append(self._folded(apart[:AT_ONCE], level=0))
            level = 0
            while len(alike := list(dict.fromkeys(folds[level]))) >= ALIKE:
                level += 1
                folds[level].append(self._folded(alike, level=level))

    def records(self) -> Records:
        """Every row.

        A fold that is made meanwhile takes objects away that were listed; what is missing is looked for again, since
        the fold that holds it was there before it went.
        """
        single: Records = {}
        folded: dict[str, Records] = {}
        missing = True
        while missing:
            apart, folds = self._listed()
            names = [name for level in folds.values() for name in level if name not in folded]
            found = contents(self._objects, [*names, *(name for name in apart if name not in single)])
            missing = None in found.values()
            for name, content in found.items():
                if content is not None and name in names:
                    folded[name] = _unpacked(content)
                elif content is not None:
                    single[name] = content
        whole: Records = {}
        for rows in folded.values():
            whole |= rows
        return whole | single

    def _listed(self) -> tuple[list[str], dict[int, list[str]]]:
        """The names of the rows that lie apart, and of the folds by level."""
        apart: list[str] = []
        folds: dict[int, list[str]] = defaultdict(list)
        for name in self._objects.list(self._prefix):
            found = _FOLD.fullmatch(name.removeprefix(self._prefix + _FOLDS))
            if found is None:
                apart.append(name)
            else:
                folds[int(found["level"])].append(name)
        return apart, folds

    def _folded(self, sources: list[str], *, level: int) -> str:
        """Make one object of `sources`, and only once it stands delete them; return its name."""
        rows: Records = {}
        for name in sources:
            content = self._objects.get(name)
            if content is not None:  # another engine has folded it meanwhile
                rows |= _unpacked(content) if _is_fold(name) else {name: content}
        name = self._name(rows, level=level)
        if rows:
            self._objects.create(name, _packed(rows))
        self._objects.delete(source for source in sources if source != name)
        return name

    def _name(self, rows: Mapping[str, bytes], *, level: int) -> str:
        digest = hashlib.sha256()
        for name in sorted(rows):
            digest.update(b"".join(len(part).to_bytes(8, "big") + part for part in (name.encode(), rows[name])))
        starts = sorted(name.removeprefix(self._prefix).partition("-")[0] for name in rows) or ["0"]
        return f"{self._prefix}{_FOLDS}{level}-{starts[0]}-{starts[-1]}-{digest.hexdigest()[:32]}.parquet"


def _is_fold(name: str) -> bool:
    return name.endswith(".parquet")


def _packed(rows: Mapping[str, bytes]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - one append in hundreds folds, and the others do not pay for the import
    import pyarrow.parquet as pq  # noqa: PLC0415

    names = sorted(rows)
    table = pa.table({"name": pa.array(names, pa.string()), "record": pa.array(map(rows.get, names), pa.binary())})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def _unpacked(content: bytes) -> Records:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = pq.read_table(pa.BufferReader(content))
    rows: list[dict[str, Any]] = table.to_pylist()
    return {row["name"]: row["record"] for row in rows}
