"""From a local HTTP server to committed Parquet, beside a floor and beside dlt where it is installed.

    .venv/bin/python scripts/bench_landing.py [--pages 200] [--rounds 7] [--long] [--big [MIB]]

200 pages of 1,000 rows, 51 MB of JSON, journal on. The floor is httpx, orjson and pyarrow with no journal at all. Every
contender runs in a process of its own, alternating; rows a second are counted from its first request to its committed
files, memory is the process's peak. `--long` adds the same with ten times the pages, which must not need more memory.
`--big` measures only a landing with checkpoints, 2 GiB of it: see bench_big.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import gc
import importlib.util
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_pages import ROWS, serving

MANIFEST = """
[project]
name = "bench"
site_id = "bench"
[[pipeline]]
id = "orders"
[pipeline.source]
kind = "http"
url = "{url}/orders?page=0"
records = "items"
paginate = {{ by = "next-url", field = "next" }}
[[pipeline.table]]
name = "orders"
primary_key = ["id"]
incremental = "updated_at"
since_param = "since"
"""


def floor(url: str, folder: Path, pages: int) -> float:
    """Ask, parse, write: nothing is recorded, nothing could be resumed."""
    import httpx
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq

    began = time.perf_counter()
    link: str | None = "/orders?page=0"
    number = 0
    with httpx.Client(base_url=url) as client:
        while link:
            document = orjson.loads(client.get(link).content)
            pq.write_table(pa.Table.from_pylist(document["items"]), folder / f"{number:06}.parquet", compression="zstd")
            link, number = document["next"], number + 1
    return time.perf_counter() - began


def contextful(url: str, folder: Path, pages: int) -> float:
    """One fire of the pipeline, journal and all."""
    # The libraries under it are imported before the clock begins, as those of the others are.
    import httpx  # noqa: F401
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    from engine.cli.main import COLLECTED_EVERY
    from engine.pipeline.runner import Request, fire
    from engine.project import Project

    gc.set_threshold(COLLECTED_EVERY)  # as `contextful pipeline run` does
    (folder / "contextful.toml").write_text(MANIFEST.format(url=url))
    began = time.perf_counter()
    with Project.find(folder / "contextful.toml", environ={}) as project, project.engine() as engine:
        (pipeline,) = project.manifest.pipelines
        outcome = fire(engine, Request(pipeline, pipeline.tables), secrets=project.secrets(pipeline), watcher=Silent())
    spent = time.perf_counter() - began
    if outcome.exit_code or (pages and outcome.runs[0].rows != pages * ROWS):
        raise SystemExit(f"landed {outcome.runs}")
    return spent


class Silent:
    """Watches nothing."""

    def opened(self, run: object) -> None:
        """Hear nothing."""

    def landed(self, run: object, landing: object) -> None:
        """Hear nothing."""

    def closed(self, run: object) -> None:
        """Hear nothing."""


def warm(url: str, folder: Path, pages: int) -> float:
    """A poll with nothing new, after a load in the same process."""
    contextful(url, folder, pages)
    return contextful(url, folder, 0)


def dlt_rows(url: str, folder: Path, pages: int) -> float:
    """dlt to filesystem Parquet, an incremental cursor, lists of Python rows."""
    return _dlt(url, folder, lambda items: items)


def dlt_arrow(url: str, folder: Path, pages: int) -> float:
    """dlt with the pages turned into Arrow tables first."""
    import pyarrow as pa

    return _dlt(url, folder, pa.Table.from_pylist)


def _dlt(url: str, folder: Path, shaped: Callable[[list[Any]], Any]) -> float:
    import dlt
    import httpx
    import orjson

    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"

    @dlt.resource(name="orders", write_disposition="append")  # type: ignore[untyped-decorator] # untyped where dlt is not installed
    def orders(updated_at: Any = dlt.sources.incremental("updated_at")) -> Any:  # noqa: B008 - dlt's own idiom
        link: str | None = "/orders?page=0"
        with httpx.Client(base_url=url) as client:
            while link:
                document = orjson.loads(client.get(link).content)
                yield shaped(document["items"])
                link = document["next"]

    began = time.perf_counter()
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=str(folder / "pipelines"),
        destination=dlt.destinations.filesystem(bucket_url=str(folder / "out")),
        dataset_name="bench",
    )
    pipeline.run(orders(), loader_file_format="parquet")
    return time.perf_counter() - began


CONTENDERS: dict[str, Callable[[str, Path, int], float]] = {
    "floor": floor,
    "contextful": contextful,
    "contextful, warm poll": warm,
    "dlt, Python rows": dlt_rows,
    "dlt, Arrow": dlt_arrow,
}


def in_child(name: str, url: str, pages: int) -> tuple[float, float]:
    """Seconds and peak MB of one contender in a process and a folder of its own."""
    program = [sys.executable, __file__, "--child", name, url, str(new_folder()), str(pages)]
    answer = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True)
    seconds, peak = answer.stdout.split()[-2:]
    return float(seconds), float(peak)


def command(url: str, pages: int) -> float:
    """Seconds of `contextful pipeline run` as a command with nothing new, after a first load."""
    folder = new_folder()
    contextful(url, folder, pages)
    program = [str(Path(sys.executable).with_name("contextful")), "pipeline", "run", "orders", "--json"]
    spent = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(program, cwd=folder, stdout=subprocess.DEVNULL, check=True)
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


@functools.cache
def _folders() -> Path:
    """Where all contenders work, spread over the disk where the file system can do that; it goes at the end.

    Some file systems are slow to create files beside those that were just removed, and nobody shall pay for what
    another left.
    """
    made = Path(tempfile.mkdtemp(prefix="bench-", dir=os.environ.get("CONTEXTFUL_BENCH_DIR", ".")))
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["chattr", "+T", made], stderr=subprocess.DEVNULL, check=False)
    atexit.register(shutil.rmtree, made)
    return made


def new_folder() -> Path:
    """A folder of its own for a contender."""
    return Path(tempfile.mkdtemp(dir=_folders()))


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--big", type=int, nargs="?", const=2048, metavar="MIB", help="that much with checkpoints")
    arguments = parser.parse_args()
    if arguments.big:
        program = [sys.executable, str(Path(__file__).with_name("bench_big.py")), str(arguments.big)]
        raise SystemExit(subprocess.run(program, check=False).returncode)
    beside_dlt = importlib.util.find_spec("dlt") is not None
    names = [name for name in CONTENDERS if beside_dlt or not name.startswith("dlt")]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with serving(arguments.pages) as url:
        for _ in range(arguments.rounds):
            for name in names:
                found[name].append(in_child(name, url, arguments.pages))
        as_command = command(url, arguments.pages)
    _print(found, rows=arguments.pages * ROWS)
    print(f"warm poll as a command       {as_command:6.2f} s")
    if arguments.long:
        with serving(arguments.pages * 10) as url:
            seconds, peak = in_child("contextful", url, arguments.pages * 10)
        rate = arguments.pages * 10 * ROWS / seconds
        print(f"ten times the pages          {seconds:6.2f} s {rate:10.0f} rows/s {peak:6.0f} MB peak")


def _print(found: dict[str, list[tuple[float, float]]], *, rows: int) -> None:
    medians = {name: statistics.median(seconds for seconds, _ in values) for name, values in found.items()}
    for name, values in found.items():
        peak = statistics.median(peak for _, peak in values)
        rate = "" if "poll" in name else f"{rows / medians[name]:10.0f} rows/s"
        print(f"{name:28} {medians[name]:6.2f} s {rate:17} {peak:6.0f} MB peak")
    ours = medians["contextful"]
    for name, seconds in medians.items():
        if name not in {"contextful", "contextful, warm poll"}:
            print(f"rows a second, contextful to {name}: {seconds / ours:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _, _, child, address, where, count = sys.argv
        print(
            CONTENDERS[child](address, Path(where), int(count)),
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        )
    else:
        main()
