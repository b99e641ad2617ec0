"""What the blobs and objects of this room ask of a bucket, whichever protocol reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Facts:
    """What a bucket tells of a content without sending it: `etag` changes whenever the content does."""

    key: str
    bytes: int
    etag: str
    written_at: int


@dataclass(frozen=True, slots=True)
class Held:
    """A content and the etag it was read under."""

    content: bytes
    etag: str


class Keys(Protocol):
    """A bucket by its keys. Every write is conditional, so one that arrives late changes nothing that came after it.

    Each method raises `StorageBindingUnavailable` where no usable answer came, and `StorageUnusable` where the bucket
    refused what was asked: then nothing was changed.
    """

    def get(self, key: str) -> Held | None:
        """The content under `key`."""

    def head(self, key: str) -> Facts | None:
        """What is known of it."""

    def put(self, key: str, content: bytes, *, replacing: str | None) -> bool:
        """Write `content` where the content of etag `replacing` stands, or nothing where it is None; tell whether.

        It is sent again while no answer comes, so False may hide an earlier attempt that wrote: the caller compares.
        """

    def create(self, key: str, content: bytes) -> bool:
        """Write `content` where nothing stands and tell whether this call did. It is sent once."""

    def delete(self, key: str) -> bool:
        """Delete what stands there, if anything; tell whether no copy of the request can still be on its way."""

    def list(self, prefix: str) -> Iterator[Facts]:
        """What stands under `prefix`, by key; no order is promised between pages that change meanwhile."""
