"""The span of a run, for whoever has configured an exporter of OpenTelemetry (run.record.run-span).

Where nobody has, nothing of it is imported: a run then costs what it cost. `contextful[otel]` brings what a command
needs; a program that holds an engine configures its own provider as it always does.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from engine.shapes import RunStatus, domain_hash

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.runs import RunRow
    from engine.trace import Caller

NAME: Final = "contextful.run"

_API: Final = "opentelemetry.trace"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Spans:
    """Opens a span for each run of an engine, as a child of `caller` where there is one, and ends it with the run.

    Without a caller a span is a child of the one that is current in this program, if any.
    """

    def __init__(self, caller: Caller | None) -> None:
        self._caller = caller
        self._open: dict[str, Any] = {}

    def begin(self, row: RunRow) -> str | None:
        """Begin the span of the run `row`; return the trace both have, the row's own where nothing says otherwise."""
        api = _api()
        if api is None:
            return row.trace_id
        span = _tracer(api).start_span(NAME, context=self._context(api), start_time=row.started_at * 1_000_000)
        trace_id = span.get_span_context().trace_id
        if not trace_id:  # nobody has configured a provider: the span stands for nothing
            return row.trace_id
        self._open[row.run_id] = span
        return f"{trace_id:032x}"

    def end(self, row: RunRow) -> None:
        """End the span of the run `row`, which has ended. A run that another process began gets one now."""
        api = _api()
        if api is None:
            return
        span = self._open.pop(row.run_id, None) or self._belated(api, row)
        for name, value in _attributes(row).items():
            span.set_attribute(name, value)
        if row.status is not RunStatus.SUCCESS:
            span.set_status(api.Status(api.StatusCode.ERROR, row.error["name"] if row.error else str(row.status)))
        span.end(end_time=(row.ended_at or row.started_at) * 1_000_000)

    def forget(self, run_id: str) -> None:
        """Drop the span of a run that goes on elsewhere, or under another id: it is never exported from here."""
        self._open.pop(run_id, None)

    def _context(self, api: Any) -> Any:
        """What a span of ours is a child of; None: of the span that is current in this program."""
        return None if self._caller is None else _remote(api, self._caller.trace_id, self._caller)

    def _belated(self, api: Any, row: RunRow) -> Any:
        """The span of a run that was begun in a process which is gone: in its trace, from its start."""
        caller = self._caller if self._caller and self._caller.trace_id == row.trace_id else None
        context = _remote(api, row.trace_id, caller, run_id=row.run_id) if row.trace_id else None
        return _tracer(api).start_span(NAME, context=context, start_time=row.started_at * 1_000_000)


def configured(environ: Mapping[str, str]) -> None:
    """Configure the exporters that the environment asks a command for, by the names their packages are known under.

    Nothing is done where none is asked for, where the SDK is not installed, or where a launcher has done it already.
    """
    names = environ.get("OTEL_TRACES_EXPORTER", "otlp" if any(map(environ.get, _ENDPOINTS)) else "none").split(",")
    if names == ["none"] or _API in sys.modules or find_spec("opentelemetry") is None:
        return
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms that only an exporter need pay

    points = [point for point in entry_points(group="opentelemetry_traces_exporter") if point.name in names]
    if not points:
        return
    sdk, export = import_module("opentelemetry.sdk.trace"), import_module("opentelemetry.sdk.trace.export")
    provider = sdk.TracerProvider()
    for point in points:
        provider.add_span_processor(export.BatchSpanProcessor(point.load()()))
    import_module(_API).set_tracer_provider(provider)


def _api() -> Any:
    """OpenTelemetry's API where this program has imported it: without that, nobody can have configured an exporter."""
    return import_module(_API) if _API in sys.modules else None


def _tracer(api: Any) -> Any:
    return api.get_tracer("contextful")


def _remote(api: Any, trace_id: str, caller: Caller | None, *, run_id: str = "") -> Any:
    """The context of a span in another process; of one that nobody remembers, an id that follows from the run's."""
    span_id = caller.span_id if caller else domain_hash("contextful.span", run_id)[:16]
    state = api.TraceState.from_header([caller.state] if caller and caller.state else [])
    flags = api.TraceFlags(api.TraceFlags.SAMPLED if caller is None or caller.sampled else api.TraceFlags.DEFAULT)
    context = api.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=flags, trace_state=state)
    return api.set_span_in_context(api.NonRecordingSpan(context))


def _attributes(row: RunRow) -> dict[str, str | int]:
    named = {
        "contextful.run_id": row.run_id,
        "contextful.pipeline": row.pipeline_id,
        "contextful.table": row.table,
        "contextful.host_scope": row.host_scope,
        "contextful.status": str(row.status),
        "contextful.rows": row.rows,
        "contextful.bytes": row.bytes,
        "contextful.failure_tag": row.error["tag"] if row.error else None,
    }
    return {name: value for name, value in named.items() if value is not None}
