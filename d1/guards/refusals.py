"""How refused credentials are counted: by the minute, and seldom written. Pure.

Every refusal is counted here; a count is written when its minute and reason come for the first time and whenever what
is not written has grown to what is. A flood of a million costs some twenty writes of one row, and no count that stands
is less than half of what came. What is left unwritten goes with the next minute's first write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from engine.sql import call

if TYPE_CHECKING:
    from engine.ports import Call

KEPT_DAYS: Final = 30
"""How long the counts are kept."""

OTHER: Final = "another"
"""What stands for every project that is not this Worker's: whoever asks may name as many as they like."""

Counted = tuple[int, str, str]
"""The minute since the epoch, the reason, and the project."""


@dataclass(slots=True)
class Tally:
    """The refusals that one Worker has seen."""

    seen: dict[Counted, int] = field(default_factory=dict)
    written: dict[Counted, int] = field(default_factory=dict)

    def count(self, reason: str, project: str, *, now: int) -> tuple[Call, ...]:
        """Count a refusal at the instant `now`; return what is to be written, nothing for most of a flood."""
        minute = now // 60_000
        place = (minute, reason, project)
        self.seen[place] = self.seen.get(place, 0) + 1
        if self.seen[place] < 2 * self.written.get(place, 0):
            return ()
        due = [each for each in self.seen if each == place or each[0] < minute]
        calls = [written for each in due if (written := self._write(each))]
        for each in due:
            if each[0] < minute:
                del self.seen[each], self.written[each]
        return (*calls, call("forget_operator_refusals", before=minute - KEPT_DAYS * 1440))

    def _write(self, place: Counted) -> Call | None:
        minute, reason, project = place
        unwritten = self.seen[place] - self.written.get(place, 0)
        self.written[place] = self.seen[place]
        if not unwritten:
            return None
        return call("count_operator_refusals", minute=minute, reason=reason, project=project, count=unwritten)
