"""The marker as bytes: what one release writes, another reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.corpus import layout
from engine.corpus.marker import Committer, Event, Marker, Part
from engine.corpus.schema import Column, Schema
from engine.errors import StorageUnusable
from engine.shapes import CursorKind, WriteMode

MARKER = Marker(
    seq=7, committed_at=1_000, by=Committer("r-1", "r-1.000001", "x-1", "laptop", ordinal=1, final=False),
    event=Event.RUN, mode=WriteMode.APPEND, primary_key=("id", "ü"), position={"at": [1, "2026-01-01"]},
    cursor_kind=CursorKind.MONOTONIC, schema=Schema((Column("id", "int64", 2**60), Column("d", "decimal(18,4)"))),
    parts=(Part("t/parts/r-1.000001/000000.parquet", 2, 900, "ab" * 32),),
    downgrades=({"path": "d", "source": "object", "landed": "json", "reason": "nested"},),
)  # fmt: skip


def test_a_marker_comes_back_as_it_was_written() -> None:
    assert Marker.from_bytes(MARKER.to_bytes(), name="m") == MARKER
    assert (MARKER.rows, MARKER.size) == (2, 900)


def test_the_names_of_a_markers_fields_are_fixed() -> None:
    assert sorted(json.loads(MARKER.to_bytes())) == [
        "commit_id", "committed_at", "cursor_kind", "downgrades", "event", "execution_id", "final", "mode", "ordinal",
        "parts", "position", "primary_key", "pulls", "run_id", "schema", "seq", "site_id",
    ]  # fmt: skip


def test_a_marker_of_an_earlier_release_has_no_count_of_pulls() -> None:
    document = json.loads(MARKER.to_bytes())
    del document["pulls"]

    assert Marker.from_bytes(json.dumps(document).encode(), name="m").by.pulls == 0


def test_fields_of_a_later_release_are_passed_over() -> None:
    document = json.loads(MARKER.to_bytes())
    document["later"] = {"a": 1}
    document["parts"][0]["later"] = 1

    assert Marker.from_bytes(json.dumps(document).encode(), name="m") == MARKER


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}", b'{"seq": 1}', MARKER.to_bytes()[:-9]])
def test_what_is_no_marker_is_refused_by_its_name(content: bytes) -> None:
    with pytest.raises(StorageUnusable, match="t/commits/7"):
        Marker.from_bytes(content, name="t/commits/7")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (MARKER.to_bytes()[:-9], "it is no JSON from character"),
        (b'{"a": "\xff"}', "it is no UTF-8 at byte 7"),
        (b"{}", "it has no run_id"),
        (b"[]", "it is JSON of another shape"),
    ],
)
def test_a_damaged_marker_says_what_is_wrong_and_where_it_can_come_from(content: bytes, said: str) -> None:
    with pytest.raises(StorageUnusable) as refusal:
        Marker.from_bytes(content, name="t/commits/7")

    assert str(refusal.value).startswith(f"t/commits/7: it is no commit manifest: {said}")
    assert "restore this object from a backup" in str(refusal.value)
    assert "Error" not in str(refusal.value)
    assert "make room" not in str(refusal.value)


@pytest.mark.parametrize("table", ["t", "Table_9", "a" * 64])
def test_a_table_name_is_a_letter_and_then_letters_digits_and_underscores(table: str) -> None:
    assert layout.usable(table)


@pytest.mark.parametrize("table", ["", "_t", "9t", "a" * 65, "t-1", "t/u", "..", "t\n", "ü"])
def test_every_other_table_name_is_not_usable(table: str) -> None:
    assert not layout.usable(table)


def test_markers_and_parts_sort_as_they_count() -> None:
    assert layout.marker("t", 12) == "t/commits/000000000012.json"
    assert layout.part("t", "r-1.000002", 3) == "t/parts/r-1.000002/000003.parquet"
    assert layout.table_of(layout.part("t", "r", 1)) == "t"


def test_a_commit_knows_its_own_marker_and_its_own_work() -> None:
    other: Any = Committer("r-2", "r-2", "x-1", "laptop", ordinal=1)

    assert MARKER.by.wrote(MARKER)
    assert MARKER.by.same_work(MARKER)
    assert not other.wrote(MARKER)
    assert other.same_work(MARKER)
    assert not Committer("r-1", "r-1", "x-1", "laptop", ordinal=0).same_work(MARKER)
