"""A state file that may only be read, and that others write: never an answer from before it changed, nor a torn one."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from engine.local.sqlite import SqliteDatabase
from tests.forbidden import unwritable, without_privilege
from tests.unit.test_sqlite_refusals import call

if TYPE_CHECKING:
    from pathlib import Path

READER = """
import sys
from pathlib import Path
from engine.local.sqlite import SqliteDatabase
from engine.ports import Call, Statement
database = SqliteDatabase(Path(sys.argv[1]))
for _ in sys.stdin:
    [[(count,)]] = database.run(Call(Statement("asked", "SELECT count(*) FROM t", (), reads=True, durable=False), {}))
    print(count, database._frozen is not None, flush=True)
"""


@pytest.mark.clause("run.journal.sqlite-stores")
def test_what_others_write_to_a_file_that_may_only_be_read_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "state" / "state.sqlite"
    with closing(SqliteDatabase(file)) as database:
        database.run(call("CREATE TABLE t (text TEXT)", reads=False))

    def write() -> None:
        with closing(SqliteDatabase(file)) as database:
            database.run(*[call("INSERT INTO t VALUES (hex(zeroblob(2000)))", reads=False)] * 9)

    asked = [*without_privilege(), sys.executable, "-c", READER, str(file)]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin
        assert reader.stdout

        def told() -> str:
            print(file=reader.stdin, flush=True)
            return reader.stdout.readline().strip()  # type: ignore[union-attr] # it is a pipe

        with unwritable(file.parent):
            assert told() == "0 True"
        write()
        with unwritable(file.parent):
            assert told() == "9 True"
            assert told() == "9 True"
        reader.stdin.close()
