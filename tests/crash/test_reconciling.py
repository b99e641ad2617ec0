"""Evidence where entries are files: a kill between an entry's file and the audit row leaves both or neither."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.forked import ROOT
from tests.guarded import Dead, again, desk, guards, left_sending, receipt, recorded_bytes

if TYPE_CHECKING:
    from engine.shapes import Entry
    from tests.stores import Store

THE_BATCH = "require_reconcilable+audit_guard+end_guarded_lease+release_guard #1"
CHARGED = recorded_bytes("charged").decode()

pytestmark = [
    pytest.mark.parametrize("blank", ["file"], indirect=True),
    pytest.mark.parametrize(
        ("identity", "value"), [("ch_1", None), ("ch_1", CHARGED), ("absent", None)], ids=["receipt", "value", "absent"]
    ),
]


def killed(store: Store, dead: Dead, identity: str, value: str | None, *, at: str) -> list[Entry]:
    """The entries once the operator's process has died at the point `at`."""
    evidence = receipt(dead.guard, identity)
    job = {"root": str(store.root), "now": store.clock.now(), "at": at, "token": dead.guard.token}
    told = json.dumps(job | {"evidence": evidence, "value": value})
    ended = subprocess.run([sys.executable, "-m", "tests.crash.reconciling", told], cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL
    return store.entries(dead.execution.execution_id)


@pytest.mark.clause("run.callback-guard.evidence", "run.callback-guard.manual")
def test_evidence_counts_for_nothing_where_its_audit_row_was_not_written(
    store: Store, identity: str, value: str | None
) -> None:
    dead = left_sending(store)
    before = store.entries(dead.execution.execution_id)

    after = killed(store, dead, identity, value, at=f"before {THE_BATCH}")

    assert (after, guards(store), desk(store).audits()) == (before, [dead.guard], [])
    assert again(store, dead) == ("again", [dead.guard.idempotency_key])


@pytest.mark.clause("run.callback-guard.evidence", "run.callback-guard.manual")
def test_evidence_counts_as_soon_as_its_audit_row_is_written(store: Store, identity: str, value: str | None) -> None:
    dead = left_sending(store)

    (entry,) = killed(store, dead, identity, value, at=f"after {THE_BATCH}")

    (audit,) = desk(store).audits()
    absent = identity == "absent"
    assert (audit.token, audit.evidence, guards(store)) == (dead.guard.token, receipt(dead.guard, identity), [])
    assert (entry.receipt, entry.value) == (None if absent else audit.evidence, value and value.encode())
    assert (entry.claim, entry.admitted_at is None, entry.doubts) == (None, absent, 0 if absent else 1)
    if value:
        assert again(store, dead) == ("charged", [])
