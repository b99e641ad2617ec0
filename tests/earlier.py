"""Stores as earlier releases left them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from engine.ports import Call, Statement
from engine.sql import call

if TYPE_CHECKING:
    from tests.stores import Store

NEWER = ("holders", "guards", "guard_audit")
MARKS = ("admitted_at", "doubts", "receipt", "destination")


def raw(text: str) -> Call:
    """A statement no module has."""
    return Call(Statement("raw", text, (), reads=False, durable=True), {})


def of_schema_3(store: Store, *, token: str | None = None) -> None:
    """Make the store one of schema 3: one guard for all of it, and none of what is newer."""
    database = store.here.profile.database
    names = [name for (name,) in database.run(call("list_triggers"))[0]]
    views = ("standing_guards", "run_rows", "leased_owners")
    marks = MARKS if store.profile_name != "file" else ()
    database.run(
        *(raw(f"DROP TRIGGER {name}") for name in names),
        *(raw(f"DROP VIEW {name}") for name in views),
        *(raw(f"DROP TABLE {name}") for name in (*NEWER, "refusals")),
        *(raw(f"ALTER TABLE journal DROP COLUMN {name}") for name in marks),
        raw("CREATE TABLE refusals (reason TEXT NOT NULL CONSTRAINT superseded CHECK (reason <> 'superseded')) STRICT"),
        raw("CREATE TABLE guard (name TEXT PRIMARY KEY CHECK (name = 'global'), token TEXT NOT NULL,"
            " admitted_at INTEGER NOT NULL) STRICT"),
        *((raw(f"INSERT INTO guard VALUES ('global', '{token}', 1)"),) if token else ()),
        raw("UPDATE meta SET value = '3' WHERE name = 'schema'"),
    )  # fmt: skip


def of_schema_4(store: Store) -> None:
    """Make the store one of schema 4: no entry keeps a destination."""
    files = store.profile_name == "file"
    store.here.profile.database.run(
        *(() if files else (raw("ALTER TABLE journal DROP COLUMN destination"),)),
        raw("UPDATE meta SET value = '4' WHERE name = 'schema'"),
    )
    for path in (store.root / "executions").rglob("*.entry") if files else ():
        line, _, rest = path.read_bytes().partition(b"\n")
        head = {name: value for name, value in json.loads(line).items() if name != "destination"}
        path.write_bytes(json.dumps(head).encode() + b"\n" + rest)
