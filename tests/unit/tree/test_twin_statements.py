"""Statements that stand twice, as one text cannot serve both: they differ where they must and nowhere else."""

from __future__ import annotations

import pytest

from engine.sql import statement


@pytest.mark.clause("run.callback-guard.acquire")
def test_a_guard_is_acquired_alike_where_the_journal_is_a_table_and_where_it_is_files() -> None:
    table = statement("acquire_guard").text
    claimed = """
 WHERE j.execution_id = :execution_id AND j.step = :step AND j.input = :input AND j.claim = :claim
   AND j.value IS NULL AND j.digest IS NULL"""
    assert claimed in table

    files = (
        table.replace("FROM journal AS j\n  JOIN json_each", "FROM json_each")
        .replace("j.admitted_at", "COALESCE(:first_admitted_at, :now)")
        .replace(claimed, "")
    )

    assert statement("acquire_guard_apart").text == files


@pytest.mark.clause("run.callback-guard.scope")
@pytest.mark.parametrize("trigger", ["create_{}_kept", "create_{}_not_replaced"])
def test_guarded_owners_and_leases_are_kept_alike(trigger: str) -> None:
    owners, leases = (statement(trigger.format(table)).text for table in ("owners", "leases"))

    assert leases == owners.replace("owner", "lease").replace("scope", "key")
