from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import Permanent, SourceShape
from engine.pipeline.sources import lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.sources.conftest import Folder

FORMATS = ["csv", "jsonl", "parquet"]


def test_csv_values_are_text_and_an_empty_field_is_null(folder: Folder) -> None:
    folder.write("a.csv", b'\xef\xbb\xbfid,name,note\r\n007,"a ""b"", c",\r\n\r\n2,"two\nlines",""\r\n')

    assert folder.rows("a.csv") == [
        {"id": "007", "name": 'a "b", c', "note": None},
        {"id": "2", "name": "two\nlines", "note": None},
    ]


@pytest.mark.parametrize(
    ("content", "line", "found"),
    [
        (b"id,name\n1,a\n2\n", 3, "1 fields (2)"),
        (b'id,name\n"1\n1",a\n2,b,c\n', 4, "3 fields (2,b,c)"),
        (b'id,name\n1,"open\nstill open\n', 2, "unexpected end of data"),
        (b'id,name\n1,"a"b\n', 2, "expected after"),
        (b"id,name\n1,\xff\n", 2, "the byte 0xff at 3"),
        (b"id,name\n1,a\x00\n", 2, "a NUL byte at 4"),
        (b"id,id\n", 1, "the name 'id' more than once"),
        (b"\nid,\n", 2, "no name for column 2"),
    ],
)
def test_a_csv_record_that_is_broken_names_file_and_line(folder: Folder, content: bytes, line: int, found: str) -> None:
    folder.write("in/a.csv", content)

    with pytest.raises(SourceShape) as refusal:
        folder.rows("in/*.csv")

    assert refusal.value.place == f"in/a.csv line {line}"
    assert found in refusal.value.found


def test_json_lines_skip_blanks_and_keep_every_integer(folder: Folder) -> None:
    folder.write(
        "a.ndjson",
        b'\xef\xbb\xbf{"id": 1208925819614629174706176}\n\n  \r\n{"id": null, "x": {"y": [1]}}',
    )

    assert folder.rows("a.ndjson") == [{"id": 2**80}, {"id": None, "x": {"y": [1]}}]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"id": 1', "truncated"),
        (b"[1, 2]", "a list of 2"),
        (b"null", "null"),
        (b'{"id": "\xe9"}', "the byte 0xe9 at 9"),
        (b'{"id": 1} {"id": 2}', "trailing"),
        (b'{"id": NaN}', "NaN"),
        (b'{"id": "\\ud800", "name": "a"}', r"\ud800 at byte 8 is half of a surrogate pair"),
        (b'{"id": "\\ud800"}', r"\ud800 at byte 8 is half of a surrogate pair"),
        (b'{"id": "\\ud83d', "truncated"),
    ],
)
def test_a_line_that_is_no_object_names_file_and_line(folder: Folder, line: bytes, found: str) -> None:
    folder.write("a.jsonl.gz", b'{"id": 0}\n\n' + line + b"\n")

    with pytest.raises(SourceShape) as refusal:
        folder.rows("*.gz")

    assert refusal.value.place == "a.jsonl.gz line 3"
    assert found in refusal.value.found


def test_a_file_without_lines_is_no_table(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 16)
    folder.write("a.jsonl", b'{"id": 1}\n{"id": "' + b"x" * (1 << 17) + b'"}')

    with pytest.raises(SourceShape, match=r"a\.jsonl line 2.* without an end"):
        folder.rows("*")


@pytest.mark.parametrize("compression", [".gz", ".zst"])
@pytest.mark.parametrize("format_", FORMATS)
def test_a_compressed_file_that_is_cut_off_is_named_and_never_taken_for_a_shorter_one(
    folder: Folder, format_: str, compression: str
) -> None:
    path = folder.path / f"rows.{format_}{compression}"
    folder.write(path.name, folder.encoded(format_, [{"id": str(number)} for number in range(1000)]))
    path.write_bytes(path.read_bytes()[:-9])

    with pytest.raises(SourceShape, match=rf"rows\.{format_}\{compression}: at 'the file'"):
        folder.rows("*")


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.zst", "a.parquet.gz"])
def test_a_compressed_file_cut_off_at_its_start_is_not_taken_for_an_empty_one(folder: Folder, name: str) -> None:
    (folder.path / name).write_bytes(b"")

    with pytest.raises(SourceShape, match=rf"{name}: at 'the file' stood broken or cut off data \(not a byte"):
        folder.rows(name)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.zst", "a.parquet"])
def test_a_file_that_is_not_what_its_suffix_says_is_named(folder: Folder, name: str) -> None:
    (folder.path / name).write_bytes(b"id,name\n1,a\n" * 10)

    with pytest.raises(SourceShape, match=rf"{name}.*; mend the file, or have it written anew"):
        folder.rows(name)


def test_a_file_gone_since_it_was_listed_is_permanent(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        folder.write(f"{name}.csv", b"id\n1\n")
    pulls = folder.pulls("*.csv")
    next(pulls)
    (folder.path / "b.csv").unlink()

    with pytest.raises(Permanent, match=r"b\.csv cannot be read"):
        next(pulls)


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
def test_what_stands_before_a_broken_line_is_given_first(
    folder: Folder, batches_of: Callable[[int], None], format_: str
) -> None:
    batches_of(2)
    folder.write(f"a.{format_}", folder.encoded(format_, [{"id": str(n)} for n in range(3)]) + b'"broken\n')
    pulls = folder.pulls("*")

    assert next(pulls).rows == [{"id": "0"}, {"id": "1"}]
    with pytest.raises(SourceShape, match=r"line \d"):
        next(pulls)
