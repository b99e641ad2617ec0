"""The private outbound binding, protocol 1: all that reaches D1 and R2, and no route of the public side."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyodide.ffi import JsException
from workers import WorkerEntrypoint, python_to_rpc

from worker import objects
from worker.answers import answer, problem
from worker.batches import AnswerNotExact, StatementFailed, run
from worker.life import Hearing
from worker.requests import PROTOCOL, OtherProtocol, Unacceptable, batch

if TYPE_CHECKING:
    from workers import Request, Response

_OBJECTS = "/v1/objects/"
_hearing = Hearing()


class Outbound(WorkerEntrypoint):
    """What a container reaches as `http://store.internal`; it is called by the props of its binding, never a header."""

    async def fetch(self, request: Request) -> Response:
        """Answer one request of the engine."""
        self._hear()
        address = urlsplit(request.url)
        version = address.path.split("/")[1]
        if version != f"v{PROTOCOL}" and version[:1] == "v" and version[1:].isdecimal():
            return answer(OtherProtocol(int(version[1:])).body, status=426)
        match request.method, address.path:
            case "POST", "/v1/batch":
                return await self._batch(request)
            case "GET", "/v1/health":
                return await self._health()
            case "GET", "/v1/objects":
                return await objects.listed(self._bucket, parse_qs(address.query))
            case method, path if path.startswith(_OBJECTS):
                return await objects.served(self._bucket, method, unquote(path.removeprefix(_OBJECTS)), request)
        return problem("unknown", f"nothing is served at {request.method} {address.path}", status=404)

    def _hear(self) -> None:
        caller = _caller(self.ctx)
        if caller and _hearing.due(caller, now=_now()):
            self.ctx.waitUntil(self.env.ENGINE.getByName(caller).heard())

    @property
    def _database(self) -> Any:
        return python_to_rpc(self.env.DB)

    @property
    def _bucket(self) -> Any:
        return python_to_rpc(self.env.BUCKET)

    async def _batch(self, request: Request) -> Response:
        try:
            statements = batch(await request.bytes(), now=_now())
            return answer({"results": await run(self._database, statements)})
        except OtherProtocol as other:
            return answer(other.body, status=426)
        except Unacceptable as refused:
            return answer(refused.body, status=400)
        except StatementFailed as failed:
            if failed.failure.refused:
                return answer(failed.failure.body(failed.statement), status=409)
            return problem("unavailable", failed.failure.text, status=503)
        except AnswerNotExact as lost:
            return problem("inexact", str(lost), status=500, statement=lost.statement)

    async def _health(self) -> Response:
        try:
            await self._database.prepare("SELECT 1 AS one").run()
            await self._bucket.head("health")
        except JsException as failed:
            return problem("unavailable", failed.message, status=503)
        return answer({"protocol": PROTOCOL, "now": _now(), "caller": _caller(self.ctx)})


def _now() -> int:
    return int(time.time() * 1000)


def _caller(ctx: Any) -> str | None:
    """Who holds the binding, as the props say that were given with it; None at the local edge's private port."""
    caller = getattr(getattr(ctx, "props", None), "caller", None)
    return caller if isinstance(caller, str) else None
