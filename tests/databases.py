"""A database to read from, once per kind: what a test says to it is SQL that both kinds take."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from engine.pipeline.declaration import Column, SqlSource, Table
from engine.pipeline.manifest.hashing import hashed
from engine.pipeline.source import Ask, Secrets
from engine.pipeline.sources import open_source
from engine.schedule import Schedule
from tests.postgres import PASSWORD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.shapes import Pull


@dataclass
class Database:
    """A real database under a dsn, with a session of the test's own beside the one a source opens."""

    kind: str
    dsn: str
    base: Path
    session: Any
    secrets: Secrets

    def __call__(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Execute one statement and commit; `?` stands for each value."""
        text = statement.replace("?", "%s") if self.kind == "postgres" else statement
        cursor = self.session.execute(text, values or None) if self.kind == "postgres" else self.session.execute(
            text, values
        )  # fmt: skip
        return list(cursor.fetchall()) if cursor.description else []

    def source(self, relation: str | None = "orders", **declared: Any) -> SqlSource:
        return SqlSource(self.dsn, self.base, relation=None if "query" in declared else relation, **declared)

    def table(
        self, *, name: str = "orders", source: dict[str, Any] | None = None, types: dict[str, str] | None = None,
        **declared: Any,
    ) -> Table:  # fmt: skip
        columns = {column: Column(type=spelling) for column, spelling in (types or {}).items()}
        declared = {"columns": columns, "schedule": Schedule(jitter_ms=0), **declared}
        return hashed(Table(name, "shop", self.source(**(source or {})), content_hash="", **declared))

    def ask(self, **asked: Any) -> Ask:
        return Ask(client=lambda: pytest.fail("no HTTP is needed"), secrets=self.secrets, **asked)

    def pulls(self, table: Table, **asked: Any) -> list[Pull]:
        return list(open_source(table).pulls(self.ask(**asked)))


def ids(pulls: list[Pull]) -> list[list[Any]]:
    """The `id` of each row, by pull."""
    return [[row["id"] for row in pull.rows] for pull in pulls]


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[Database]:
    session = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    yield Database("sqlite", "sqlite:///shop.db", tmp_path, session, Secrets({}))
    session.close()


@pytest.fixture
def postgres_database(postgres: Any, tmp_path: Path) -> Iterator[Database]:
    dsn = postgres.database()
    name = dsn.rpartition("/")[2]
    with psycopg.connect(postgres.uri(name), autocommit=True) as session:
        yield Database("postgres", dsn, tmp_path, session, Secrets({"PASSWORD": PASSWORD}))


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Any:
    """A database of each kind."""
    return request.getfixturevalue(f"{request.param}_database")
