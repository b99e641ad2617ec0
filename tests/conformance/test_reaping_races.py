"""Orphans are looked for and then closed: what an attempt does in between is not undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.shapes import RunStatus
from tests.stores import LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clocks import SettableClock
    from tests.stores import Store


@pytest.mark.clause("run.record.orphan-reap")
def test_a_run_that_ends_as_it_is_looked_at_stays_as_it_ended(
    store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    starter, late = store.here, store.held(engine=store.stalled())
    clock.advance(LEASE)
    after_the_look(store, monkeypatch, lambda: late.release(late.ended(RunStatus.FAILED)))

    assert starter.reap() == []

    assert store.run(late.attempt.run_id).status is RunStatus.FAILED


@pytest.mark.clause("run.record.orphan-reap")
def test_a_run_whose_lease_is_renewed_as_it_is_looked_at_goes_on(
    store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    starter, engine = store.here, store.stalled()
    late = store.held(engine=engine)
    clock.advance(LEASE)
    after_the_look(store, monkeypatch, engine.leases.register)

    assert starter.reap() == []

    assert store.run(late.attempt.run_id).status is RunStatus.RUNNING
    starter.owners.check(late.attempt)


def after_the_look(store: Store, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]) -> None:
    """Do `meanwhile` once, between the look for orphans and their closing."""
    database = type(store.here.profile.database)
    run, left = database.run, [meanwhile]

    def interrupted(self: Any, *calls: Any) -> Any:
        results = run(self, *calls)
        if calls[0].statement.name == "orphaned_runs" and left:
            left.pop()()
        return results

    monkeypatch.setattr(database, "run", interrupted)
