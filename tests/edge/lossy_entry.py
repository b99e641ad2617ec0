"""The Worker over a D1 that loses the answer to a release: before anything is applied, or afterwards."""

from __future__ import annotations

from typing import Any

import js
from workers import Response, python_to_rpc

from d1.guards.requests import place
from worker import container, operator, operator_credentials, outbound, public

__all__ = ["Default", "EngineContainer", "Outbound"]

Outbound = outbound.Outbound
EngineContainer = container.EngineContainer

RELEASES = 5
"""The statements of the batch that releases a guard; no other has as many."""


class LossyDatabase:
    """D1, but for the answers that a request asks it to lose: of a release, and of every look after it."""

    def __init__(self, database: Any, loses: str) -> None:
        self._database = database
        self._loses = loses
        self._lost = False

    def prepare(self, sql: str) -> Any:
        return self._database.prepare(sql)

    async def batch(self, statements: Any) -> Any:
        releases = statements.length == RELEASES
        if self._loses and releases:
            self._lost = True
            if self._loses != "before":
                await self._database.batch(statements)
            js.JSON.parse("Network connection lost.")
        if self._lost and self._loses == "everything after":
            js.JSON.parse("Network connection lost.")
        return await self._database.batch(statements)


class Default(public.Default):
    """Serves operators over the lossy database."""

    async def fetch(self, request: Any) -> Response:
        asked = place(request.url)
        assert asked
        database = LossyDatabase(python_to_rpc(self.env.DB), request.headers.get("x-loses") or "")
        door = operator_credentials.Door.of(self._variable)
        return await operator.Counter(database, door, int(js.Date.now())).served(request, asked)
