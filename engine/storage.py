"""What a store must hold before work is admitted, and the one verb that makes it so.

`initialize` is the only statement that creates tables; a preflight looks and refuses, because an empty replacement for
a missing table would erase the evidence of a partial restore (run.journal.execution-schema).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from engine.clock import Chance
from engine.errors import ExecutionRecoveryMismatch, ExecutionSchemaIncompatible
from engine.profile import Identity
from engine.sql import SCHEMA_VERSION, call, schema

if TYPE_CHECKING:
    from engine.ports import Database
    from engine.profile import Profile

RESTORING: Final = "restoring"
"""The entry of `meta` that stands while a backup is restored: nothing is admitted beside it."""

_CREATED: Final = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")


def initialize(profile: Profile, *, project: str, chance: Chance | None = None) -> None:
    """Create what is missing of a new store and name the project it belongs to; repeating it changes nothing.

    One batch that may be applied twice (run.journal.d1-initialize); then the objects are bound to what it left.
    """
    generation = (chance or Chance()).token()
    *_, rows = profile.database.run(
        *schema(*profile.tables),
        call("set_meta", name="schema", value=str(SCHEMA_VERSION)),
        call("set_meta", name="project", value=project),
        call("set_meta", name="generation", value=generation),
        call("read_meta"),
    )
    if profile.recovery:
        profile.recovery.bind(_identity(dict(rows)))


def is_empty(database: Database) -> bool:
    """Whether the store holds no table of any kind: nobody has ever initialized it."""
    return not database.run(call("list_tables"))[0]


def preflight(profile: Profile, *, project: str) -> None:
    """Refuse a store that lacks tables, is of another schema or of another project than its objects; create nothing."""
    database = profile.database
    present = {name for (name,) in database.run(call("list_tables"))[0]}
    missing = sorted(_names(profile.tables) - present)
    if missing:
        raise ExecutionRecoveryMismatch(found=f"the table{'s' * (len(missing) > 1)} {', '.join(missing)} missing")
    meta: dict[str, str] = dict(database.run(call("read_meta"))[0])
    if RESTORING in meta:
        raise ExecutionRecoveryMismatch(found="a restore into it was interrupted: repeat it with the same backup")
    if meta.get("schema") != str(SCHEMA_VERSION):
        raise ExecutionSchemaIncompatible(found=meta.get("schema", "none"), supported=str(SCHEMA_VERSION))
    if meta.get("project") != project:
        raise ExecutionRecoveryMismatch(found=f"it belongs to project {meta.get('project')!r}, not {project!r}")
    if profile.recovery:
        profile.recovery.check(_identity(meta))


def _identity(meta: dict[str, str]) -> Identity:
    return Identity(meta["project"], meta["schema"], meta.get("generation", ""))


def _names(tables: tuple[str, ...]) -> set[str]:
    texts = (c.statement.text for c in schema(*tables))
    return {found[1] for text in texts if (found := _CREATED.match(text))}
