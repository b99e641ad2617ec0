"""A run row has every field of the contract, and none is lost on its way through the record."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from engine.inputs import InputBounds
from engine.runs import Lease, RunRow
from engine.shapes import Connector, RunStatus
from tests.clocks import START

CONTRACT = {
    "run_id", "fire_id", "pipeline_id", "table", "host_scope", "execution_id", "plan_ref", "phase", "status", "owner",
    "site_id", "started_at", "ended_at", "next_attempt_at", "rows", "bytes", "batches", "skipped", "error",
    "failed_branches", "bound_hits", "stop", "connector", "input", "reason", "trace_id",
}  # fmt: skip
BARE = RunRow("q", RunStatus.RUNNING, 0)
WHOLE = RunRow(
    "r", RunStatus.FAILED, START, execution_id="x-1", fire_id="f-1", pipeline_id="shop", table="orders", chunk="2026",
    host_scope="job", plan_ref="plan", site_id="laptop", ended_at=START + 1, next_attempt_at=START + 2, rows=3, bytes=4,
    batches=5, skipped=6, not_admitted=7, replayed=8, masked=9, error={"tag": "Transient", "name": "N", "message": "m"},
    failed_branches=({"label": "both/bad", "tag": "Transient"},), reason="enough", trace_id="a" * 32,
    bound_hits=({"step": "ask", "attempt": 1, "bound": "call-deadline"},),
    stop={"requested_at": START, "scope": "run", "reason": None}, connector=Connector("file", "2", "c0de", "elsewhere"),
    input=InputBounds(START, {"orders": "r-1"}, 2), owner=Lease(7, "boot", START + 3),
)  # fmt: skip
NAMES = [field.name for field in fields(RunRow)]


@pytest.mark.clause("run.record.columns")
def test_a_row_is_shown_with_every_field_of_the_contract() -> None:
    assert set(WHOLE.projection()) >= CONTRACT
    assert set(BARE.projection()) >= CONTRACT


@pytest.mark.clause("run.record.columns")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "owner"])
def test_every_field_outlives_the_record(name: str) -> None:
    read = RunRow.from_record(WHOLE.record)

    assert getattr(read, name) == getattr(WHOLE, name) != getattr(BARE, name)


@pytest.mark.clause("run.record.error-cap")
@pytest.mark.parametrize("text", ["é" * 1_100, "🐎" * 513, "e" * 2_049])
def test_an_error_is_cut_by_its_bytes_however_few_its_characters(text: str) -> None:
    shown = replace(WHOLE, error={"tag": "Permanent", "name": "N", "message": text}).projection()["error"]["message"]

    assert 2_040 < len(shown.encode()) <= 2_048
    assert shown.endswith(f"{text[0]}…")


@pytest.mark.clause("run.record.columns")
def test_who_holds_a_run_is_machine_state_and_never_recorded() -> None:
    assert WHOLE.record == replace(WHOLE, owner=None).record
    assert RunRow.from_record(WHOLE.record, owner=WHOLE.owner).owner == WHOLE.owner
