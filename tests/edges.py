"""Edges for stores of the profile `cloudflare-d1`: started once a session, empty whenever one is asked for."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest

from tests.local_edge import local_edge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

URL = "CONTEXTFUL_BINDING_URL"
_NAMES = "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT GLOB '_cf_*'"


class Edges:
    """Gives each asker of one test an edge of its own: a test seldom wants a second one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = ExitStack()
        self._edges: list[str] = []
        self._free: list[str] = []

    def fresh(self) -> dict[str, str]:
        """The settings of a store on an edge that holds nothing and that nobody else has."""
        if not self._free:
            state = self._folder / f"edge-{len(self._edges)}"
            self._edges.append(self._running.enter_context(local_edge(state)).private)
            self._free.append(self._edges[-1])
        url = self._free.pop()
        wipe(url)
        return {URL: url}

    def take_back(self, settings: Mapping[str, str]) -> None:
        """The store of these settings is over before its test is: its edge is the next asker's."""
        self._free.append(settings[URL])

    def give_back(self) -> None:
        """The test is over: the next one may have them all."""
        self._free = self._edges[::-1]

    def close(self) -> None:
        """End every edge."""
        self._running.close()


def wipe(url: str) -> None:
    """Leave neither a table nor an object at the binding `url`."""
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as http:
        if drops := [f"DROP {kind} {name}" for kind, name in _batch(http, _NAMES)[0]["rows"]]:
            _batch(http, *drops)
        while objects := http.get("/v1/objects").raise_for_status().json()["objects"]:
            for each in objects:
                http.delete(f"/v1/objects/{quote(each['key'])}").raise_for_status()


def _batch(http: httpx.Client, *texts: str) -> list[dict[str, Any]]:
    statements = [{"sql": text, "params": []} for text in texts]
    answer = http.post("/v1/batch", json={"protocol": 1, "intent": "write", "statements": statements})
    results: list[dict[str, Any]] = answer.raise_for_status().json()["results"]
    return results


@pytest.fixture(scope="session")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edges]:
    """The edges of this worker process."""
    running = Edges(tmp_path_factory.mktemp("edges"))
    yield running
    running.close()


@pytest.fixture
def fresh_edge(edges: Edges) -> Iterator[Callable[[], dict[str, str]]]:
    """What gives each store of a test an edge of its own."""
    yield edges.fresh
    edges.give_back()
