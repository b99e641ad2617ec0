"""The ledger of a journal of files is in the catalog: on the disk there before the entry's file is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.local.tree.tree import Tree
from tests.destinations import Vendor

if TYPE_CHECKING:
    from engine.execution.call import Call
    from tests.clocks import SettableClock
    from tests.stores import Store

pytestmark = pytest.mark.parametrize("blank", ["file"], indirect=True)


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_a_settlement_is_on_the_disk_before_the_entry_that_it_precedes(
    store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = store.open()
    database = type(store.here.profile.database)
    run, put = database.run, Tree.put
    told: list[tuple[str, bool]] = []

    def ran(self: Any, *calls: Any) -> Any:
        told.extend((c.statement.name, c.statement.durable) for c in calls if c.statement.name == "settle_requests")
        return run(self, *calls)

    def written(self: Any, path: Any, content: bytes) -> None:
        told.append((path.suffix, True))
        put(self, path, content)

    def charge(call: Call) -> int:
        return call.http.post(vendor.url).status_code

    with Vendor(clock.now, window=3_600_000).serving() as vendor:
        monkeypatch.setattr(database, "run", ran)
        monkeypatch.setattr(Tree, "put", written)
        execution.step("charge", charge)

    assert told == [("settle_requests", True), (".entry", True)]
