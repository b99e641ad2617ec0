"""Ended runs reach the history, whatever dies on their way."""

from __future__ import annotations

import pytest

from engine.archive import Archive
from engine.errors import StorageUnusable
from engine.shapes import RunStatus


@pytest.mark.clause("run.record.reserved-table", "run.record.rebuild-restores-history")
def test_a_run_that_ended_just_before_a_death_is_in_the_history_after_the_next_start(store, monkeypatch):
    with store.engine() as engine, monkeypatch.context() as death:
        death.setattr(Archive, "carry", lambda *_: None)
        with engine.open("job", plan="p", run_id="r-1") as x:
            x.step("one", lambda _: 1)

    with store.engine() as later:
        told = {row.run_id: row.status for row in later.history.rows()}

    assert told == {"r-1": RunStatus.SUCCESS}


@pytest.mark.clause("run.record.reserved-table")
def test_a_run_is_carried_into_the_history_once(store):
    with store.engine() as engine, engine.open("job", plan="p", run_id="r-1") as x:
        x.step("one", lambda _: 1)

    with store.engine() as later:
        appended = [row.phase for row in later.history.appended()]
        rows = list(later.profile.objects.list("_runs/"))

    assert sorted(appended) == ["commit", "plan"]
    assert len(rows) == 2


@pytest.mark.clause("run.record.reserved-table")
def test_a_run_whose_history_cannot_be_written_has_ended_all_the_same_and_is_appended_at_the_next_start(
    store, monkeypatch, caplog
):
    def full(*_, **__):
        raise StorageUnusable(place="_runs", reason="no space left on device")

    with store.engine() as engine:
        execution = engine.open("job", plan="p", run_id="r-1")
        execution.step("one", lambda _: 1)
        with monkeypatch.context() as disk:
            disk.setattr(engine.history, "append", full)
            execution.close()

    assert store.owner() is None
    assert store.run("r-1").status is RunStatus.SUCCESS
    assert "r-1" in caplog.text
    assert {row.run_id: row.status for row in store.engine().history.rows()} == {"r-1": RunStatus.SUCCESS}
