"""The corpus in a bucket: immutable objects, created at most once, replaced only as they were known."""

from __future__ import annotations

import hashlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from engine.copies import Copies
from engine.errors import StorageBindingUnavailable, StorageUnusable
from engine.unanswered import settled
from r2 import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from r2.keys import Held, Keys

WORKERS: Final = 4
"""Requests at a time where several are asked for together; a Worker keeps six connections open."""

RETRIES: Final = 8
"""How often a replacement looks again after another writer came between."""


class BucketObjects:
    """`Objects` under `corpus/`. `cache` is a local folder for what is read by path; its loss costs a download."""

    def __init__(self, keys: Keys, cache: Path) -> None:
        self._keys = keys
        self._copies = Copies(cache)

    def get(self, name: str) -> bytes | None:
        """The content of `name`, or None."""
        held = self._keys.get(names.corpus(name))
        return held.content if held else None

    def create(self, name: str, content: bytes) -> bool:
        """Create `name` unless it exists; after a lost answer what stands there decides.

        Nothing there may still turn into something: then, and where looking fails too, the outcome stays unknown.
        """
        key = names.corpus(name)

        def found() -> bool | None:
            standing = self._keys.get(key)
            return None if standing is None else standing.content == content

        return settled(lambda: self._keys.create(key, content), found=found)

    def put(self, name: str, content: bytes) -> None:
        """Write `name` over what was there.

        An attempt whose answer was lost may arrive late, and replaces nothing: each names what it means to replace.
        """
        key, replacing = names.corpus(name), None
        for _ in range(RETRIES):
            if self._keys.put(key, content, replacing=replacing):
                return
            standing = self._standing(key)
            if standing and standing.content == content:
                return
            replacing = standing.etag if standing else None
        raise StorageUnusable(place=key, reason=f"others replaced it {RETRIES} times while it was written")

    def _standing(self, key: str) -> Held | None:
        """What stands where a write was refused, perhaps by an earlier attempt of its own that nobody answered."""
        try:
            return self._keys.get(key)
        except StorageBindingUnavailable as lost:
            raise StorageBindingUnavailable(place=lost.place, reason=lost.reason, applied="unknown") from lost

    def put_all(self, contents: Iterable[tuple[str, Callable[[], bytes]]]) -> None:
        """Make and `put` each, `WORKERS` at a time; no more contents are in memory."""
        under_way: deque[Future[None]] = deque()
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="put") as pool:
            for name, make in contents:
                under_way.append(pool.submit(self._put_made, name, make))
                if len(under_way) == 2 * WORKERS:
                    under_way.popleft().result()
            while under_way:
                under_way.popleft().result()

    def _put_made(self, name: str, make: Callable[[], bytes]) -> None:
        self.put(name, make())

    def list(self, prefix: str) -> Iterator[str]:
        """The names under `prefix`, sorted."""
        yield from sorted(names.corpus_name(facts.key) for facts in self._keys.list(names.CORPUS + prefix))

    def delete(self, names_: Iterable[str]) -> None:
        """Delete each that exists, `WORKERS` at a time."""
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="delete") as pool:
            for deletion in [pool.submit(self._keys.delete, names.corpus(name)) for name in names_]:
                deletion.result()

    def unfinished(self, *, before: int) -> Sequence[str]:  # noqa: ARG002 - the port's
        """Nothing: a bucket holds an object whole or not at all."""
        return ()

    def forget(self, unfinished: Iterable[str]) -> None:
        """Nothing is ever unfinished."""

    @contextmanager
    def turn(self, prefix: str) -> Iterator[None]:  # noqa: ARG002 - the port's
        """No turn is cheap here: creation alone decides."""
        yield

    def local(self, name: str, *, sha256: str | None = None) -> Path:
        """A local copy of `name`: one of what `sha256` names where it is here, else of what stands now.

        Where nothing stands, a path at which nothing is.

        A copy is filed under the digest of what it holds, never of what was asked for: one that is found is whole.
        """
        if sha256 and (copy := self._copies.find(name, sha256)):
            return copy
        content = self.get(name)
        if content is None:
            return self._copies.absent(name)
        return self._copies.keep(name, hashlib.sha256(content).hexdigest(), content)
