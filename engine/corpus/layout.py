"""Where the corpus keeps a table: the names of its objects, and nothing else.

`<table>/commits/<seq>.json` are the markers, `<table>/parts/<commit id>/<ordinal>.parquet` the rows they name,
`<table>/schema.json` a cache of the newest marker's schema.
"""

from __future__ import annotations

import re
from typing import Final

TABLE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def usable(table: str) -> bool:
    """Whether `table` may name a table."""
    return TABLE_NAME.fullmatch(table) is not None


def marker(table: str, seq: int) -> str:
    """The commit manifest of `table` number `seq`."""
    return f"{commits(table)}{seq:012}.json"


def commits(table: str) -> str:
    """The prefix of every marker of `table`."""
    return f"{table}/commits/"


def part(table: str, commit_id: str, ordinal: int) -> str:
    """Part number `ordinal` of a commit."""
    return f"{parts(table)}{commit_id}/{ordinal:06}.parquet"


def parts(table: str) -> str:
    """The prefix of every part of `table`."""
    return f"{table}/parts/"


def schema(table: str) -> str:
    """The cached schema of `table`."""
    return f"{table}/schema.json"


def lock(table: str) -> str:
    """What local committers of `table` take turns by."""
    return f"{table}/.lock"


def table_of(name: str) -> str:
    """The table the object `name` belongs to."""
    return name.partition("/")[0]
