"""Folds of the reserved table: rows are read once wherever they lie, and every crash leaves all of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from engine import folds
from engine.errors import StorageUnusable
from engine.folds import Folds
from engine.history import RESERVED, History
from engine.local.folder import FolderObjects
from engine.runs import RunRow, Runs
from engine.shapes import Phase, RunStatus
from tests.stores import Died

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.stores import Store

AT = 1_767_225_600_000


@pytest.fixture(autouse=True)
def _small_triggers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "APART", 6)
    monkeypatch.setattr(folds, "ALIKE", 3)


class Stumbling(FolderObjects):
    """A folder in which one kind of call on folds or singles can be made to fail, or to end the process."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.failure: BaseException | None = None
        self.verb = ""
        self.after = 0
        self.listings = 0

    def fail(self, verb: str, failure: BaseException, *, after: int = 0) -> None:
        self.verb, self.failure, self.after = verb, failure, after

    def create(self, name: str, content: bytes) -> bool:
        if "/folds/" in name:
            self._meet("create")
        return super().create(name, content)

    def delete(self, names: Iterable[str]) -> None:
        for name in list(names):
            self._meet("delete")
            super().delete([name])

    def list(self, prefix: str) -> Iterator[str]:
        self.listings += 1
        return super().list(prefix)

    def _meet(self, verb: str) -> None:
        if verb == self.verb and self.failure is not None:
            if self.after == 0:
                raise self.failure
            self.after -= 1


@pytest.fixture
def objects(tmp_path: Path) -> Stumbling:
    return Stumbling(tmp_path / "corpus")


def row(number: int, status: RunStatus = RunStatus.SUCCESS, **fields: Any) -> RunRow:
    ended = AT + number * 10 + 5 if status.terminal else None
    return RunRow(f"r-{number:03}", status, AT + number * 10, ended_at=ended, **fields)


def run(record: History, number: int) -> None:
    """Append the two rows of run `number`."""
    record.append(row(number, RunStatus.RUNNING), phase=Phase.PLAN, at=AT + number * 10)
    record.append(row(number), phase=Phase.COMMIT, at=AT + number * 10 + 5)


def lying(objects: FolderObjects) -> tuple[int, list[str]]:
    """How many rows lie apart, and the levels of the folds."""
    names = list(objects.list(f"{RESERVED}/"))
    levels = [name.rpartition("/")[2][0] for name in names if "/folds/" in name]
    return len(names) - len(levels), levels


def ids(record: History) -> list[str]:
    return [run.run_id for run in record.rows()]


@pytest.mark.clause("run.record.record-folds")
def test_rows_are_folded_once_enough_lie_apart_and_each_is_read_once(objects: Stumbling) -> None:
    record = History(objects)

    for number in range(4):
        run(record, number)

    assert lying(objects) == (2, ["0"])
    assert ids(record) == [f"r-{number:03}" for number in range(4)]
    assert [(r.run.run_id, r.phase) for r in record.appended()][:2] == [("r-000", "commit"), ("r-000", "plan")]


@pytest.mark.clause("run.record.record-folds")
def test_a_long_history_is_a_handful_of_objects(objects: Stumbling) -> None:
    record = History(objects)

    for number in range(30):
        run(record, number)

    apart, levels = lying(objects)
    assert apart + len(levels) < 8
    assert "2" in levels
    assert ids(record) == [f"r-{number:03}" for number in range(30)]


@pytest.mark.clause("run.record.record-folds")
@pytest.mark.parametrize("verb", ["create", "delete"])
def test_a_pass_that_fails_leaves_the_row_and_the_next_append_tries_again(
    objects: Stumbling, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    record = History(objects)
    objects.fail(verb, StorageUnusable(place="the disk", reason="full"))

    for number in range(4):
        run(record, number)

    assert lying(objects)[0] == 8
    assert ids(record) == [f"r-{number:03}" for number in range(4)]
    assert "are not folded" in caplog.text
    objects.failure = None
    run(record, 4)
    assert lying(objects)[0] < 8
    assert ids(record) == [f"r-{number:03}" for number in range(5)]


@pytest.mark.clause("run.record.record-folds")
@pytest.mark.parametrize("deleted", range(6))
def test_a_process_that_dies_between_fold_and_delete_loses_nothing_and_doubles_nothing(
    objects: Stumbling, deleted: int
) -> None:
    objects.fail("delete", Died(), after=deleted)
    for number in range(3):
        with suppress(Died):
            run(History(objects), number)
    objects.failure = None

    # What is left is fewer than the trigger, and is folded with what comes.
    after = History(objects)
    assert len(after.appended()) == 6
    for number in range(3, 6):
        run(after, number)

    assert ids(after) == [f"r-{number:03}" for number in range(6)]
    assert len(after.appended()) == 12


@pytest.mark.clause("run.record.record-folds")
def test_two_engines_that_fold_the_same_rows_make_one_fold(objects: Stumbling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "APART", 100)
    for number in range(5):
        run(History(objects), number)
    monkeypatch.setattr(folds, "APART", 6)
    ours, theirs = Folds(objects, f"{RESERVED}/"), Folds(objects, f"{RESERVED}/")
    create = objects.create
    met: list[str] = []

    def both(name: str, content: bytes) -> bool:
        if not met:
            met.append(name)
            theirs.fold()
        return create(name, content)

    monkeypatch.setattr(objects, "create", both)
    ours.fold()

    assert lying(objects) == (0, ["0"])
    assert len(ids(History(objects))) == 5


@pytest.mark.clause("run.record.record-folds")
def test_a_reader_finds_rows_that_are_folded_while_it_reads(
    objects: Stumbling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folds, "APART", 100)
    for number in range(5):
        run(History(objects), number)
    monkeypatch.setattr(folds, "APART", 6)
    get = objects.get
    met: list[str] = []

    def folding(name: str) -> bytes | None:
        if not met:
            met.append(name)
            Folds(objects, f"{RESERVED}/").fold()
        return get(name)

    monkeypatch.setattr(objects, "get", folding)

    assert len(ids(History(objects))) == 5


@pytest.mark.clause("run.record.record-folds")
def test_only_the_first_append_of_a_process_and_those_past_the_trigger_look_at_the_store(objects: Stumbling) -> None:
    record = History(objects)
    run(record, 0)
    seen = objects.listings

    run(record, 1)

    assert objects.listings == seen == 1


@pytest.mark.clause("run.record.reserved-table", "run.record.record-folds")
def test_rows_of_one_instant_never_take_each_others_place(objects: Stumbling) -> None:
    record = History(objects)
    record.append(row(1, RunStatus.RUNNING), phase=Phase.PLAN, at=AT)
    record.append(row(1, RunStatus.WAITING), phase=Phase.PLAN, at=AT)

    (latest,) = record.appended()

    assert len(list(objects.list(f"{RESERVED}/"))) == 2
    assert (latest.run.status, latest.at) == (RunStatus.WAITING, AT + 1)


@pytest.mark.clause("run.record.rebuild-restores-history", "run.record.record-folds")
def test_a_rebuild_restores_folded_rows_and_single_ones(store: Store) -> None:
    record = History(store.here.profile.objects)
    for number in range(4):
        run(record, number)
    assert lying(store.here.profile.objects) == (2, ["0"])  # type: ignore[arg-type] # every profile here has a folder

    restored = record.rebuild(Runs(store.here.profile.database))

    assert restored == 4
    assert [store.run(f"r-{number:03}").status for number in range(4)] == [RunStatus.SUCCESS] * 4
