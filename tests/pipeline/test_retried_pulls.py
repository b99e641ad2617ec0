"""A pull that fails: tried again by its table's schedule alone, as long as its tag and budget allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import (
    AuthExpired,
    Config,
    ConnectorBoundHit,
    ContextfulError,
    Permanent,
    RateLimited,
    SchemaIncompatible,
    StorageFailure,
    Transient,
)
from engine.schedule import Schedule
from engine.shapes import FailureTag, RunStatus
from tests.pipeline.conftest import orders
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from engine.shapes import Pull
    from tests.pipeline.conftest import Api, Shop


def failing(shop: Shop, *failures: Exception) -> None:
    """Let the second page raise each of `failures` in turn."""
    left = list(failures)

    def source(ask: Ask) -> Iterator[Pull]:
        for pull in shop.feed(ask):
            yield pull
            if pull.position == 1 and left:
                raise left.pop(0)

    def later(ask: Ask) -> Iterator[Pull]:
        if ask.position == 1 and left:
            raise left.pop(0)
        yield from source(ask)

    shop.module.script = later


def waits(shop: Shop) -> list[float]:
    return [wait for wait in shop.store.clock.waits if wait]


@pytest.mark.clause("run.retry.retry-after", "run.retry.one-layer")
def test_the_wait_that_a_source_asks_for_is_what_is_waited(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))
    failing(shop, RateLimited("slow down", wait_ms=7_000), RateLimited("slower", wait_ms=11_000))
    begun = shop.store.clock.now()

    row = shop.run()

    assert (row.status, shop.ids()) == (RunStatus.SUCCESS, [1, 2])
    assert waits(shop) == [7_000, 11_000]
    assert shop.store.clock.now() - begun == 18_000


@pytest.mark.clause("run.retry.default-policy", "run.retry.schedule")
def test_a_failing_pull_is_tried_five_times_with_doubling_waits(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))
    failing(shop, *(Transient("away") for _ in range(9)))

    row = shop.run()

    assert row.error is not None
    assert row.status is RunStatus.FAILED
    assert "step pull:1 failed after 5 attempt(s)" in row.error["message"]
    assert waits(shop) == [100, 200, 400, 800]


@pytest.mark.clause("run.retry.schedule")
@pytest.mark.parametrize("entry", ["pulls", "moving"], ids=["journaled", "unjournaled"])
def test_a_tables_own_schedule_says_how_often_and_after_how_long(shop: Shop, entry: str) -> None:
    shop.feed.serves(orders(1), orders(2))
    failing(shop, *(Transient("away") for _ in range(9)))
    own = Schedule(attempts=3, base_ms=700, backoff="fixed", jitter_ms=0)

    row = shop.run(entry=entry, schedule=own)

    assert row.error is not None
    assert "failed after 3 attempt(s)" in row.error["message"]
    assert waits(shop) == [700, 700]


@pytest.mark.clause("run.retry.single-attempt")
def test_a_schedule_of_one_attempt_waits_for_nothing(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    failing(shop, Transient("away"))
    shop.feed.failures = {0: Transient("away")}

    row = shop.run(schedule=Schedule(attempts=1))

    assert (row.status, waits(shop), shop.feed.read) == (RunStatus.FAILED, [], [0])


@pytest.mark.clause("run.retry.retryable-classes", "run.retry.failure-taxonomy", "run.retry.step-failed")
@pytest.mark.parametrize(
    "failure",
    [
        Permanent("no"), AuthExpired("no"), Config("no"), SchemaIncompatible("no"), StorageFailure("no"),
        ValueError("no"),
    ],
    ids=lambda failure: type(failure).__name__,
)  # fmt: skip
def test_no_other_tag_is_tried_again_whatever_budget_remains(shop: Shop, failure: Exception) -> None:
    shop.feed.serves(orders(1))
    shop.feed.failures = {0: failure}

    row = shop.run()

    assert row.error is not None
    assert row.error["tag"] == (failure.tag if isinstance(failure, ContextfulError) else "Permanent")
    assert (row.error["name"], waits(shop), shop.feed.read) == ("StepFailed", [], [0])


@pytest.mark.clause("run.retry.retryable-classes")
def test_a_narrowed_schedule_lets_the_other_tag_stand(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.feed.failures = {0: Transient("away")}

    row = shop.run(schedule=Schedule(retry_on=frozenset({FailureTag.RATE_LIMITED})))

    assert row.error is not None
    assert (row.error["tag"], waits(shop)) == ("Transient", [])


@pytest.mark.clause("run.retry.bound-hit-is-transient", "run.retry.failure-taxonomy")
def test_a_source_that_strikes_a_bound_is_tried_again_and_told_by_the_bound(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    hit = ConnectorBoundHit(place="page 1", bound="call-deadline", limit="30 s a read")
    shop.feed.failures = {0: hit}

    again = shop.run()

    assert (again.status, waits(shop)) == (RunStatus.SUCCESS, [100])
    shop.feed.failures = {1: hit}
    row = shop.run(schedule=Schedule(attempts=1))
    assert row.error is not None
    assert (row.error["tag"], "call-deadline" in row.error["message"]) == ("Transient", True)


@pytest.mark.clause("run.retry.not-before", "run.retry.resume-at")
def test_a_crash_mid_wait_leaves_the_rest_of_the_wait_and_of_the_budget(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))
    failing(shop, RateLimited("slow down", wait_ms=200_000), *(Transient("away") for _ in range(9)))
    shop.store.clock.interrupt(Died())
    with pytest.raises(Died):
        shop.run(engine=shop.store.stalled())
    shop.store.clock.advance(LEASE + 1)
    shop.store.clock.waits.clear()

    row = shop.run(engine=shop.store.engine())

    assert row.error is not None
    assert waits(shop)[0] == 200_000 - LEASE - 1
    assert "failed after 5 attempt(s)" in row.error["message"]


@pytest.mark.clause("run.retry.no-double-spend")
def test_a_retried_page_asks_for_nothing_that_was_read_before_it(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))
    failing(shop, Transient("away"), Transient("away"))

    row = shop.run()

    assert (row.status, row.batches) == (RunStatus.SUCCESS, 2)
    assert shop.feed.read == [0, 1]


@pytest.mark.clause("run.retry.one-layer", "run.retry.retry-after")
def test_a_throttled_api_is_asked_again_after_what_its_header_says_and_no_sooner(shop: Shop, api: Api) -> None:
    api.pages = [orders(1), orders(2)]
    api.refusals = {1: (429, {"retry-after": "9"})}

    (row,) = shop.fire(api.table()).runs

    assert row.status is RunStatus.SUCCESS
    assert api.asked == ["/orders", "/orders?page=1", "/orders?page=1"]
    assert waits(shop) == [9_000]


@pytest.mark.clause("run.retry.failure-taxonomy")
@pytest.mark.parametrize(
    ("status", "tag"),
    [(401, "AuthExpired"), (403, "AuthExpired"), (404, "Permanent"), (429, "RateLimited"), (503, "Transient")],
)
def test_an_answer_fails_the_run_under_the_tag_of_its_status(shop: Shop, api: Api, status: int, tag: str) -> None:
    api.pages = [orders(1)]
    api.refusals = {0: (status, {})}

    (row,) = shop.fire(api.table(schedule=Schedule(attempts=1))).runs

    assert row.error is not None
    assert (row.error["tag"], len(api.asked)) == (tag, 1)
