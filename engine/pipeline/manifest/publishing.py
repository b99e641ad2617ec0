"""What exports and their destinations must be to one another and to the rest of the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.pipeline.manifest.problems import Problem, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from engine.pipeline.manifest.problems import Loc

DEFAULT_HEADER: Final = "Idempotency-Key"


def key_headers(loc: Loc, destination: Mapping[str, Any], headers: Iterable[str]) -> Iterator[Problem]:
    """A header of the declaration that would take the idempotency key's place."""
    reserved = destination.get("idempotency_header", DEFAULT_HEADER)
    for name in headers:
        if isinstance(reserved, str) and name.lower() == reserved.lower():
            yield Problem((*loc, "headers", name), shown(name), "any other header: this one carries the key")


def misdirected(
    exports: Iterable[tuple[Loc, Mapping[str, Any]]], *, destinations: Sequence[Any], tables: Sequence[Any]
) -> Iterator[Problem]:
    """The exports that publish nothing, or two things, or what the manifest does not declare."""
    for loc, export in exports:
        named = [key for key in ("table", "statement") if key in export]
        if len(named) != 1:
            found = "table and statement" if named else "neither table nor statement"
            yield Problem((*loc, named[-1] if named else "table"), found, "one of the two: a table, or a SELECT")
        for key, known in (("destination", destinations), ("table", tables)):
            if isinstance(export.get(key), str) and export[key] not in known:
                yield Problem((*loc, key), shown(export[key]), _declared(key, known))


def _declared(kind: str, known: Sequence[Any]) -> str:
    names = ", ".join(shown(name) for name in known if isinstance(name, str))
    return f"a {kind} of this manifest: {names}" if names else f"a {kind} of this manifest, which declares none"
