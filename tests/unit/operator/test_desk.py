"""The Worker's desk over the statements it sends: what it reads, what it plans, and what shows that it was done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from d1.guards.answers import status_of
from d1.guards.desk import Looked, Plan, listed, looked, looking, planned, shows
from d1.guards.requests import Reconcile, place
from d1.guards.statements import bound
from engine.errors import (
    ExecutionGuardEvidenceMismatch,
    ExecutionGuardHeld,
    ExecutionGuardUnknown,
    ExecutionSchemaIncompatible,
    GuardStepRecorded,
    GuardValueUnsealed,
    OperatorCredentialRefused,
    OperatorProjectElsewhere,
    Refused,
)
from engine.operator.named import KNOWN, STATUSES
from engine.seals import MAGIC, MARK
from tests.clocks import SettableClock
from tests.guarded import HOUR, Dead, guards, left_sending
from tests.stores import PROJECT, Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store whose statements are D1's, in a file."""
    opened = Store("sqlite", tmp_path / "store", SettableClock(), dict).initialized()
    yield opened
    opened.close()


def look(store: Store, token: str | None = None) -> Looked:
    return looked(store.here.profile.database.run(*looking(token)), project=PROJECT)


def wanted(dead: Dead, evidence: str = "receipt:{key}:ch_1", **others: Any) -> Reconcile:
    text = evidence.format(key=dead.guard.idempotency_key)
    return Reconcile(PROJECT, dead.guard.token, text, "anna (token of laptop-1)", None, dry_run=False, **others)


def do(store: Store, plan: Plan) -> None:
    store.here.profile.database.run(*plan.calls)


def test_what_is_told_is_what_stands(store: Store) -> None:
    dead = left_sending(store)

    told = listed(look(store), token=None, now=store.clock.now())

    assert [each["token"] for each in told["guards"]] == [dead.guard.token]
    assert listed(look(store, dead.guard.token), token=dead.guard.token, now=store.clock.now()) == told


def test_the_plan_of_a_dry_run_sends_nothing(store: Store) -> None:
    dead = left_sending(store)
    asked = wanted(dead)

    dry = planned(look(store, asked.token), replace(asked, dry_run=True))

    assert dry.calls == ()
    assert dry.document == planned(look(store, asked.token), asked).document | {"dry_run": True}


def test_only_what_was_asked_for_shows_that_it_was_done(store: Store) -> None:
    dead = left_sending(store)
    asked = wanted(dead)
    before = look(store, asked.token)
    assert not shows(before, asked)

    do(store, planned(look(store, asked.token), asked))

    found = look(store, asked.token)
    assert shows(found, asked)
    assert not shows(replace(found, standing=before.standing), asked)
    assert not shows(found, replace(asked, evidence=f"{asked.evidence}2"))
    assert not shows(found, replace(asked, operator="bert (token of laptop-2)"))
    assert not shows(found, replace(asked, value=b"1"))
    valued = replace(asked, value=b"1")
    do(store, planned(found, valued))
    assert shows(look(store, asked.token), valued)


def test_what_a_plan_meets_in_its_batch_is_named(store: Store) -> None:
    dead = left_sending(store, window=HOUR)
    by_receipt = planned(look(store, dead.guard.token), wanted(dead))
    by_key = planned(look(store, dead.guard.token), wanted(dead, "idempotency:{key}"))

    store.clock.advance(HOUR)
    with pytest.raises(Refused) as passed:
        do(store, by_key)
    do(store, by_receipt)
    with pytest.raises(Refused) as gone:
        do(store, by_receipt)

    assert isinstance(by_key.refused(passed.value.constraint), ExecutionGuardEvidenceMismatch)
    assert isinstance(by_receipt.refused(gone.value.constraint), ExecutionGuardUnknown)
    assert isinstance(by_receipt.refused("CHECK constraint failed: held"), ExecutionGuardHeld)
    assert by_receipt.refused("no such table: guards") is None
    assert len(look(store, dead.guard.token).audits) == 1


def test_of_two_values_that_come_late_at_once_one_is_recorded(store: Store) -> None:
    dead = left_sending(store)
    do(store, planned(look(store, dead.guard.token), wanted(dead)))
    first, second = (planned(look(store, dead.guard.token), replace(wanted(dead), value=each)) for each in (b"1", b"2"))

    do(store, first)
    with pytest.raises(Refused) as late:
        do(store, second)

    assert isinstance(second.refused(late.value.constraint), GuardStepRecorded)
    assert [entry.value for entry in store.entries(dead.guard.execution_id)] == [b"1"]
    assert len(look(store, dead.guard.token).audits) == 2


def test_a_value_comes_late_for_no_step_that_is_sent_again_meanwhile(store: Store) -> None:
    """The window still covers: the next attempt may send the key again, and what it brings back is the value."""
    dead = left_sending(store, window=HOUR)
    do(store, planned(look(store, dead.guard.token), wanted(dead)))
    late = planned(look(store, dead.guard.token), replace(wanted(dead), value=b"1"))
    again = left_sending(store, window=HOUR)
    assert [each.token for each in guards(store)] == [again.guard.token]

    with pytest.raises(Refused):
        do(store, late)


