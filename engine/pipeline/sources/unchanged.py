"""What names an input as a whole, so that one which has not changed is not read again (run.advance.skip-unchanged).

The position of such a table is `{"sha256": hex, "rows": n}`: the digest of the input's raw bytes and the rows it held.
A declaration that changes beside an input that does not still skips it; `contextful pipeline reset` reads it anew.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from engine.errors import Transient
from engine.shapes import Pull

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_FIELDS: Final = {"sha256", "rows"}


def whole(position: Any) -> bool:
    """Whether `position` names a whole input, and no place within one."""
    return isinstance(position, dict) and set(position) == _FIELDS


def named(sha256: str, *, rows: int) -> dict[str, Any]:
    """The position of an input that was read whole."""
    return {"sha256": sha256, "rows": rows}


def skipped(position: Any, *, sha256: str) -> Pull | None:
    """The pull that skips an input which is still the one at `position`; None where it is another."""
    if whole(position) and position["sha256"] == sha256:
        return Pull(position=position, unchanged=True)
    return None


def parted(position: Any) -> tuple[dict[str, Any] | None, Any]:
    """The mark that a place within an input carries, and the place itself; None for what is not there."""
    if not isinstance(position, dict) or not set(position) >= _FIELDS:
        return None, position
    place = {name: value for name, value in position.items() if name not in _FIELDS}
    return (named(position["sha256"], rows=position["rows"]), place) if place else (None, None)


def further(mark: dict[str, Any] | None, *, sha256: str, rows: int) -> dict[str, Any]:
    """`mark` with one more answer behind it: of one answer its own digest, of several a chain of them."""
    if mark is None:
        return named(sha256, rows=rows)
    return named(of_content(f"{mark['sha256']}{sha256}".encode()), rows=mark["rows"] + rows)


def of_content(content: bytes) -> str:
    """The digest of one answer's bytes."""
    return hashlib.sha256(content).hexdigest()


def of_files(files: Iterable[tuple[str, Path]]) -> str:
    """The digest of one file's bytes as they lie on disk; of several, that of their names and digests.

    Raise `Transient` naming a file that cannot be read.
    """
    digests = [(name, _of_file(name, path)) for name, path in files]
    if len(digests) == 1:
        return digests[0][1]
    return of_content("".join(f"{digest}  {name}\n" for name, digest in digests).encode("utf-8", "surrogateescape"))


def _of_file(name: str, path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise Transient(f"{name} cannot be read: {error.strerror or error}") from error
