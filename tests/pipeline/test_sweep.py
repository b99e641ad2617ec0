"""What a sweep takes, and what it must leave to whoever may still need it."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.clock import Chance
from engine.errors import RateLimited
from engine.ports import Call, Statement
from engine.rewind import rewind
from engine.shapes import Pull, RunStatus
from engine.sweep import HOLDERS_KEPT_MS, KEPT_MS, Leavings, found, removed
from tests.conftest import LOCAL
from tests.pipeline.conftest import day, orders
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.host import Engine
    from engine.pipeline.source import Ask
    from tests.pipeline.conftest import Shop

HOUR = 3_600_000
NOTHING = Leavings((), (), (), ())
IN_FOLDERS = pytest.mark.parametrize("blank", LOCAL, indirect=True)
"""What a bucket never has: objects that were written by half."""

LARGE = random.Random(7).randbytes(1_600_000).hex()
"""Rows with this are recorded in a blob."""


def swept(shop: Shop) -> Leavings:
    profile = shop.store.here.profile
    return removed(profile, found(profile, chance=Chance()))


def age(shop: Shop, *, by: int = KEPT_MS + HOUR) -> None:
    """Let time pass; files keep the instants of the clock that stood when they were last written."""
    now = shop.store.clock.now() / 1000
    profile = shop.store.here.profile
    for root in (profile.scratch, incoming(shop)):
        for path in [root, *root.rglob("*")] if root.is_dir() else []:
            os.utime(path, (now, now))
    shop.store.clock.advance(by)


def incoming(shop: Shop) -> Path:
    return shop.store.root / "corpus" / ".incoming"


def parts(shop: Shop) -> list[str]:
    return list(shop.store.here.profile.objects.list("orders/parts/"))


def dying_at_its_marker(shop: Shop, *, run_id: str = "dead") -> Engine:
    """A process that dies with its parts written and its marker not: what it staged and wrote stays."""
    elsewhere = shop.store.stalled()
    objects = elsewhere.profile.objects
    create = objects.create

    def dying(name: str, content: bytes) -> bool:
        if name.startswith("orders/commits/"):
            raise Died
        return create(name, content)

    objects.create = dying  # type: ignore[method-assign]
    with pytest.raises(Died):
        shop.fire(shop.table(), engine=elsewhere, run_id=run_id)
    shop.store.clock.advance(LEASE + 1)
    return elsewhere


def given_up(shop: Shop) -> None:
    """Reap the dead run and retire its owner, as an operator does."""
    shop.store.here.reap()
    owner = shop.owner()
    assert owner is not None
    rewind(shop.store.here, owner.execution_id, reason="given up", force=True)


@pytest.mark.clause("run.own.stage-discard")
def test_what_a_dead_run_left_is_taken_once_nobody_can_resume_it(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))
    dying_at_its_marker(shop)
    given_up(shop)
    shop.run(run_id="next")
    left = [name for name in parts(shop) if "/dead/" in name]
    (shop.store.here.profile.scratch / "dead").mkdir(parents=True, exist_ok=True)
    age(shop)

    taken = swept(shop)

    assert len(left) == 2
    assert taken == replace(NOTHING, staged=("dead",), parts=tuple(left))
    assert [name for name in parts(shop) if "/dead/" in name] == []
    assert shop.staged() == []
    assert shop.ids() == [1, 2]
    assert swept(shop) == NOTHING


def test_a_look_changes_nothing(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    dying_at_its_marker(shop)
    given_up(shop)
    shop.run()
    age(shop)
    before = parts(shop)

    seen = found(shop.store.here.profile, chance=Chance())

    assert seen.parts
    assert parts(shop) == before


@pytest.mark.clause("run.own.stage-discard")
def test_a_pending_owner_keeps_everything_of_its_execution(shop: Shop) -> None:
    """A dead run that a resume goes on from: nothing of it is taken, however old it is."""
    shop.feed.serves(orders(1), orders(2))
    dying_at_its_marker(shop)
    shop.store.here.reap()
    before = shop.staged(), parts(shop)
    age(shop)

    assert swept(shop) == NOTHING
    assert (shop.staged(), parts(shop)) == before
    assert shop.run().replayed == 2


def test_a_live_run_keeps_everything_however_long_it_takes(shop: Shop) -> None:
    taken: list[Leavings] = []
    staged: list[list[str]] = []

    def source(_: Ask) -> Iterator[Pull]:
        yield Pull(rows=orders(1), position=1, more=True)
        scratch = shop.store.here.profile.scratch
        for path in [scratch, *scratch.rglob("*")]:
            os.utime(path, (1, 1))
        taken.append(swept(shop))
        staged.append(shop.staged())
        yield Pull(rows=orders(2), position=2)

    shop.module.script = source
    row = shop.run(run_id="r")

    assert (taken, staged) == ([NOTHING], [["r/000000.arrow"]])
    assert row.status is RunStatus.SUCCESS
    assert shop.ids() == [1, 2]


def test_a_waiting_attempt_keeps_what_it_recorded(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "at": day(1), "text": LARGE}], orders(2))
    shop.feed.failures = {1: RateLimited("later", wait_ms=3 * KEPT_MS)}
    waiting = shop.run(run_id="r")
    (shop.store.here.profile.scratch / "r").mkdir(parents=True, exist_ok=True)
    age(shop, by=2 * KEPT_MS)

    assert waiting.status is RunStatus.WAITING
    assert swept(shop) == NOTHING
    shop.store.clock.advance(2 * KEPT_MS)
    assert shop.run().replayed == 1


@IN_FOLDERS
@pytest.mark.parametrize("later", [0, KEPT_MS - HOUR])
def test_what_is_younger_than_a_day_stays(shop: Shop, later: int) -> None:
    shop.feed.serves(orders(1))
    dying_at_its_marker(shop)
    given_up(shop)
    shop.run()
    (shop.store.here.profile.scratch / "dead").mkdir(parents=True, exist_ok=True)
    incoming(shop).mkdir(exist_ok=True)
    (incoming(shop) / "half").write_bytes(b"half")
    before = parts(shop)
    age(shop, by=later)

    assert swept(shop) == NOTHING
    assert parts(shop) == before


@pytest.mark.clause("run.journal.current-owner")
def test_a_process_stopped_before_its_marker_loses_nothing_it_could_still_publish(shop: Shop) -> None:
    """It has looked at its owner and creates its marker next; meanwhile its work was given up and days have passed."""
    stopped = shop.store.stalled()
    objects = stopped.profile.objects
    create = objects.create
    taken: list[Leavings] = []

    def stopping(name: str, content: bytes) -> bool:
        if name.startswith("orders/commits/"):
            shop.store.clock.advance(LEASE + 1)
            given_up(shop)
            age(shop)
            taken.append(swept(shop))
        return create(name, content)

    objects.create = stopping  # type: ignore[method-assign]
    shop.feed.serves(orders(1))
    shop.fire(shop.table(), engine=stopped, run_id="late")

    assert [leavings.parts for leavings in taken] == [()]
    named = [part.name for part in shop.marker().parts]
    assert named == parts(shop), "whatever a marker names is there"
    assert shop.ids() == [1]


@pytest.mark.clause("run.journal.current-owner")
def test_a_stopped_process_that_was_superseded_and_swept_lands_nothing(shop: Shop) -> None:
    stopped = shop.store.stalled()
    objects = stopped.profile.objects
    create = objects.create
    taken: list[Leavings] = []

    def stopping(name: str, content: bytes) -> bool:
        if name.startswith("orders/commits/"):
            shop.store.clock.advance(LEASE + 1)
            shop.run(run_id="taker")
            age(shop)
            taken.append(swept(shop))
        return create(name, content)

    objects.create = stopping  # type: ignore[method-assign]
    shop.feed.serves(orders(1))
    (late,) = shop.fire(shop.table(), engine=stopped, run_id="late").runs

    assert taken[0].parts == ("orders/parts/late/000000.parquet",)
    assert late.error is not None
    assert late.error["name"] == "ExecutionSuperseded"
    assert [part.name for part in shop.marker().parts] == parts(shop) == ["orders/parts/taker/000000.parquet"]
    assert shop.ids() == [1]


@IN_FOLDERS
def test_half_written_objects_go_after_a_day(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.run()
    (incoming(shop) / "half").write_bytes(b"half")
    age(shop)

    assert swept(shop).unfinished == ("half",)
    assert list(incoming(shop).iterdir()) == []


@pytest.mark.clause("run.journal.blob-sweep")
def test_blobs_that_nothing_references_go_after_an_hour(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "at": day(1), "text": LARGE}])
    shop.run()
    assert swept(shop).blobs == ()
    age(shop, by=HOUR + 1)

    seen = found(shop.store.here.profile, chance=Chance()).blobs
    taken = swept(shop).blobs

    assert len(seen) == 1
    assert taken == seen
    assert found(shop.store.here.profile, chance=Chance()) == NOTHING


def test_what_is_no_part_is_never_taken(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.run()
    shop.store.here.profile.objects.put("orders/parts/mine/notes.txt", b"not ours")
    age(shop)

    assert swept(shop) == NOTHING


def test_the_folders_of_every_checkpoint_stay(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.pipeline.checkpoints import Limits  # noqa: PLC0415 - what this test alone sets

    settings: Any = replace(shop.store.here.settings, limits=Limits(1 << 20, 1))
    monkeypatch.setattr(shop.store.here, "settings", settings)
    shop.feed.serves(orders(1), orders(2), orders(3))
    shop.run(run_id="r")
    before = parts(shop)
    age(shop)

    assert len(before) == 3
    assert swept(shop) == NOTHING
    assert parts(shop) == before


@pytest.mark.clause("run.callback-guard.holder-gone")
def test_a_sweep_forgets_engines_that_are_long_gone_and_keeps_those_that_an_owner_names(shop: Shop) -> None:
    database = shop.store.here.profile.database  # started first: a later start would take the pending owner from it
    gone, named = shop.store.stalled(), shop.store.stalled()
    with gone.open("done", plan="p"):
        pass
    pending = named.open("pending", plan="p")
    pending.step("one", lambda _: 1)
    shop.store.clock.advance(HOLDERS_KEPT_MS + LEASE + 1)
    swept(shop)

    listing = Call(Statement("holders", "SELECT id FROM holders", (), reads=True, durable=False), {})
    holders = {holder for (holder,) in database.run(listing)[0]}

    assert named.leases.holder in holders
    assert gone.leases.holder not in holders
