"""What a journaled step costs, beside a floor and beside DBOS where it is installed, alternating in one run.

    .venv/bin/python scripts/bench_journal.py [--steps 1000] [--rounds 5]

The floor is one durable commit a step in bare sqlite3. "Equal durability" is write-ahead log and synchronous=FULL on
both sides; "as shipped" is what each does untouched. A guarded step calls a destination and waits for the disk before
it sends as well as after. Only ratios of one run count: a disk has moods, and where others use the machine processor
time says more than the clock.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from engine.clock import SystemClock
from engine.errors import Transient
from engine.host import Engine, Settings
from engine.local.profiles import sqlite as open_sqlite
from engine.pipeline.declaration import Destination
from engine.storage import initialize

Measure = Callable[[Path, int], float]
"""Runs so many steps in a folder of its own and returns microseconds a step."""

VALUE = "v" * 10 * 1024

DOCUMENT = {"items": [{"id": n, "name": f"order {n}", "note": "fragile " * 6, "total": n * 1.5} for n in range(100)]}
"""10 KiB of JSON as an API answers it: texts, numbers and names, which a secret guard has to look through."""

VENDOR = Destination("vendor", "http://vendor.test", dedup_window_ms=86_400_000)

GUARDED_BAR = 2.5
"""How many unguarded steps a guarded one may cost."""


def floor(folder: Path, steps: int, value: bytes = b"") -> float:
    """One durable commit a step and nothing else."""
    connection = sqlite3.connect(folder / "floor.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE step (run TEXT, label TEXT, value BLOB, PRIMARY KEY (run, label)) WITHOUT ROWID")
    began = time.perf_counter()
    for number in range(steps):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO step VALUES (?, ?, ?)", ("run", f"step-{number}", value))
        connection.execute("COMMIT")
    spent = time.perf_counter() - began
    connection.close()
    return spent / steps * 1e6


def started(folder: Path) -> Engine:
    """An engine on the default profile in `folder`."""
    profile = open_sqlite(folder / "state", clock=SystemClock(), environ={})
    initialize(profile, project="bench")
    return Engine(profile, Settings("bench", "bench", destinations={VENDOR.name: VENDOR}))


def contextful(
    folder: Path, steps: int, value: object = None, threads: int = 1, destination: str | None = None
) -> float:
    """Steps of one execution, shared among `threads`; with a `destination` each is under a guard."""
    with started(folder) as engine, engine.open("bench", plan="p") as execution:
        began = time.perf_counter()

        def work(worker: int) -> None:
            for number in range(worker, steps, threads):
                execution.step(f"step-{number}", lambda _: value, destination=destination)

        _in_threads(work, threads)
        return (time.perf_counter() - began) / steps * 1e6


def replay(folder: Path, steps: int) -> float:
    """Steps a second process finds recorded."""
    first = started(folder)
    execution = first.open("bench", plan="p")
    for number in range(steps):
        execution.step(f"step-{number}", lambda _: None)
    execution.close(failure=Transient("leave it pending"))
    first.close()
    with started(folder) as engine, engine.open("bench", plan="p") as resumed:
        began = time.perf_counter()
        for number in range(steps):
            resumed.step(f"step-{number}", lambda _: None)
        return (time.perf_counter() - began) / steps * 1e6


def _in_threads(work: Callable[[int], None], threads: int) -> None:
    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def dbos(*options: str) -> Measure:
    """DBOS on SQLite in a process of its own, since it is one a process."""

    def measure(folder: Path, steps: int) -> float:
        child = [sys.executable, str(Path(__file__).with_name("bench_journal_dbos.py")), str(folder), str(steps)]
        answer = subprocess.run([*child, *options], capture_output=True, text=True, check=True)
        return float(answer.stdout.split()[-1])

    return measure


def two_processes(program: list[str], folder: Path, steps: int) -> float:
    """Steps a second of two processes on one file together."""
    children = [
        subprocess.Popen([*program, str(folder), str(steps), name], stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    answers = [child.communicate()[0] for child in children]
    if any(child.returncode for child in children):
        raise SystemExit(f"a process failed: {answers}")
    return sum(1e6 / float(answer.split()[-1]) for answer in answers)


def twin(folder: Path, steps: int, name: str) -> float:
    """One of two engines on one file, each in an execution of its own."""
    with started(folder) as engine, engine.open(name, plan="p") as execution:
        began = time.perf_counter()
        for number in range(steps):
            execution.step(f"step-{number}", lambda _: None)
        return (time.perf_counter() - began) / steps * 1e6


def alternating(
    contenders: dict[str, Measure], *, steps: int, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The medians of each contender over rounds in which all take their turn: of its time, and of the processor's.

    The second, also in microseconds a step, has what this process spent on making its stores as well.
    """
    found: dict[str, list[float]] = {name: [] for name in contenders}
    spent: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            folder = Path(tempfile.mkdtemp(prefix="bench-", dir=os.environ.get("CONTEXTFUL_BENCH_DIR", ".")))
            began = time.process_time()
            try:
                found[name].append(measure(folder, steps))
            finally:
                shutil.rmtree(folder)
            spent[name].append((time.process_time() - began) / steps * 1e6)
    return _medians(found), _medians(spent)


