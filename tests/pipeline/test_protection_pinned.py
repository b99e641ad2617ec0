"""What a pending owner pins of its protection, and what a replay of protected pulls lands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import ExecutionPinMismatch
from engine.pipeline import protect, reading
from engine.pipeline.shape import shape
from engine.shapes import Pull, RunStatus
from tests.pipeline.protecting import CLASSES, PEPPER, customers, digest, pending, protected, run
from tests.stores import LEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.shape import Shaped
    from engine.pipeline.source import Ask
    from tests.clocks import SettableClock
    from tests.pipeline.conftest import Shop


@pytest.mark.clause("run.journal.prepared-owner")
def test_the_pins_are_bound_before_the_source_is_asked(shop: Shop) -> None:
    seen: list[str] = []

    def pulls(_: Ask) -> Iterator[Pull]:
        owner = shop.owner()
        assert owner is not None
        seen.append(owner.pins)
        yield Pull(rows=customers(1))

    shop.module.script = pulls
    table = protected(shop)
    run(shop, table)

    (pins,) = seen
    for identity in ("shape", "classes", "normalization", "writer", "pepper"):
        assert f'"{identity}":' in pins
    assert table.content_hash in pins
    assert PEPPER not in pins


@pytest.mark.clause("run.journal.prepared-owner", "run.own.pinned-plan-changed")
def test_another_pepper_refuses_a_pending_owner_and_names_the_pin(shop: Shop, clock: SettableClock) -> None:
    pending(shop)
    clock.advance(LEASE)

    with pytest.raises(ExecutionPinMismatch) as refusal:
        run(shop, pepper="another")

    assert refusal.value.differs == "identities.pepper"
    assert "they differ in identities.pepper" in str(refusal.value)
    assert PEPPER not in str(refusal.value)
    assert shop.feed.read == []
    assert run(shop).status is RunStatus.SUCCESS
    assert shop.feed.read == [1]


@pytest.mark.clause("run.journal.prepared-owner", "run.own.pinned-plan-changed")
@pytest.mark.parametrize(
    "classes",
    [CLASSES | {"email": "null"}, CLASSES | {"id": "hash"}, {"email": "hash"}, {}],
    ids=["changed", "added", "removed", "none left"],
)
def test_another_class_refuses_a_pending_owner_and_names_the_pin(
    shop: Shop, clock: SettableClock, classes: dict[str, str]
) -> None:
    pending(shop)
    clock.advance(LEASE)

    with pytest.raises(ExecutionPinMismatch) as refusal:
        run(shop, protected(shop, classes))

    assert {"identities.classes", "plan_ref"} <= set(refusal.value.differs.split(", "))
    assert shop.feed.read == []


@pytest.mark.clause("run.journal.prepared-owner", "run.own.pinned-plan-changed")
@pytest.mark.parametrize("moved", ["shape", "normalization", "writer"])
def test_another_version_of_what_prepares_refuses_a_pending_owner(
    shop: Shop, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, moved: str
) -> None:
    pending(shop)
    clock.advance(LEASE)
    versions = tuple((name, "2" if name == moved else version) for name, version in protect.IDENTITIES)
    monkeypatch.setattr(protect, "IDENTITIES", versions)

    with pytest.raises(ExecutionPinMismatch) as refusal:
        run(shop)

    assert refusal.value.differs == f"identities.{moved}"
    assert shop.feed.read == []


@pytest.mark.clause("run.journal.prepared-replay", "run.journal.replay-lands")
def test_a_replayed_pull_is_neither_asked_for_nor_shaped_nor_hashed_again(
    shop: Shop, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending(shop)
    clock.advance(LEASE)
    again: list[Any] = []
    shaping, digesting = shape, protect.digests

    def shapes(rows: Any, **options: Any) -> Shaped:
        again.append(rows)
        return shaping(rows, **options)

    def digests(texts: list[str | None], **options: Any) -> list[str | None]:
        again.append(texts)
        return digesting(texts, **options)

    monkeypatch.setattr(reading, "shape", shapes)
    monkeypatch.setattr(protect, "digests", digests)

    row = run(shop)

    assert (row.status, row.replayed, shop.feed.read) == (RunStatus.SUCCESS, 1, [1])
    assert again == [customers(2), ["c2@example.com"]]
    assert shop.read("SELECT email FROM orders ORDER BY id") == [
        (digest("c1@example.com"),), (digest("c2@example.com"),),
    ]  # fmt: skip


@pytest.mark.clause("run.journal.prepared-replay")
@pytest.mark.parametrize("mark", [None, "prepared otherwise"])
def test_a_recording_that_this_run_would_not_have_written_is_not_landed(
    shop: Shop, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, mark: str | None
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(protect.Protection, "meta", lambda _, found: replace(found, prepared=mark))
        patch.setattr(protect.Protection, "admit", lambda *_: None)
        pending(shop)
    clock.advance(LEASE)

    row = run(shop)

    assert row.error is not None
    assert row.error["name"] == "ExecutionPinMismatch"
    assert "they differ in prepared" in row.error["message"]
    assert shop.feed.read == []
