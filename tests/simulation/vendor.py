"""A vendor whose books a test can read: what it holds, what it was asked and when, and what it answered.

It pages by key: a position names the last (clock, id) that was served, so rows that arrive in the middle of a walk
move nothing. Every row it gives carries the number of the answer that it was in.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from engine.shapes import Pull

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.clock import Clock
    from engine.pipeline.source import Ask

AT_WORK: Final[list[Vendor]] = []
"""The vendor that `pulls` asks is the last."""

DOUBLED: Final = 0.15
"""How many pages are served twice in a row."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it stands: `late` by how many seconds, `since` the number of the first answer that could hold it."""

    id: int
    clock: str
    version: int
    late: int
    since: int

    @property
    def key(self) -> tuple[str, int]:
        return self.clock, self.id


@dataclass(frozen=True, slots=True)
class Answer:
    """One page as it was served to somebody who stood at `asked`, with the floor `since`."""

    number: int
    asked: Any
    since: str | None
    rows: tuple[Row, ...]
    carried: Any
    more: bool


@dataclass
class Vendor:
    """`size` rows a page. `refusals` holds what is raised in place of which request.

    It is to be left alone until `closed_until`, by its own clock: the asker's is `behind` it by as many milliseconds as
    it was set back. A request that comes sooner stands in `early`, by how much.
    """

    clock: Clock
    size: int
    seed: int = 0
    honours_since: bool = True
    rows: dict[int, Row] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    refusals: dict[int, Exception] = field(default_factory=dict)
    requests: int = 0
    refused: int = 0
    closed_until: int = 0
    behind: int = 0
    early: list[int] = field(default_factory=list)

    def __call__(self, ask: Ask) -> Iterator[Pull]:
        asked, more = ask.position, True
        while more:
            self._admit()
            answer = self._answered(asked, ask.since)
            rows = [{"id": row.id, "at": row.clock, "version": row.version, "answer": answer.number}
                    for row in answer.rows]  # fmt: skip
            yield Pull(rows=rows, position=answer.carried, more=answer.more)
            asked, more = answer.carried, answer.more

    @property
    def newest(self) -> str:
        return max((row.clock for row in self.rows.values()), default="")

    def holds(self, identity: int, clock: str, *, late: int = 0) -> None:
        """Have a row from now on; of one that it has had, another version."""
        former = self.rows.get(identity)
        self.rows[identity] = Row(identity, clock, former.version + 1 if former else 0, late, len(self.answers))

    def refuses(self, refusals: dict[int, Exception]) -> None:
        """Raise these from now on, each in place of the request of its number; the next one has the number 0."""
        self.requests, self.refusals = 0, dict(refusals)

    def _admit(self) -> None:
        now, number = self.clock.now() + self.behind, self.requests
        self.requests += 1
        if now < self.closed_until:
            self.early.append(self.closed_until - now)
        if refusal := self.refusals.pop(number, None):
            self.refused += 1
            if wait_ms := getattr(refusal, "wait_ms", None):
                self.closed_until = now + wait_ms
            raise refusal

    def _answered(self, asked: Any, since: str | None) -> Answer:
        after, copy = (tuple(asked["after"]), asked["copy"]) if asked else (("", 0), 0)
        bar = since if self.honours_since and since is not None else ""
        ahead = sorted((r for r in self.rows.values() if r.key > after and r.clock >= bar), key=lambda r: r.key)
        page, more = ahead[: self.size], len(ahead) > self.size
        carried = {"after": list(page[-1].key), "copy": 0} if page else asked
        if page and not copy and random.Random(f"{self.seed}:{after}").random() < DOUBLED:
            carried, more = {"after": list(after), "copy": 1}, True
        answer = Answer(len(self.answers), asked, since, tuple(page), carried, more)
        self.answers.append(answer)
        return answer


def pulls(ask: Ask) -> Iterator[Pull]:
    """What the vendor at work gives: the entry of the table's Python source."""
    yield from AT_WORK[-1](ask)
