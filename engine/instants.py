"""Instants as text and back: integer milliseconds since the epoch, RFC 3339 with a `Z` on every surface. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(milliseconds: int | None) -> str | None:
    """`milliseconds` since the epoch as RFC 3339 with a `Z`."""
    if milliseconds is None:
        return None
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC).replace(microsecond=milliseconds % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read(text: str) -> int:
    """The milliseconds that `instant` told as `text`. Raise `ValueError` for another spelling."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return int(moment.replace(microsecond=0).timestamp()) * 1000 + moment.microsecond // 1000
