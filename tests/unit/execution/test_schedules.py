"""A schedule that a program makes is checked as one that a manifest declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import engine
from engine.errors import ManifestInvalid, RunRetryTagUnretryable, ScheduleUnusable
from engine.pipeline.manifest import load
from engine.schedule import RETRYABLE
from engine.shapes import FailureTag
from tests.unit.manifest.mistakes import IN_SOURCE, source

if TYPE_CHECKING:
    from pathlib import Path

BAD: list[tuple[str, Any, str]] = [
    ("attempts", 0, "0"), ("attempts", -1, "-1"), ("attempts", 10_001, "10001"), ("attempts", 2.0, "2.0"),
    ("attempts", True, "true"), ("base_ms", -1, "-1"), ("base_ms", 86_400_001, "86400001"),
    ("max_delay_ms", -1, "-1"), ("jitter_ms", -1, "-1"), ("jitter_ms", "9", '"9"'), ("factor", 0.5, "0.5"),
    ("factor", 101, "101"), ("factor", float("nan"), "nan"), ("factor", float("inf"), "inf"),
    ("backoff", "zig", '"zig"'), ("backoff", [], "[]"), ("retry_on", [], "[]"),
    ("retry_on", "Transient", '"Transient"'), ("retry_on", [7], "[7]"),
]  # fmt: skip


@pytest.mark.clause("run.retry.schedule")
@pytest.mark.parametrize(("name", "value", "toml"), BAD)
def test_what_a_manifest_may_not_declare_a_program_may_not_make_and_both_say_the_same(
    tmp_path: Path, name: str, value: Any, toml: str
) -> None:
    path = tmp_path / "contextful.toml"
    path.write_text(source(f"retry = {{ {name} = {toml} }}"), encoding="utf-8")
    with pytest.raises(ManifestInvalid) as declared:
        load(path, {})

    with pytest.raises(ScheduleUnusable) as made:
        engine.Schedule(**{name: value})

    (told,), (said,) = made.value.problems, declared.value.problems
    assert told.startswith(f"{name}: found ")
    assert said.startswith(f"{IN_SOURCE}retry.{name}")
    assert told.split("; allowed: ")[1] == said.split("; allowed: ")[1]


def test_all_problems_of_a_schedule_are_told_at_once() -> None:
    with pytest.raises(ScheduleUnusable) as refusal:
        engine.Schedule(attempts=0, backoff="zig", retry_on=frozenset({FailureTag.PERMANENT}))

    assert str(refusal.value) == (
        "no schedule is like this: attempts: found 0; allowed: a whole number from 1 to 10000"
        ' | backoff: found \'zig\'; allowed: "exponential", "fixed"'
        " | retry_on names Permanent, which no schedule retries; name Transient, RateLimited or both"
    )


@pytest.mark.clause("run.retry.unretryable-tag")
@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
@pytest.mark.parametrize("tag", ["Permanent", "transient", FailureTag.STORAGE])
def test_a_tag_that_no_schedule_retries_is_refused_where_the_schedule_is_made(tag: str, kind: Any) -> None:
    with pytest.raises(RunRetryTagUnretryable) as refusal:
        engine.Schedule(retry_on=kind([tag, "Transient"]))

    assert refusal.value.found == tag


@pytest.mark.clause("run.retry.unretryable-tag")
def test_tags_spelled_as_texts_are_kept_as_the_tags_they_name() -> None:
    spelled: Any = ["RateLimited", "Transient"]

    assert engine.Schedule(retry_on=spelled) == engine.Schedule(retry_on=RETRYABLE)
    assert all(isinstance(tag, FailureTag) for tag in engine.Schedule(retry_on=spelled).retry_on)


@pytest.mark.parametrize("factor", [1, 100, 1.5])
def test_the_bounds_themselves_are_allowed(factor: float) -> None:
    made = engine.Schedule(attempts=10_000, base_ms=0, max_delay_ms=86_400_000, jitter_ms=0, factor=factor)

    assert (made.attempts, made.factor) == (10_000, factor)
