from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Config
from engine.shapes import CursorKind, Pull

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.sources.conftest import Folder

FORMATS = ["csv", "jsonl", "parquet"]
COMPRESSIONS = ["", ".gz", ".zst"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format_", FORMATS)
def test_each_format_is_read_plain_and_compressed(folder: Folder, format_: str, compression: str) -> None:
    folder.write(f"rows.{format_}{compression}", folder.encoded(format_, [{"id": "1", "name": "naïve"}]))

    assert folder.rows("*") == [{"id": "1", "name": "naïve"}]


@pytest.mark.clause("run.advance.snapshot-completion")
def test_files_are_read_in_the_order_of_their_names_and_named_from_the_base(folder: Folder) -> None:
    for name in ("2026/b.jsonl", "2026/a.jsonl", "2025/z.jsonl", "2026/ignored.txt"):
        folder.write(name, f'{{"file": "{name}"}}\n'.encode())

    pulls = list(folder.pulls("**/*.jsonl"))

    assert [row["file"] for pull in pulls for row in pull.rows] == ["2025/z.jsonl", "2026/a.jsonl", "2026/b.jsonl"]
    assert [pull.position and (pull.position["file"], pull.position["row"]) for pull in pulls] == [
        ("2026/a.jsonl", 0), ("2026/b.jsonl", 0), None,
    ]  # fmt: skip
    assert [(pull.more, pull.snapshot_complete) for pull in pulls] == [(True, False), (True, False), (False, True)]


@pytest.mark.clause("run.advance.cursor-bytes")
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format_", FORMATS)
def test_a_walk_goes_on_from_every_position_it_gave(
    folder: Folder, batches_of: Callable[[int], None], format_: str, compression: str
) -> None:
    batches_of(3)
    rows = [{"id": str(number), "name": "x" * number + "y"} for number in range(7)]
    for name, part in (("a", rows[:6]), ("b", []), ("c", rows[6:])):
        folder.write(f"{name}.{format_}{compression}", folder.encoded(format_, part, names=["id", "name"]))

    whole = list(folder.pulls("*"))

    assert [row for pull in whole for row in folder.plain(pull)] == rows
    for read, pull in enumerate(whole[:-1], start=1):
        rest = list(folder.pulls("*", position=pull.position))
        assert [folder.plain(one) for one in rest] == [folder.plain(one) for one in whole[read:]]
        assert [one.position for one in rest] == [one.position for one in whole[read:]]


@settings(max_examples=20, deadline=None)
@given(groups=st.lists(st.integers(0, 7), min_size=1, max_size=5), start=st.integers(0, 40))
def test_parquet_goes_on_at_any_row_of_any_row_group(
    folders: Callable[[], Folder], groups: list[int], start: int
) -> None:
    folder = folders()
    path = folder.path / "rows.parquet"
    schema = pa.schema([("id", pa.int64())])
    total = sum(groups)
    with pq.ParquetWriter(path, schema) as writer:
        for group, size in enumerate(groups):
            begins = sum(groups[:group])
            writer.write_table(pa.table({"id": range(begins, begins + size)}, schema=schema), row_group_size=8)

    pulls = list(folder.pulls("rows.parquet", position={"file": "rows.parquet", "row": start}))

    assert [row["id"] for pull in pulls for row in folder.plain(pull)] == list(range(min(start, total), total))
    assert [pull.more for pull in pulls] == [True] * (len(pulls) - 1) + [False]


@pytest.mark.clause("run.journal.replay-lands")
@pytest.mark.parametrize("group", [1, 3, 4, 7, 10, 11, 25, 40])
def test_a_walk_that_goes_on_within_a_row_group_cuts_its_pulls_where_a_whole_one_does(
    folder: Folder, batches_of: Callable[[int], None], group: int
) -> None:
    batches_of(10)
    pq.write_table(pa.table({"id": range(33)}), folder.path / "rows.parquet", row_group_size=group)
    whole = list(folder.pulls("*"))

    for read, pull in enumerate(whole[:-1], start=1):
        rest = list(folder.pulls("*", position=pull.position))
        assert [folder.plain(one) for one in rest] == [folder.plain(one) for one in whole[read:]]
    assert [len(pull.rows) for pull in whole] == [10, 10, 10, 3]


@pytest.mark.parametrize(("name", "content"), [("a.csv", b""), ("a.csv", b"id,name\n"), ("a.jsonl", b"\n")])
def test_a_file_without_rows_is_one_empty_pull(folder: Folder, name: str, content: bytes) -> None:
    folder.write(name, content)

    assert list(folder.pulls(name)) == [Pull(rows=[], more=False, snapshot_complete=True)]


def test_a_declared_format_stands_for_the_suffix(folder: Folder) -> None:
    folder.write("export.txt", b"id\n1\n")

    assert folder.rows("*", format_="csv") == [{"id": "1"}]
    with pytest.raises(Config, match=r"export\.txt has the suffix '\.txt'"):
        folder.rows("*")


def test_no_file_names_pattern_and_folder(folder: Folder) -> None:
    (folder.path / "folder.csv").mkdir()

    with pytest.raises(Config) as refusal:
        folder.rows("*.csv")

    assert "'*.csv'" in str(refusal.value)
    assert str(folder.path) in str(refusal.value)


def test_a_name_with_brackets_is_a_file_and_an_absolute_pattern_stays_absolute(folder: Folder) -> None:
    folder.write("a[1].csv", b"id\n1\n")

    assert folder.rows("a[1].csv") == [{"id": "1"}]
    assert folder.at("/nowhere").rows(f"{folder.path}/a*.csv") == [{"id": "1"}]


def test_a_file_that_links_lead_to_is_read_once_under_its_plainest_name(folder: Folder) -> None:
    for name in ("2026/01.csv", "2026/02.csv"):
        folder.write(name, b"id\n1\n")
    (folder.path / "2026" / "round").symlink_to(folder.path / "2026")
    (folder.path / "2026" / "00-latest.csv").symlink_to("02.csv")
    (folder.path / "elsewhere").mkdir()
    (folder.path / "elsewhere" / "only.csv").symlink_to(folder.path / "kept")
    folder.write("kept", b"id\n3\n")

    assert [pull.position and pull.position["file"] for pull in folder.pulls("**/*.csv")] == [
        "2026/02.csv", "elsewhere/only.csv", None,
    ]  # fmt: skip


def test_a_name_that_is_no_text_is_refused_before_anything_is_read(folder: Folder) -> None:
    folder.write("a.csv", b"id\n1\n")
    folder.write(os.fsdecode(b"b\xff.csv"), b"id\n2\n")

    with pytest.raises(Config, match=r"b\\udcff\.csv' is no UTF-8"):
        next(folder.pulls("*.csv"))


@pytest.mark.parametrize("position", [{"file": "gone.csv", "row": 1}, {"url": "http://h"}, "x"])
def test_a_position_that_names_no_file_of_the_walk_is_refused(folder: Folder, position: Any) -> None:
    folder.write("a.csv", b"id\n1\n")

    with pytest.raises(Config, match="pipeline reset files --table rows"):
        list(folder.pulls("*.csv", position=position))


def test_batches_end_by_rows_or_by_bytes(folder: Folder) -> None:
    folder.write("many.jsonl", b'{"a":1}\n' * 25_000)
    folder.write("wide.jsonl", b'{"a":"%s"}\n' % (b"x" * (3 << 20)) * 5)

    pulls = list(folder.pulls("*.jsonl"))

    assert [len(pull.rows) for pull in pulls] == [10_000, 10_000, 5_000, 3, 2]


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
def test_memory_stays_flat_however_long_the_file_is(
    folder: Folder, batches_of: Callable[[int], None], format_: str
) -> None:
    batches_of(100)
    peaks = [_peak(folder, f"{count}.{format_}.gz", format_, count) for count in (1_000, 10_000)]

    assert peaks[1] < peaks[0] * 1.15 + 50_000


@pytest.mark.clause("run.advance.cursor-kind")
def test_the_cursor_is_monotonic_with_a_watermark_and_opaque_without(folder: Folder) -> None:
    assert folder.source("*", incremental="at").cursor_kind is CursorKind.MONOTONIC
    assert folder.source("*").cursor_kind is CursorKind.OPAQUE_TOKEN


def _peak(folder: Folder, name: str, format_: str, count: int) -> int:
    folder.write(name, folder.encoded(format_, [{"id": str(number), "text": "x" * 200} for number in range(count)]))
    tracemalloc.start()
    try:
        for pull in folder.pulls(name):
            assert pull
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
