from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from engine.errors import UnknownConnector
from engine.pipeline import sources
from engine.pipeline.declaration import FileSource, HttpSource, SqlSource, Table
from engine.pipeline.sources import open_source, versions

HERE = Path(sources.__file__).parent
CONNECTORS = {"http": versions.HTTP, "file": versions.FILE, "sql": versions.SQL}
DECLARED: dict[str, Any] = {
    "http": HttpSource(url="http://h/"),
    "file": FileSource(path="*.csv", base=Path("/")),
    "sql": SqlSource(dsn="sqlite:///a.db", base=Path("/"), relation="a"),
}


@pytest.mark.clause("run.own.admission-pin")
@pytest.mark.parametrize("kind", ["http", "file", "sql"])
def test_a_connectors_hash_is_that_of_its_code(kind: str) -> None:
    code = _hash_of(versions.MODULES[kind])

    assert CONNECTORS[kind].hash == code, (
        f"the code of the connector {kind} changed: its hash in versions.py is now {code}"
    )


def test_every_module_belongs_to_a_connector_or_pins_nothing() -> None:
    hashed = {module for modules in versions.MODULES.values() for module in modules}

    assert {path.stem for path in HERE.glob("*.py")} - hashed == {"__init__", "versions", "python"}


@pytest.mark.clause("run.journal.opt-out")
@pytest.mark.parametrize("kind", ["http", "file", "sql"])
def test_no_connector_shipped_here_opts_out_of_journaling(kind: str) -> None:
    source = open_source(_table(DECLARED[kind]))

    assert source.journaled is True
    assert source.connector is CONNECTORS[kind]
    assert (source.connector.id, source.connector.world) == (kind, "native")


def test_a_source_that_no_connector_reads_is_named_with_its_table() -> None:
    with pytest.raises(UnknownConnector, match="pipeline p, table t: no connector reads a str"):
        open_source(_table(cast("Any", "a text")))


def test_a_table_of_files_loads_no_http_client() -> None:
    program = """
import sys
from pathlib import Path
from engine.pipeline.declaration import FileSource, Table
from engine.pipeline.sources import open_source
open_source(Table("t", "p", FileSource(path="*.csv", base=Path(".")), content_hash=""))
heavy = {"httpx", "pyarrow", "duckdb", "pydantic"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def _table(source: Any) -> Table:
    return Table("t", "p", source, content_hash="", primary_key=("id",))


def _hash_of(modules: tuple[str, ...]) -> str:
    """SHA-256 of the modules' lines without blank ones, comments and spaces at the end, under their names."""
    digest = hashlib.sha256()
    for module in sorted(modules):
        lines = (line.rstrip() for line in (HERE / f"{module}.py").read_text("utf-8").splitlines())
        code = [line for line in lines if line and not line.lstrip().startswith("#")]
        digest.update("\n".join([f"module {module}", *code, ""]).encode())
    return digest.hexdigest()
