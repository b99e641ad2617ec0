"""What a manifest's values must be to one another.

The rules read the file as it stands, whatever else is wrong with it: a value of the wrong shape is the grammar's to
report, so each rule passes it over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from engine.pipeline.declaration import PEPPER
from engine.pipeline.manifest.leaves import DSN, is_dsn, is_url
from engine.pipeline.manifest.merge import merged
from engine.pipeline.manifest.problems import MISSING, Loc, Problem, shown
from engine.pipeline.manifest.publishing import key_headers, misdirected

INJECTED: Final = ("_ingested_at", "_run_id", "_site_id", "_commit_seq", "_row_seq")
_CLASSES: Final = ("drop", "null", "hash")
_TELLING: Final = (".csv", ".jsonl", ".ndjson", ".parquet")

_UNMEASURED: Final = ("int64", "float64", "decimal", "bool", "bytes", "json")
"""Types of a clock that no window of time can be taken from."""

Table = Mapping[str, Any]


def broken(document: Table, environ: Mapping[str, str]) -> Iterator[Problem]:
    """The rules that `document` breaks."""
    pipelines = list(_tables(document, "pipeline", ()))
    destinations = list(_tables(document, "destination", ()))
    tables = [(loc, table, pipeline) for at, pipeline in pipelines for loc, table in _tables(pipeline, "table", at)]
    yield from _repeated(((*loc, "id"), pipeline.get("id")) for loc, pipeline in pipelines)
    yield from _repeated(((*loc, "name"), table.get("name")) for loc, table, _ in tables)
    yield from _repeated(((*loc, "name"), destination.get("name")) for loc, destination in destinations)
    for loc, destination in destinations:
        yield from _absolute(destination.get("url"), (*loc, "url"))
        headers = [name for name in _mapping(destination.get("headers")) if isinstance(name, str)]
        yield from _repeated(((*loc, "headers", name), name) for name in headers)
        yield from key_headers(loc, destination, headers)
    exports = list(_tables(document, "export", ()))
    yield from _repeated(((*loc, "name"), export.get("name")) for loc, export in exports)
    named = [destination.get("name") for _, destination in destinations]
    yield from misdirected(exports, destinations=named, tables=[table.get("name") for _, table, _ in tables])
    for loc, table, pipeline in tables:
        yield from _columns(loc, table, environ)
        yield from _paged_by(loc, table, pipeline)
        yield from _watermark(loc, table)
        yield from _source(loc, table, pipeline)


def _columns(loc: Loc, table: Table, environ: Mapping[str, str]) -> Iterator[Problem]:
    columns = _mapping(table.get("columns"))
    key = [name for name in _list(table.get("primary_key")) if isinstance(name, str)]
    keyed = [((*loc, "primary_key", number), name) for number, name in enumerate(key)]
    declared = [((*loc, "columns", name), name) for name in columns]
    yield from chain(_repeated(keyed), _repeated(declared))
    for at, name in [*keyed, *declared, ((*loc, "incremental"), table.get("incremental"))]:
        if isinstance(name, str) and name.lower() in INJECTED:
            yield Problem(at, shown(name), f"a column of the source; {', '.join(INJECTED)} are added to every table")
    key_names, clock = {name.lower() for name in key}, str(table.get("incremental")).lower()
    for name, column in columns.items():
        treatment = _mapping(column).get("class")
        if treatment in ("drop", "null") and name.lower() in key_names:
            yield Problem((*loc, "columns", name, "class"), shown(treatment),
                          "no class, or \"hash\": the column is part of the primary key")  # fmt: skip
        if treatment in _CLASSES and "incremental" in table and name.lower() == clock:
            yield Problem((*loc, "columns", name, "class"), shown(treatment),
                          "no class: the column is the watermark, which is recorded as it is")  # fmt: skip
        if treatment == "hash" and not environ.get(PEPPER):
            yield Problem((*loc, "columns", name, "class"), f'"hash" without a pepper: {PEPPER} is not set',
                          f"set the variable {PEPPER} to a long secret text and keep it")  # fmt: skip


def _paged_by(loc: Loc, table: Table, pipeline: Table) -> Iterator[Problem]:
    """A database is read on from the key of the last row, so a position holds the key's values as they are."""
    if _mapping(pipeline.get("source")).get("kind") != "sql":
        return
    key = {name.lower() for name in _list(table.get("primary_key")) if isinstance(name, str)}
    for name, column in _mapping(table.get("columns")).items():
        treatment = _mapping(column).get("class")
        if treatment == "hash" and name.lower() in key:
            yield Problem((*loc, "columns", name, "class"), shown(treatment),
                          "no class: kind sql reads on from the key, and its position is recorded as is")  # fmt: skip


def _watermark(loc: Loc, table: Table) -> Iterator[Problem]:
    clock = str(table.get("incremental"))
    if "incremental" not in table:
        for key in ("since_param", "until_param", "allowed_lateness"):
            if key in table:
                yield Problem((*loc, key), f"{shown(table[key])} without incremental",
                              "only beside incremental, which names the watermark's column")  # fmt: skip
    elif table.get("write_mode") == "replace":
        yield Problem((*loc, "incremental"), f'{shown(table["incremental"])} with write_mode = "replace"',
                      'no incremental (a replaced table has no watermark), or write_mode = "append"')  # fmt: skip
    elif "allowed_lateness" in table and (kind := _declared(table, clock)).startswith(_UNMEASURED):
        yield Problem((*loc, "allowed_lateness"), f"{shown(table['allowed_lateness'])} of a clock declared {kind}",
                      "only beside a clock of moments: a timestamp, a date, or RFC 3339 instants as text")  # fmt: skip


