"""A corpus that lost a commit manifest in the middle: nothing is published behind the gap, or read past it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.corpus import layout
from engine.corpus.read import ReadFace
from engine.errors import CommitMissing
from engine.shapes import RunStatus
from tests.pipeline.conftest import orders

if TYPE_CHECKING:
    from tests.pipeline.conftest import Shop


@pytest.mark.clause("run.advance.commit-with-rows")
def test_a_run_refuses_to_commit_behind_a_missing_manifest_and_names_it(shop: Shop) -> None:
    for number in range(3):
        shop.feed.serves(*(orders(each) for each in range(1, number + 2)))
        shop.run()
    objects = shop.store.here.profile.objects
    before = list(objects.list(layout.commits("orders")))
    objects.delete([layout.marker("orders", 2)])

    shop.feed.serves(*(orders(each) for each in range(1, 5)))
    with pytest.raises(CommitMissing, match="contextful storage check") as refusal:
        shop.run()

    assert (refusal.value.missing, refusal.value.later) == (before[1], before[2])
    assert list(objects.list(layout.commits("orders"))) == [before[0], before[2]]


@pytest.mark.parametrize("gone", [1, 2])
def test_a_read_past_a_missing_manifest_is_refused_rather_than_short(shop: Shop, gone: int) -> None:
    for number in range(3):
        shop.feed.serves(*(orders(each) for each in range(1, number + 2)))
        shop.run()
    objects = shop.store.here.profile.objects
    objects.delete([layout.marker("orders", gone)])
    face = ReadFace(objects)

    for statement in ("SELECT * FROM orders", "SELECT * FROM Orders", "SHOW TABLES"):
        with pytest.raises(CommitMissing, match="contextful storage check") as refusal:
            face.read(statement)
        assert refusal.value.missing == layout.marker("orders", gone)
    with pytest.raises(CommitMissing):
        face.describe()


@pytest.mark.clause("run.advance.commit-with-rows")
def test_once_the_manifest_is_back_the_next_run_goes_on(shop: Shop) -> None:
    for number in range(3):
        shop.feed.serves(*(orders(each) for each in range(1, number + 2)))
        shop.run()
    objects, name = shop.store.here.profile.objects, layout.marker("orders", 2)
    content = objects.get(name)
    assert content is not None
    objects.delete([name])
    shop.feed.serves(*(orders(each) for each in range(1, 5)))
    with pytest.raises(CommitMissing):
        shop.run()

    objects.create(name, content)
    row = shop.run()

    assert row.status is RunStatus.SUCCESS
    assert shop.ids() == [1, 2, 3, 4]
