"""What a cron of the Worker starts."""

from __future__ import annotations

import asyncio

import pytest

from worker.scheduled import COMMAND, ENGINE, CommandsUnusable, declared, wake_due

HOURLY = '{"0 * * * *": "pipeline run orders --table lines", "5 4 * * *": "storage sweep"}'


def test_a_cron_starts_the_command_declared_for_its_expression_under_serve() -> None:
    assert declared(HOURLY, cron="0 * * * *") == (
        "pipeline-run-orders-table-lines",
        ["serve", "--", "pipeline", "run", "orders", "--table", "lines"],
    )


@pytest.mark.parametrize("text", [None, "", HOURLY])
def test_a_cron_without_a_command_starts_none(text: str | None) -> None:
    assert declared(text, cron="* * * * *") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "no JSON"), ("[]", "an object"), ('{"* * * * *": 5}', "an object"), ('{"a": " "}', "an object")],
)
def test_commands_that_are_none_are_refused_with_what_they_should_be(text: str, said: str) -> None:
    with pytest.raises(CommandsUnusable, match=f"COMMANDS.*{said}"):
        declared(text, cron="* * * * *")


@pytest.mark.parametrize("scopes", [[], ["table:orders", "host:job"]])
def test_one_engine_goes_on_with_everything_that_is_due(scopes: list[str]) -> None:
    woken: list[tuple[str, list[str]]] = []

    async def due(_sql: str, _now: int) -> list[str]:
        return scopes

    async def wake(name: str, command: list[str]) -> bool:
        woken.append((name, command))
        return True

    found = asyncio.run(wake_due(now=5, due=due, wake=wake))

    assert found == scopes
    assert woken == ([(ENGINE, list(COMMAND))] if scopes else [])
