"""Protected columns through whole runs: what is recorded, what a pending owner pins, what a replay lands."""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import ExecutionPinMismatch, JournalRedactionConflict, SecretNotFound
from engine.host import Engine, Settings
from engine.pipeline import protect, walk
from engine.pipeline.declaration import Column
from engine.pipeline.manifest.hashing import hashed
from engine.pipeline.recording import decode
from engine.pipeline.shape import shape
from engine.pipeline.sources.python import source
from engine.shapes import Pull, RunStatus
from tests.stores import LEASE, PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.declaration import Table
    from engine.pipeline.shape import Shaped
    from engine.pipeline.source import Ask
    from engine.runs import RunRow
    from tests.clocks import SettableClock
    from tests.pipeline.conftest import Shop

PEPPER = "a long secret text"
CLASSES = {"email": "hash", "phone": "drop", "name": "null"}


def digest(text: str, pepper: str = PEPPER) -> str:
    return hmac.digest(pepper.encode(), text.encode(), "sha256").hex()[:32]


def engine(shop: Shop, *, pepper: str | None = PEPPER) -> Engine:
    """A process of its own in effect, which knows the pepper."""
    opened = Engine(shop.store.profile(), Settings(PROJECT, "site-1", pepper=pepper), clock=shop.store.clock)
    shop.store.opened.append(opened.keeper.stop)
    return opened


def protected(shop: Shop, classes: dict[str, str] = CLASSES, **declared: Any) -> Table:
    columns = {name: Column(treatment=treatment) for name, treatment in classes.items()}  # type: ignore[arg-type] # a test's spelling
    return hashed(replace(shop.table(**declared), columns=columns))


def run(shop: Shop, table: Table | None = None, *, pepper: str | None = PEPPER, look: Any = None) -> RunRow:
    """Run the protected table once; what refuses it is raised."""
    asked = {} if look is None else {"look": look}
    outcome = shop.fire(table or protected(shop), engine=engine(shop, pepper=pepper), **asked)
    for refusal in outcome.refusals:
        raise refusal
    return outcome.runs[0]


def customers(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i, "email": f"c{i}@example.com", "phone": f"+49 {i}", "name": f"Ada {i}"} for i in ids]


def pending(shop: Shop, table: Table | None = None, *, pepper: str = PEPPER) -> None:
    """A first pull is recorded, the second fails and leaves the owner pending."""
    shop.feed.serves(customers(1), customers(2))
    shop.feed.failures = {1: ValueError("second page")}
    assert run(shop, table, pepper=pepper).status is RunStatus.FAILED
    assert shop.feed.read[0] == 0
    shop.feed.read.clear()


@pytest.mark.clause("run.journal.recorded-batch")
def test_what_is_recorded_staged_and_read_is_the_prepared_batch(shop: Shop) -> None:
    recorded: list[bytes] = []

    shop.feed.serves(customers(1))
    row = run(shop, look=lambda _, landing: recorded.append(landing.recorded))

    batch, meta = decode(recorded[0])
    assert row.status is RunStatus.SUCCESS
    assert batch.to_pylist() == [{"id": 1, "email": digest("c1@example.com"), "name": None}]
    assert meta.schema["email"].type == "string"
    assert shop.read("SELECT id, email, name FROM orders") == [(1, digest("c1@example.com"), None)]
    assert [column.name for column in shop.marker().schema.columns] == ["id", "email", "name"]


def test_a_table_whose_key_is_hashed_reads_each_key_once(shop: Shop) -> None:
    table = protected(shop, {"email": "hash"}, primary_key=("email",))
    shop.feed.serves(customers(1, 2), customers(2, 3))
    run(shop, table)
    shop.store.clock.advance(1)
    shop.feed.serves([], [], [{"email": "c3@example.com", "id": 33}])
    run(shop, table)

    rows = shop.read("SELECT email, id FROM orders ORDER BY id")

    assert rows == [(digest(f"c{i}@example.com"), value) for i, value in ((1, 1), (2, 2), (3, 33))]


def test_a_column_that_is_absent_from_a_page_or_from_all_is_no_trouble(shop: Shop) -> None:
    table = protected(shop, {"email": "hash", "phone": "drop", "never": "null"})
    shop.feed.serves([{"id": 1}], [{"id": 2, "email": None}], [{"id": 3, "email": "x", "phone": "y"}])

    assert run(shop, table).status is RunStatus.SUCCESS

    assert shop.read("SELECT id, email FROM orders ORDER BY id") == [(1, None), (2, None), (3, digest("x"))]