def _declared(table: Table, column: str) -> str:
    """The type a table declares of `column`, or nothing."""
    return str(_mapping(_mapping(table.get("columns")).get(column)).get("type", ""))


def _source(loc: Loc, table: Table, pipeline: Table) -> Iterator[Problem]:
    source = _mapping(pipeline.get("source"))
    check = _CHECKS.get(source.get("kind")) if isinstance(source.get("kind"), str) else None
    if check is None:
        return
    try:
        whole = merged(source, table)
    except ValueError:
        yield Problem((*loc, "url"), shown(table["url"]), "a URL, absolute or relative to the source's")
        return

    def at(key: str) -> Loc:
        return (*loc, key) if key in table else (*loc[:2], "source", key)

    yield from check(whole, at)
    yield from _unchanged((*loc, "skip_unchanged"), table, whole)


def _unchanged(at: Loc, table: Table, whole: Table) -> Iterator[Problem]:
    """What is skipped while it has not changed is a snapshot in raw bytes: files, or the answers of an API."""
    if table.get("skip_unchanged") is not True:
        return
    if whole.get("kind") not in ("file", "http"):
        yield Problem(at, f"true with kind {shown(whole.get('kind'))}", 'only with kind "file" or "http"')
    if "incremental" in table:
        yield Problem(at, "true with incremental", "only without incremental: a position is a watermark or a digest")


def _http(whole: Table, at: Callable[[str], Loc]) -> Iterator[Problem]:
    yield from _absolute(whole.get("url", MISSING), at("url"))
    if "body" in whole and whole.get("method", "GET") == "GET":
        yield Problem(at("body"), "a body with method GET", 'a body only with method = "POST"')
    paginate = _mapping(whole.get("paginate"))
    if "size_param" in paginate and "size" not in paginate:
        yield Problem((*at("paginate"), "size"), "nothing", "a whole number beside size_param, sent as its value")
    names = [name for name in _mapping(whole.get("headers")) if isinstance(name, str)]
    yield from _repeated(((*at("headers"), name), name) for name in names)


def _file(whole: Table, at: Callable[[str], Loc]) -> Iterator[Problem]:
    path = whole.get("path", MISSING)
    if path is MISSING:
        yield Problem(at("path"), "nothing", "the path or glob of files")
    if isinstance(path, str) and "format" not in whole and not _tells_format(path):
        yield Problem(at("format"), f"nothing, and the path {shown(path)} does not tell", '"csv", "jsonl", "parquet"')


def _sql(whole: Table, at: Callable[[str], Loc]) -> Iterator[Problem]:
    dsn = whole.get("dsn", MISSING)
    if dsn is MISSING:
        yield Problem(at("dsn"), "nothing", DSN)
    if isinstance(dsn, str) and not is_dsn(dsn) and len(dsn.split()) == 1:
        scheme, parted, _ = dsn.partition("://")
        found = f"a text that begins with {shown(scheme + parted)}" if parted else "a text without a scheme"
        yield Problem(at("dsn"), found, DSN)
    named = [key for key in ("query", "from") if key in whole]
    if len(named) != 1:
        found = "query and from" if named else "neither query nor from"
        yield Problem(at(named[-1] if named else "from"), found, "one of the two: a SELECT, or the name of a table")


def _python(whole: Table, at: Callable[[str], Loc]) -> Iterator[Problem]:
    if "entry" not in whole:
        yield Problem(at("entry"), "nothing", '"package.module:callable"')


_CHECKS: Final[Mapping[Any, Callable[[Table, Callable[[str], Loc]], Iterator[Problem]]]] = {
    "http": _http, "file": _file, "sql": _sql, "python": _python,
}  # fmt: skip


def _absolute(url: Any, loc: Loc) -> Iterator[Problem]:
    if url is MISSING or (isinstance(url, str) and not is_url(url)):
        yield Problem(loc, shown(url), 'an http or https URL, such as "https://api.example.com/items"')


def _repeated(named: Iterable[tuple[Loc, Any]]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for loc, name in named:
        if not isinstance(name, str):
            continue
        if name.lower() in seen:
            first = shown(seen[name.lower()])
            yield Problem(loc, f"{shown(name)} again", f"a name that differs from {first} in more than case")
        seen.setdefault(name.lower(), name)


def _tells_format(path: str) -> bool:
    """Whether the suffix may name the format; of a glob it is each matching file's own that does."""
    plain = path.lower().removesuffix(".gz").removesuffix(".zst")
    return plain.endswith(_TELLING) or any(sign in path for sign in "*?[")


def _tables(value: Any, key: str, loc: Loc) -> Iterator[tuple[Loc, Table]]:
    for number, table in enumerate(_list(_mapping(value).get(key))):
        if isinstance(table, Mapping):
            yield (*loc, key, number), table


def _mapping(value: Any) -> Table:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
