"""Protected columns through whole runs: what is recorded and read, what sources may remove, what errors tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import JournalRedactionConflict, SecretNotFound
from engine.pipeline.recording import decode
from engine.pipeline.sources.python import source
from engine.shapes import Pull, RunStatus
from tests.pipeline.protecting import customers, digest, protected, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from tests.pipeline.conftest import Shop


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
