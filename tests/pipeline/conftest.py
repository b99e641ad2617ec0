"""A shop whose tables are read by a scripted Python source: what a run meets is written in the test."""

from __future__ import annotations

import hashlib
import importlib
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from engine.corpus.marker import tail
from engine.corpus.read import ReadFace
from engine.pipeline.declaration import Column, HttpSource, Paginate, Pipeline, PythonSource, Table
from engine.pipeline.manifest.hashing import hashed
from engine.pipeline.runner import Outcome, Request, fire
from engine.pipeline.source import Secrets
from engine.schedule import Schedule
from engine.shapes import Pull
from tests.answering import Answering, listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine.corpus.marker import Marker
    from engine.host import Engine
    from engine.owners import Owner
    from engine.pipeline.source import Ask
    from engine.pipeline.walk import Landing
    from engine.runs import RunRow
    from tests.stores import Store

MODULE: Final = """\
from engine import source
from engine.shapes import CursorKind

script = None
feeds = {}

def pulls(ask):
    yield from script(ask)

@source("moving", unjournaled="a window that moves is read afresh")
def moving(ask):
    yield from script(ask)

@source("snapshots", cursor_kind=CursorKind.SNAPSHOT_ID)
def snapshots(ask):
    yield from script(ask)

def other(ask):
    yield from feeds["other"](ask)
"""


@dataclass
class Feed:
    """Pages numbered from 0, each pull carrying the number of the next; `read` holds the pages that were asked for.

    A failure under a page's number is raised once in its place; a `position` is None for a source that has none.
    """

    pages: list[Any] = field(default_factory=list)
    failures: dict[int, BaseException] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def __call__(self, ask: Ask) -> Iterator[Pull]:
        self.asks.append(ask)
        page = ask.position or 0
        while True:
            self.read.append(page)
            if page in self.failures:
                raise self.failures.pop(page)
            rows = self.pages[page] if page < len(self.pages) else []
            after = min(page + 1, len(self.pages))
            more = after < len(self.pages)
            yield Pull(rows=rows, position=after, more=more, snapshot_complete=not more, **self.facts)
            if not more:
                return
            page = after

    def serves(self, *pages: Any, **facts: Any) -> None:
        """Serve these pages from now on; nothing has been read of them."""
        self.pages, self.read, self.facts = list(pages), [], facts


class Silent:
    """Watches and says nothing, but lets a test look on."""

    def __init__(self, look: Callable[[RunRow, Landing], None] = lambda *_: None) -> None:
        self.look = look

    def opened(self, run: RunRow) -> None:
        pass

    def landed(self, run: RunRow, landing: Landing) -> None:
        self.look(run, landing)

    def closed(self, run: RunRow) -> None:
        pass


@dataclass
class Shop:
    """A pipeline over one store, one `feed` behind its tables unless a test says otherwise."""

    store: Store
    module: Any
    base: Path
    feed: Feed = field(default_factory=Feed)

    def table(
        self, name: str = "orders", *, entry: str = "pulls", types: dict[str, str] | None = None, **declared: Any
    ) -> Table:
        source = PythonSource(f"{self.module.__name__}:{entry}", self.base)
        columns = {column: Column(type=spelling) for column, spelling in (types or {}).items()}
        schedule = declared.pop("schedule", Schedule(jitter_ms=0))
        return hashed(Table(name, "shop", source, content_hash="", columns=columns, schedule=schedule, **declared))

    def fire(
        self,
        *tables: Table,
        engine: Engine | None = None,
        look: Callable[[RunRow, Landing], None] = lambda *_: None,
        secrets: dict[str, str] | None = None,
        **asked: Any,
    ) -> Outcome:
        request = Request(Pipeline("shop", tables), tables, **asked)
        return fire(engine or self.store.here, request, secrets=Secrets(secrets or {}), watcher=Silent(look))

    def run(self, *, engine: Engine | None = None, run_id: str | None = None, **declared: Any) -> RunRow:
        """Run `orders` once; what refuses it is raised."""
        outcome = self.fire(self.table(**declared), engine=engine, run_id=run_id)
        for refusal in outcome.refusals:
            raise refusal
        (row,) = outcome.runs
        return row

    def read(self, statement: str = "SELECT * FROM orders", *, as_of: int | None = None) -> list[tuple[Any, ...]]:
        """Rows as the read face gives them."""
        return ReadFace(self.store.here.profile.objects).read(statement, as_of=as_of).rows

    def ids(self) -> list[Any]:
        """The `id` of every row that a read gives, sorted."""
        return [row[0] for row in self.read("SELECT id FROM orders ORDER BY id")]

    def marker(self, table: str = "orders") -> Marker:
        newest = tail(self.store.here.profile.objects, table)
        assert newest is not None, "nothing is committed"
        return newest

    def owner(self, table: str = "orders") -> Owner | None:
        return self.store.here.owners.read(f"table:{table}")

    def staged(self) -> list[str]:
        """Every file in scratch, by run and number."""
        root = self.store.here.profile.scratch
        return sorted(str(path.relative_to(root)) for path in root.rglob("*.arrow"))


@pytest.fixture
def shop(store: Store, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    name = "shop_" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    base = tmp_path / "sources"
    base.mkdir()
    (base / f"{name}.py").write_text(MODULE)
    path = list(sys.path)
    sys.path.append(str(base))
    importlib.invalidate_caches()
    shop = Shop(store, importlib.import_module(name), base)
    shop.module.script = shop.feed
    yield shop
    sys.path[:] = path
    sys.modules.pop(name, None)


@dataclass
class Api:
    """A server on this machine: page n at `/orders?page=n`, each naming the next, a refusal under a page's number once.

    What it is asked stands in `asked`, the headers beside it.
    """

    pages: list[Any] = field(default_factory=list)
    refusals: dict[int, tuple[int, dict[str, str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def answer(self, page: int) -> tuple[int, dict[str, str], Any]:
        if page in self.refusals:
            status, headers = self.refusals.pop(page)
            return status, headers, {}
        more = page + 1 < len(self.pages)
        return 200, {}, {"items": self.pages[page], "next": f"/orders?page={page + 1}" if more else None}

    def table(self, name: str = "orders", *, schedule: Schedule | None = None, **declared: Any) -> Table:
        source = HttpSource(f"{self.url}/orders", records="items", paginate=Paginate(by="next-url", field="next"))
        table = Table(name, "shop", source, content_hash="", schedule=schedule or Schedule(jitter_ms=0), **declared)
        return hashed(table)


class _Handler(Answering):
    api: Api

    def reply(self) -> None:
        self.api.asked.append(self.path)
        self.api.headers.append({name.lower(): value for name, value in self.headers.items()})
        status, headers, body = self.api.answer(int(self.path.partition("page=")[2] or 0))
        self.answer(status, body, headers)


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    with listening(_Handler, api=api) as api.url:
        yield api


def orders(*ids: int, at: str = "2026-01-01T00:00:00Z") -> list[dict[str, Any]]:
    """Rows of one instant."""
    return [{"id": number, "at": at} for number in ids]


def day(number: int) -> str:
    """An instant of January."""
    return f"2026-01-{number:02}T00:00:00Z"
