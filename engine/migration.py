"""From the execution schemas before this one.

Since schema 4 per-row guards, holders and their audit take the one global guard's place. A database of schema 3 whose
global guard stands is left as it is. That row records no idempotency key, so no evidence ties to its effect: the
release that wrote it must reconcile it (run.callback-guard.legacy-guard).

Since schema 5 an entry keeps the destination of its first admission. What is in doubt from before, under no guard that
tells it, keeps none: it is held to its window alone, as by the release that admitted it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import ExecutionSchemaIncompatible, Refused, StorageUnusable
from engine.sql import SCHEMA_VERSION, call, schema
from engine.unanswered import settled

if TYPE_CHECKING:
    from engine.ports import Call, Database, Rows
    from engine.profile import Profile

BEFORE: Final = ("3", "4")
"""The schemas that are brought to this executable's; any other is refused."""

LEGACY: Final = "guard"
"""The table of the global guard, which schema 3 has alone."""

ADDED: Final = ("admitted_at", "doubts", "receipt", "destination")
"""The columns by which a journal's entries keep what became of their admissions."""


def incompatible(found: str, *, database: Database, tables: set[str]) -> ExecutionSchemaIncompatible:
    """The refusal of a database of the schema `found`, naming a global guard that keeps it from being migrated."""
    token = legacy_guard(database) if found in BEFORE and LEGACY in tables else None
    return ExecutionSchemaIncompatible(found=found, supported=str(SCHEMA_VERSION), token=token)


def migrate(profile: Profile) -> bool:
    """Bring a database of an earlier schema to this one, in one batch; tell whether there was one to bring.

    Raise `ExecutionSchemaIncompatible`, and change nothing, while a global guard stands.
    """
    try:
        return _brought(profile)
    except StorageUnusable:
        # Somebody else was first, or a batch came late: what these statements change is changed already.
        if _migrated(profile.database) is None:
            raise
        return True


def _brought(profile: Profile) -> bool:
    database = profile.database
    tables = {name for (name,) in database.run(call("list_tables"))[0]}
    found = _schema(database) if "meta" in tables else None
    if found not in BEFORE:
        return False
    if LEGACY in tables and legacy_guard(database):
        raise incompatible(found, database=database, tables=tables)
    try:
        settled(lambda: database.run(*_steps(profile, tables, found)), found=lambda: _migrated(database))
    except Refused as refusal:
        raise incompatible(found, database=database, tables=tables) from refusal
    return True


def legacy_guard(database: Database) -> str | None:
    """The token of the global guard, where one stands."""
    rows = database.run(call("find_legacy_guard"))[0]
    return rows[0][0] if rows else None


def _steps(profile: Profile, tables: set[str], found: str) -> list[Call]:
    journal = {name for (name,) in profile.database.run(call("journal_columns"))[0]} if "journal" in tables else None
    return [
        *((call("refuse_legacy_guard"), call("drop_legacy_guard")) if LEGACY in tables else ()),
        *((call("drop_refusals"),) if "refusals" in tables else ()),
        *(call(f"add_journal_{name}") for name in ADDED if journal is not None and name not in journal),
        *schema(*profile.tables),
        *(profile.admission.recalling() if "guards" in tables else ()),
        call("advance_schema", **{"from": found, "to": str(SCHEMA_VERSION)}),
    ]


def _migrated(database: Database) -> list[Rows] | None:
    """Nothing to answer where the schema stands at this one; None where it does not."""
    return [] if _schema(database) == str(SCHEMA_VERSION) else None


def _schema(database: Database) -> str | None:
    meta: dict[str, str] = dict(database.run(call("read_meta"))[0])
    return meta.get("schema")
