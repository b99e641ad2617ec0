"""What a journaled step costs on D1: time, round trips, rows, and a million of them at list price.

    ./scripts/edge &
    .venv/bin/python scripts/bench_edge.py http://127.0.0.1:8788 [--steps 200]

The binding must be one whose store is new or was made by this program: it initializes it for the project "bench".
Milliseconds are those of the local edge; round trips and rows are what D1 itself reports, wherever it runs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from d1.database import D1Database
from d1.profile import cloudflare_d1
from engine.clock import Chance, SystemClock
from engine.host import Engine, Settings
from engine.storage import initialize

if TYPE_CHECKING:
    from d1.binding import Spent

WRITTEN_USD: Final = 1.00
READ_USD: Final = 0.001
"""D1's list prices of 2026 for a million rows beyond what the paid plan includes."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one step came to, on average."""

    milliseconds: float
    round_trips: float
    statements: float
    rows_read: float
    rows_written: float

    @property
    def dollars_a_million(self) -> float:
        """A million steps at list price, nothing included in a plan taken off."""
        return self.rows_written * WRITTEN_USD + self.rows_read * READ_USD


def steps(url: str, folder: Path, *, count: int, value: str) -> Cost:
    """The cost of each of `count` steps of one new execution, its opening and its end left out."""
    clock = SystemClock()
    profile = cloudflare_d1(folder, clock=clock, environ={"CONTEXTFUL_BINDING_URL": url})
    initialize(profile, project="bench")
    spent = cast("D1Database", profile.database).binding.spent
    with Engine(profile, Settings("bench", "bench")) as engine, engine.open(Chance().token(), plan="p") as execution:
        before, began = _snapshot(spent), time.perf_counter()
        for number in range(count):
            execution.step(f"step-{number}", lambda _: value)
        took = time.perf_counter() - began
        after = _snapshot(spent)
    each = {name: (after[name] - before[name]) / count for name in after}
    return Cost(took / count * 1000, **each)


def _snapshot(spent: Spent) -> dict[str, int]:
    return asdict(spent)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the private address that scripts/edge prints")
    parser.add_argument("--steps", type=int, default=200)
    asked = parser.parse_args()
    print(f"{asked.steps} steps of one execution over {asked.url}\n")
    print(f"{'value':>8}  ms/step  round trips  statements  rows read  rows written  USD a million steps")
    for name, value in {"4 B": "done", "10 KiB": "v" * 10 * 1024}.items():
        with tempfile.TemporaryDirectory() as folder:
            cost = steps(asked.url, Path(folder), count=asked.steps, value=value)
        print(
            f"{name:>8}  {cost.milliseconds:7.1f}  {cost.round_trips:11.2f}  {cost.statements:10.2f}"
            f"  {cost.rows_read:9.2f}  {cost.rows_written:12.2f}  {cost.dollars_a_million:19.2f}"
        )
    print(
        f"\nD1's list prices of 2026: ${WRITTEN_USD:.2f} a million rows written, ${READ_USD:.3f} a million rows read."
    )


if __name__ == "__main__":
    main()
