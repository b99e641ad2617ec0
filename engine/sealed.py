"""Sealing: what leaves the machine is AES-256-GCM under the key in CONTEXTFUL_SEAL_KEY.

Objects of the corpus are sealed whole, each bound to its name; recorded values are sealed before they are placed, so
neither the database nor a blob holds them readable. A blob's digest is of its sealed bytes: whoever keeps it verifies
it without the key. What stays readable: names of objects, steps, scopes and runs, counts, instants, positions, errors.

The nonce is a keyed digest of the content, so equal contents seal alike and writers of one content still converge;
that tells whoever sees the store which contents are equal, and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Self

from engine.errors import SealBroken, SealKeyUnusable, StorageCapabilityMissing
from engine.journal import SqlJournal
from engine.seals import MAGIC, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from engine.copies import Copies
    from engine.ports import Blobs, Database, Objects
    from engine.shapes import Entry

KEY: Final = "CONTEXTFUL_SEAL_KEY"
"""The secret: 32 bytes, in base64 or hexadecimal."""

NOTICE: Final = "seal.json"
"""The object that tells that a corpus is sealed, and under which key. It is no table's, so no reader looks at it."""

SEALING: Final = ("sqlite", "cloudflare-d1")
"""The profiles whose journals seal what they record."""

_NONCE: Final = 12


