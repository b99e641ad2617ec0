"""A key column that no row has: reads would take different rows for one, so nothing is published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.shapes import RunStatus

if TYPE_CHECKING:
    from tests.pipeline.conftest import Shop

ROWS = [{"id": 1, "line": 1}, {"id": 1, "line": 2}, {"id": 2, "line": 1}]


@pytest.mark.clause("run.own.source-stage-schema")
@pytest.mark.parametrize("key", [("id", "lien"), ("lien",)])
def test_a_misspelt_key_column_fails_the_run_names_the_columns_and_publishes_nothing(
    shop: Shop, key: tuple[str, ...]
) -> None:
    shop.feed.serves(ROWS)

    row = shop.run(primary_key=key)

    assert row.status is RunStatus.FAILED
    assert row.error == {
        "tag": "SchemaIncompatible",
        "name": "PrimaryKeyMissing",
        "message": "orders declares 'lien' in its primary_key, and no row has a value there; it has id, line; name the "
        "columns that tell its rows apart in primary_key, as the source spells them",
    }
    assert list(shop.store.here.profile.objects.list("orders/")) == []
    assert shop.owner() is None


def test_once_the_key_is_spelt_right_the_same_rows_land(shop: Shop) -> None:
    shop.feed.serves(ROWS)
    shop.run(primary_key=("id", "lien"))

    shop.run(primary_key=("id", "line"))

    assert shop.read("SELECT id, line FROM orders ORDER BY id, line") == [(1, 1), (1, 2), (2, 1)]


def test_a_key_column_that_an_earlier_commit_had_needs_no_value_in_every_run(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "line": 1}])
    shop.run(primary_key=("id", "line"))
    shop.feed.serves([{"id": 1, "line": 1}], [{"id": 2}])

    row = shop.run(primary_key=("id", "line"))

    assert row.status is RunStatus.SUCCESS
    assert shop.ids() == [1, 2]
