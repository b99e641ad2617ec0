"""What a sweep takes of what nobody needs any more, and at what age."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.clock import Chance
from engine.ports import Call, Statement
from engine.sweep import HOLDERS_KEPT_MS, KEPT_MS, found
from tests.pipeline.conftest import day, orders
from tests.pipeline.sweeping import (
    HOUR,
    IN_FOLDERS,
    LARGE,
    NOTHING,
    age,
    dying_at_its_marker,
    given_up,
    incoming,
    parts,
    swept,
)
from tests.stores import LEASE

if TYPE_CHECKING:
    from tests.pipeline.conftest import Shop


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
