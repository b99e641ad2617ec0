"""The trace of a run, and the span that is exported for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from engine.errors import ExecutionPinMismatch
from engine.execution.endings import Endings
from engine.history import RESERVED
from engine.runs import RunRow
from engine.shapes import RunStatus
from engine.spans import Spans
from engine.trace import Caller, caller
from tests.clocks import START
from tests.pipeline.conftest import orders
from tests.stores import Effect

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from engine.host import Engine
    from tests.pipeline.conftest import Shop

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = caller({"TRACEPARENT": f"00-{TRACE}-{SPAN}-01", "TRACESTATE": "congo=t61"})


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What is exported, by a provider of this test alone."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


def called(shop: Shop, by: Caller | None = CALLER, *, engine: Engine | None = None) -> Engine:
    """An engine whose caller handed its span over."""
    engine = engine or shop.store.engine()
    engine.settings = replace(engine.settings, caller=by)
    engine.spans = Spans(by)
    engine.room = replace(engine.room, ended=Endings(engine.spans, engine.profile.publish))
    return engine


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


def traces(shop: Shop, run_id: str) -> set[tuple[str, str]]:
    """Phase and trace of each row in the reserved table."""
    objects = shop.store.here.profile.objects
    rows = [json.loads(objects.get(name) or b"") for name in objects.list(f"{RESERVED}/") if f"-{run_id}-" in name]
    return {(row["phase"], row["trace_id"]) for row in rows}


@pytest.mark.clause("run.record.trace-context")
def test_both_rows_of_a_run_carry_the_callers_trace(shop: Shop) -> None:
    shop.feed.serves(orders(1))

    row = shop.run(run_id="r", engine=called(shop))

    assert row.trace_id == TRACE
    assert traces(shop, "r") == {("plan", TRACE), ("commit", TRACE)}


@pytest.mark.clause("run.record.trace-context")
def test_without_a_caller_each_run_has_a_fresh_trace_on_both_rows(shop: Shop) -> None:
    shop.feed.serves(orders(1))

    first, second = shop.run(run_id="a"), shop.run(run_id="b")

    assert first.trace_id != second.trace_id
    assert len(first.trace_id or "") == 32
    assert traces(shop, "a") == {("plan", first.trace_id), ("commit", first.trace_id)}


@pytest.mark.clause("run.record.run-span", "run.record.trace-context")
def test_a_run_exports_one_span_that_is_a_child_of_its_callers(shop: Shop, exported: InMemorySpanExporter) -> None:
    shop.feed.serves(orders(1, 2), orders(3))

    row = shop.run(run_id="r", engine=called(shop))

    span = only(exported)
    assert span.name == "contextful.run"
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, SPAN)
    assert span.parent.trace_state.get("congo") == "t61"
    assert span.attributes == {
        "contextful.run_id": "r", "contextful.pipeline": "shop", "contextful.table": "orders",
        "contextful.status": "success", "contextful.rows": 3, "contextful.bytes": row.bytes,
    }  # fmt: skip
    assert (span.start_time, span.end_time) == (row.started_at * 1_000_000, (row.ended_at or 0) * 1_000_000)


@pytest.mark.clause("run.record.run-span", "run.record.trace-context")
def test_without_a_caller_the_span_is_a_root_and_its_trace_is_on_both_rows(
    shop: Shop, exported: InMemorySpanExporter
) -> None:
    shop.feed.serves(orders(1))

    shop.run(run_id="r")

    span = only(exported)
    assert span.parent is None
    assert traces(shop, "r") == {(phase, f"{span.context.trace_id:032x}") for phase in ("plan", "commit")}


@pytest.mark.clause("run.record.run-span")
def test_a_failed_run_exports_its_span_with_the_failures_tag(shop: Shop, exported: InMemorySpanExporter) -> None:
    shop.feed.serves(orders(1))
    shop.feed.failures = {0: ValueError("the first page")}

    shop.run(run_id="r", engine=called(shop))

    span = only(exported)
    assert span.attributes is not None
    assert (span.attributes["contextful.status"], span.attributes["contextful.failure_tag"]) == ("failed", "Permanent")
    assert span.status.status_code is StatusCode.ERROR


@pytest.mark.clause("run.record.run-span")
def test_a_host_run_exports_its_span_below_the_current_one(shop: Shop, exported: InMemorySpanExporter) -> None:
    program = trace.get_tracer("a program")
    with program.start_as_current_span("outer") as outer, shop.store.open("job", run_id="r") as execution:
        execution.step("one", Effect())

    inner, _ = exported.get_finished_spans()
    assert inner.attributes is not None
    assert (inner.name, inner.attributes["contextful.host_scope"]) == ("contextful.run", "job")
    assert inner.parent is not None
    assert inner.parent.span_id == outer.get_span_context().span_id
    assert shop.store.run("r").trace_id == f"{outer.get_span_context().trace_id:032x}"


@pytest.mark.clause("run.record.run-span")
def test_a_refused_open_exports_what_its_row_says(shop: Shop, exported: InMemorySpanExporter) -> None:
    pending = shop.store.open("job", plan="plan-a", run_id="first")
    pending.step("one", Effect())
    with pytest.raises(ValueError, match="mine"), pending:
        raise ValueError("mine")

    with pytest.raises(ExecutionPinMismatch):
        shop.store.open("job", plan="plan-b", run_id="refused")

    spans = [dict(span.attributes or {}) for span in exported.get_finished_spans()]
    assert [(span["contextful.run_id"], span["contextful.status"]) for span in spans] == [
        ("first", "failed"),
        ("refused", "failed"),
    ]
    assert shop.store.run("refused").trace_id == f"{exported.get_finished_spans()[1].context.trace_id:032x}"


@pytest.mark.clause("run.record.run-span", "run.record.trace-context")
@pytest.mark.parametrize("by", [CALLER, None], ids=["the same caller", "another"])
def test_a_run_that_another_process_began_exports_its_span_in_its_own_trace(
    exported: InMemorySpanExporter, by: Caller | None
) -> None:
    row = RunRow("r", RunStatus.SUCCESS, START, ended_at=START + 5, trace_id=TRACE)

    Spans(by).end(row)

    span = only(exported)
    assert (f"{span.context.trace_id:032x}", span.start_time) == (TRACE, START * 1_000_000)
    assert span.parent is not None
    assert (f"{span.parent.span_id:016x}" == SPAN) is (by is not None)
