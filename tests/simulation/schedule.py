"""A schedule drawn from a seed: what happens to one table, fire by fire. The same seed draws the same schedule."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from engine.errors import Permanent, RateLimited, Transient

BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)
SECOND: Final = 1_000
HOUR: Final = 3_600 * SECOND


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row the vendor has from now on, at the clock `at`; None for `id` stands for another version of an old row."""

    id: int | None
    at: str
    late: int = 0


@dataclass(frozen=True, slots=True)
class Incident:
    """What happens at a point, before it or behind it.

    The process dies (`crash`), is stopped (`stop`) or by the catalog (`mark`), sleeps (`sleep`) or has its clock set
    back (`set-back`), both by `ms`.
    """

    kind: str
    point: int
    behind: bool
    ms: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """One fire: how long after the last one, by how far the clock is set, what arrived before, what befalls it."""

    pause_ms: int
    jump_ms: int
    arrivals: tuple[Arrival, ...]
    refusals: dict[int, str]
    incident: Incident | None


@dataclass(frozen=True, slots=True)
class Drawn:
    """One seed's schedule. `kind`: `keyed` and `keyless` tables have a watermark, `opaque` ones a page token."""

    seed: int
    profile: str
    kind: str
    size: int
    checkpoint: int | None
    lateness_ms: int
    honours_since: bool
    moments: tuple[Moment, ...] = field(repr=False)

    @property
    def declared(self) -> dict[str, Any]:
        """What of the table is drawn."""
        watermark = {} if self.kind == "opaque" else {"incremental": "at", "allowed_lateness_ms": self.lateness_ms}
        return watermark | ({"primary_key": ("id",)} if self.kind == "keyed" else {})


def drawn(seed: int) -> Drawn:
    """The schedule of `seed`."""
    draw = random.Random(seed)
    rows = _Rows(draw)
    moments = tuple(_moment(draw, rows) for _ in range(draw.randint(2, 5)))
    return Drawn(
        seed=seed,
        profile="file" if seed % 10 == 9 else "sqlite",
        kind=draw.choice(("keyed", "keyed", "keyless", "keyless", "opaque")),
        size=draw.randint(1, 4),
        checkpoint=draw.choice((None, 1, 6_000, 12_000)),
        lateness_ms=draw.choice((0, 0, 3 * SECOND, 10 * SECOND)),
        honours_since=draw.random() < 0.7,
        moments=moments,
    )


def failure(name: str) -> Exception:
    """The failure that a schedule calls `name`."""
    kind, _, wait = name.partition(" ")
    if kind == "throttle":
        return RateLimited("slow down", wait_ms=int(wait))
    return {"transient": Transient, "permanent": Permanent}[kind](f"the vendor's {kind} failure")


@dataclass
class _Rows:
    """What arrives: ids count up, clocks go on by 0 to 3 seconds a row, so that many rows share one."""

    draw: random.Random
    seconds: int = 0
    ids: int = 0

    def arrive(self) -> Arrival:
        if self.ids and self.draw.random() < 0.15:
            late = self.draw.randint(1, 12)
            return Arrival(self._next(), _at(max(self.seconds - late, 0)), late=min(late, self.seconds))
        if self.ids and self.draw.random() < 0.1:
            self.seconds += 1
            return Arrival(None, _at(self.seconds))
        self.seconds += self.draw.choice((0, 0, 0, 1, 1, 3))
        return Arrival(self._next(), _at(self.seconds))

    def _next(self) -> int:
        self.ids += 1
        return self.ids


def _at(seconds: int) -> str:
    return (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(draw: random.Random, rows: _Rows) -> Moment:
    return Moment(
        pause_ms=draw.choice((0, 20 * SECOND, HOUR, 24 * HOUR)),
        jump_ms=draw.choice((0, 0, 0, -5 * SECOND, -HOUR)),
        arrivals=tuple(rows.arrive() for _ in range(draw.choice((0, 1, 3, 6, 10)))),
        refusals={draw.randint(0, 8): _refusal(draw) for _ in range(draw.choice((0, 0, 1, 2, 4)))},
        incident=_incident(draw),
    )


def _refusal(draw: random.Random) -> str:
    waits = (SECOND, 200 * SECOND, 300 * SECOND, 301 * SECOND, HOUR, 6 * HOUR)
    return draw.choice(("transient", "transient", "permanent", *(f"throttle {wait}" for wait in waits)))


def _incident(draw: random.Random) -> Incident | None:
    kind = draw.choice(("", "crash", "crash", "crash", "stop", "mark", "sleep", "set-back"))
    if not kind:
        return None
    ms = {"sleep": draw.choice((40 * SECOND, 9 * HOUR)), "set-back": draw.choice((-7 * SECOND, -HOUR))}.get(kind, 0)
    return Incident(kind, draw.randint(1, draw.choice((15, 40, 90))), draw.random() < 0.5, ms)
