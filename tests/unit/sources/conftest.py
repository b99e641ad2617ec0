"""What tests read from: a real local server whose pages they lay out, and a folder of files."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.pipeline.declaration import FileSource, HttpSource, Paginate, Table
from engine.pipeline.source import Ask, Secrets, Source
from engine.pipeline.sources import delimited, jsonl, open_source, parquet
from tests.answering import Answering, listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.shapes import Pull


@dataclass(frozen=True)
class Came:
    """One request as the site got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Reply:
    """What a path answers. `promised` is the length announced, when it is not the true one."""

    status: int
    headers: dict[str, str]
    content: bytes
    promised: int | None = None


@dataclass
class Site:
    """Pages by target (path and query), and the requests that came, in order."""

    url: str = ""
    pages: dict[str, Callable[[Came], Reply]] = field(default_factory=dict)
    came: list[Came] = field(default_factory=list)

    def lay(self, target: str, body: Any = None, *, status: int = 200, raw: bytes | None = None,
            promised: int | None = None, **headers: str) -> None:  # fmt: skip
        """Answer `target` with `body` as JSON, or with `raw`; `_` in a header's name stands for `-`."""
        content = json.dumps(body).encode() if raw is None else raw
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = Reply(status, {"content-type": "application/json", **named}, content, promised)
        self.pages[target] = lambda _: reply

    def answer(self, target: str, reply: Callable[[Came], Any]) -> None:
        """Answer `target` with what `reply` makes of the request, as JSON."""
        self.pages[target] = lambda came: Reply(
            200, {"content-type": "application/json"}, json.dumps(reply(came)).encode()
        )

    @property
    def targets(self) -> list[str]:
        """What was asked, in order."""
        return [came.target for came in self.came]


class _Handler(Answering):
    site: Site

    def reply(self) -> None:
        body = json.loads(self.read() or b"null")
        headers = {name.lower(): value for name, value in self.headers.items()}
        came = Came(self.command, self.path, headers, body)
        self.site.came.append(came)
        page = self.site.pages[self.path](came) if self.path in self.site.pages else Reply(404, {}, b"no such page")
        promised = {} if page.promised is None else {"content-length": str(page.promised)}
        self.answer(page.status, page.content, page.headers | promised)


def _site() -> Iterator[Site]:
    site = Site()
    with listening(_Handler, site=site) as site.url:
        yield site


@pytest.fixture
def site() -> Iterator[Site]:
    yield from _site()


@pytest.fixture
def elsewhere() -> Iterator[Site]:
    """Another origin: the same host on another port."""
    yield from _site()


@pytest.fixture(scope="session")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False) as client:
        yield client


@dataclass
class Reader:
    """Reads a site as one table."""

    site: Site
    client: httpx.Client

    def table(self, path: str = "/rows", *, since_param: str | None = None, incremental: str | None = None,
              paginate: Paginate | None = None, **source: Any) -> Table:  # fmt: skip
        declared = HttpSource(url=source.pop("url", self.site.url + path), paginate=paginate, **source)
        return Table(name="rows", pipeline_id="site", source=declared, content_hash="", since_param=since_param,
                     incremental=incremental)  # fmt: skip

    def pulls(self, path: str = "/rows", *, position: Any = None, since: Any = None,
              secrets: dict[str, str] | None = None, **table: Any) -> Iterator[Pull]:  # fmt: skip
        """The pulls of a walk, one at a time."""
        ask = Ask(client=lambda: self.client, position=position, since=since, secrets=Secrets(secrets or {}))
        return open_source(self.table(path, **table)).pulls(ask)

    def rows(self, path: str = "/rows", **asked: Any) -> list[Any]:
        """All rows of a walk; its last pull, and no other, must say that it is complete."""
        pulls = list(self.pulls(path, **asked))
        assert [pull.more for pull in pulls] == [True] * (len(pulls) - 1) + [False]
        assert [pull.snapshot_complete for pull in pulls] == [not pull.more for pull in pulls]
        return [row for pull in pulls for row in pull.rows]


@pytest.fixture
def reader(site: Site, client: httpx.Client) -> Reader:
    return Reader(site, client)


@dataclass
class Folder:
    """A manifest's folder with files in it, read as one table."""

    path: Path

    def at(self, path: str) -> Folder:
        """Another folder."""
        return Folder(Path(path))

    def write(self, name: str, content: bytes) -> None:
        """Put a file there, compressed as its suffix says."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".gz":
            content = gzip.compress(content)
        if path.suffix == ".zst":
            content = pa.compress(content, codec="zstd", asbytes=True)
        path.write_bytes(content)

    def source(self, pattern: str, *, format_: Any = None, incremental: str | None = None) -> Source:
        declared = FileSource(path=pattern, base=self.path, format=format_)
        return open_source(Table("rows", "files", declared, content_hash="", incremental=incremental))

    def pulls(self, pattern: str, *, position: Any = None, format_: Any = None) -> Iterator[Pull]:
        """The pulls of a walk, one at a time."""
        with httpx.Client(transport=httpx.MockTransport(_no_request)) as client:
            yield from self.source(pattern, format_=format_).pulls(Ask(client=lambda: client, position=position))

    def rows(self, pattern: str, *, format_: Any = None) -> list[Any]:
        """All rows of a walk."""
        return [row for pull in self.pulls(pattern, format_=format_) for row in self.plain(pull)]

    def plain(self, pull: Pull) -> list[Any]:
        """The rows of a pull as dicts."""
        return list(pull.rows.to_pylist() if isinstance(pull.rows, pa.RecordBatch | pa.Table) else pull.rows)

    def encoded(self, format_: str, rows: list[dict[str, str]], *, names: list[str] | None = None) -> bytes:
        """`rows` in a format."""
        names = names or list(rows[0])
        if format_ == "csv":
            return "".join(f"{','.join(one)}\n" for one in [names, *([row[n] for n in names] for row in rows)]).encode()
        if format_ == "jsonl":
            return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names])), sink)
        return sink.getvalue().to_pybytes()


def _no_request(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"a file asked for {request.url}")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Folder]:
    """A fresh folder at each call, for tests that draw many examples."""
    return lambda: Folder(tmp_path_factory.mktemp("folder"))


@pytest.fixture
def batches_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets a pull of a file end after so many rows."""

    def set_rows(rows: int) -> None:
        for module in (delimited, jsonl, parquet):
            monkeypatch.setattr(module, "BATCH_ROWS", rows)

    return set_rows
