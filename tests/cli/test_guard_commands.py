"""`contextful storage guard` and `reconcile-guard` where this machine opens the store, and `contextful operator`."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from engine.clock import SystemClock
from tests.cli.conftest import PAYMENTS
from tests.destinations import Vendor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Shell

PAY = """\
import os, signal, sys
import engine
from engine.clock import SystemClock

def charge(call):
    call.http.post("{url}", json={{"amount": 5}}).raise_for_status()
    os.kill(os.getpid(), signal.SIGKILL)

with engine.start(clock=SystemClock(int(sys.argv[1]))) as eng:
    with eng.open("order-7", plan="plan-a") as x:
        print(x.step("charge", charge, input={{"amount": 5}}, destination="payments"))
"""
"""An engine that dies when the destination has acted and nothing of it is recorded."""

BEHIND = "-300000"
"""Milliseconds: the clock of an engine whose lease has lapsed by now."""


@pytest.fixture
def payments() -> Iterator[Vendor]:
    """A destination that honours no keys."""
    with Vendor(now=SystemClock().now).serving() as vendor:
        yield vendor


@pytest.fixture(params=["sqlite", "file"])
def shop(request: pytest.FixtureRequest, shell: Shell, payments: Vendor, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A project under a local profile."""
    monkeypatch.setenv("CONTEXTFUL_STORAGE_PROFILE", request.param)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(shell.folder / "settings"))
    shell.write("contextful.toml", PAYMENTS.format(url=payments.url, window=""))
    shell.write("pay.py", PAY.format(url=payments.url))
    return shell


def pays(shell: Shell, *, behind: str = BEHIND) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "pay.py", behind], cwd=shell.folder, capture_output=True, text=True, timeout=60, check=False
    )


def left(shell: Shell, *, behind: str = BEHIND) -> dict[str, Any]:
    """The guard of an engine that was killed in its callback."""
    assert pays(shell, behind=behind).returncode == -signal.SIGKILL
    [guard] = shell.json("storage", "guard")["guards"]
    return dict(guard)


def receipt(guard: dict[str, Any], name: str = "ch_1") -> str:
    return f"receipt:{guard['idempotency_key']}:{name}"


def released(shell: Shell, guard: dict[str, Any], evidence: str, *more: str) -> Any:
    return shell.json(
        "storage", "reconcile-guard", "--token", guard["token"], "--evidence", evidence, "--operator", "anna", *more
    )


@pytest.mark.clause("run.callback-guard.inspect", "run.callback-guard.class")
def test_a_guard_left_by_a_killed_engine_is_shown_whole(shop: Shell, payments: Vendor) -> None:
    guard = left(shop)

    ended = shop("storage", "guard", "--project", "shop")

    assert ended.code == 0
    assert set(guard) == {
        "token", "scopes", "leases", "scope", "execution_id", "attempt", "holder", "entry", "idempotency_key", "kind",
        "destination", "window", "admitted_at", "covered_until", "evidence_class", "owner_lease_expires_at",
        "holder_exited_at",
    }  # fmt: skip
    for told in (
        guard["token"], "host:order-7", guard["execution_id"], guard["attempt"], guard["holder"],
        guard["entry"]["input"], guard["idempotency_key"], "admitted         5 min ", f" ago ({guard['admitted_at']})",
        "window           none", "evidence class   unknown", f"at payments, {payments.url}",
        "it may be dead, or stalled and go on", f"--token {guard['token']} --evidence E --operator YOU",
    ):  # fmt: skip
        assert told in ended.out, told
    assert f"idempotency:{guard['idempotency_key']}" not in ended.out
    assert "admits cooperatively" in ended.err


@pytest.mark.clause("run.callback-guard.manual")
def test_a_receipt_keeps_a_charge_from_being_made_twice(shop: Shell, payments: Vendor) -> None:
    guard = left(shop)
    assert pays(shop, behind="0").returncode != 0
    assert len(payments.executed) == 1
    shop.write("charge.json", '{"id": "ch_1"}')

    done = released(shop, guard, receipt(guard), "--value", "charge.json")

    assert (done["operator"], done["valued"]) == ("anna", True)
    assert pays(shop, behind="0").stdout == "{'id': 'ch_1'}\n"
    assert payments.received == [guard["idempotency_key"]]


def test_a_value_may_be_given_after_its_receipt_and_once(shop: Shell, payments: Vendor) -> None:
    guard = left(shop)
    shop.write("charge.json", '{"id": "ch_1"}')
    released(shop, guard, receipt(guard))
    refused = pays(shop, behind="0")

    dry = released(shop, guard, receipt(guard), "--value", "charge.json", "--dry-run")
    done = released(shop, guard, receipt(guard), "--value", "charge.json")
    again = shop("storage", "reconcile-guard", "--token", guard["token"], "--evidence", receipt(guard), "--operator",
                 "anna", "--value", "charge.json", "--json")  # fmt: skip

    assert "EffectSettled" in refused.stderr
    assert (dry["dry_run"], done["dry_run"]) == (True, False)
    assert (again.code, again.error["name"]) == (1, "GuardStepRecorded")
    assert pays(shop, behind="0").stdout == "{'id': 'ch_1'}\n"
    assert len(payments.received) == 1


