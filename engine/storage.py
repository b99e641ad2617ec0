"""What a store must hold before work is admitted, and the one verb that makes it so.

`initialize` is the only statement that creates tables; a preflight looks and refuses, because an empty replacement for
a missing table would erase the evidence of a partial restore (run.journal.execution-schema).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from engine.clock import Chance
from engine.errors import ExecutionRecoveryMismatch, ExecutionSchemaIncompatible
from engine.migration import incompatible, migrate
from engine.profile import Identity
from engine.seals import MARK
from engine.sql import SCHEMA_VERSION, call, schema

if TYPE_CHECKING:
    from engine.ports import Call, Database
    from engine.profile import Profile

RESTORING: Final = "restoring"
"""The entry of `meta` that stands while a backup is restored: nothing is admitted beside it."""

_TABLE: Final = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_TRIGGER: Final = re.compile(r"CREATE TRIGGER IF NOT EXISTS (\w+)")
_NOTHING: Final = (
    "contextful storage initialize creates it where nobody has used the store; where it was lost, restore it beside "
    "the corpus, or give up its recorded work on purpose: initialize, then contextful catalog rebuild"
)


def initialize(profile: Profile, *, project: str, chance: Chance | None = None) -> None:
    """Create what is missing of a new store and name the project it belongs to; repeating it changes nothing.

    A store of an earlier schema that can be migrated is brought to it first (run.callback-guard.legacy-guard).

    One batch that may be applied twice (run.journal.d1-initialize); then the objects are bound to what it left.
    """
    profile.require_paired()
    migrate(profile)
    generation = (chance or Chance()).token()
    *_, rows = profile.database.run(
        *schema(*profile.tables),
        call("set_meta", name="schema", value=str(SCHEMA_VERSION)),
        call("set_meta", name="project", value=project),
        call("set_meta", name="generation", value=generation),
        *_sealed(profile),
        call("read_meta"),
    )
    if profile.recovery:
        profile.recovery.bind(_identity(dict(rows)))


def is_empty(database: Database) -> bool:
    """Whether the store holds no table of any kind: nobody has ever initialized it."""
    return not database.run(call("list_tables"))[0]


def preflight(profile: Profile, *, project: str) -> None:
    """Refuse what `require_state` does, a corpus that does not go with the journal, and objects of another database."""
    profile.require_paired()
    identity = require_state(profile, project=project)
    if profile.recovery:
        profile.recovery.check(identity)


def require_state(profile: Profile, *, project: str) -> Identity:
    """Refuse machine state that lacks tables, is of another schema or project, and return whose it is.

    Only the database is asked: for whoever reads the state alone (run.record.history-export).
    """
    database = profile.database
    tables, triggers = ({name for (name,) in rows} for rows in database.run(call("list_tables"), call("list_triggers")))
    if not tables:
        raise ExecutionRecoveryMismatch(found="the store holds no state").advising(_NOTHING)
    meta: dict[str, str] = dict(database.run(call("read_meta"))[0]) if "meta" in tables else {}
    if meta.get("schema", str(SCHEMA_VERSION)) != str(SCHEMA_VERSION):
        raise incompatible(meta["schema"], database=database, tables=tables)
    _require("table", _names(_TABLE, profile.tables) - tables)
    # Without its triggers a guarded owner is handed on by whoever asks.
    _require("trigger", _names(_TRIGGER, profile.tables) - triggers)
    if RESTORING in meta:
        raise ExecutionRecoveryMismatch(found="a restore into it was interrupted: repeat it with the same backup")
    if "schema" not in meta:
        raise ExecutionSchemaIncompatible(found="none", supported=str(SCHEMA_VERSION))
    if meta.get("project") != project:
        raise _of_another(meta.get("project"), project=project)
    return _identity(meta)


def _of_another(found: str | None, *, project: str) -> ExecutionRecoveryMismatch:
    refusal = ExecutionRecoveryMismatch(found=f"it belongs to project {found!r}, not {project!r}")
    return refusal.advising("a store belongs to one project: give this one its own, or correct the manifest's name")


def _sealed(profile: Profile) -> list[Call]:
    """The mark by which the Worker, which has no key, knows what a value recorded here must look like."""
    key: str | None = getattr(profile.journal, "seal_id", None)
    return [call("set_meta", name=MARK, value=key)] if key else []


def _identity(meta: dict[str, str]) -> Identity:
    return Identity(meta["project"], meta["schema"], meta.get("generation", ""))


def _require(kind: str, missing: set[str]) -> None:
    if missing:
        named = f"the {kind}{'s' * (len(missing) > 1)} {', '.join(sorted(missing))} missing"
        raise ExecutionRecoveryMismatch(found=named)


def _names(created: re.Pattern[str], tables: tuple[str, ...]) -> set[str]:
    """What the statements that create `tables` name of one kind."""
    texts = (c.statement.text for c in schema(*tables))
    return {found[1] for text in texts if (found := created.match(text))}
