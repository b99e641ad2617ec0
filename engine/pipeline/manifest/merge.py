"""A table's source: the pipeline's, with whatever the table says of its own.

A table's key replaces the source's, whole; only `headers` and `params` are laid over the source's, key by key, the
table's winning (names of headers are compared ignoring case), a table's `url` may be relative to the source's, and of
`query` and `from` the table's one takes the place of either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin


def merged(source: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of `source` and `table` as one. Raise `ValueError` where the two URLs do not join."""
    result = {**source, **table}
    for ours, theirs in (("from", "query"), ("query", "from")):
        if ours in table and theirs not in table:
            result.pop(theirs, None)
    for key, same in (("headers", str.lower), ("params", str)):
        if _both(source, table, key):
            result[key] = _overlaid(source[key], table[key], same)
    if isinstance(source.get("url"), str) and isinstance(table.get("url"), str):
        result["url"] = urljoin(source["url"], table["url"])
    return result


def _both(source: Mapping[str, Any], table: Mapping[str, Any], key: str) -> bool:
    return isinstance(source.get(key), Mapping) and isinstance(table.get(key), Mapping)


def _overlaid(under: Mapping[str, Any], over: Mapping[str, Any], same: Any) -> dict[str, Any]:
    replaced = {same(name) for name in over}
    return {**{name: value for name, value in under.items() if same(name) not in replaced}, **over}
