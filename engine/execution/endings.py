"""What follows the end of a run that was open, whichever end it came to."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.runs import RunRow
    from engine.spans import Spans

_log = logging.getLogger("contextful")


@dataclass(frozen=True, slots=True)
class Endings:
    """Ends the run's span and publishes what it wrote, on failure as on success (run.record.failure-publishes)."""

    spans: Spans
    publish: Callable[[], None]

    def __call__(self, row: RunRow) -> None:
        """Follow the end of the run `row`, which is recorded; nothing that goes wrong here changes what it says."""
        self.spans.end(row)
        try:
            self.publish()
        except Exception as failure:  # an adapter may raise whatever it likes; the next run publishes this one's too
            _log.warning("what run %s wrote is not published, the next run tries again: %s", row.run_id, failure)
