"""Where blobs and corpus objects lie apart from the database: a bucket, opened by the name of its entry point.

A profile opens one without knowing its technology; both are told apart by the group `contextful.objects`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import StorageCapabilityMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from engine.ports import Blobs, Database, Objects

GROUP: Final = "contextful.objects"
CHOSEN: Final = "CONTEXTFUL_OBJECTS"
"""The variable that names the entry point, where a profile leaves the choice."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The corpus of a project and, given the database that holds their rows, its blobs."""

    objects: Objects
    blobs: Callable[[Database], Blobs]
    close: Callable[[], None]


class OpenBucket(Protocol):
    """What an entry point names."""

    def __call__(self, cache: Path, *, environ: Mapping[str, str]) -> Bucket:
        """Open the bucket; `cache` is a local folder for copies, whose loss costs a download.

        Raise `StorageCapabilityMissing` naming every setting that is missing.
        """


def open_bucket(name: str, cache: Path, *, environ: Mapping[str, str]) -> Bucket:
    """Open the bucket `name`. Raise `StorageCapabilityMissing` for an unknown one."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms that only a bucket need pay

    known = {point.name: point for point in entry_points(group=GROUP)}
    if name not in known:
        missing = f"{CHOSEN} is {name!r}; known: {', '.join(sorted(known))}"
        raise StorageCapabilityMissing(profile=name, missing=missing)
    opener: OpenBucket = known[name].load()
    return opener(cache, environ=environ)
