"""The operator's routes: who asks is proven first, and only then is D1 touched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from d1.guards.answers import status_of, told
from d1.guards.desk import listed, looked, looking, planned, shows
from d1.guards.refusals import OTHER, Tally
from d1.guards.requests import LARGEST, listing, reconcile
from d1.guards.statements import bound
from engine.errors import (
    ExecutionSchemaIncompatible,
    NamedError,
    OperatorCredentialRefused,
    OperatorRequestUnusable,
    StorageBindingUnavailable,
)
from engine.operator.claims import NotProven, Reason
from engine.sql import SCHEMA_VERSION
from worker.answers import answer
from worker.batches import StatementFailed, run
from worker.requests import Bind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workers import Request, Response

    from d1.guards.desk import Looked, Plan
    from d1.guards.requests import Place, Reconcile
    from engine.ports import Call
    from worker.operator_credentials import Door

_tally = Tally()


@dataclass(frozen=True, slots=True)
class Counter:
    """Serves operators at one instant, `now`: `database` is D1, `door` what proves who asks."""

    database: Any
    door: Door
    now: int

    async def served(self, request: Request, asked: Place) -> Response:
        """Answer a request at an operator route."""
        try:
            who = await self._identified(request, asked)
            if asked.token is None:
                return answer(await self._listed(asked))
            return answer(await self._reconciled(asked, await _body(request), who=who))
        except NotProven as refusal:
            return await self._refused(refusal, asked)
        except NamedError as error:
            return answer(told(error), status=status_of(error))

    async def _identified(self, request: Request, asked: Place) -> str:
        """Raise `NotProven` unless somebody who may asks for this Worker's project."""
        headers = request.headers
        who = await self.door.identified(
            authorization=headers.get("authorization"),
            assertion=headers.get("cf-access-jwt-assertion"),
            now=self.now,
        )
        if asked.project != self.door.project:
            raise NotProven(Reason.PROJECT, f"this Worker serves the project {self.door.project} alone")
        return who

    async def _refused(self, refusal: NotProven, asked: Place) -> Response:
        """Count a refusal, tell the log, and answer it. No part of the credential goes anywhere."""
        project = self.door.project if asked.project == self.door.project else OTHER
        print(f"operator refused: {refusal.reason} (project {project})")
        if calls := _tally.count(refusal.reason, project, now=self.now):
            try:
                await self._run(calls)
            except StatementFailed as failed:
                print(f"the refusal was not recorded: {failed.failure.text}")
        error = OperatorCredentialRefused(reason=refusal.reason, found=refusal.found, project=asked.project)
        return answer(told(error, now_s=self.now // 1000), status=status_of(error))

    async def _listed(self, asked: Place) -> dict[str, Any]:
        token = listing(asked).token
        return listed(await self._looked(token), token=token, now=self.now)

    async def _reconciled(self, asked: Place, body: bytes, *, who: str) -> dict[str, Any]:
        wanted = reconcile(asked, body)
        wanted = replace(wanted, operator=f"{wanted.operator} ({who})")
        plan = planned(await self._looked(wanted.token), wanted)
        if plan.calls:
            await self._apply(plan, wanted)
            print(f"guard {wanted.token} reconciled by {wanted.operator}")
        return plan.document

    async def _apply(self, plan: Plan, wanted: Reconcile) -> None:
        """Run the batch; where D1 gives no answer, what stands tells whether it was applied."""
        try:
            await self._run(plan.calls)
        except StatementFailed as failed:
            if failed.failure.refused:
                raise plan.refused(failed.failure.text) or _unavailable(failed, applied="no") from None
            if not await self._applied(wanted):
                raise _unavailable(failed, applied="unknown") from None

    async def _applied(self, wanted: Reconcile) -> bool:
        """Whether what stands shows that it was done; no where nobody can look."""
        try:
            return shows(await self._looked(wanted.token), wanted)
        except StorageBindingUnavailable:
            return False

    async def _looked(self, token: str | None) -> Looked:
        try:
            rows = await self._run(looking(token))
        except StatementFailed as failed:
            if "no such table" in failed.failure.text:
                raise ExecutionSchemaIncompatible(found="none", supported=str(SCHEMA_VERSION)) from None
            raise _unavailable(failed, applied="no") from None
        return looked(rows, project=self.door.project)

    async def _run(self, calls: Iterable[Call]) -> list[Any]:
        results = await run(self.database, [Bind(*each) for each in bound(calls, now=self.now)])
        return [each["rows"] for each in results]


async def _body(request: Request) -> bytes:
    """Raise `OperatorRequestUnusable` for more than a value and what goes with it."""
    told_size = request.headers.get("content-length") or ""
    if not told_size.isdecimal() or int(told_size) > LARGEST:
        raise OperatorRequestUnusable(found=f"the body must tell its size, at most {LARGEST} bytes")
    content: bytes = await request.bytes()
    return content


def _unavailable(failed: StatementFailed, *, applied: Any) -> StorageBindingUnavailable:
    return StorageBindingUnavailable(place="D1", reason=failed.failure.text, applied=applied)
