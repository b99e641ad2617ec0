"""The names of a statement's columns, as far as its text tells. Pure.

D1 answers a batch with one object a row: of two columns with one name it keeps the last, and a name that is a number
moves to the front. Neither can be seen in the answer, so it is refused in the text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\])"""
    r"""|(?P<word>\w+)|(?P<mark>.)""",
    re.DOTALL,
)
_END = frozenset({"from", "where", "group", "having", "order", "limit", "union", "except", "intersect", "window"})


class AmbiguousColumns(ValueError):
    """Columns that an object cannot keep apart, or in order."""


@lru_cache(maxsize=512)
def check_columns(sql: str) -> None:
    """Raise `AmbiguousColumns` when the rows of `sql` would lose a column or its place."""
    names = [_name(item) for item in _items(sql)]
    for name in names:
        if name == "*":
            msg = "SELECT * hides which columns there are: name them"
        elif name.isdecimal():
            msg = f"a column called {name} would move to the front: name it with AS"
        elif names.count(name) > 1:
            msg = f"two columns are called {name}, and D1 keeps only one: name them apart with AS"
        else:
            continue
        raise AmbiguousColumns(msg)


def reads(sql: str) -> bool:
    """Whether the text is of a kind that only reads."""
    words = (token.lower() for token, _ in _tokens(sql))
    first = next(words, "")
    return first in {"select", "values"} or (first == "with" and not {"insert", "update", "delete"} & set(words))


def _items(sql: str) -> Iterator[list[str]]:
    """The result columns, each as its tokens: after RETURNING, or between the outermost SELECT and FROM."""
    flat = list(_tokens(sql))
    words = [token.lower() if depth == 0 else "" for token, depth in flat]
    start = _start(words)
    if start is None:
        return
    item: list[str] = []
    for (token, depth), word in zip(flat[start:], words[start:], strict=True):
        if depth == 0 and (word in _END or word == ";"):
            break
        if depth == 0 and word == ",":
            yield item
            item = []
        else:
            item.append(token)
    yield item


def _start(words: list[str]) -> int | None:
    if "returning" in words:
        return words.index("returning") + 1
    if {"insert", "update", "delete", "replace", "create", "alter", "drop"} & set(words) or "select" not in words:
        return None
    start = words.index("select") + 1
    return start + 1 if words[start : start + 1] in (["distinct"], ["all"]) else start


def _name(item: list[str]) -> str:
    if not item:
        return ""
    last = item[-1]
    if len(item) == 1 or [word.lower() for word in item[-2:-1]] == ["as"] or item[-2] == ".":
        return last.strip("\"`[]'").lower()
    if item[-2].lower() not in _JOINING and last.lower() != "end" and re.fullmatch(r'\w+|".*"', last):
        return last.strip('"').lower()
    return " ".join(item).lower()


_JOINING = frozenset("+-*/%|&<>=!~(,") | {"and", "or", "not", "is", "like", "in"}


def _tokens(sql: str) -> Iterator[tuple[str, int]]:
    depth = 0
    for match in _TOKEN.finditer(sql):
        part = match[0]
        if match.lastgroup == "skip":
            continue
        depth -= int(part == ")")
        yield part, depth
        depth += int(part == "(")
