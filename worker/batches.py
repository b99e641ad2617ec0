"""Runs a batch on D1: one transaction, and a failure's answer names the statement that failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import js
from pyodide.ffi import JsException, jsnull, to_js

from worker.columns import reads
from worker.failures import PROBE, Failure, failure
from worker.values import NotExact, answered

if TYPE_CHECKING:
    from worker.requests import Bind


class StatementFailed(Exception):
    """D1 rolled the batch back, or nobody knows: `failure.refused` tells."""

    def __init__(self, failure: Failure, *, statement: int | None) -> None:
        super().__init__(failure.text)
        self.failure = failure
        self.statement = statement


class AnswerNotExact(Exception):
    """The batch went through and a value of its answer lost bits."""

    def __init__(self, problem: NotExact, *, statement: int) -> None:
        super().__init__(str(problem))
        self.statement = statement


async def run(database: Any, statements: list[Bind]) -> list[dict[str, Any]]:
    """Run `statements` as one batch of the raw binding `database`. Raise `StatementFailed`, `AnswerNotExact`."""
    try:
        results = await _batch(database, statements)
    except JsException as problem:
        found = failure(problem.message)
        index = await _culprit(database, statements, found) if found.refused else None
        raise StatementFailed(found, statement=index) from None
    # JSON is the one road on which null, BLOBs, names and numbers all arrive as what they are.
    return [_result(each, index) for index, each in enumerate(json.loads(js.JSON.stringify(results)))]


async def _batch(database: Any, statements: list[Bind]) -> Any:
    prepared = [database.prepare(each.sql).bind(*map(_js, each.values)) for each in statements]
    return await database.batch(to_js(prepared))


def _js(value: Any) -> Any:
    if value is None:
        return jsnull
    return to_js(value) if isinstance(value, bytes) else value


def _result(result: dict[str, Any], index: int) -> dict[str, Any]:
    meta = result["meta"]
    try:
        rows = [[answered(cell) for cell in row.values()] for row in result["results"]]
    except NotExact as problem:
        raise AnswerNotExact(problem, statement=index) from None
    return {"rows": rows, **{name: meta.get(name, 0) for name in ("changes", "rows_read", "rows_written")}}


async def _culprit(database: Any, statements: list[Bind], found: Failure) -> int | None:
    """The index of the statement that failed, which D1 does not tell; None when the failure does not come again.

    A constraint is met by what writes; where that leaves several, shorter and shorter heads of the batch are tried,
    each with a statement after it that always fails, so that none of them leaves anything.
    """
    suspects = [i for i, each in enumerate(statements) if not (found.constraint and reads(each.sql))]
    low, high = 0, len(suspects) - 1
    if high < 0:
        return None
    while low < high:
        middle = (low + high) // 2
        if await _passes(database, statements[: suspects[middle] + 1]):
            low = middle + 1
        else:
            high = middle
    return suspects[low]


async def _passes(database: Any, head: list[Bind]) -> bool:
    probe = database.prepare(f"SELECT json_extract('{{}}', '{PROBE}')")
    prepared = [database.prepare(each.sql).bind(*map(_js, each.values)) for each in head]
    try:
        await database.batch(to_js([*prepared, probe]))
    except JsException as problem:
        return PROBE in problem.message
    return True
