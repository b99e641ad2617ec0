"""What a store must hold before work is admitted, and the one verb that makes it so.

`initialize` is the only statement that creates tables; a preflight looks and refuses, because an empty replacement for
a missing table would erase the evidence of a partial restore (run.journal.execution-schema).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from engine.errors import ExecutionRecoveryMismatch, ExecutionSchemaIncompatible
from engine.sql import SCHEMA_VERSION, call, schema

if TYPE_CHECKING:
    from engine.ports import Database

_CREATED: Final = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")


def initialize(database: Database, *, project: str, tables: tuple[str, ...]) -> None:
    """Create what is missing of a new store and name the project it belongs to; repeating it changes nothing."""
    database.run(
        *schema(*tables),
        call("set_meta", name="schema", value=str(SCHEMA_VERSION)),
        call("set_meta", name="project", value=project),
    )


def is_empty(database: Database) -> bool:
    """Whether the store holds no table of any kind: nobody has ever initialized it."""
    return not database.run(call("list_tables"))[0]


def preflight(database: Database, *, project: str, tables: tuple[str, ...]) -> None:
    """Refuse a store that lacks tables, is of another schema or belongs to another project; create nothing."""
    present = {name for (name,) in database.run(call("list_tables"))[0]}
    missing = sorted(_names(tables) - present)
    if missing:
        raise ExecutionRecoveryMismatch(found=f"the table{'s' * (len(missing) > 1)} {', '.join(missing)} missing")
    meta: dict[str, str] = dict(database.run(call("read_meta"))[0])
    if meta.get("schema") != str(SCHEMA_VERSION):
        raise ExecutionSchemaIncompatible(found=meta.get("schema", "none"), supported=str(SCHEMA_VERSION))
    if meta.get("project") != project:
        raise ExecutionRecoveryMismatch(found=f"it belongs to project {meta.get('project')!r}, not {project!r}")


def _names(tables: tuple[str, ...]) -> set[str]:
    texts = (c.statement.text for c in schema(*tables))
    return {found[1] for text in texts if (found := _CREATED.match(text))}
