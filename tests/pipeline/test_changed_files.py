"""A run that goes on over a file which is not the one it has read from: it lands no mixture, and says why."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.pipeline.declaration import Column, FileSource, Table
from engine.pipeline.manifest.hashing import hashed
from engine.rewind import rewind
from engine.schedule import Schedule
from engine.shapes import RunStatus, WriteMode

if TYPE_CHECKING:
    from pathlib import Path

    from engine.runs import RunRow
    from tests.pipeline.conftest import Shop

FORMATS = ["csv", "jsonl", "jsonl.gz"]
MODES: list[dict[str, Any]] = [
    {}, {"write_mode": WriteMode.REPLACE}, {"incremental": "id"},
    {"write_mode": WriteMode.REPLACE, "skip_unchanged": True},
]  # fmt: skip
NAMES = ["append", "replace", "incremental", "skip"]


@pytest.fixture(autouse=True)
def _two_rows_a_pull(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("delimited", "jsonl", "parquet"):
        monkeypatch.setattr(f"engine.pipeline.sources.{module}.BATCH_ROWS", 2)


def put(folder: Path, format_: str, ids: list[int], *, broken: bool = False, name: str = "orders") -> None:
    form = "%d" if format_ == "csv" else '{"id": %d}'
    lines = ["id"] * (format_ == "csv") + [form % one for one in ids] + ['"broken'] * broken
    content = "".join(f"{line}\n" for line in lines).encode()
    (folder / f"{name}.{format_}").write_bytes(gzip.compress(content) if format_.endswith(".gz") else content)


def table(folder: Path, path: str, **declared: Any) -> Table:
    columns = {"id": Column(type="int64")}
    source, schedule = FileSource(path, base=folder), Schedule(jitter_ms=0)
    return hashed(Table("orders", "shop", source, content_hash="", columns=columns, schedule=schedule, **declared))


def run(shop: Shop, declared: Table) -> RunRow:
    outcome = shop.fire(declared)
    assert outcome.refusals == ()
    (row,) = outcome.runs
    return row


def refused(shop: Shop, declared: Table) -> str:
    row = run(shop, declared)
    assert row.status is RunStatus.FAILED
    assert row.error is not None
    assert row.error["tag"] == "Permanent"
    return str(row.error["message"])


def given_up(shop: Shop) -> None:
    owner = shop.owner()
    assert owner is not None
    rewind(shop.store.here, owner.execution_id, reason="the file is another one", force=True)


@pytest.mark.clause("run.journal.opt-out", "run.advance.walk-position", "run.advance.skip-unchanged")
@pytest.mark.parametrize("declared", MODES, ids=NAMES)
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("now", [[-1, -2], [9, 0, 1, 2, 3, 4]], ids=["shorter", "one in front"])
def test_a_file_written_anew_is_refused_and_read_whole_after_a_rewind(
    shop: Shop, tmp_path: Path, format_: str, declared: dict[str, Any], now: list[int]
) -> None:
    asked = table(tmp_path, f"orders.{format_}", **declared)
    put(tmp_path, format_, [0, 1, 2, 3], broken=True)
    assert run(shop, asked).status is RunStatus.FAILED
    put(tmp_path, format_, now)

    told = [refused(shop, asked) for _ in range(2)]
    given_up(shop)
    row = run(shop, asked)

    assert all(f"orders.{format_} has changed" in one for one in told)
    assert (row.status, row.rows, row.replayed) == (RunStatus.SUCCESS, len(now), 0)
    assert shop.ids() == sorted(now)


@pytest.mark.parametrize("declared", MODES, ids=NAMES)
@pytest.mark.parametrize("format_", FORMATS)
def test_mending_the_broken_line_and_adding_others_goes_on(
    shop: Shop, tmp_path: Path, format_: str, declared: dict[str, Any]
) -> None:
    asked = table(tmp_path, f"orders.{format_}", **declared)
    put(tmp_path, format_, [0, 1, 2, 3], broken=True)
    assert run(shop, asked).status is RunStatus.FAILED
    put(tmp_path, format_, [0, 1, 2, 3, 4, 5])

    row = run(shop, asked)

    assert (row.status, row.replayed) == (RunStatus.SUCCESS, 2)
    assert shop.ids() == [0, 1, 2, 3, 4, 5]


def test_a_file_put_back_goes_on(shop: Shop, tmp_path: Path) -> None:
    asked = table(tmp_path, "orders.jsonl")
    put(tmp_path, "jsonl", [0, 1, 2, 3], broken=True)
    run(shop, asked)
    put(tmp_path, "jsonl", [-1])
    refused(shop, asked)
    put(tmp_path, "jsonl", [0, 1, 2, 3, 4])

    assert (run(shop, asked).replayed, shop.ids()) == (2, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("declared", MODES, ids=NAMES)
def test_a_parquet_file_written_anew_is_refused(shop: Shop, tmp_path: Path, declared: dict[str, Any]) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [0, 1, 2]}), path)
    put(tmp_path, "jsonl", [], broken=True, name="b")
    asked = table(tmp_path, "*", **declared)
    assert run(shop, asked).status is RunStatus.FAILED
    pq.write_table(pa.table({"id": [0, 1, 7]}), path)
    put(tmp_path, "jsonl", [8], name="b")

    assert "a.parquet has changed" in refused(shop, asked)
    given_up(shop)
    run(shop, asked)
    assert shop.ids() == [0, 1, 7, 8]


@pytest.mark.parametrize("declared", MODES, ids=NAMES)
def test_an_earlier_file_of_several_is_held_to_what_was_read_of_it(
    shop: Shop, tmp_path: Path, declared: dict[str, Any]
) -> None:
    for name, ids in (("a", [0]), ("b", [1, 2, 3])):
        put(tmp_path, "jsonl", ids, name=name)
    put(tmp_path, "jsonl", [4, 5, 6], broken=True, name="c")
    asked = table(tmp_path, "*.jsonl", **declared)
    assert run(shop, asked).status is RunStatus.FAILED
    put(tmp_path, "jsonl", [-1], name="a")
    put(tmp_path, "jsonl", [4, 5, 6], name="c")

    assert "a.jsonl has changed" in refused(shop, asked)
    assert shop.owner() is not None


def test_a_file_that_grew_between_runs_is_read_from_its_watermark(shop: Shop, tmp_path: Path) -> None:
    asked = table(tmp_path, "orders.csv", incremental="id", primary_key=("id",))
    put(tmp_path, "csv", [0, 1, 2])
    run(shop, asked)
    put(tmp_path, "csv", [7, 0, 1, 2, 3])

    assert (run(shop, asked).status, shop.ids()) == (RunStatus.SUCCESS, [0, 1, 2, 3, 7])