def test_a_key_that_the_destination_never_saw_is_sent(shop: Shell, payments: Vendor) -> None:
    guard = left(shop)

    released(shop, guard, receipt(guard, "absent"))

    assert pays(shop, behind="0").returncode == -signal.SIGKILL
    assert payments.received == [guard["idempotency_key"]] * 2


@pytest.mark.clause("run.callback-guard.live-holder")
def test_a_guard_is_held_while_its_engines_lease_runs(shop: Shell) -> None:
    guard = left(shop, behind="0")
    words = ["storage", "reconcile-guard", "--token", guard["token"], "--operator", "anna"]

    shown = shop("storage", "guard")
    refused = shop(*words, "--evidence", receipt(guard), "--json")

    assert "releases it now  nothing: its callback may still be sending" in shown.out
    assert "next             wait:" in shown.out
    assert (refused.code, refused.error["name"]) == (1, "ExecutionGuardHeld")
    assert shop.json("storage", "guard", "--token", guard["token"])["guards"] == [guard]


@pytest.mark.clause("run.callback-guard.evidence")
def test_evidence_that_is_not_of_the_guard_is_refused_with_what_would_do(shop: Shell) -> None:
    guard = left(shop)
    words = ["storage", "reconcile-guard", "--token", guard["token"], "--operator", "anna", "--evidence"]

    for evidence in ("hearsay", "receipt:other:ch_1", f"idempotency:{guard['idempotency_key']}"):
        refused = shop(*words, evidence, "--json")
        assert (refused.code, refused.error["name"]) == (1, "ExecutionGuardEvidenceMismatch")
        assert "says which evidence would" in refused.err

    unknown = shop(*[each if each != guard["token"] else "g-none" for each in words], receipt(guard), "--json")
    assert (unknown.code, unknown.error["name"]) == (1, "ExecutionGuardUnknown")
    assert len(shop.json("storage", "guard")["guards"]) == 1


@pytest.mark.clause("run.callback-guard.class")
def test_while_the_window_covers_the_key_itself_will_do(shell: Shell, payments: Vendor) -> None:
    shell.write("contextful.toml", PAYMENTS.format(url=payments.url, window='dedup_window = "24h"'))
    shell.write("pay.py", PAY.format(url=payments.url))
    guard = left(shell)

    shown = shell("storage", "guard").out

    assert "window           1 day: covers the key for another 23 h 5" in shown
    assert f"releases it now  idempotency:{guard['idempotency_key']}" in shown
    assert released(shell, guard, f"idempotency:{guard['idempotency_key']}")["proof"] == "replay"


@pytest.mark.parametrize(
    "operator", ["", "   ", "anna\n", "anna\nreleased by bert", "\x1b[31manna", "a\u202enna", "a" * 201]
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_an_operator_who_is_no_name_goes_on_no_record(shop: Shell, operator: str, more: tuple[str, ...]) -> None:
    words = ["storage", "reconcile-guard", "--token", "g-1", "--evidence", "receipt:k:ch_1", "--operator", operator]

    refused = shop(*words, *more, "--json")

    assert (refused.code, refused.error["name"]) == (2, "Config")
    assert f"operator: {operator!r:.80} is not a name of 1 to 200 printable characters" in refused.error["message"]
    assert "--operator anna" in refused.error["remedy"]


def test_an_operators_name_goes_on_record_without_the_blanks_around_it(shop: Shell) -> None:
    guard = left(shop)

    done = released(shop, guard, receipt(guard), "--operator", " bert ")
    unknown = shop("storage", "guard", "--token", guard["token"], "--json")

    assert done["operator"] == "bert"
    assert unknown.error["remedy"].startswith("bert reconciled it at")


def test_no_guard_is_said_to_be_none(shop: Shell) -> None:
    ended = shop("storage", "guard")

    assert (ended.code, ended.out) == (0, "no guard stands in project shop\n")
    assert shop.json("storage", "guard") == {"guards": []}


def test_a_value_that_is_no_json_is_refused_before_anything_is_asked(laptop: Shell) -> None:
    laptop.write("nan.json", "NaN")
    laptop.write("text.json", "charged")
    words = ["storage", "reconcile-guard", "--token", "g", "--evidence", "receipt:k:1", "--operator", "anna", "--value"]

    for file, told in (("nan.json", "NaN"), ("text.json", "not JSON"), ("gone.json", "No such file")):
        refused = laptop(*words, file, "--json")
        assert (refused.code, refused.error["name"]) == (2, "GuardValueUnusable")
        assert told in refused.err
