from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from engine.demo.api import DemoApi, Manners, quakes
from engine.errors import RateLimited
from engine.pipeline.declaration import HttpSource, Paginate, Table
from engine.pipeline.source import Ask
from engine.pipeline.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.shapes import Pull


@pytest.mark.clause("run.retry.one-layer")
def test_a_walk_stopped_by_the_throttle_goes_on_where_it_stood_and_asks_nothing_twice() -> None:
    rows: list[Any] = []
    with DemoApi(manners=Manners(throttle_at=5, slow_at=0)) as api:
        with pytest.raises(RateLimited) as throttle:
            for pull in _pulls(api):
                rows += pull.rows
                position = pull.position
        for pull in _pulls(api, position=position):
            rows += pull.rows

        assert throttle.value.wait_ms == 1000
        assert rows == list(quakes())
        assert sorted(api.requests().values()) == [1] * 34 + [2]
        assert api.served() == len(quakes())


def test_since_asks_for_the_boundary_and_what_follows() -> None:
    since = quakes()[1600]["updated"]
    with DemoApi(manners=Manners(throttle_at=0, slow_at=0)) as api:
        rows = [row for pull in _pulls(api, since=since) for row in pull.rows]

    assert rows == [event for event in quakes() if event["updated"] >= since]


def _pulls(api: DemoApi, *, position: Any = None, since: str | None = None) -> Iterator[Pull]:
    declared = HttpSource(url=f"{api.url}/quakes", records="items", paginate=Paginate(by="next-url", field="next"))
    table = Table("quakes", "demo", declared, content_hash="", incremental="updated", since_param="updated_after")
    with httpx.Client(trust_env=False) as client:
        yield from open_source(table).pulls(Ask(http=client, position=position, since=since))
