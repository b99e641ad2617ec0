"""`contextful read`: one SELECT over what is committed, or the list of what there is."""

import csv
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath
from engine.cli.parsing import Argument, Option
from engine.clock import instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.corpus.read import Answer, ReadFace


class Format(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


Statement = Annotated[str | None, Argument(metavar="SQL", help="One SELECT; without it the tables are listed.")]
AsOf = Annotated[
    str | None,
    Option("--as-of", envvar="CONTEXTFUL_READ_AS_OF", metavar="T",
           help="The tables as they were at this UTC instant: 2026-01-31T06:00:00Z, or a day's first one."),
]  # fmt: skip
Form = Annotated[
    Format, Option("--format", envvar="CONTEXTFUL_READ_FORMAT", help="How the answer is printed.")
]  # fmt: skip
RowLimit = Annotated[
    int | None,
    Option("--limit", envvar="CONTEXTFUL_READ_LIMIT", metavar="N", least=1, help="At most so many rows; 10000."),
]


def read(
    sql: Statement = None,
    *,
    as_of: AsOf = None,
    form: Form = Format.TABLE,
    limit: RowLimit = None,
    manifest: ManifestPath = None,
    json: Json = False,
) -> None:
    """Read the committed rows with SQL, tables by their names."""
    from engine.corpus.read import CEILING, ReadFace

    at = None if as_of is None else _instant(as_of)
    chosen = Format.JSON if json else form
    with session.project(manifest) as project:
        declared = {table.name: pipeline.id for pipeline in project.manifest.pipelines for table in pipeline.tables}
        face = ReadFace(project.profile.objects, declared=declared)
        if sql is None:
            _tables(face, at, chosen)
        else:
            _answer(face.read(sql, as_of=at, limit=limit or CEILING), chosen)


def _instant(text: str) -> int:
    from engine.errors import HistoryBoundSpelling, InstantSpelling
    from engine.history import lower_bound

    try:
        return lower_bound(text)
    except HistoryBoundSpelling:
        raise InstantSpelling(found=text) from None


def _answer(answer: "Answer", form: Format) -> None:
    rows = answer.plain_rows
    if form is Format.JSON:
        output.document(
            {"columns": answer.columns, "rows": rows, "snapshots": answer.snapshots, "truncated": answer.truncated}
        )
        return
    if form is Format.CSV:
        _delimited(answer.columns, ([_csv(value) for value in row] for row in rows))
    else:
        output.table(answer.columns, rows)
    if answer.truncated:
        output.say(f"there are more rows than these {len(rows):,}: --limit raises the ceiling")


def _tables(face: "ReadFace", at: int | None, form: Format) -> None:
    found = face.describe(as_of=at)
    if form is Format.JSON:
        output.document({"tables": [_described(info) for info in found]})
        return
    if form is Format.CSV:
        _delimited(("table", "column", "type", "rows", "committed_at"),
                   ([info.name, name, kind, info.rows, instant(info.committed_at)]
                    for info in found for name, kind in info.columns))  # fmt: skip
        return
    for info in found:
        key = f", key {', '.join(info.primary_key)}" if info.primary_key else ""
        landed = f"{output.counted(info.rows, 'row')} landed"
        output.text(f"{info.name}: {landed}{key}, last commit {instant(info.committed_at)}")
        for name, kind in info.columns:
            output.text(f"  {name} {kind}")
    if not found and at is not None:
        output.say(f"there was no table by {instant(at)}")
    elif not found:
        output.say("there is no table yet: contextful pipeline run ID lands one")


def _described(info: Any) -> dict[str, Any]:
    columns = [{"name": name, "type": kind} for name, kind in info.columns]
    return {
        "name": info.name,
        "columns": columns,
        "primary_key": info.primary_key,
        "rows": info.rows,
        "committed_at": instant(info.committed_at),
    }


def _delimited(headings: "Sequence[str]", rows: "Iterable[Sequence[Any]]") -> None:
    with output.written():
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(headings)
        writer.writerows(rows)


def _csv(value: Any) -> Any:
    import json

    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else value
