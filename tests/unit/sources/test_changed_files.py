"""A walk that goes on in files which are not what they were: what was read of them must still stand there."""

from __future__ import annotations

import gzip
import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import SourceChanged
from engine.pipeline.sources import file

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.sources.conftest import Folder

TEXT = ["a.csv", "a.csv.gz", "a.csv.zst", "a.jsonl", "a.jsonl.gz", "a.jsonl.zst"]
PARQUET = ["a.parquet", "a.parquet.gz"]
OLD = [str(number) for number in range(5)]


@pytest.fixture(autouse=True)
def _two_rows_a_pull(batches_of: Callable[[int], None]) -> None:
    batches_of(2)


def put(folder: Folder, name: str, ids: list[str]) -> None:
    folder.write(name, folder.encoded(name.split(".")[1], [{"id": one} for one in ids], names=["id"]))


def reached(folder: Folder, *, pulls: int = 1) -> Any:
    """The position that a walk has after so many pulls."""
    return [pull.position for pull, _ in zip(folder.pulls("*"), range(pulls), strict=False)][-1]


def rest(folder: Folder, position: Any) -> list[str]:
    return [row["id"] for pull in folder.pulls("*", position=position) for row in folder.plain(pull)]


def test_a_position_names_what_was_read_to_get_there(folder: Folder) -> None:
    put(folder, "a.jsonl.gz", OLD[:1])
    put(folder, "b.jsonl", OLD)
    lines = [b'{"id": "%d"}\n' % number for number in range(2)]
    a = {"file": "a.jsonl.gz", "bytes": 12, "sha256": hashlib.sha256(lines[0]).hexdigest()}
    b = {"file": "b.jsonl", "bytes": 24, "sha256": hashlib.sha256(lines[0] + lines[1]).hexdigest()}

    assert reached(folder) == {"file": "b.jsonl", "row": 0, "read": [a]}
    assert reached(folder, pulls=2) == {"file": "b.jsonl", "row": 2, "read": [a, b]}


@pytest.mark.clause("run.journal.opt-out")
@pytest.mark.parametrize("name", TEXT + PARQUET)
@pytest.mark.parametrize(
    "now", [["-1", "-2", *OLD[2:]], ["new", *OLD], OLD[1:], ["1", "0", *OLD[2:]]],
    ids=["others", "one in front", "one less", "another order"],
)  # fmt: skip
def test_another_content_before_the_position_is_refused(folder: Folder, name: str, now: list[str]) -> None:
    put(folder, name, OLD)
    position = reached(folder)
    put(folder, name, now)

    with pytest.raises(SourceChanged, match=rf"{name} has changed since rows of it were read for rows: ") as refusal:
        rest(folder, position)

    assert "contextful run rewind X --reason TEXT --force" in str(refusal.value)
    assert "contextful pipeline reset files --table rows" in str(refusal.value)
    assert refusal.value.exit_code == 1


@pytest.mark.parametrize("name", TEXT + PARQUET)
@pytest.mark.parametrize("now", [[], ["-1"]])
def test_a_file_that_is_shorter_than_the_position_is_refused(folder: Folder, name: str, now: list[str]) -> None:
    put(folder, name, OLD)
    position = reached(folder, pulls=2)
    put(folder, name, now)

    with pytest.raises(SourceChanged, match=name):
        rest(folder, position)


def test_what_is_left_of_a_shorter_file_is_said(folder: Folder) -> None:
    put(folder, "a.csv", OLD)
    position = reached(folder)
    put(folder, "a.csv", OLD[:1])

    with pytest.raises(SourceChanged, match="only 5 of the 7 bytes that were read are left"):
        rest(folder, position)


