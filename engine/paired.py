"""Whether corpus and journal go together: both sealed, and under one key, or neither (run.journal.storage-unsupported).

It is asked before work is admitted and at the first use of the corpus, whichever comes first, and no sooner: it is the
bucket that knows, and whoever reads machine state alone touches none (run.record.history-export).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.errors import StorageProfileUnsupported
from engine.sealed import KEY, NOTICE, SEALING, SealedObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from engine.ports import Objects
    from engine.profile import Profile


def paired(profile: Profile) -> Profile:
    """`profile`, of whose corpus nothing is read or written unless it goes with the journal.

    Raise `StorageProfileUnsupported` where its settings alone tell that it does not.
    """
    if isinstance(profile.objects, SealedObjects) and not getattr(profile.journal, "sealed", False):
        raise _unpaired(profile.name, "records values unsealed and its corpus is sealed")
    objects = PairedObjects(profile.objects, profile.name)
    return replace(profile, objects=objects, require_paired=objects.require)


@dataclass
class PairedObjects:
    """`Objects` of the profile `of`, looked at once before they are used."""

    objects: Objects
    of: str
    _fit: bool = field(default=False, init=False)

    def require(self) -> None:
        """Raise `StorageProfileUnsupported` where the corpus is sealed and no key is set, or `SealBroken`."""
        if self._fit:
            return
        if isinstance(self.objects, SealedObjects):
            self.objects.check()
        elif self.objects.get(NOTICE) is not None:
            raise _unpaired(self.of, "was opened without the key of its sealed corpus")
        self._fit = True

    def get(self, name: str) -> bytes | None:
        """The content."""
        return self._usable.get(name)

    def create(self, name: str, content: bytes) -> bool:
        """Create `name` unless it exists."""
        return self._usable.create(name, content)

    def put(self, name: str, content: bytes) -> None:
        """Write `name`."""
        self._usable.put(name, content)

    def put_all(self, contents: Iterable[tuple[str, Callable[[], bytes]]]) -> None:
        """Write each."""
        self._usable.put_all(contents)

    def list(self, prefix: str) -> Iterator[str]:
        """The names under `prefix`."""
        return self._usable.list(prefix)

    def delete(self, names: Iterable[str]) -> None:
        """Delete each that exists."""
        self._usable.delete(names)

    def unfinished(self, *, before: int) -> Sequence[str]:
        """What crashed writers left half-written."""
        return self._usable.unfinished(before=before)

    def forget(self, unfinished: Iterable[str]) -> None:
        """Delete each of these leavings."""
        self._usable.forget(unfinished)

    @contextmanager
    def turn(self, prefix: str) -> Iterator[None]:
        """Hold others off `prefix` where that is cheap."""
        with self._usable.turn(prefix):
            yield

    def local(self, name: str, *, sha256: str | None = None) -> Path:
        """A local file that holds the content."""
        return self._usable.local(name, sha256=sha256)

    @property
    def _usable(self) -> Objects:
        self.require()
        return self.objects


def _unpaired(profile: str, found: str) -> StorageProfileUnsupported:
    refusal = StorageProfileUnsupported(profile=profile, known=", ".join(SEALING), found=found)
    return refusal.advising(f"set {KEY}, and CONTEXTFUL_STORAGE_PROFILE to one of these: they seal what they record")
