"""How sealed content is told from any other, without its key. Standard library only: the Worker asks it too."""

from __future__ import annotations

from typing import Final

MAGIC: Final = b"ctxseal1"
"""What sealed content begins with; the eight bytes after it name the key."""

MARK: Final = "sealed"
"""The entry of `meta` that names the key under which a store records, where it seals."""


def key_of(content: bytes) -> str | None:
    """The name of the key that `content` is sealed under, None where it is not sealed."""
    return content[8:16].hex() if content.startswith(MAGIC) and len(content) >= 16 else None
