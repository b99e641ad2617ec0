"""`${NAME}` in declared texts: filled at the moment of sending, put back in every text a person may read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

from engine.errors import SecretNotFound
from engine.pipeline.manifest.placeholders import PLACEHOLDER
from engine.pipeline.withheld import quotable

LONGEST_SAMPLE: Final = 200
"""Characters of a foreign text that an error quotes."""


def holds_placeholder(declared: Any) -> bool:
    """Whether any text inside the JSON value `declared` holds a `${NAME}`."""
    if isinstance(declared, str):
        return PLACEHOLDER.search(declared) is not None
    if isinstance(declared, Mapping):
        return any(holds_placeholder(value) for value in declared.values())
    return isinstance(declared, list | tuple) and any(holds_placeholder(value) for value in declared)


def filled(declared: Any, secrets: Mapping[str, str], *, path: str) -> Any:
    """`declared` with each `${NAME}` replaced by its secret; `path` tells where in the manifest it stands.

    Raise `SecretNotFound` naming the secret and the path.
    """
    if isinstance(declared, str):
        return PLACEHOLDER.sub(lambda found: _secret(found[1], secrets, path), declared)
    if isinstance(declared, Mapping):
        return {key: filled(value, secrets, path=f"{path}.{key}") for key, value in declared.items()}
    if isinstance(declared, list | tuple):
        return [filled(value, secrets, path=f"{path}[{index}]") for index, value in enumerate(declared)]
    return declared


def masked(text: str, secrets: Mapping[str, str]) -> str:
    """`text` with every secret value, plain, percent-encoded or escaped as in JSON, replaced by its `${NAME}`."""
    spellings = {spelling: name for name, value in secrets.items() for spelling in _spellings(value)}
    if not spellings:
        return text
    longest_first = sorted(spellings, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda found: f"${{{spellings[found[0]]}}}", text)


def sample(text: str) -> str:
    """The beginning of `text` on one line, short enough for an error; of protected content nothing."""
    line = " ".join(quotable(text)[: LONGEST_SAMPLE * 4].split())
    return line if len(line) <= LONGEST_SAMPLE else f"{line[:LONGEST_SAMPLE]}…"


def _secret(name: str, secrets: Mapping[str, str], path: str) -> str:
    try:
        return secrets[name]
    except (KeyError, SecretNotFound):
        raise SecretNotFound(name=name, path=path) from None


def _spellings(value: str) -> Iterator[str]:
    if value:
        yield from (value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1])
