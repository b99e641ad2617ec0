"""Objects that live elsewhere are published after every run that was open, whatever it came to."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from engine.corpus.read import ReadFace
from engine.errors import StorageUnusable
from engine.execution.endings import Endings
from engine.history import History
from engine.local.folder import FolderObjects
from engine.shapes import RunStatus
from tests.conftest import LOCAL
from tests.pipeline.conftest import day, orders
from tests.stores import Effect

if TYPE_CHECKING:
    from pathlib import Path

    from engine.host import Engine
    from tests.pipeline.conftest import Shop

# A bucket is where others find it: only a folder is mirrored.
pytestmark = pytest.mark.parametrize("blank", LOCAL, indirect=True)


@dataclass
class Mirror:
    """A folder elsewhere, to which publishing copies the corpus whole."""

    source: Path
    target: Path
    published: int = 0
    failure: Exception | None = None

    def __call__(self) -> None:
        self.published += 1
        if self.failure:
            raise self.failure
        shutil.copytree(self.source, self.target, dirs_exist_ok=True)

    @property
    def statuses(self) -> dict[str, str]:
        """How each run ended, as the mirror tells it."""
        return {run.run_id: run.status for run in History(FolderObjects(self.target)).rows()}


@pytest.fixture
def mirror(shop: Shop, tmp_path: Path) -> Mirror:
    return Mirror(shop.store.root / "corpus", tmp_path / "elsewhere")


@pytest.fixture
def engine(shop: Shop, mirror: Mirror) -> Engine:
    """An engine over a profile that publishes to the mirror."""
    engine = shop.store.engine()
    engine.profile = replace(engine.profile, publish=mirror)
    engine.room = replace(engine.room, ended=Endings(engine.spans, mirror))
    return engine


@pytest.mark.clause("run.record.failure-publishes")
def test_a_success_is_published_once_with_its_rows_and_its_row(shop: Shop, engine: Engine, mirror: Mirror) -> None:
    shop.feed.serves(orders(1), orders(2))

    shop.run(engine=engine, run_id="r")

    assert (mirror.published, mirror.statuses) == (1, {"r": "success"})
    assert len(ReadFace(FolderObjects(mirror.target)).read("SELECT * FROM orders").rows) == 2


@pytest.mark.clause("run.record.failure-publishes")
@pytest.mark.parametrize("page", [0, 1])
def test_a_failure_past_run_open_is_published_once_as_a_success_is(
    shop: Shop, engine: Engine, mirror: Mirror, page: int
) -> None:
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {page: ValueError("a page")}

    shop.run(engine=engine, run_id="r")

    assert (mirror.published, mirror.statuses) == (1, {"r": "failed"})


@pytest.mark.clause("run.record.failure-publishes")
def test_a_commit_that_fails_is_published_too(
    shop: Shop, engine: Engine, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.feed.serves(orders(1))

    def full(*_: object) -> None:
        raise StorageUnusable(place="parts", reason="no space left")

    monkeypatch.setattr(engine.profile.objects, "put_all", full)

    row = shop.run(engine=engine, run_id="r")

    assert row.status is RunStatus.FAILED
    assert (mirror.published, mirror.statuses) == (1, {"r": "failed"})


@pytest.mark.clause("run.record.failure-publishes")
def test_an_interrupted_run_is_published(shop: Shop, engine: Engine, mirror: Mirror) -> None:
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: KeyboardInterrupt()}

    with pytest.raises(KeyboardInterrupt):
        shop.run(engine=engine, run_id="r")

    assert (mirror.published, mirror.statuses) == (1, {"r": "canceled"})


@pytest.mark.clause("run.record.failure-publishes")
def test_a_run_that_never_opened_publishes_nothing(shop: Shop, engine: Engine, mirror: Mirror) -> None:
    shop.feed.serves([{"id": 1, "at": day(1)}])
    shop.run(incremental="at")

    refusals = shop.fire(shop.table(incremental="id"), engine=engine).refusals

    assert [type(refusal).__name__ for refusal in refusals] == ["CursorFieldMismatch"]
    assert mirror.published == 0


@pytest.mark.clause("run.record.failure-publishes")
def test_a_host_run_is_published_when_it_ends_and_when_it_fails(shop: Shop, engine: Engine, mirror: Mirror) -> None:
    with shop.store.open("job", engine=engine, run_id="good") as execution:
        execution.step("one", Effect())
    with pytest.raises(ValueError, match="mine"), shop.store.open("job", engine=engine, run_id="bad"):
        raise ValueError("mine")

    assert (mirror.published, mirror.statuses) == (2, {"good": "success", "bad": "failed"})


@pytest.mark.clause("run.record.failure-publishes")
def test_a_mirror_that_fails_changes_nothing_and_the_next_run_publishes_both(
    shop: Shop, engine: Engine, mirror: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    mirror.failure = OSError("unreachable")
    shop.feed.serves(orders(1))

    row = shop.run(engine=engine, run_id="first")

    assert row.status is RunStatus.SUCCESS
    assert "run first wrote is not published" in caplog.text
    mirror.failure = None
    shop.run(engine=engine, run_id="second")
    assert mirror.statuses == {"first": "success", "second": "success"}
