"""Where the state of a scene lies, read as plain readers do: its own folder, or an edge that nobody else has.

An edge takes seconds to start, so the edges of a session wait here for the next scene, wiped whenever one takes them.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote

import httpx

from tests.edges import wipe
from tests.local_edge import local_edge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CORPUS: Final = "corpus/"
URL: Final = "CONTEXTFUL_BINDING_URL"


class Ground(Protocol):
    """A store's rows as anybody finds them, and the settings by which an engine does."""

    @property
    def environ(self) -> dict[str, str]:
        """What an engine's environment says of it."""

    def names(self, prefix: str) -> list[str]:
        """The objects of the corpus under `prefix`, a folder's name with its slash, sorted."""

    def content(self, name: str) -> bytes:
        """The bytes of one."""


@dataclass(frozen=True)
class Folder:
    """The corpus in a folder."""

    corpus: Path

    @property
    def environ(self) -> dict[str, str]:
        """Nothing: it is the project's own folder."""
        return {}

    def names(self, prefix: str) -> list[str]:
        """Every file, those that begin with a dot apart."""
        found = (path.relative_to(self.corpus) for path in (self.corpus / prefix).rglob("*") if path.is_file())
        return sorted(path.as_posix() for path in found if not any(part.startswith(".") for part in path.parts))

    def content(self, name: str) -> bytes:
        """The file."""
        return (self.corpus / name).read_bytes()


@dataclass(frozen=True)
class Bucket:
    """The corpus in the bucket behind the binding `url`, over a client of the tests' own."""

    url: str
    http: httpx.Client

    @property
    def environ(self) -> dict[str, str]:
        """Where the binding is."""
        return {URL: self.url}

    def names(self, prefix: str) -> list[str]:
        """One page of the listing: no scene has more."""
        answer = self.http.get(f"{self.url}/v1/objects", params={"prefix": CORPUS + prefix, "limit": "1000"})
        page = answer.raise_for_status().json()
        assert page["cursor"] is None
        return sorted(each["key"].removeprefix(CORPUS) for each in page["objects"])

    def content(self, name: str) -> bytes:
        """GET."""
        return self.http.get(f"{self.url}/v1/objects/{quote(CORPUS + name)}").raise_for_status().content


@dataclass
class Edges:
    """Edges below `folder`, each with one scene at a time."""

    folder: Path
    _running: ExitStack = field(default_factory=ExitStack)
    _free: list[str] = field(default_factory=list)
    _started: int = 0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._http = self._running.enter_context(httpx.Client(trust_env=False, timeout=30))

    def take(self) -> Bucket:
        """An edge that holds nothing, another one's last or a new one."""
        with self._turn:
            url = self._free.pop() if self._free else self._start()
        wipe(url)
        return Bucket(url, self._http)

    def give_back(self, bucket: Bucket) -> None:
        """Its scene is over."""
        with self._turn:
            self._free.append(bucket.url)

    def _start(self) -> str:
        self._started += 1
        return self._running.enter_context(local_edge(self.folder / f"edge-{self._started}")).private


@contextmanager
def edges(folder: Path) -> Iterator[Edges]:
    """Edges until the block ends."""
    found = Edges(folder)
    with found._running:
        yield found