@pytest.mark.parametrize("name", TEXT)
def test_lines_added_or_mended_behind_the_position_are_read(folder: Folder, name: str) -> None:
    put(folder, name, OLD)
    position = reached(folder)
    put(folder, name, [*OLD[:2], "mended", *OLD[3:], "added"])

    assert rest(folder, position) == ["mended", "3", "4", "added"]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_lines_added_behind_a_last_one_without_an_end_are_read(folder: Folder, name: str) -> None:
    put(folder, name, OLD[:2])
    path = folder.path / name
    path.write_bytes(path.read_bytes().rstrip())
    position = reached(folder)
    path.write_bytes(path.read_bytes() + (b"\n2\n" if name == "a.csv" else b'\n{"id": "2"}\n'))

    assert rest(folder, position) == ["2"]


def test_a_last_line_that_goes_on_is_another_one(folder: Folder) -> None:
    folder.write("a.csv", b"id\n0\n1")
    position = reached(folder)
    folder.write("a.csv", b"id\n0\n12\n")

    with pytest.raises(SourceChanged, match="the line that ended at byte 6 goes on"):
        rest(folder, position)


@pytest.mark.parametrize("name", TEXT + PARQUET)
@pytest.mark.parametrize("pulls", [3, 4])
def test_a_file_that_was_read_whole_is_held_to_what_was_read_of_it(folder: Folder, name: str, pulls: int) -> None:
    put(folder, name, OLD)
    put(folder, "b.jsonl", OLD)
    position = reached(folder, pulls=pulls)
    put(folder, name, ["new", *OLD])

    assert position["file"] == "b.jsonl"
    with pytest.raises(SourceChanged, match=name):
        rest(folder, position)


@pytest.mark.parametrize("change", ["grown", "gone", "another before"])
def test_files_before_the_positions_may_grow_go_and_come(folder: Folder, change: str) -> None:
    put(folder, "a.jsonl", OLD)
    put(folder, "b.jsonl", ["b"])
    position = reached(folder, pulls=3)
    changes: dict[str, Callable[[], object]] = {
        "grown": lambda: put(folder, "a.jsonl", [*OLD, "5"]),
        "gone": (folder.path / "a.jsonl").unlink,
        "another before": lambda: put(folder, "a0.jsonl", ["x"]),
    }
    changes[change]()

    assert rest(folder, position) == ["b"]


def test_what_a_walk_reads_after_going_on_is_named_too(folder: Folder) -> None:
    put(folder, "a.jsonl", [*OLD, "5"])
    whole, resumed = reached(folder, pulls=2), list(folder.pulls("*", position=reached(folder)))

    assert resumed[0].position == whole


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl.gz", "a.parquet"])
def test_a_position_of_an_earlier_build_names_no_content_and_is_taken(folder: Folder, name: str) -> None:
    put(folder, name, OLD)

    assert rest(folder, {"file": name, "row": 3}) == OLD[3:]
    assert rest(folder, {"file": name, "row": 9}) == []


def test_a_compressed_file_may_be_compressed_anew(folder: Folder) -> None:
    put(folder, "a.jsonl.gz", OLD)
    position, path = reached(folder), folder.path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1, mtime=1))

    assert rest(folder, position) == OLD[2:]


def test_of_many_files_the_last_are_named(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "_NAMED", 2)
    for name in "abcd":
        put(folder, f"{name}.jsonl", [name])

    assert [content["file"] for content in reached(folder, pulls=3)["read"]] == ["b.jsonl", "c.jsonl"]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_the_pull_after_going_on_is_as_large_as_any(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, batches_of: Callable[[int], None], name: str
) -> None:
    batches_of(100)
    for module in ("delimited", "jsonl"):
        monkeypatch.setattr(f"engine.pipeline.sources.{module}.BATCH_BYTES", 40)
    put(folder, name, [str(number) for number in range(100, 160)])
    whole = list(folder.pulls("*"))

    for read, pull in enumerate(whole[:-1], start=1):
        resumed = list(folder.pulls("*", position=pull.position))
        assert [len(one.rows) for one in resumed] == [len(one.rows) for one in whole[read:]]
