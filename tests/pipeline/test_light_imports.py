"""What a run does not need it does not import: an HTTP client costs more than a small run does."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.conftest import day, orders

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pipeline.conftest import Api

READERS = ("duckdb", "rich", "pydantic", "pyarrow.dataset")
"""What no run needs."""
LOOKUPS = ("importlib.metadata", "importlib.resources", "zipfile", "tempfile")
"""What is only needed to look up what is installed."""
ARROW = ("pyarrow.compute", "engine.pipeline.tabular")
"""What a few plain rows do without."""
CLIENTS = ("httpx", "anyio", "http.client")
TREE = ("engine.local.tree", "engine.local.tree.journal")
HEAVY = (*READERS, *LOOKUPS, *ARROW, *CLIENTS, *TREE)

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

COMMAND = """
import sys
from engine.cli.main import main
code = main(["pipeline", "run", "orders", "--json"])
print(code, [name for name in sys.argv[1:] if sys.modules.get(name)])
"""

PIPELINE = """
[project]
name = "shop"
site_id = "laptop"
[[pipeline]]
id = "orders"
source = {{ {source} }}
[[pipeline.table]]
name = "orders"
primary_key = ["id"]
{table}
"""
FILE = 'kind = "file", path = "orders.jsonl"'
HTTP = 'kind = "http", url = "{url}/orders", records = "items", paginate = {{ by = "next-url", field = "next" }}'


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


@pytest.mark.parametrize(
    ("table", "rows", "unneeded"),
    [
        # The row at the position is read again: it lands, so there is something to write.
        ('incremental = "at"', 1, HEAVY),
        ("skip_unchanged = true", 0, (*HEAVY, "pyarrow.parquet")),
    ],
)
def test_a_poll_of_a_file_with_nothing_new_imports_only_what_it_uses(
    tmp_path: Path, table: str, rows: int, unneeded: tuple[str, ...]
) -> None:
    (tmp_path / "contextful.toml").write_text(PIPELINE.format(source=FILE, table=table))
    file = [row for number in (1, 2, 3) for row in orders(number, at=day(number))]
    (tmp_path / "orders.jsonl").write_text("".join(json.dumps(row) + "\n" for row in file))

    assert command(tmp_path, ()) == (3, "0 []")
    assert command(tmp_path, unneeded) == (rows, "0 []")


def test_a_poll_over_http_with_nothing_new_imports_a_client_and_little_else(tmp_path: Path, api: Api) -> None:
    # The row that lands again lacks a column of the table's.
    api.pages = [[row | {"note": "first"} for row in orders(1, at=day(1))], orders(2, at=day(2))]
    source, table = HTTP.format(url=api.url), 'incremental = "at"'
    (tmp_path / "contextful.toml").write_text(PIPELINE.format(source=source, table=table))

    assert command(tmp_path, ()) == (2, "0 []")
    assert command(tmp_path, (*READERS, *ARROW, *TREE, "importlib.metadata", "httpx._main")) == (1, "0 []")


def command(folder: Path, unneeded: tuple[str, ...]) -> tuple[int, str]:
    """The rows that one run of the command landed, and its exit code with what it imported of `unneeded`."""
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, *unneeded], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    document, told = ended.stdout.splitlines()
    return sum(run["rows"] for run in json.loads(document)["runs"]), told
