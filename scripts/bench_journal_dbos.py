"""DBOS's side of bench_journal.py: one workflow of trivial steps on SQLite, in a process of its own.

python scripts/bench_journal_dbos.py FOLDER STEPS [--wal] [--value]
python scripts/bench_journal_dbos.py --twin FOLDER STEPS NAME
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from dbos import DBOS
from sqlalchemy import event
from sqlalchemy.engine import Engine


def forced_wal(connection: object, _: object) -> None:
    """Set the journal mode and the synchronous setting that contextful runs with."""
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def measured(folder: Path, steps: int, *, value: object) -> float:
    """Microseconds a step."""
    url = f"sqlite:///{folder / 'dbos.sqlite'}"
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR", "run_admin_server": False})

    @DBOS.step()
    def step(_: int) -> object:
        return value

    @DBOS.workflow()
    def workflow() -> float:
        began = time.perf_counter()
        for number in range(steps):
            step(number)
        return (time.perf_counter() - began) / steps * 1e6

    DBOS.launch()
    try:
        return workflow()
    finally:
        DBOS.destroy()


def main() -> None:
    """Run once and print the figure last."""
    logging.disable(logging.CRITICAL)
    arguments = sys.argv[1:]
    if arguments[0] == "--twin":
        _, folder, steps, _name = arguments
        print(measured(Path(folder), int(steps), value=None))
        return
    if "--wal" in arguments:
        event.listen(Engine, "connect", forced_wal)
    value = "v" * 10 * 1024 if "--value" in arguments else None
    print(measured(Path(arguments[0]), int(arguments[1]), value=value))


if __name__ == "__main__":
    main()
