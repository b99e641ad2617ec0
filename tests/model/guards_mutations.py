"""The rules of guards as they are when one of them is switched off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from engine.errors import EffectOverdue, ExecutionGuardEvidenceMismatch
from engine.execution.cover import MARGIN_MS
from engine.guards.evidence import Evidence, Proof, judged
from engine.guards.rules import ENDINGS, Ending, Mark, Settling
from engine.sql import call
from tests.model.replay import without

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from engine.execution.cover import Cover
    from engine.execution.leases import Leases
    from engine.guards.asked import Asked
    from engine.guards.guard import Standing
    from engine.ports import Rows, Statement

UNANSWERED_CLEARS: Final[Mapping[tuple[Ending, bool], Settling]] = {
    **ENDINGS,
    (Ending.UNANSWERED, False): Settling(releases=True, mark=Mark.CLEARED),
}

REFUSING: Final = "INSERT INTO refusals (reason)\n"


def never(statement: Statement) -> Statement:
    """A statement that refuses nothing."""
    return replace(statement, text=f"{statement.text.replace(REFUSING, REFUSING + 'SELECT * FROM (', 1)}) WHERE 0")


def nowhere(statement: Statement) -> Statement:
    """An update of no row."""
    return without("WHERE scope", "WHERE 0 AND scope")(statement)


def untriggered(statement: Statement) -> Statement:
    """A trigger that meets no guard."""
    return without("FROM guards WHERE", "FROM guards WHERE 0 AND")(statement)


def anybody_records(statement: Statement) -> Statement:
    """A record of whoever comes."""
    return without(" AND claim = :claim")(without("AND attempt = :run_id AND holder = :holder")(statement))


def any_status_answers(_: int, *, refusals: Collection[int]) -> bool:
    """Whatever came back is an answer."""
    return True


def every_answer_refuses(statuses: Collection[int | None], *, refusals: Collection[int]) -> Ending:
    """What raised has done nothing."""
    return Ending.REFUSED if statuses else Ending.UNSENT


def unchecked(_: Cover, *, timeout_ms: float = 0) -> None:
    """Let every request leave."""


def leased(cover: Cover, *, timeout_ms: float = 0) -> None:
    """Let a request leave by its lease alone."""
    if cover.clock.elapsed() + MARGIN_MS >= cover.leases.known_until(cover.run_id):
        raise EffectOverdue(step=cover.step, lapsed="its lease is not known to run")


def exits_at_once(leases: Leases) -> bool:
    """Record the exit, whoever is still at work."""
    leases._db.run(call("exit_holder", holder=leases.holder))
    return True


def judged_without_absence(text: str, standing: Standing) -> Evidence:
    """Know receipts of what was done alone."""
    given = judged(text, standing)
    if given.proof is Proof.ABSENCE:
        raise ExecutionGuardEvidenceMismatch(token=standing.guard.token, found=text)
    return given


def taken_for_success(_: Any, asked: Asked) -> list[Rows]:
    """Find every admission applied."""
    return [[(0, None)], [(row, 0, None) for row in asked.protected]]


def forgotten(_: Any, asked: Asked, *, mark: Mark) -> None:
    """Remember no admission of which nothing tells."""
