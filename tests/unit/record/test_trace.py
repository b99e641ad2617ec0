"""The caller's trace as the environment names it: taken as the recommendation spells it, or not at all."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.trace import caller

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.clause("run.record.trace-context")
@pytest.mark.parametrize(
    ("parent", "sampled"),
    [(GOOD, True), (f"00-{TRACE}-{SPAN}-00", False), (f" {GOOD}\t", True), (f"01-{TRACE}-{SPAN}-03-more-9", True),
     (f"cc-{TRACE}-{SPAN}-02", False)],
)  # fmt: skip
def test_a_parent_is_taken_as_it_is_spelled(parent: str, sampled: bool) -> None:
    found = caller({"TRACEPARENT": parent})

    assert found is not None
    assert (found.trace_id, found.span_id, found.sampled) == (TRACE, SPAN, sampled)
    assert found.parent.startswith(f"00-{TRACE}-{SPAN}-")


@pytest.mark.clause("run.record.trace-context")
@pytest.mark.parametrize(
    "parent",
    ["", "junk", GOOD.upper(), f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01",
     f"00-{TRACE}-{SPAN}-01-more", f"00-{TRACE}-{SPAN}", f"00-{TRACE}-{SPAN}-1", f"0-{TRACE}-{SPAN}-01",
     f"00-{TRACE[:-1]}-{SPAN}-01", f"00-{TRACE}{SPAN}-01", f"01-{TRACE}-{SPAN}-01x", f"00-{TRACE}-{SPAN}-0g",
     f"{GOOD}\n", f"00-{TRACE[:-1]}\u0661-{SPAN}-01", f"{GOOD},{GOOD}"],
)  # fmt: skip
def test_one_that_is_misspelled_stands_for_no_caller(parent: str) -> None:
    assert caller({"TRACEPARENT": parent}) is None


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_text_is_an_error(parent: str, state: str) -> None:
    caller({"TRACEPARENT": parent, "TRACESTATE": state})
    found = caller({"TRACEPARENT": GOOD, "TRACESTATE": state})

    assert found is not None
    assert found.trace_id == TRACE


@pytest.mark.clause("run.record.trace-context")
@pytest.mark.parametrize(
    ("state", "taken"),
    [("congo=t61rcWkgMzE", "congo=t61rcWkgMzE"), ("a=1, b@x=2 ,", "a=1,b@x=2"), ("a=1,a=2", ""), ("A=1", ""),
     ("a", ""), ("a=b=c", ""), (",".join(f"k{n}=v" for n in range(33)), ""), ("a=ü", ""), ("a= ", "")],
)  # fmt: skip
def test_a_state_that_is_misspelled_is_dropped_without_its_parent(state: str, taken: str) -> None:
    found = caller({"TRACEPARENT": GOOD, "TRACESTATE": state})

    assert found is not None
    assert found.state == taken


@pytest.mark.clause("run.record.run-span")
def test_nothing_of_opentelemetry_is_imported_where_nobody_configured_it() -> None:
    program = "import sys, engine.project, engine.cli.session, engine.spans as s; s.configured({})\n"
    program += "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.clause("run.record.run-span")
def test_an_exporter_that_the_environment_asks_for_is_configured() -> None:
    program = """if True:
        from engine import spans
        from engine.runs import RunRow
        from engine.shapes import RunStatus
        spans.configured({"OTEL_TRACES_EXPORTER": "console"})
        mine = spans.Spans(None)
        row = RunRow("r-1", RunStatus.SUCCESS, 1000, ended_at=2000)
        assert mine.begin(row) is not None
        mine.end(row)
    """

    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, capture_output=True, text=True)

    assert '"name": "contextful.run"' in done.stdout
