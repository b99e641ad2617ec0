"""Commits of real processes: two at once, one killed, one stopped with the turn in its hand."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.marker import history

if TYPE_CHECKING:
    from pathlib import Path

COMMITTER = """
import os, signal, sys, time
from pathlib import Path
import pyarrow as pa
from engine.corpus.commit import Terms, commit
from engine.corpus.marker import Committer, tail
from engine.corpus.schema import Column, Schema
from engine.local.folder import FolderObjects
from engine.pipeline.recording import PullMeta, encode
from engine.pipeline.stage import Stage
from engine.shapes import CursorKind

root, name, rounds, end = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
objects, schema = FolderObjects(root / "corpus"), Schema((Column("id", "int64", 100), Column("v", "string")))

ends = [] if end == "none" else [getattr(signal, end)]

def check_owner():
    if ends:
        print("stopping", flush=True)
        os.kill(os.getpid(), ends.pop())

for n in range(rounds):
    run = f"{name}-{n}"
    stage = Stage(root / "staged", run_id=run, table="t", standing=Schema())
    for k in range(2):
        rows = [{"id": 10 * n + k, "v": name}]
        stage.add(encode(pa.RecordBatch.from_pylist(rows, schema=schema.arrow()), PullMeta(schema=schema)))
    terms = Terms("t", Committer(run, run, f"x-{run}", "laptop"), CursorKind.OPAQUE_TOKEN, position=run)
    won = commit(objects, terms, stage=stage, now=lambda: 1_000_000, check_owner=check_owner).won
    print(run, won, flush=True)
"""
ROUNDS = 20


def start(root: Path, name: str, *, rounds: int = ROUNDS, end: str = "none") -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", COMMITTER, str(root), name, str(rounds), end]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.mark.clause("run.own.stage-commit-seq", "run.advance.commit-with-rows")
def test_two_processes_committing_at_once_land_every_row_once(corpus: Any) -> None:
    both = [start(corpus.root, name) for name in ("a", "b")]
    printed = [process.communicate(timeout=60)[0] for process in both]

    markers = list(history(corpus.objects, "t"))
    assert all(text.count("True") == ROUNDS for text in printed)
    assert [marker.seq for marker in markers] == list(range(1, 2 * ROUNDS + 1))
    assert sorted({marker.committed_at for marker in markers}) == [marker.committed_at for marker in markers]
    landed = Counter(corpus.rows("v, id"))
    assert landed == Counter((name, 10 * n + k) for name in "ab" for n in range(ROUNDS) for k in range(2))
    assert corpus.rows("DISTINCT _commit_seq") == [(marker.seq,) for marker in markers]


@pytest.mark.clause("run.advance.commit-with-rows", "run.own.one-commit-per-run", "run.own.stage-discard")
def test_a_process_killed_between_parts_and_marker_leaves_the_old_state_whole(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "old"}], position="p1")

    killed = start(corpus.root, "k", rounds=1, end="SIGKILL")
    killed.communicate(timeout=60)

    assert killed.returncode == -signal.SIGKILL
    assert len(corpus.names("t/parts/k-0/")) == 2
    assert (corpus.root / "staged" / "k-0" / "000001.arrow").exists()
    assert corpus.rows() == [(1, "old")]
    assert corpus.newest.position == "p1"
    assert corpus.land("r-2", [{"id": 2, "v": "new"}]).seq == 2


def test_a_stopped_process_that_holds_the_turn_keeps_nobody_out(corpus: Any) -> None:
    stopped = start(corpus.root, "s", rounds=1, end="SIGSTOP")
    assert stopped.stdout
    try:
        stopped.stdout.readline()
        marker = corpus.land("r-1", [{"id": 1, "v": "a"}])
        stopped.send_signal(signal.SIGCONT)
        stopped.communicate(timeout=30)
    finally:
        stopped.kill()

    assert marker.seq == 1
    assert corpus.newest.seq == 2
    assert corpus.rows() == [(0, "s"), (1, "a"), (1, "s")]


def test_parts_of_equal_rows_are_equal_bytes_in_every_process(tmp_path: Path) -> None:
    homes = [tmp_path / "one", tmp_path / "two"]
    for home in homes:
        start(home, "a", rounds=1).communicate(timeout=60)

    first, second = ({path.relative_to(home): hashlib.sha256(path.read_bytes()).hexdigest()
                      for path in home.rglob("*") if path.is_file()} for home in homes)  # fmt: skip
    assert first == second
    assert any(path.suffix == ".parquet" for path in first)
