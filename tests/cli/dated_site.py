"""A site with ten orders a day, and a project that backfills them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from tests.answering import Answering, listening
from tests.cli.manifests import ORDERS_OVER_HTTP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Shell

MANIFEST: Final = (
    ORDERS_OVER_HTTP
    + """\
paginate = {{ by = "page", param = "page" }}
retry = {{ attempts = 1 }}

[[pipeline.table]]
name = "orders"
incremental = "at"
since_param = "since"
until_param = "until"
"""
)

FIVE_DAYS: Final = ("pipeline", "backfill", "orders", "--from", "2026-01-01", "--to", "2026-01-06", "--every", "1d")
SPELLED: Final = [f"2026-01-{n:02}" for n in range(1, 7)]
FIFTY: Final = [100 * day + hour for day in range(1, 6) for hour in range(10)]


@dataclass
class Site:
    """Ten orders a day for a week, four a page; a day's second page hangs or fails where the day is in that set."""

    url: str = ""
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    hangs: set[str] = field(default_factory=set)
    fails: set[str] = field(default_factory=set)
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def answer(self, since: str, until: str, page: int) -> tuple[int, Any]:
        self.asked.append((since, until, page))
        if page == 2 and since in self.hangs:
            self.reached.set()
            self.release.wait(30)
        if page == 2 and since in self.fails:
            return 404, {}
        rows = [{"id": 100 * day + hour, "at": f"2026-01-{day:02}T{hour:02}:00:00Z"}
                for day in range(1, 8) for hour in range(10)]  # fmt: skip
        found = [row for row in rows if since <= str(row["at"]) < (until or "9")]
        return 200, {"items": found[4 * (page - 1) : 4 * page]}

    @property
    def days(self) -> list[str]:
        return list(dict.fromkeys(since for since, _, _ in self.asked))


class _Handler(Answering):
    site: Site

    def reply(self) -> None:
        query = dict(parse_qsl(urlsplit(self.path).query))
        status, body = self.site.answer(query.get("since", ""), query.get("until", ""), int(query["page"]))
        self.answer(status, body, {"content-type": "application/json"})


@contextmanager
def serving() -> Iterator[Site]:
    """Listen on a loopback port until the block ends."""
    site = Site()
    with listening(_Handler, site=site) as site.url:
        yield site
        site.release.set()


def ids(shell: Shell) -> list[int]:
    return [row[0] for row in shell.json("read", "SELECT id FROM orders ORDER BY id")["rows"]]