class Seal:
    """Closes and opens contents under one key. `id` names the key without telling anything of it."""

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as absent:
            missing = f"{KEY} is set and cryptography is not installed: pip install 'contextful[cloudflare]'"
            raise StorageCapabilityMissing(profile="sealed", missing=missing) from absent
        self._cipher = AESGCM(_derived(key, b"content"))
        self._nonces = _derived(key, b"nonce")
        self.id = _derived(key, b"id").hex()[:16]

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self | None:
        """The seal of the environment's key, None where it sets none. Raise `SealKeyUnusable`."""
        text = environ.get(KEY)
        return cls(_key(text)) if text else None

    def close(self, content: bytes, *, name: str) -> bytes:
        """`content`, sealed as what is called `name`."""
        bound = MAGIC + name.encode()
        nonce = hmac.digest(self._nonces, len(bound).to_bytes(8, "big") + bound + content, hashlib.sha256)[:_NONCE]
        return MAGIC + bytes.fromhex(self.id) + nonce + self._cipher.encrypt(nonce, content, bound)

    def open(self, sealed: bytes, *, name: str) -> bytes:
        """The content that was sealed as `name`. Raise `SealBroken` where it was not, or under another key."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

        key_id, nonce, rest = key_of(sealed), sealed[16 : 16 + _NONCE], sealed[16 + _NONCE :]
        if key_id is None:
            raise SealBroken(name=name, reason="it is not sealed")
        if key_id != self.id:
            raise SealBroken(name=name, reason=f"it is sealed under key {key_id}, and {KEY} is key {self.id}")
        try:
            return self._cipher.decrypt(nonce, rest, MAGIC + name.encode())
        except InvalidTag as broken:
            reason = "its bytes were changed, or it was sealed as something else"
            raise SealBroken(name=name, reason=reason) from broken


class SealedJournal(SqlJournal):
    """A `SqlJournal` whose values, inline and in blobs, are sealed."""

    sealed: ClassVar[bool] = True

    def __init__(self, database: Database, blobs: Blobs, *, seal: Seal) -> None:
        super().__init__(database, blobs)
        self._seal = seal

    @property
    def seal_id(self) -> str:
        """The name of the key."""
        return self._seal.id

    def place(self, value: bytes) -> dict[str, bytes | str | int | None]:
        """The columns that hold `value`, sealed."""
        return super().place(self._seal.close(value, name="value"))

    def value(self, entry: Entry) -> bytes:
        """The recorded bytes, opened."""
        return self._seal.open(super().value(entry), name="value")


class SealedObjects:
    """`Objects` whose contents are sealed in `objects`. What is read by path is opened into the folder `opened`."""

    sealed: ClassVar[bool] = True

    def __init__(self, objects: Objects, *, seal: Seal, opened: Path) -> None:
        self._objects = objects
        self._seal = seal
        self._opened = opened
        self._copies: Copies | None = None
        self._opening = threading.Lock()
        self._noticed = False

    def get(self, name: str) -> bytes | None:
        """The content of `name`, opened."""
        sealed = self._objects.get(name)
        return None if sealed is None else self._seal.open(sealed, name=name)

    def create(self, name: str, content: bytes) -> bool:
        """Create `name`, sealed."""
        self._notice()
        return self._objects.create(name, self._seal.close(content, name=name))

    def put(self, name: str, content: bytes) -> None:
        """Write `name`, sealed."""
        self._notice()
        self._objects.put(name, self._seal.close(content, name=name))

    def put_all(self, contents: Iterable[tuple[str, Callable[[], bytes]]]) -> None:
        """Write each, sealed."""
        self._notice()
        self._objects.put_all((name, partial(self._closed, name, make)) for name, make in contents)

    def _closed(self, name: str, make: Callable[[], bytes]) -> bytes:
        return self._seal.close(make(), name=name)

    def list(self, prefix: str) -> Iterator[str]:
        """The names under `prefix`, without the notice."""
        return (name for name in self._objects.list(prefix) if name != NOTICE)

    def delete(self, names: Iterable[str]) -> None:
        """Delete each that exists."""
        self._objects.delete(names)

    def unfinished(self, *, before: int) -> Sequence[str]:
        """What crashed writers left half-written."""
        return self._objects.unfinished(before=before)

    def forget(self, unfinished: Iterable[str]) -> None:
        """Delete each of these leavings."""
        self._objects.forget(unfinished)

    @contextmanager
    def turn(self, prefix: str) -> Iterator[None]:
        """Hold others off `prefix` where that is cheap."""
        with self._objects.turn(prefix):
            yield

    def local(self, name: str, *, sha256: str | None = None) -> Path:
        """A file of this machine, for its owner alone, that holds the opened content.

        It is what `sha256` names where a copy of that is here, else what stands now.
        """
        copies = self._opened_copies()
        if sha256 and (copy := copies.find(name, sha256)):
            return copy
        content = self.get(name)
        if content is None:
            return copies.absent(name)
        version = hashlib.sha256(content).hexdigest()
        return copies.find(name, version) or copies.keep(name, version, content)

    def _opened_copies(self) -> Copies:
        """The copies, opened once for all threads: what one of them alone kept would go with it."""
        from engine.copies import Copies  # noqa: PLC0415 - only who reads by path needs it

        with self._opening:
            self._copies = self._copies or Copies(self._opened)
            return self._copies

    def check(self) -> None:
        """Raise `SealBroken` where the corpus is sealed under another key, or holds rows and is not sealed."""
        notice = self._objects.get(NOTICE)
        if notice is None:
            if next(iter(self._objects.list("")), None) is None:
                return
            # Another engine may have begun the corpus between the two looks: it notes its key before anything else.
            notice = self._objects.get(NOTICE)
        if notice is None:
            raise SealBroken(name="the corpus", reason="it was written without a key and is not sealed")
        key_id = json.loads(notice)["key"]
        if key_id != self._seal.id:
            raise SealBroken(name="the corpus", reason=f"it is sealed under key {key_id}, and {KEY} is {self._seal.id}")

    def _notice(self) -> None:
        """Tell, before anything sealed is written, that it is."""
        if self._noticed:
            return
        self.check()
        self._objects.create(NOTICE, json.dumps({"sealed": MAGIC.decode(), "key": self._seal.id}).encode())
        self._noticed = True


def sealed_journal(database: Database, blobs: Blobs, environ: Mapping[str, str]) -> SqlJournal:
    """The journal over `database`, sealed where the environment holds a key."""
    seal = Seal.of(environ)
    return SealedJournal(database, blobs, seal=seal) if seal else SqlJournal(database, blobs)


def sealed_objects(objects: Objects, environ: Mapping[str, str], *, opened: Path) -> Objects:
    """`objects`, sealed where the environment holds a key."""
    seal = Seal.of(environ)
    return SealedObjects(objects, seal=seal, opened=opened) if seal else objects


def _key(text: str) -> bytes:
    for decode in (bytes.fromhex, lambda given: base64.b64decode(given, validate=True)):
        try:
            key = decode(text.strip())
        except (ValueError, binascii.Error):
            continue
        if len(key) == 32:
            return key
    raise SealKeyUnusable(variable=KEY)


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"contextful.seal." + purpose, hashlib.sha256)
