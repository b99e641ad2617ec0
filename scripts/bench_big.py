"""A landing too large for one commit: checkpoints on its way, memory that does not grow with it.

    .venv/bin/python scripts/bench_landing.py --big [MIB]

`MIB` mebibytes of rows that do not compress, 2048 by default, from a source that is asked for page after page. The
limits are a half and a quarter of that: at 2048 the contract's own. A source that cannot commit on its way is then
refused past the limit, and the refusal is shown.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = 8 << 20
MIB = 1 << 20

MANIFEST = """
[project]
name = "big"
site_id = "bench"
[[pipeline]]
id = "big"
[pipeline.source]
kind = "python"
entry = "bench_big:pages"
[[pipeline.table]]
name = "big"
write_mode = "{mode}"
"""


def pages(ask: Any) -> Iterator[Any]:
    """Pages of 8,192 rows of a kilobyte, numbered by their position."""
    import pyarrow as pa

    import engine

    total, number = int(os.environ["BENCH_BIG_PAGES"]), ask.position or 0
    while number < total:
        noise = random.Random(number).randbytes(PAGE)
        ids = pa.array(range(number * 8192, (number + 1) * 8192), pa.int64())
        texts = pa.array([noise[start : start + 1024] for start in range(0, PAGE, 1024)], pa.binary())
        number += 1
        yield engine.Pull(rows=pa.table({"id": ids, "content": texts}), position=number, more=number < total,
                          snapshot_complete=number == total)  # fmt: skip


def report(mib: int) -> None:
    """Land `mib` MiB with checkpoints, then the same where none can be made; print what it took."""
    for mode in ("append", "replace"):
        with tempfile.TemporaryDirectory(prefix="bench-", dir=os.environ.get("CONTEXTFUL_BENCH_DIR", ".")) as folder:
            program = [sys.executable, __file__, folder, str(mib), mode]
            subprocess.run(program, check=True, env={**os.environ, "BENCH_BIG_PAGES": str(mib * MIB // PAGE)})


def land(folder: Path, mib: int, mode: str) -> None:
    """One fire in this process."""
    from engine.corpus.marker import history
    from engine.pipeline.checkpoints import Limits
    from engine.pipeline.runner import Request, fire
    from engine.project import Project

    shutil.copy(__file__, folder / "bench_big.py")
    (folder / "contextful.toml").write_text(MANIFEST.format(mode=mode))
    limits = Limits(staged=mib * MIB // 2, checkpoint=mib * MIB // 4)
    began, watcher = time.perf_counter(), Peaks()
    with Project.find(folder / "contextful.toml", environ={}) as project, project.engine(limits=limits) as engine:
        (pipeline,) = project.manifest.pipelines
        outcome = fire(engine, Request(pipeline, pipeline.tables), secrets=project.secrets(pipeline), watcher=watcher)
        commits = sum(1 for _ in history(engine.profile.objects, "big"))
    spent, (run,) = time.perf_counter() - began, outcome.runs
    print(f"{mode}: {run.status}, {run.rows:,} rows, {run.bytes / MIB:,.0f} MiB in {commits} commits, {spent:.1f} s, "
          f"{run.bytes / MIB / spent:.0f} MiB/s; peak {watcher.shown()}")  # fmt: skip
    if run.error:
        print(f"  {run.error['name']}: {run.error['message']}")


class Peaks:
    """Watches what memory the process has used at most after each quarter of the pulls."""

    def __init__(self) -> None:
        self.pulls = 0
        self.peaks: list[float] = []

    def opened(self, run: object) -> None:
        """Hear nothing."""

    def landed(self, run: object, landing: object) -> None:
        """Note the peak so far."""
        self.pulls += 1
        self.peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

    def closed(self, run: object) -> None:
        """Note the last."""
        self.peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

    def shown(self) -> str:
        """The peak at each quarter of the way."""
        quarters = [self.peaks[len(self.peaks) * part // 4 - 1] for part in range(1, 5)]
        return f"{quarters[-1]:.0f} MB (by quarters {', '.join(f'{peak:.0f}' for peak in quarters)})"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        report(int(sys.argv[1]))
    else:
        land(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
