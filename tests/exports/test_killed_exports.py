"""An export that is killed at any of its statements, or while a request is out, loses no row and sends none twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from queue import Queue
from typing import TYPE_CHECKING, Any, Final

import pytest

from engine.clock import SystemClock
from engine.dump import rows, tables
from engine.guards.desk import Desk
from engine.project import Project
from tests.exports.receiver import Receiver, receiving
from tests.scale import scale
from tests.unit.corpus.conftest import Corpus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LATER: Final = 40_000
"""By then every lease has lapsed."""

MANIFEST: Final = """
[project]
name = "shop"
site_id = "laptop"
root = "."
[[pipeline]]
id = "p"
source = {{ kind = "file", path = "none.jsonl" }}
[[pipeline.table]]
name = "t"
[[destination]]
name = "hub"
kind = "http"
url = "{url}/in"
{window}
[[export]]
name = "out"
destination = "hub"
table = "t"
batch = 2
retry = {{ attempts = 1 }}
"""


@dataclass
class Exporters:
    """The process that forks exporters, and a project that nothing has been published of."""

    process: subprocess.Popen[str]
    pristine: Path
    receiver: Receiver
    taken: int = 0
    pids: Queue[int] = field(default_factory=Queue)

    def declare(self, *, window: str) -> None:
        text = MANIFEST.format(url=self.receiver.url, window=window)
        (self.pristine / "contextful.toml").write_text(text, encoding="utf-8")

    def fresh(self) -> Path:
        """A copy of the project, and a receiver that has seen nothing."""
        self.receiver.requests.clear()
        self.receiver.acted.clear()
        self.taken += 1
        return shutil.copytree(self.pristine, self.pristine.with_name(f"copy-{self.taken}"))

    def run(self, root: Path, *, at: str | None = None, ahead_ms: int = 0, reap: bool = False) -> dict[str, Any]:
        """How one exporter ends that may kill itself at the point `at`."""
        assert self.process.stdin
        job = {"root": str(root), "at": at, "ahead_ms": ahead_ms, "reap": reap}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        answer = self._line()
        if "pid" in answer:
            self.pids.put(answer["pid"])
            answer = self._line()
        return answer

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "the process that forks exporters has ended"
        return dict(json.loads(line))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def exporters(tmp_path: Path, receiver: Receiver) -> Iterator[Exporters]:
    """Two commits, five rows: three batches."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.exports.child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        corpus = Corpus(tmp_path / "pristine")
        corpus.land("r-1", [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}])
        corpus.land("r-2", [{"id": 4, "v": "d"}, {"id": 5, "v": "e"}])
        found = Exporters(process, tmp_path / "pristine", receiver)
        found.declare(window='dedup_window = "24h"')
        with Project.find(tmp_path / "pristine/contextful.toml", environ={}) as project:
            project.initialize()
        yield found
    finally:
        process.kill()
        process.communicate()


@pytest.mark.clause("run.callback-guard.replay", "run.journal.idempotency-key", "run.own.retirement")
def test_killed_at_any_statement_it_loses_no_row_and_sends_none_twice(exporters: Exporters, receiver: Receiver) -> None:
    whole = exporters.run(exporters.fresh())
    assert (whole["status"], receiver.ids) == ("success", [1, 2, 3, 4, 5])
    assert len(whole["points"]) > 20

    for point in whole["points"][:: scale(short=5, full=1)]:
        root = exporters.fresh()
        assert exporters.run(root, at=point) == {"killed": signal.SIGKILL}, point
        Corpus(root).land("r-3", [{"id": 6, "v": "f"}])  # before it is decided, or after
        resumed = exporters.run(root, ahead_ms=LATER, reap=True)
        again = exporters.run(root, ahead_ms=LATER)

        assert (resumed["status"], again["status"]) == ("success", "success"), point
        assert receiver.ids == [1, 2, 3, 4, 5, 6], point
        assert left(root) == [], point


@pytest.mark.clause("run.callback-guard.manual", "run.callback-guard.evidence", "run.callback-guard.class")
def test_without_a_window_no_request_is_made_twice_and_an_operator_settles_the_one_in_doubt(
    exporters: Exporters, receiver: Receiver
) -> None:
    exporters.declare(window="")
    whole = exporters.run(exporters.fresh())
    guarded = [point for point in whole["points"] if "guard" in point]
    assert guarded

    for point in guarded[:: scale(short=3, full=1)]:
        root = exporters.fresh()
        assert exporters.run(root, at=point) == {"killed": signal.SIGKILL}, point
        ended = exporters.run(root, ahead_ms=LATER, reap=True)
        if ended.get("error") == "ExecutionTransferBlocked":
            assert ended["facts"]["evidence_class"] == "receipt-required", point
            settle(root, receiver, token=ended["facts"]["token"], key=ended["facts"]["idempotency_key"])
            ended = exporters.run(root, ahead_ms=LATER)

        assert ended.get("status") == "success", (point, ended)
        assert receiver.ids == [1, 2, 3, 4, 5], point
        assert set(Counter(receiver.keys).values()) == {1}, point


@pytest.mark.clause("run.callback-guard.replay", "run.callback-guard.holder-gone")
def test_killed_while_its_request_is_out_it_stays_guarded_until_its_exit_is_recorded(
    exporters: Exporters, receiver: Receiver
) -> None:
    root = exporters.fresh()
    receiver.on_request = lambda _: os.kill(exporters.pids.get(timeout=10), signal.SIGKILL)
    assert exporters.run(root) == {"killed": signal.SIGKILL}
    receiver.on_request = lambda _: None

    unreaped = exporters.run(root, ahead_ms=LATER)
    resumed = exporters.run(root, ahead_ms=LATER, reap=True)

    assert (unreaped["error"], unreaped["facts"]["evidence_class"]) == ("ExecutionTransferBlocked", "replay-safe")
    assert resumed["status"] == "success"
    assert receiver.batches == [1, 1, 2, 3]
    assert receiver.keys[0] == receiver.keys[1]
    assert receiver.ids == [1, 2, 3, 4, 5]


def left(root: Path) -> list[Any]:
    """What the store still holds of an export that is done: owners, guards and rows to publish."""
    with Project.find(root / "contextful.toml", environ={}) as project:
        named = {table.name: table for table in tables(project.profile.tables)}
        return [
            row
            for name in ("owners", "guards", "outbox", "journal")
            for row in rows(project.profile.database, named[name])
        ]


def settle(root: Path, receiver: Receiver, *, token: str, key: str) -> None:
    """What an operator does who looks at the destination."""
    found = f"rec-{key[:6]}" if key in receiver.acted else "absent"
    with Project.find(root / "contextful.toml", environ={}, clock=SystemClock(LATER)) as project:
        desk = Desk(project.profile.database, project.profile.admission)
        desk.reconcile(token, evidence=f"receipt:{key}:{found}", operator="ann")
