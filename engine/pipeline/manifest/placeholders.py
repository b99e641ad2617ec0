"""`${NAME}` in a manifest: a secret of the environment, kept as this text wherever anything is recorded.

A name is a letter or underscore and then letters, digits and underscores. There is no escape: in the keys that take
placeholders every `${` starts one, and a URL that needs the characters themselves writes `%24%7B`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from engine.pipeline.manifest.problems import Loc, Problem, found_at, leaves, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAME_PATTERN: Final = r"[A-Za-z_][A-Za-z0-9_]*"
PLACEHOLDER: Final = re.compile(rf"\$\{{({NAME_PATTERN})\}}")

SPELLING: Final = "${NAME}, the name of letters, digits and _, the first no digit"
PLACES: Final = "${NAME} only in url, headers, params, body and dsn"

_TEXT_KEYS: Final = frozenset({("url",), ("dsn",)})
_TABLE_KEYS: Final = frozenset({("headers",), ("params",), ("body",)})


def names_in(value: Any) -> frozenset[str]:
    """The names of all placeholders in the texts of `value`, however nested."""
    texts = (leaf for _, leaf in leaves(value) if isinstance(leaf, str))
    return frozenset(name for text in texts for name in PLACEHOLDER.findall(text))


def misplaced(document: Mapping[str, Any]) -> Iterator[Problem]:
    """The placeholders that are misspelt, in keys, or in places that take none."""
    for loc, value in leaves(document):
        if any(isinstance(part, str) and PLACEHOLDER.search(part) for part in loc):
            yield Problem(loc, "a placeholder in a key", PLACES)
        if not isinstance(value, str) or "${" not in value:
            continue
        if not _takes_placeholders(loc):
            if PLACEHOLDER.search(value):
                yield Problem(loc, shown(value), PLACES)
        elif "${" in PLACEHOLDER.sub("", value):
            yield Problem(loc, found_at(loc, value), SPELLING)


def _takes_placeholders(loc: Loc) -> bool:
    keys = tuple(part for part in loc if isinstance(part, str))
    if keys[:1] == ("destination",):
        return keys[1:] == ("url",) or keys[1:2] == ("headers",)
    own = keys[2:] if keys[:2] in {("pipeline", "source"), ("pipeline", "table")} else ()
    return own in _TEXT_KEYS or own[:1] in _TABLE_KEYS
