"""A corner of a bucket that tests share: corpus objects of each test under a folder of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from r2.names import CORPUS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from r2.keys import Facts, Held, Keys


@dataclass(frozen=True, slots=True)
class Prefixed:
    """`Keys` whose corpus lies below `folder`."""

    keys: Keys
    folder: str

    def get(self, key: str) -> Held | None:
        return self.keys.get(self._moved(key))

    def head(self, key: str) -> Facts | None:
        return self.keys.head(self._moved(key))

    def put(self, key: str, content: bytes, *, replacing: str | None) -> bool:
        return self.keys.put(self._moved(key), content, replacing=replacing)

    def create(self, key: str, content: bytes) -> bool:
        return self.keys.create(self._moved(key), content)

    def delete(self, key: str) -> bool:
        return self.keys.delete(self._moved(key))

    def list(self, prefix: str) -> Iterator[Facts]:
        for facts in self.keys.list(self._moved(prefix)):
            yield replace(facts, key=facts.key.replace(f"{CORPUS}{self.folder}/", CORPUS, 1))

    def _moved(self, key: str) -> str:
        return key.replace(CORPUS, f"{CORPUS}{self.folder}/", 1)