def _medians(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    contenders: dict[str, Measure] = {
        "floor": floor,
        "floor, 10 KiB": lambda folder, steps: floor(folder, steps, VALUE.encode()),
        "contextful": contextful,
        "contextful, guarded": lambda folder, steps: contextful(folder, steps, destination=VENDOR.name),
        "contextful, 10 KiB": lambda folder, steps: contextful(folder, steps, VALUE),
        "contextful, 10 KiB of JSON": lambda folder, steps: contextful(folder, steps, DOCUMENT),
        "contextful, 4 threads": lambda folder, steps: contextful(folder, steps, threads=4),
        "contextful, replayed": replay,
    }
    beside_dbos = importlib.util.find_spec("dbos") is not None
    if beside_dbos:
        contenders |= {
            "DBOS as shipped": dbos(),
            "DBOS, WAL and FULL": dbos("--wal"),
            "DBOS, WAL and FULL, 10 KiB": dbos("--wal", "--value"),
        }
    medians, processor = alternating(contenders, steps=arguments.steps, rounds=arguments.rounds)
    print(f"{arguments.steps} steps, median of {arguments.rounds} alternating rounds\n")
    for name, microseconds in medians.items():
        against = medians["floor, 10 KiB" if "10 KiB" in name else "floor"]
        rate, ratio = 1e6 / microseconds, microseconds / against
        print(f"{name:28} {microseconds:9.0f} us/step {rate:8.0f} steps/s   {ratio:5.2f} x floor")
    for kind, of in (("time", medians), ("processor", processor)):
        ratio = of["contextful, guarded"] / of["contextful"]
        print(f"\nguarded, {kind}: {ratio:.2f} unguarded steps (at most {GUARDED_BAR})", end="")
    print()
    if beside_dbos:
        print(f"\nequal durability: {medians['contextful'] / medians['DBOS, WAL and FULL']:.3f} of DBOS's time a step")
        print(f"as shipped:       {medians['contextful'] / medians['DBOS as shipped']:.3f} of DBOS's time a step")
    _print_pairs(beside_dbos=beside_dbos, steps=arguments.steps)


def _print_pairs(*, beside_dbos: bool, steps: int) -> None:
    programs = {"contextful": [sys.executable, __file__, "--twin"]}
    if beside_dbos:
        programs["DBOS as shipped"] = [sys.executable, str(Path(__file__).with_name("bench_journal_dbos.py")), "--twin"]
    print("\ntwo processes on one file")
    for name, program in programs.items():
        with tempfile.TemporaryDirectory(dir=os.environ.get("CONTEXTFUL_BENCH_DIR", ".")) as folder:
            print(f"{name:28} {two_processes(program, Path(folder), steps):8.0f} steps/s together")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--twin"]:
        print(twin(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
    else:
        main()
