"""One edge for all tests of a worker process, and the private binding as they speak it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from engine.operator.tokens import OperatorKey
from tests.edge.operators import AUDIENCE, Door, Team
from tests.local_edge import SERVE, Edge, local_edge
from tests.stores import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Binding:
    """Protocol 1 over HTTP, as it is on the wire."""

    http: httpx.Client

    def batch(self, *statements: tuple[Any, ...], intent: str = "write") -> httpx.Response:
        """Send statements, each a text and its parameters."""
        sent = [{"sql": sql, "params": list(params)} for sql, *params in statements]
        return self.http.post("/v1/batch", json={"protocol": 1, "statements": sent, "intent": intent})

    def rows(self, sql: str, *params: Any) -> list[list[Any]]:
        """The rows of one statement."""
        answer = self.batch((sql, *params))
        assert answer.status_code == 200, answer.text
        found: list[list[Any]] = answer.json()["results"][0]["rows"]
        return found

    def value(self, sql: str, *params: Any) -> Any:
        """The only cell of one statement."""
        [[cell]] = self.rows(sql, *params)
        return cell


@pytest.fixture(scope="session")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """The local edge over a new state folder."""
    with local_edge(tmp_path_factory.mktemp("edge") / "state") as running:
        yield running


@pytest.fixture(scope="session")
def binding(edge: Edge) -> Iterator[Binding]:
    """The private binding of the edge."""
    with httpx.Client(base_url=edge.private, trust_env=False, timeout=30) as http:
        yield Binding(http)


@pytest.fixture(scope="session")
def open_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """An edge that pins a team of Cloudflare Access, and its operators' door."""
    folder = tmp_path_factory.mktemp("door")
    with Team().published() as team:
        pins = ["--var", f"ACCESS_TEAM={team.url}", "--var", f"ACCESS_AUD={AUDIENCE}"]
        with (
            local_edge(folder / "state", project=PROJECT, program=[*SERVE, *pins]) as running,
            httpx.Client(base_url=running.public, trust_env=False, timeout=30) as http,
            httpx.Client(base_url=running.private, trust_env=False, timeout=30) as private,
        ):
            key = OperatorKey.kept(folder / "state" / "operator.pem")
            door = Door(running, team, key, http, Binding(private), folder)
            door.store()
            door.leave()
            yield door


@pytest.fixture
def door(open_door: Door, tmp_path: Path) -> Iterator[Door]:
    """The door over a store without guards."""
    open_door.folder = tmp_path
    open_door.emptied()
    yield open_door
    open_door.leave()


_names = count()


@pytest.fixture
def table(binding: Binding) -> str:
    """A new table: `id` INTEGER, `name` TEXT, `data` BLOB, and `anything` that keeps what it is given."""
    name = f"t{next(_names)}"
    columns = "id INTEGER PRIMARY KEY, name TEXT, data BLOB, anything ANY"
    assert binding.batch((f"CREATE TABLE {name} ({columns}) STRICT",), intent="initialize").status_code == 200
    return name
