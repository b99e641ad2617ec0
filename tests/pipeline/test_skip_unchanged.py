"""Snapshots that are skipped while their input has not changed: nothing is read into the table, nothing moves."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.marker import Event
from engine.pipeline.declaration import FileSource, HttpSource, Table
from engine.pipeline.manifest.hashing import hashed
from engine.schedule import Schedule
from engine.shapes import Pull, RunStatus, WriteMode
from tests.pipeline.conftest import orders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.runs import RunRow
    from tests.pipeline.conftest import Api, Shop

ONE, TWO = b"id\n1\n", b"id\n1\n2\n"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "orders.csv").write_bytes(ONE)
    return folder


def table(folder: Path, path: str = "orders.csv", **declared: Any) -> Table:
    declared = {"skip_unchanged": True, **declared}
    source = FileSource(path, base=folder)
    return hashed(Table("orders", "shop", source, content_hash="", schedule=Schedule(jitter_ms=0), **declared))


def run(shop: Shop, table: Table) -> RunRow:
    outcome = shop.fire(table)
    assert outcome.refusals == ()
    (row,) = outcome.runs
    return row


@pytest.mark.clause("run.advance.skip-unchanged")
def test_a_files_raw_bytes_and_rows_are_the_position(shop: Shop, folder: Path) -> None:
    run(shop, table(folder))

    assert shop.marker().position == {"sha256": digest(ONE), "rows": 1}


@pytest.mark.clause("run.advance.skip-unchanged", "run.advance.snapshot-completion", "run.advance.zero-row-commit")
@pytest.mark.parametrize("mode", list(WriteMode))
def test_a_matching_digest_gives_no_batch_holds_the_position_and_is_a_success(
    shop: Shop, folder: Path, mode: WriteMode
) -> None:
    declared = table(folder, write_mode=mode)
    run(shop, declared)
    before = shop.marker()

    row = run(shop, declared)

    assert (row.status, row.rows, row.bytes, row.batches, row.error) == (RunStatus.SUCCESS, 0, 0, 0, None)
    assert shop.marker() == before
    assert shop.ids() == ["1"]
    assert shop.owner() is None


@pytest.mark.clause("run.advance.skip-unchanged")
def test_a_changed_file_lands_and_is_skipped_again_afterwards(shop: Shop, folder: Path) -> None:
    declared = table(folder, write_mode=WriteMode.REPLACE)
    run(shop, declared)
    (folder / "orders.csv").write_bytes(TWO)

    rows = [run(shop, declared).rows for _ in range(2)]

    assert rows == [2, 0]
    assert shop.marker().position == {"sha256": digest(TWO), "rows": 2}
    assert shop.ids() == ["1", "2"]


@pytest.mark.clause("run.advance.skip-unchanged")
def test_undeclared_the_same_file_lands_again(shop: Shop, folder: Path) -> None:
    for _ in range(2):
        assert run(shop, table(folder, skip_unchanged=False)).rows == 1

    assert shop.marker().position is None


@pytest.mark.clause("run.advance.skip-unchanged")
@pytest.mark.parametrize("change", ["a name", "a byte", "another file", "one file less"])
def test_of_several_files_any_change_is_one(shop: Shop, folder: Path, change: str) -> None:
    (folder / "b.csv").write_bytes(TWO)
    declared = table(folder, "*.csv")
    assert run(shop, declared).rows == 3
    assert shop.marker().position["rows"] == 3
    assert run(shop, declared).batches == 0

    changes: dict[str, Callable[[], object]] = {
        "a name": lambda: (folder / "b.csv").rename(folder / "c.csv"),
        "a byte": lambda: (folder / "b.csv").write_bytes(b"id\n1\n3\n"),
        "another file": lambda: (folder / "c.csv").write_bytes(b"id\n"),
        "one file less": (folder / "b.csv").unlink,
    }
    changes[change]()

    assert run(shop, declared).batches > 0
    assert run(shop, declared).batches == 0


@pytest.mark.clause("run.advance.skip-unchanged", "run.advance.zero-row-commit")
def test_a_file_without_rows_empties_a_replaced_table_once_and_is_skipped_then(shop: Shop, folder: Path) -> None:
    declared = table(folder, write_mode=WriteMode.REPLACE)
    run(shop, declared)
    (folder / "orders.csv").write_bytes(b"id\n")

    run(shop, declared)
    emptied = shop.marker()
    run(shop, declared)

    assert emptied.event is Event.EMPTY_REPLACEMENT
    assert (shop.marker(), emptied.position) == (emptied, {"sha256": digest(b"id\n"), "rows": 0})
    assert shop.ids() == []


@pytest.mark.clause("run.advance.skip-unchanged")
def test_a_file_that_changes_while_it_is_read_is_read_again(shop: Shop, folder: Path) -> None:
    (folder / "a.csv").write_bytes(ONE)
    several = table(folder, "*.csv", write_mode=WriteMode.REPLACE)

    def change(*_: object) -> None:
        (folder / "a.csv").write_bytes(TWO)

    shop.fire(several, look=change)

    assert shop.marker().position is None, "what was read may be neither of the two"
    assert run(shop, several).rows == 3
    assert run(shop, several).batches == 0


@pytest.mark.clause("run.advance.skip-unchanged", "run.journal.replay-lands")
def test_a_resumed_walk_ends_at_the_digest_of_the_whole(
    shop: Shop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.pipeline.sources.jsonl.BATCH_ROWS", 2)
    content = b"".join(b'{"id": %d}\n' % n for n in range(5))
    (folder / "a.jsonl").write_bytes(content[:-3])
    (folder / "b.jsonl").write_bytes(b'{"id": 9}\n')
    declared = table(folder, "*.jsonl")
    assert run(shop, declared).status is RunStatus.FAILED
    (folder / "a.jsonl").write_bytes(content)

    row = run(shop, declared)

    assert (row.status, row.replayed) == (RunStatus.SUCCESS, 2)
    assert shop.ids() == [0, 1, 2, 3, 4, 9]
    assert shop.marker().position is None, "the files are not those that the first attempt digested"
    assert run(shop, declared).rows == 6
    assert shop.marker().position["rows"] == 6


@pytest.mark.clause("run.advance.skip-unchanged")
def test_turning_it_off_and_on_reads_the_whole_input_once_each(shop: Shop, folder: Path) -> None:
    run(shop, table(folder))

    rows = [run(shop, table(folder, skip_unchanged=declared)).rows for declared in (False, True, True)]

    assert rows == [1, 1, 0]


@pytest.mark.clause("run.advance.skip-unchanged", "run.advance.snapshot-completion")
@pytest.mark.parametrize("mode", list(WriteMode))
def test_an_answer_that_has_not_changed_is_skipped(shop: Shop, api: Api, mode: WriteMode) -> None:
    api.pages = [orders(1, 2)]
    source = HttpSource(f"{api.url}/orders", records="items")
    declared = hashed(Table("orders", "shop", source, content_hash="", write_mode=mode, skip_unchanged=True))

    first, second = run(shop, declared), run(shop, declared)
    position = shop.marker().position
    api.pages = [orders(3)]
    third = run(shop, declared)

    assert [(row.rows, row.batches) for row in (first, second, third)] == [(2, 1), (0, 0), (1, 1)]
    assert (position["rows"], len(position["sha256"])) == (2, 64)
    assert len(api.asked) == 3
    assert shop.ids() == ([3] if mode is WriteMode.REPLACE else [1, 2, 3])


@pytest.mark.clause("run.advance.skip-unchanged", "run.journal.replay-lands")
def test_of_several_pages_the_last_counts_as_much_as_the_first(shop: Shop, api: Api) -> None:
    api.pages = [orders(1), orders(2), orders(3)]
    declared = api.table(skip_unchanged=True, write_mode=WriteMode.REPLACE)
    api.refusals = {2: (400, {})}
    failed, resumed = run(shop, declared), run(shop, declared)
    assert (failed.status, resumed.replayed, resumed.rows) == (RunStatus.FAILED, 2, 3)
    assert shop.marker().position["rows"] == 3

    same = run(shop, declared)
    api.pages = [orders(1), orders(2), orders(4)]
    changed, again = run(shop, declared), run(shop, declared)

    assert [(row.rows, row.batches) for row in (same, changed, again)] == [(0, 0), (3, 3), (0, 0)]
    assert shop.ids() == [1, 2, 4]


@pytest.mark.clause("run.advance.snapshot-completion", "run.advance.zero-row-commit")
def test_a_source_in_python_may_skip_too_whatever_it_held(shop: Shop) -> None:
    shop.module.script = lambda _: iter([Pull(rows=orders(1), position="v1", snapshot_complete=True)])
    shop.run(write_mode=WriteMode.REPLACE, entry="snapshots")
    before = shop.marker()
    shop.module.script = lambda ask: iter([Pull(position="ignored", unchanged=True)])

    row = shop.run(write_mode=WriteMode.REPLACE, entry="snapshots")

    assert (row.status, row.rows, row.batches) == (RunStatus.SUCCESS, 0, 0)
    assert (shop.marker(), shop.ids()) == (before, [1])


@pytest.mark.clause("run.advance.snapshot-completion")
@pytest.mark.parametrize(
    "pulls",
    [[Pull(rows=orders(1), unchanged=True)], [Pull(unchanged=True, more=True, position=1)],
     [Pull(rows=orders(1), position=1, more=True), Pull(unchanged=True)]],
    ids=["rows", "more", "a second pull"],
)  # fmt: skip
def test_unchanged_beside_anything_that_lands_is_refused(shop: Shop, pulls: list[Pull]) -> None:
    shop.module.script = lambda _: iter(pulls)

    row = shop.run()

    assert row.error is not None
    assert (row.status, row.error["tag"]) == (RunStatus.FAILED, "Permanent")
    assert "unchanged" in row.error["message"]
