from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import httpx

from engine.demo.api import DemoApi, Manners, quakes

if TYPE_CHECKING:
    import pytest

KIND = Manners(throttle_at=0, slow_at=0)


def test_the_shipped_events_are_thousands_with_ids_of_their_own_and_shared_instants() -> None:
    events = quakes()

    assert len(events) == 1707
    assert len({event["id"] for event in events}) == len(events)
    assert len({event["updated"] for event in events}) < len(events)
    assert [(e["updated"], e["id"]) for e in events] == sorted((e["updated"], e["id"]) for e in events)
    assert any(event["felt"] is None for event in events)
    assert all(set(event["geometry"]) == {"type", "coordinates"} for event in events)


def test_following_next_reads_every_event_once() -> None:
    with DemoApi(manners=KIND) as api:
        rows = _walk(api, "/quakes")

        assert rows == list(quakes())
        assert api.served() == len(rows)
        assert set(api.requests().values()) == {1}
        assert sum(api.requests().values()) == 35


def test_the_since_parameter_admits_the_boundary_itself() -> None:
    since = quakes()[1000]["updated"]
    expected = [event for event in quakes() if event["updated"] >= since]

    with DemoApi(manners=KIND) as api:
        assert _walk(api, f"/quakes?updated_after={since}") == expected
        assert _walk(api, "/quakes?updated_after=2030-01-01T00:00:00Z") == []


def test_the_throttle_answers_once_and_counts_no_rows() -> None:
    with DemoApi(manners=Manners(throttle_at=2, slow_at=0)) as api, httpx.Client(base_url=api.url) as client:
        answers = [client.get("/quakes") for _ in range(3)]

        assert [answer.status_code for answer in answers] == [200, 429, 200]
        assert answers[1].headers["retry-after"] == "1"
        assert api.requests() == {"/quakes": 3}
        assert [one.rows for one in api.asked()] == [50, 0, 50]


def test_the_slow_page_arrives_whole_after_its_pause() -> None:
    with DemoApi(manners=Manners(throttle_at=0, slow_at=1, slow_s=0.2)) as api:
        begun = time.monotonic()
        answer = httpx.get(f"{api.url}/quakes")

        assert time.monotonic() - begun >= 0.2
        assert len(answer.json()["items"]) == 50


def test_a_reader_that_leaves_during_the_slow_page_is_counted_without_rows_and_hinders_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with DemoApi(manners=Manners(throttle_at=0, slow_at=1, slow_s=30)) as api:
        with httpx.Client() as client, client.stream("GET", f"{api.url}/quakes"):
            assert api.slow_page.wait(5)
        begun = time.monotonic()

    assert time.monotonic() - begun < 5
    assert [one.rows for one in api.asked()] == [0]
    assert capfd.readouterr() == ("", "")
    assert not [thread for thread in threading.enumerate() if thread.name == "DemoApi"]


def test_what_it_does_not_serve_it_says_so() -> None:
    with DemoApi(manners=KIND) as api, httpx.Client(base_url=api.url) as client:
        assert client.get("/volcanoes").status_code == 404
        assert client.get("/quakes?cursor=nonsense").status_code == 400


def _walk(api: DemoApi, target: str | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with httpx.Client(base_url=api.url) as client:
        while target:
            page = client.get(target).raise_for_status().json()
            rows += page["items"]
            target = page["next"]
    return rows
