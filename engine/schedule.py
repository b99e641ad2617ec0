"""When a failing step is tried again, and what such a schedule may hold (run.retry.schedule)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.errors import RunRetryTagUnretryable, ScheduleUnusable
from engine.shapes import FailureTag

if TYPE_CHECKING:
    from collections.abc import Iterator

RETRYABLE: Final = frozenset({FailureTag.TRANSIENT, FailureTag.RATE_LIMITED})
"""The only tags a schedule may retry (run.retry.retryable-classes)."""

_DAY_MS: Final = 86_400_000
_NUMBERS: Final = {
    "attempts": range(1, 10_001),
    "base_ms": range(_DAY_MS + 1),
    "max_delay_ms": range(_DAY_MS + 1),
    "jitter_ms": range(_DAY_MS + 1),
}
"""What the whole numbers of a schedule may be, in a program as in a manifest."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a failing step is tried again (run.retry.schedule): `attempts` counts the first; delays are milliseconds.

    Raise `RunRetryTagUnretryable` for a tag that no schedule retries (run.retry.unretryable-tag), `ScheduleUnusable`
    with every problem where there are others.
    """

    attempts: int = 5
    base_ms: int = 100
    factor: float = 2.0
    max_delay_ms: int = 30_000
    jitter_ms: int = 250
    backoff: str = "exponential"
    retry_on: frozenset[FailureTag] = RETRYABLE

    def __post_init__(self) -> None:
        """Check what the manifest checks of a declared one, and keep `retry_on` as the set of tags it stands for."""
        problems, strangers = list(_problems(self)), _unretryable(self.retry_on)
        if problems or strangers:
            refusals = [RunRetryTagUnretryable(found=tag) for tag in strangers]
            if not problems:
                raise refusals[0]
            raise ScheduleUnusable(problems=(*problems, *map(str, refusals)))
        object.__setattr__(self, "retry_on", frozenset(map(FailureTag, self.retry_on)))


def _problems(schedule: Schedule) -> Iterator[str]:
    """What no schedule can hold, unretryable tags aside, in the words of the manifest."""
    for name, allowed in _NUMBERS.items():
        value = getattr(schedule, name)
        if type(value) is not int or value not in allowed:
            yield _problem(name, value, f"a whole number from {allowed[0]} to {allowed[-1]}")
    if type(schedule.factor) not in {int, float} or not 1 <= schedule.factor <= 100:
        yield _problem("factor", schedule.factor, "a number from 1 to 100")
    if schedule.backoff not in ("exponential", "fixed"):
        yield _problem("backoff", schedule.backoff, '"exponential", "fixed"')
    tags: Any = schedule.retry_on
    if not (isinstance(tags, list | tuple | AbstractSet) and tags and all(isinstance(tag, str) for tag in tags)):
        yield _problem("retry_on", tags, '"Transient", "RateLimited" or both, in a list')


def _problem(name: str, found: Any, allowed: str) -> str:
    return f"{name}: found {ascii(found)[:60]}; allowed: {allowed}"


def _unretryable(tags: Any) -> list[str]:
    """The texts among `tags` that no schedule retries."""
    listed = tags if isinstance(tags, list | tuple | AbstractSet) else ()
    return sorted(str(tag) for tag in listed if isinstance(tag, str) and tag not in RETRYABLE)
