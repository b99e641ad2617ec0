"""What the read face lets in: one SELECT over the corpus, judged by its syntax tree and never by its text.

DuckDB's own parser gives the tree; to it WITH, FROM, VALUES, DESCRIBE, SHOW and SUMMARIZE are SELECTs too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import duckdb

from engine.errors import ReadRefused, StorageUnusable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FUNCTIONS: Final = frozenset({"generate_series", "json_each", "json_tree", "range", "repeat", "unnest"})
"""The table functions that touch neither files nor the session."""

_MISSING_COLUMN: Final = re.compile(r'(?:Referenced column|does not have a column named) "([^"]+)"')
_OF_A_PART: Final = re.compile(r"""Parquet file|\.parquet["']""")


@dataclass(frozen=True, slots=True)
class Statement:
    """One admitted SELECT and the names it reads from.

    `tables` must be there; `shadowed` are names of its own WITH, behind which a table may stand too.
    """

    text: str
    tables: tuple[str, ...]
    shadowed: tuple[str, ...]
    lists_tables: bool


def admitted(text: str, *, connection: duckdb.DuckDBPyConnection) -> Statement:
    """`text` as a statement. Raise `ReadRefused` for anything but one SELECT, and for functions that read files."""
    tree = _tree(text, connection=connection)
    nodes = list(_nodes(tree))
    functions = {name for name in map(_table_function, nodes) if name}
    if foreign := sorted(functions - FUNCTIONS):
        raise ReadRefused(reason=f"it calls {', '.join(foreign)}, and only the corpus's tables can be read")
    defined = {entry["key"].lower() for node in nodes for entry in _common_tables(node)}
    named = dict.fromkeys(node["table_name"] for node in nodes if node.get("type") == "BASE_TABLE")
    return Statement(
        text,
        tables=tuple(name for name in named if name.lower() not in defined),
        shadowed=tuple(name for name in named if name.lower() in defined),
        lists_tables=any(node.get("show_type") == "SHOW_SPECIAL" for node in nodes),
    )


def unknown(table: str, *, known: Iterable[str]) -> ReadRefused:
    """The refusal of a table nobody has committed to, with the names that are near and the names there are."""
    return ReadRefused(reason=f"there is no table {table!r}{_others(table, known, kind='tables')}")


def empty(table: str, *, pipeline: str) -> ReadRefused:
    """The refusal of a table that `pipeline` declares and into which nothing has landed."""
    return ReadRefused(reason=f"nothing has landed in {table!r} yet").advising(
        f"contextful pipeline run {pipeline} lands what its source has"
    )


def refusal(error: duckdb.Error, *, columns: Iterable[str]) -> ReadRefused:
    """DuckDB's own sentence about a function or a value, without its echo of the statement.

    A column that is not there is answered with the `columns` there are.
    """
    message = str(error)
    if missing := _MISSING_COLUMN.search(message):
        return ReadRefused(reason=f"there is no column {missing[1]!r}{_others(missing[1], columns, kind='columns')}")
    return ReadRefused(reason=_sentence(message))


def damage(error: duckdb.Error, *, missing: Sequence[str]) -> StorageUnusable | None:
    """What an error that no statement can cause says of the parts; None where the statement may be what is wrong.

    DuckDB gives its own errors classes; what its Parquet reader meets in damaged bytes comes as a bare `duckdb.Error`,
    and a part that is gone as many a refusal: in a session that is shut it is looked for as a folder.
    """
    if missing:
        return StorageUnusable(
            place=missing[0], reason="a commit names it and it is missing (contextful storage check)"
        )
    of_a_part = isinstance(error, duckdb.InvalidInputException) and _OF_A_PART.search(str(error))
    if type(error) not in (duckdb.Error, duckdb.IOException) and not of_a_part:
        return None
    told = f"a part cannot be read: {_sentence(str(error))} (contextful storage check names what is damaged)"
    return StorageUnusable(place="corpus", reason=told)


def _others(name: str, known: Iterable[str], *, kind: str) -> str:
    names = {each.lower(): each for each in known}
    near = [names[match] for match in get_close_matches(name.lower(), names, n=3)]
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"{hint} ({kind}: {', '.join(names.values()) or 'none yet'})"


def _tree(text: str, *, connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    row = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchone()
    document: dict[str, Any] = json.loads(row[0]) if row else {}
    if document.get("error_type") == "parser":
        raise ReadRefused(reason=document["error_message"])
    if document.get("error"):
        raise ReadRefused(reason="it is no SELECT")
    if (count := len(document["statements"])) != 1:
        raise ReadRefused(reason=f"it holds {count} statements" if count else "it is empty")
    return document


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(reversed(node.values()))
        elif isinstance(node, list):
            waiting.extend(reversed(node))


def _table_function(node: dict[str, Any]) -> str | None:
    return str(node["function"]["function_name"]).lower() if node.get("type") == "TABLE_FUNCTION" else None


def _common_tables(node: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (node.get("cte_map") or {}).get("map") or []
    return found


def _sentence(message: str) -> str:
    sentence = message.partition("\n\nLINE ")[0].partition("\nLINE ")[0]
    return " ".join(sentence.removeprefix(sentence.partition(": ")[0] + ": ").split())
