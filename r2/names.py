"""What things are called in the bucket: `blobs/<sha256>` and `corpus/<object>` (run.journal.d1-blob)."""

from __future__ import annotations

from typing import Final

CORPUS: Final = "corpus/"
LONGEST: Final = 1024
"""Bytes of a key."""


def blob(digest: str) -> str:
    """The key of the content with that SHA-256 (hex)."""
    return f"blobs/{digest}"


def corpus(name: str) -> str:
    """The key of the corpus object `name`. Raise ValueError for what is no object's name."""
    key = CORPUS + name
    parts = name.split("/")
    if any(not part or part in {".", ".."} or "\0" in part or "\\" in part for part in parts):
        raise ValueError(f"{name!r} is no object's name")
    if len(key.encode()) > LONGEST:
        raise ValueError(f"{name!r} makes a key of more than {LONGEST} bytes")
    return key


def corpus_name(key: str) -> str:
    """The object whose key this is."""
    return key.removeprefix(CORPUS)
