"""The public side of the Worker, and cron."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from workers import Response, WorkerEntrypoint, python_to_rpc

from d1.guards.requests import place
from worker.batches import StatementFailed, run
from worker.operator import Counter
from worker.operator_credentials import Door
from worker.requests import Bind
from worker.scheduled import COMMANDS, CommandsUnusable, declared, wake_due

if TYPE_CHECKING:
    from workers import Request


class Default(WorkerEntrypoint):
    """What everybody reaches: only the operator's routes touch D1, for whoever proves to be one."""

    async def fetch(self, request: Request) -> Response:
        """Answer a request from outside."""
        if request.method == "GET" and urlsplit(request.url).path == "/healthz":
            return Response("ok\n", headers={"cache-control": "no-store"})
        asked = place(request.url)
        if asked and request.method == ("GET" if asked.token is None else "POST"):
            counter = Counter(python_to_rpc(self.env.DB), Door.of(self._variable), int(time.time() * 1000))
            return await counter.served(request, asked)
        return Response("not found\n", status=404)

    def _variable(self, name: str) -> str:
        value = getattr(self.env, name, None)
        return value if isinstance(value, str) else ""

    async def scheduled(self, controller: Any, _env: Any, _ctx: Any) -> None:
        """Start what is declared for this cron, and wake what is due."""
        try:
            if started := declared(getattr(self.env, COMMANDS, None), cron=controller.cron):
                name, command = started
                print(f"{name}: {'started' if await self._wake(name, command) else 'runs already'}")
        except CommandsUnusable as problem:
            print(problem)
        scopes = await wake_due(now=int(time.time() * 1000), due=self._due, wake=self._wake)
        print(f"due: {', '.join(scopes) or 'nothing'}")

    async def _due(self, sql: str, now: int) -> list[str]:
        try:
            [result] = await run(python_to_rpc(self.env.DB), [Bind(sql, (now,))])
        except StatementFailed as failed:
            if "no such table" not in failed.failure.text:
                raise
            return []  # no engine has initialized the database yet: nothing can be due
        return [scope for [scope] in result["rows"]]

    async def _wake(self, name: str, command: list[str]) -> bool:
        woken: bool = await self.env.ENGINE.getByName(name).wake(name, command)
        return woken
