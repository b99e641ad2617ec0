"""What an effect that sets the key's header itself sends: always a key that comes again on a re-entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.destinations import Vendor

if TYPE_CHECKING:
    from engine.execution.call import Call
    from tests.clocks import SettableClock
    from tests.stores import Store


@pytest.mark.clause("run.journal.idempotency-key")
def test_a_key_of_the_effects_own_gives_way_unless_it_begins_with_the_steps(store: Store, clock: SettableClock) -> None:
    def charge(call: Call) -> str:
        for own in ("drawn anew at every try", f"{call.idempotency_key}-2"):
            call.http.post(vendor.url, headers={"Idempotency-Key": own}).raise_for_status()
        return call.idempotency_key

    with Vendor(clock.now, window=3_600_000).serving() as vendor:
        key = store.open().step("charge", charge)

    assert vendor.received == [key, f"{key}-2"]
