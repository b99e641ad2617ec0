"""What a manifest declares, resolved: frozen values with every default and override already applied.

Texts keep their `${NAME}` placeholders; a secret's value appears only at the moment it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from engine.schedule import Schedule
from engine.shapes import WriteMode

if TYPE_CHECKING:
    from pathlib import Path

    from engine.meters import Quota

Treatment = Literal["drop", "null", "hash"]
"""A column's class: what is done to its values before anything is recorded."""

PEPPER: Final = "CONTEXTFUL_PEPPER"
"""The variable that holds the pepper, which keys the digests of hashed columns."""

SourceKind = Literal["http", "file", "sql", "python"]


@dataclass(frozen=True, slots=True)
class Paginate:
    """How an HTTP source pages; the fields that count depend on `by` and are documented in the manifest reference."""

    by: Literal["next-url", "link-header", "page", "offset", "token"]
    field: str | None = None
    param: str | None = None
    start: int | None = None
    size_param: str | None = None
    size: int | None = None
    limit_param: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class HttpSource:
    """A table read over HTTP. `records` is the dotted path to the list of rows; None: the body is the list."""

    url: str
    records: str | None = None
    paginate: Paginate | None = None
    method: Literal["GET", "POST"] = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class FileSource:
    """A table read from files. `path` is a glob, relative to the manifest's folder (`base`)."""

    path: str
    base: Path
    format: Literal["csv", "jsonl", "parquet"] | None = None


@dataclass(frozen=True, slots=True)
class PythonSource:
    """A table read by a generator of pulls named `package.module:callable`; `base` joins the import path.

    `secrets` names what the generator finds in `ask.secrets`, and nothing else does it find there.
    """

    entry: str
    base: Path
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SqlSource:
    """A table read from a database, one of `query` and `relation` (`from` in the manifest) saying what.

    `dsn` is `sqlite:///path`, relative to the manifest's folder (`base`) unless it has a fourth slash, or
    `postgresql://…`. `batch` is the rows of one pull, `timeout_ms` bounds connecting and each statement.
    """

    dsn: str
    base: Path
    query: str | None = None
    relation: str | None = None
    batch: int = 10_000
    timeout_ms: int = 30_000


Source = HttpSource | FileSource | SqlSource | PythonSource


@dataclass(frozen=True, slots=True)
class Column:
    """What a table declares of a column: a type of the corpus and, for protected data, what happens to its values."""

    type: str | None = None
    treatment: Treatment | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a pipeline with its source, the source's keys already overridden by the table's own.

    `content_hash` is the SHA-256 of the declaration without retry, timeout and secret values: the plan reference of
    the table's runs (run.journal.plan-pin).
    """

    name: str
    pipeline_id: str
    source: Source
    content_hash: str
    primary_key: tuple[str, ...] = ()
    write_mode: WriteMode = WriteMode.APPEND
    incremental: str | None = None
    since_param: str | None = None
    until_param: str | None = None
    allowed_lateness_ms: int = 0
    skip_unchanged: bool = False
    columns: dict[str, Column] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)
    meter: Quota | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline and its tables, in manifest order."""

    id: str
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where effects and publications go.

    `dedup_window_ms` is how long it honours a key, None when it declares none. `headers` and `timeout_ms` are for
    publications, whose requests the engine makes itself.
    """

    name: str
    url: str
    idempotency_header: str = "Idempotency-Key"
    dedup_window_ms: int | None = None
    refusals: tuple[int, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class Export:
    """What is published where: the new rows of `table`, or the answer of `statement`, `batch` rows a request.

    `content_hash` is the plan reference of its executions: it covers what is published and to which destination.
    """

    name: str
    destination: str
    content_hash: str
    table: str | None = None
    statement: str | None = None
    batch: int = 100
    schedule: Schedule = field(default_factory=Schedule)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole `contextful.toml`. `root` is absolute: local state and corpus live under it."""

    path: Path
    project: str
    root: Path
    site_id: str | None
    site_id_env: str | None
    pipelines: tuple[Pipeline, ...]
    destinations: tuple[Destination, ...] = ()
    exports: tuple[Export, ...] = ()
    secret_names: frozenset[str] = frozenset()
