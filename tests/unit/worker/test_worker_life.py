"""What an object does with its container, whatever the platform does to both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from worker.environment import environment
from worker.failures import failure
from worker.life import BEAT_MS, DRAIN_MS, HEARD_EVERY_MS, SILENT_MS, Hearing, Life
from worker.scheduled import COMMAND, ENGINE, wake_due

if TYPE_CHECKING:
    from collections.abc import Coroutine

COMMAND_LINE = ["run", "resume-due"]


class Remembering:
    """A container and a storage that outlive the `Life` objects over them."""

    def __init__(self) -> None:
        self.running = False
        self.did: list[str] = []
        self.kept: dict[str, int] = {}
        self.alarm: int | None = None

    async def intercept(self) -> None:
        self.did.append("intercept")

    def start(self, command: list[str]) -> None:
        assert not self.running
        self.running = True
        self.did.append(" ".join(["start", *command]))

    def terminate(self) -> None:
        self.did.append("terminate")

    async def destroy(self) -> None:
        self.running = False
        self.did.append("destroy")

    async def recall(self, name: str) -> int | None:
        return self.kept.get(name)

    async def keep(self, name: str, instant: int | None) -> None:
        self.kept = (
            {**self.kept, name: instant} if instant is not None else {k: v for k, v in self.kept.items() if k != name}
        )

    async def look_again(self, at: int) -> None:
        self.alarm = at


@pytest.fixture
def container() -> Remembering:
    return Remembering()


def do(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def test_a_container_is_intercepted_before_every_start(container):
    life = Life(container)

    assert do(life.wake(COMMAND_LINE, now=0))
    container.running = False
    assert do(life.wake(COMMAND_LINE, now=5))

    assert container.did == ["intercept", "start run resume-due"] * 2
    assert container.alarm == 5 + BEAT_MS


def test_an_object_that_returns_intercepts_a_running_container_once_and_a_stopped_one_not(container):
    do(Life(container).wake(COMMAND_LINE, now=0))
    returned = Life(container)

    do(returned.beat(now=1))
    do(returned.beat(now=2))
    container.running = False
    do(Life(container).beat(now=3))

    assert container.did[2:] == ["intercept"]


def test_a_container_that_claims_to_run_and_is_never_heard_is_ended(container):
    do(Life(container).wake(COMMAND_LINE, now=0))

    do(Life(container).beat(now=SILENT_MS - 1))
    assert container.running
    do(Life(container).beat(now=SILENT_MS))
    assert not container.running


def test_a_container_that_is_heard_goes_on(container):
    life = Life(container)
    do(life.wake(COMMAND_LINE, now=0))
    do(life.heard(now=SILENT_MS))

    do(life.beat(now=SILENT_MS + 5))

    assert container.running
    assert container.alarm == SILENT_MS + 5 + BEAT_MS


def test_a_container_drains_until_its_time_is_over(container):
    life = Life(container)
    do(life.wake(COMMAND_LINE, now=0))
    do(life.stop(now=10))
    do(life.heard(now=DRAIN_MS))

    do(life.beat(now=9 + DRAIN_MS))
    assert container.running
    do(life.beat(now=10 + DRAIN_MS))
    assert container.did[2:] == ["terminate", "destroy"]


def test_a_start_after_a_drain_is_not_overdue(container):
    life = Life(container)
    do(life.wake(COMMAND_LINE, now=0))
    do(life.stop(now=0))
    container.running = False
    do(life.wake(COMMAND_LINE, now=DRAIN_MS))

    do(life.beat(now=DRAIN_MS + 1))

    assert container.running


def test_nothing_is_asked_to_end_that_does_not_run(container):
    do(Life(container).stop(now=0))
    do(Life(container).beat(now=0))

    assert container.did == []
    assert container.alarm is None


def test_an_engine_is_heard_once_an_interval():
    hearing = Hearing()

    heard = [hearing.due("a", now=now) for now in (0, 1, HEARD_EVERY_MS - 1, HEARD_EVERY_MS)]

    assert heard == [True, False, False, True]
    assert hearing.due("b", now=1)


def test_an_engine_gets_the_secrets_that_are_named_and_no_other():
    variables = {"ENGINE_ENVIRONMENT": "API_TOKEN", "API_TOKEN": "t", "OPERATOR_CREDENTIAL": "o", "DB": object()}

    given = environment(variables.get, name="engine")

    assert given == {
        "API_TOKEN": "t",
        "CONTEXTFUL_STORAGE_PROFILE": "cloudflare-d1",
        "CONTEXTFUL_BINDING_URL": "http://store.internal",
        "CONTEXTFUL_SITE_ID": "engine",
    }


def test_a_secret_that_is_named_and_not_there_stops_the_start():
    variables = {"ENGINE_ENVIRONMENT": "API_TOKEN DB", "DB": object()}

    with pytest.raises(LookupError, match="API_TOKEN, DB"):
        environment(variables.get, name="engine")


@pytest.mark.parametrize(("scopes", "woken"), [([], []), (["table:a", "table:b"], [(ENGINE, list(COMMAND))])])
def test_one_engine_is_woken_for_all_that_is_due(scopes: list[str], woken: list[Any]):
    calls: list[Any] = []

    async def due(_sql: str, _now: int) -> list[str]:
        return scopes

    async def wake(name: str, command: list[str]) -> bool:
        calls.append((name, command))
        return True

    assert do(wake_due(now=1, due=due, wake=wake)) == scopes
    assert calls == woken


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        ("D1_ERROR: UNIQUE constraint failed: t.id: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_PRIMARYKEY)",
         "SQLITE_CONSTRAINT_PRIMARYKEY", "UNIQUE constraint failed: t.id"),
        ("D1_ERROR: NOT NULL constraint failed: a.b: SQLITE_CONSTRAINT", "SQLITE_CONSTRAINT",
         "NOT NULL constraint failed: a.b"),
        ("D1_ERROR: no such table: x: SQLITE_ERROR", "SQLITE_ERROR", "no such table: x"),
        ("D1_ERROR: Wrong number of parameter bindings for SQL query.", "SQLITE_ERROR",
         "Wrong number of parameter bindings for SQL query."),
    ],
)  # fmt: skip
def test_a_failed_statement_is_read_from_its_message(message: str, code: str, text: str):
    found = failure(message)

    assert (found.refused, found.code, found.text) == (True, code, text)
    assert found.constraint == code.startswith("SQLITE_CONSTRAINT")


@pytest.mark.parametrize(
    "message",
    ["D1_ERROR: Network connection lost.", "D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
     "D1_ERROR: D1 DB reset because its code was updated.", "D1_ERROR: disk I/O error: SQLITE_IOERR",
     "D1_ERROR: database is locked: SQLITE_BUSY", "D1_ERROR: out of memory: SQLITE_NOMEM",
     "D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.", "D1_ERROR: anything else"],
)  # fmt: skip
def test_an_error_that_is_not_a_statements_own_leaves_the_outcome_unknown(message: str):
    assert not failure(message).refused
