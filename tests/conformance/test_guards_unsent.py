"""An effect that sent nothing through the client it was given: what it raises is all there is to go by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import AuthExpired, Permanent, RateLimited, StepFailed, Transient
from tests.guarded import HOUR, ONCE, doubts, guards, opened
from tests.stores import Effect, Store, failing

if TYPE_CHECKING:
    from engine.execution.call import Call


@pytest.mark.parametrize("window", [None, HOUR])
@pytest.mark.parametrize("raised", [Permanent("no"), RateLimited("slow"), AuthExpired("key")])
def test_an_effect_with_means_of_its_own_says_itself_that_it_was_refused(
    store: Store, raised: Exception, window: int | None
) -> None:
    execution = opened(store, window=window)

    with pytest.raises(StepFailed):
        execution.step("send", Effect(failing(raised)), schedule=ONCE, destination="vendor")

    assert guards(store) == []
    assert doubts(store, execution) == [0]


@pytest.mark.parametrize("window", [None, HOUR])
def test_an_effect_that_asked_for_the_client_and_sent_nothing_was_not_sent(store: Store, window: int | None) -> None:
    execution = opened(store, window=window)

    def effect(call: Call) -> None:
        call.http.build_request("POST", "http://vendor.test")
        raise Transient("it thought better of it")

    with pytest.raises(StepFailed):
        execution.step("send", effect, schedule=ONCE, destination="vendor")

    (entry,) = store.entries(execution.execution_id)
    assert guards(store) == []
    assert (entry.doubts, entry.admitted_at) == (0, None)


@pytest.mark.clause("run.callback-guard.release")
def test_an_interrupt_before_anything_was_sent_leaves_nothing_behind(store: Store) -> None:
    execution = opened(store, window=None)

    def effect(call: Call) -> None:
        assert call.http is not None
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), execution:
        execution.step("send", effect, destination="vendor")

    assert guards(store) == []
    assert store.owner() is None
