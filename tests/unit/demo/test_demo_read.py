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
    with DemoApi(manners=Manners(throttle_at=5, slow_at=0)) as api:
        walk = _pulls(api)
        read = [next(walk) for _ in range(4)]
        with pytest.raises(RateLimited) as throttle:
            next(walk)
        read += _pulls(api, position=read[-1].position)

        assert throttle.value.wait_ms == 1000
        assert [row for pull in read for row in pull.rows] == list(quakes())
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
        yield from open_source(table).pulls(Ask(client=lambda: client, position=position, since=since))
