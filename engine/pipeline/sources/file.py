"""Tables read from files: csv, jsonl and parquet, plain, `.gz` or `.zst`; one batch of rows is one pull.

Files are read in the order of their names, one that several links lead to once: by the plainest name, or the one that
the walk has begun it by. The walk's position is `{"file": name, "row": n}`: the file to go on with, named from the
manifest's folder, and how many of its rows were read. Under `read` it names what was read to get there, of that file
and those before it: `{"file", "bytes", "sha256"}` each, of the bytes it began with (decompressed; of a Parquet file
all). A walk goes on where they still do, whatever was added or mended behind them. With `skip_unchanged` a position
carries the digest of all files, too, and the walk ends at that alone (engine.pipeline.sources.unchanged).
"""

from __future__ import annotations

import glob
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from engine.errors import Config, SourceChanged
from engine.pipeline.declaration import FileSource, Table
from engine.pipeline.sources import unchanged, versions
from engine.pipeline.sources.lines import File, changed
from engine.shapes import CursorKind, Pull

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from engine.pipeline.sources.lines import Batch

_FORMATS: Final = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_COMPRESSED: Final = frozenset({".gz", ".zst"})

_NAMED: Final = 100
"""Files that a position names the content of, the last that were read: it stands in the record of every pull."""


class Reader(Protocol):
    """Reads one format."""

    def __call__(self, file: File, *, start: int) -> Iterator[Batch]:
        """The batches of `file` from row `start` on, the last of them marked. Raise `SourceShape` naming the place."""


