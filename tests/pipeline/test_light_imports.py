"""What a run does not need it does not import: an HTTP client costs more than a small run does."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("httpx", "duckdb", "typer", "rich")

RUN = """
import sys
from pathlib import Path
from engine.host import Engine, Settings
from engine.clock import SystemClock
from engine.pipeline.declaration import FileSource, Pipeline, PythonSource, Table
from engine.pipeline.runner import Request, fire
from engine.pipeline.source import Secrets
from engine.profile import open_profile
from engine.storage import initialize

class Silent:
    opened = landed = closed = lambda *_: None

base = Path(sys.argv[1])
profile = open_profile("sqlite", base / "state", clock=SystemClock(), environ={})
initialize(profile, project="p")
source = FileSource("rows.jsonl", base) if sys.argv[2] == "file" else PythonSource("quiet_rows:pulls", base)
table = Table("rows", "p", source, "hash")
with Engine(profile, Settings("p", "s")) as engine:
    outcome = fire(engine, Request(Pipeline("p", (table,)), (table,)), secrets=Secrets({}), watcher=Silent())
(run,) = outcome.runs
print(run.status, run.rows, [name for name in sys.argv[3:] if name in sys.modules])
"""


@pytest.mark.parametrize("kind", ["file", "python"])
def test_a_run_that_sends_nothing_imports_no_client_no_reader_and_no_terminal(tmp_path: Path, kind: str) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    (tmp_path / "quiet_rows.py").write_text(
        'from engine import Pull\n\n\ndef pulls(ask):\n    yield Pull(rows=[{"id": 1}, {"id": 2}])\n'
    )

    ended = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path), kind, *HEAVY], capture_output=True, text=True, check=True, timeout=60
    )

    assert ended.stdout.split(maxsplit=2) == ["success", "2", "[]\n"]