def test_a_guard_that_does_not_stand_is_told_with_what_was_done_about_it(store: Store) -> None:
    dead = left_sending(store)
    token, asked = dead.guard.token, wanted(dead)
    with pytest.raises(ExecutionGuardUnknown) as never:
        listed(look(store, "g-none"), token="g-none", now=store.clock.now())

    do(store, planned(look(store, token), asked))

    with pytest.raises(ExecutionGuardUnknown) as gone:
        listed(look(store, token), token=token, now=store.clock.now())
    assert never.value.released is None
    assert gone.value.released is not None
    assert (gone.value.released["evidence"], gone.value.released["operator"]) == (asked.evidence, asked.operator)
    assert listed(look(store), token=None, now=store.clock.now())["guards"] == []


@pytest.mark.parametrize("how", ["never reconciled", "by another receipt", "by absence", "without a value"])
def test_a_value_comes_late_only_for_the_receipt_that_settled_its_step(store: Store, how: str) -> None:
    dead = left_sending(store)
    asked = wanted(dead, "receipt:{key}:absent") if how == "by absence" else wanted(dead)
    if how != "never reconciled":
        do(store, planned(look(store, dead.guard.token), asked))
    late = replace(asked, value=None if how == "without a value" else b"1")
    if how == "by another receipt":
        late = replace(late, evidence=f"{asked.evidence}2")
    found = look(store, dead.guard.token)

    with pytest.raises(ExecutionGuardUnknown):
        planned(replace(found, standing=[]), late)


def test_a_value_that_comes_late_comes_once_and_a_dry_run_brings_none(store: Store) -> None:
    dead = left_sending(store)
    asked = wanted(dead)
    do(store, planned(look(store, dead.guard.token), asked))
    late = replace(asked, value=b"1")

    dry = planned(look(store, dead.guard.token), replace(late, dry_run=True))
    do(store, planned(look(store, dead.guard.token), late))

    assert (dry.calls, dry.document["valued"]) == ((), True)
    with pytest.raises(GuardStepRecorded):
        planned(look(store, dead.guard.token), late)


@pytest.mark.parametrize(
    ("mark", "value", "refused"),
    [
        (None, b"1", False),
        (None, MAGIC + bytes(20), True),
        ("00" * 8, MAGIC + bytes(20), False),
        ("00" * 8, b"1", True),
        ("00" * 8, MAGIC, True),
        ("11" * 8, MAGIC + bytes(20), True),
    ],
)
def test_a_value_is_sealed_as_the_store_is_or_refused(
    store: Store, mark: str | None, value: bytes, refused: bool
) -> None:
    dead = left_sending(store)
    found = look(store, dead.guard.token)
    marked = replace(found, meta=found.meta | ({MARK: mark} if mark else {}))
    asked = replace(wanted(dead), value=value)

    if refused:
        with pytest.raises(GuardValueUnsealed) as refusal:
            planned(marked, asked)
        assert ("CONTEXTFUL_SEAL_KEY unset" in str(refusal.value.remedy)) is (mark is None)
        assert (mark or "as they are") in refusal.value.found
        assert ("not sealed" in refusal.value.found) is (value == b"1" or (value == MAGIC and mark is not None))
    else:
        assert planned(marked, asked).document["valued"]


def test_a_store_of_another_project_or_schema_is_none_of_the_desks(store: Store) -> None:
    rows = store.here.profile.database.run(*looking(None))

    with pytest.raises(OperatorProjectElsewhere):
        looked(rows, project="other")
    with pytest.raises(ExecutionSchemaIncompatible):
        looked([[("schema", "3"), ("project", PROJECT)], []], project=PROJECT)
    with pytest.raises(ExecutionSchemaIncompatible):
        looked([[], []], project=PROJECT)


def test_every_error_that_the_worker_names_is_raised_by_the_same_name_at_home() -> None:
    at_home = set(KNOWN.values())

    assert {each for each in STATUSES if each not in at_home} == {
        each for each in STATUSES if each.__name__ == "StorageBindingUnavailable"
    }
    assert status_of(OperatorCredentialRefused(reason="wrong-project", found="f", project="p")) == 403
    assert status_of(OperatorCredentialRefused(reason="expired", found="f", project="p")) == 401
    assert status_of(ExecutionGuardUnknown(token="g")) == 404


def test_a_statement_is_bound_by_number_with_the_workers_instant() -> None:
    [(text, values)] = bound(looking("g-1")[1:2], now=7)

    assert ":" not in text
    assert values in {(7, "g-1"), ("g-1", 7)}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/v1/projects/shop/guards", ("shop", None)),
        ("/v1/projects/shop/guards?token=g", ("shop", None)),
        ("/v1/projects/a%20b/guards/g%2F1/reconcile", ("a b", "g/1")),
        ("/v1/projects/shop/guards/", None),
        ("/v1/projects//guards", None),
        ("/v1/projects/shop/guards/g", None),
        ("/v2/projects/shop/guards", None),
        ("/v1/projects/shop/x/guards", None),
    ],
)
def test_a_route_is_one_of_two(path: str, found: tuple[str, str | None] | None) -> None:
    asked = place(f"https://shop.example.com{path}")

    assert (asked and (asked.project, asked.token)) == found