def test_a_protected_column_may_change_its_type_between_pages(shop: Shop) -> None:
    shop.feed.serves([{"email": 5}], [{"email": "5"}], [{"email": 5.5}], [{"email": {"a": 1}}])

    assert run(shop).status is RunStatus.SUCCESS

    assert set(shop.read("SELECT email FROM orders")) == {(digest("5"),), (digest("5.5"),), (digest('{"a":1}'),)}


def test_a_value_that_is_a_credential_is_masked_before_it_is_hashed(shop: Shop) -> None:
    shop.feed.serves([{"email": "ghp_" + "a" * 36}])

    row = run(shop)

    assert row.masked == 1
    assert shop.read("SELECT email FROM orders") == [(digest("[masked:github]"),)]


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

    monkeypatch.setattr(walk, "shape", shapes)
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


@pytest.mark.clause("run.journal.redacting-source")
@pytest.mark.parametrize("classes", [{}, {"email": "hash"}, {"other": "drop"}])
def test_a_source_that_removes_columns_is_refused_where_they_are_not_classed(
    shop: Shop, classes: dict[str, str]
) -> None:
    removing(shop, ("email", "Phone"))

    with pytest.raises(JournalRedactionConflict) as refusal:
        run(shop, protected(shop, classes, entry="removing"))

    assert "Phone" in refusal.value.columns
    assert shop.feed.read == []
    assert shop.owner() is None


@pytest.mark.clause("run.journal.redacting-source")
def test_saying_that_something_is_removed_admits_nothing(shop: Shop) -> None:
    removing(shop, True)

    with pytest.raises(JournalRedactionConflict):
        run(shop, protected(shop, entry="removing"))

    assert shop.feed.read == []


@pytest.mark.clause("run.journal.redacting-source")
@pytest.mark.parametrize("removes", [("email", "PHONE"), (), False])
def test_a_source_whose_removals_are_all_classed_runs(shop: Shop, removes: Any) -> None:
    removing(shop, removes)
    shop.feed.serves(customers(1))

    assert run(shop, protected(shop, entry="removing")).status is RunStatus.SUCCESS


def test_a_source_that_is_not_journaled_may_remove_what_it_likes(shop: Shop) -> None:
    removing(shop, ("email",), unjournaled="a window that moves")
    shop.feed.serves(customers(1))

    assert run(shop, protected(shop, {}, entry="removing")).status is RunStatus.SUCCESS


def test_an_unjournaled_source_stages_the_prepared_batch_too(shop: Shop) -> None:
    shop.feed.serves(customers(1))

    run(shop, protected(shop, entry="moving"))

    assert shop.read("SELECT email, name FROM orders") == [(digest("c1@example.com"), None)]


def test_without_a_pepper_a_table_that_hashes_is_refused_before_it_is_asked(shop: Shop) -> None:
    with pytest.raises(SecretNotFound, match="CONTEXTFUL_PEPPER"):
        run(shop, pepper=None)

    assert shop.feed.read == []
    assert run(shop, protected(shop, {"email": "null"}), pepper=None).status is RunStatus.SUCCESS


@pytest.mark.parametrize(
    "raised", [KeyError("c1@example.com"), ValueError("c1@example.com"), UnicodeError("c1@example.com")], ids=repr
)
def test_an_error_of_a_source_tells_its_type_and_line_and_no_value(shop: Shop, raised: Exception) -> None:
    shop.feed.serves(customers(1))
    shop.feed.failures = {0: raised}

    row = run(shop)

    assert row.error is not None
    assert type(raised).__name__ in row.error["message"]
    assert "c1@example.com" not in str(row)


def test_rows_that_fail_while_they_are_read_tell_no_value_either(shop: Shop) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield from customers(1)
        raise LookupError("c1@example.com")

    def pulls(_: Ask) -> Iterator[Pull]:
        yield Pull(rows=rows())

    shop.module.script = pulls

    row = run(shop)

    assert row.status is RunStatus.FAILED
    assert "LookupError" in str(row.error)
    assert "c1@example.com" not in str(row)


def removing(shop: Shop, removes: Any, **options: Any) -> None:
    """A source of the shop's feed that declares removal."""

    @source("removing", removes=removes, **options)
    def pulls(ask: Ask) -> Iterator[Pull]:
        yield from shop.module.script(ask)

    shop.module.removing = pulls