class Files:
    """The files a pattern matches."""

    connector = versions.FILE
    journaled = True
    sends = False

    def __init__(self, table: Table) -> None:
        if not isinstance(table.source, FileSource):
            raise TypeError(f"{table.name} is not read from files")
        self.cursor_kind = CursorKind.MONOTONIC if table.incremental else CursorKind.OPAQUE_TOKEN
        self._table = table
        self._declared = table.source

    def pulls(self, ask: Ask) -> Iterator[Pull]:
        """One pull a batch, each carrying the position of the next; a file without rows is an empty pull.

        Raise `Config` when no file matches, a name is no text, or the position's file is gone, `SourceChanged` when a
        file is not the one that the position was given in, `SourceShape` naming file and line.
        """
        mark = self._mark(ask.position)
        if mark and (skip := unchanged.skipped(ask.position, sha256=mark["sha256"])):
            yield skip
            return
        names, row, read = self._from(ask.position)
        files = [(name, _reader(self._format(name))) for name in names]
        for index, (name, batches) in enumerate(files):
            following = names[index + 1] if index + 1 < len(names) else None
            earlier = read
            for batch in batches(self._file(name), start=row):
                read = [*earlier, {"file": name, **batch.content}][-_NAMED:]
                more = not batch.last or following is not None
                place = {"file": following, "row": 0} if batch.last else {"file": name, "row": batch.end}
                position = {**place, "read": read} if more else None
                if mark:
                    mark = unchanged.named(mark["sha256"], rows=mark["rows"] + batch.end - row)
                    position = {**position, **mark} if position is not None else self._whole(mark)
                row = batch.end
                yield Pull(rows=batch.rows, position=position, more=more, snapshot_complete=not more)
            row = 0

    def _mark(self, position: Any) -> dict[str, Any]:
        """The digest of what is read and the rows of it read so far; nothing for a table that is read every time."""
        if not self._table.skip_unchanged:
            return {}
        if _within(position) and "sha256" in position:
            return unchanged.named(position["sha256"], rows=position["rows"])
        return unchanged.named(self._digest(), rows=0)

    def _whole(self, mark: dict[str, Any]) -> dict[str, Any] | None:
        """The position of a walk that is over, or None where the files changed under it: it may have read a mixture."""
        return mark if mark["sha256"] == self._digest() else None

    def _digest(self) -> str:
        return unchanged.of_files((name, self._declared.base / name) for name in self._names())

    def _from(self, position: Any) -> tuple[list[str], int, list[dict[str, Any]]]:
        """The files to read, how many rows of the first are read, and what was read before them."""
        names = self._names()
        if position is None or unchanged.whole(position) or (self._table.skip_unchanged and "sha256" not in position):
            return names, 0, []
        if not _within(position):
            raise Config(f"{self._place()}: {position} is no position in files", remedy=self._reset())
        # An earlier build's position names no content.
        read = position.get("read", [])
        names = _as_known(self._declared.base, names, [*(content["file"] for content in read), position["file"]])
        if position["file"] not in names:
            raise Config(f"{self._place()}: the walk stands in {position['file']}, which {self._declared.path} no "
                         "longer matches", remedy=f"put the file back, or: {self._reset()}")  # fmt: skip
        self._require([content for content in read if content["file"] in names])
        earlier = [content for content in read if content["file"] != position["file"]]
        return names[names.index(position["file"]) :], position["row"], earlier

    def _require(self, read: list[Any]) -> None:
        """Raise `SourceChanged` where a file no longer begins with what was read of it: its rows are recorded already.

        One that is gone cannot be asked; what was read of it stands.
        """
        for content in read:
            if found := changed(self._file(content["file"]), content):
                raise SourceChanged(
                    file=content["file"], found=found, pipeline=self._table.pipeline_id, table=self._table.name
                )

    def _file(self, name: str) -> File:
        return File(name, self._declared.base / name, self._table.columns)

    def _names(self) -> list[str]:
        base, pattern = self._declared.base, self._declared.path
        if (base / pattern).is_file():
            return [pattern]
        found = glob.glob(pattern, root_dir=base, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
        names = _once(base, [Path(name).as_posix() for name in found if (base / name).is_file()])
        if not names:
            raise Config(f"{self._place()}: no file in {base} matches {pattern!r}",
                         remedy="mend source.path, or put a file there")  # fmt: skip
        if odd := [name for name in names if not _utf8(name)]:
            raise Config(f"{self._place()}: the name {odd[0]!r} is no UTF-8, so no position could say where the walk "
                         "stands", remedy="rename the file, or have source.path leave it out")  # fmt: skip
        return names

    def _format(self, name: str) -> str:
        if self._declared.format:
            return self._declared.format
        path = Path(name)
        suffix = Path(path.stem).suffix if path.suffix in _COMPRESSED else path.suffix
        if suffix not in _FORMATS:
            raise Config(f"{self._place()}: {name} has the suffix {path.suffix or 'none'!r}; known: "
                         f"{', '.join(_FORMATS)}, each also with .gz or .zst",
                         remedy='declare source.format = "csv", "jsonl" or "parquet"')  # fmt: skip
        return _FORMATS[suffix]

    def _place(self) -> str:
        return f"pipeline {self._table.pipeline_id}, table {self._table.name}"

    def _reset(self) -> str:
        return f"contextful pipeline reset {self._table.pipeline_id} --table {self._table.name}"


def _within(position: Any) -> bool:
    """Whether `position` is a place in the files."""
    return isinstance(position, dict) and isinstance(position.get("row"), int) and isinstance(position.get("file"), str)


def _once(base: Path, names: list[str]) -> list[str]:
    """`names` in order, of those that lead to one file over links the plainest alone: its rows would land again."""
    home = base.resolve()
    plainest: dict[Path, str] = {}
    for name in sorted(names, key=lambda name: ((base / name).resolve() != home / name, len(name), name)):
        plainest.setdefault((base / name).resolve(), name)
    return sorted(plainest.values())


def _as_known(base: Path, names: list[str], known: list[str]) -> list[str]:
    """`names` in order, a file that a walk has `known` by a link's name by that: what is read goes by its place there.

    Of several names for one file the last known stands.
    """
    if set(known) <= set(names):
        return names
    called = {(base / name).resolve(): name for name in names}
    called |= {path: name for name in known if (path := (base / name).resolve()) in called}
    return sorted(called.values())


def _utf8(name: str) -> bool:
    """Whether a file's name is text; the system takes any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reader(format_: str) -> Reader:
    """The reader of a format, its module loaded when a table first needs it."""
    module = "delimited" if format_ == "csv" else format_
    return cast("Reader", import_module(f"engine.pipeline.sources.{module}").batches)
