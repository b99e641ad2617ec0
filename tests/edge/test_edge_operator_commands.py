"""`contextful storage guard` and `reconcile-guard` from a laptop, through the real Worker."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from engine.cli.main import main
from engine.clock import SystemClock
from tests.edge.faults import Fault, FaultProxy, How
from tests.edge.operators import BEHIND, times
from tests.guarded import HOUR, admitted, engine_for, internal
from tests.local_edge import free_ports
from tests.stores import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

    from engine.guards.guard import Guard
    from tests.edge.operators import Door


@dataclass
class Laptop:
    """A folder without a manifest, and what its environment says."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Run `contextful storage …`: its exit code, its answer, and what it says beside it."""
        self.capture.readouterr()
        code = main(["storage", *words])
        out, err = self.capture.readouterr()
        return code, out, err

    def json(self, *words: str) -> Any:
        code, out, err = self(*words, "--project", PROJECT, "--json")
        assert code == 0, err
        return json.loads(out)

    def error(self, *words: str) -> dict[str, Any]:
        """The refusal of a command, as --json tells it; standard error says the same in a sentence."""
        code, out, err = self(*words, "--project", PROJECT, "--json")
        told: dict[str, Any] = json.loads(out)["error"]
        assert code in {1, 2}
        assert err.startswith(f"{told['name']}: ")
        return told | {"code": code}

    def settings(self, text: str) -> None:
        """Write the user's own settings."""
        folder = self.folder / "settings" / "contextful"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "projects.toml").write_text(text, encoding="utf-8")


@pytest.fixture
def laptop(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, door: Door) -> Laptop:
    """A laptop that knows the door."""
    folder = tmp_path / "laptop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "settings"))
    monkeypatch.setenv("CONTEXTFUL_OPERATOR_ENDPOINT", door.edge.public)
    monkeypatch.setenv("CONTEXTFUL_OPERATOR_CREDENTIAL", door.token())
    return Laptop(folder, capsys, monkeypatch)


def receipt(guard: Guard, name: str = "ch_1") -> str:
    return f"receipt:{guard.idempotency_key}:{name}"


@pytest.mark.clause("run.callback-guard.inspect")
def test_all_that_is_to_be_known_of_a_guard_is_printed(door: Door, laptop: Laptop):
    store = door.store()
    engine = engine_for(store, window=HOUR, stalls=True)
    job = internal(engine, "job:score")
    item = internal(engine, "item:7")
    guard = admitted(engine, item, above=(job,)).asked

    code, out, _ = laptop("guard", "--project", PROJECT)

    assert code == 0
    for told in (
        guard.token, "item:7", "job:score", guard.key.execution_id, guard.attempt.run_id, guard.attempt.holder,
        "step send", "input in", guard.key.idempotency_key, "admitted         5 min", "evidence class   replay-safe",
        "window           1 h: covers the key for another 54 min", "lapsed 4 min", "no exit is recorded",
        f"idempotency:{guard.key.idempotency_key}", f"receipt:{guard.key.idempotency_key}:ID",
        f"receipt:{guard.key.idempotency_key}:absent", "the destination vendor", f"--project {PROJECT}",
    ):  # fmt: skip
        assert told in out, told


def test_no_guard_is_said_to_be_none(laptop: Laptop):
    assert laptop("guard", "--project", PROJECT) == (0, f"no guard stands in project {PROJECT}\n", "")
    assert laptop.json("guard") == {"guards": []}


def test_the_document_is_the_workers_own(door: Door, laptop: Laptop):
    guard = door.dead().guard

    told = laptop.json("guard", "--token", guard.token)

    assert told == {"guards": door.ask(token=door.token()).json()["guards"]}


@pytest.mark.clause("run.callback-guard.manual")
def test_a_guard_is_released_from_the_laptop_with_the_steps_value(door: Door, laptop: Laptop):
    guard = door.dead(gone=True).guard
    (laptop.folder / "charge.json").write_text('{"id": "ch_1"}', encoding="utf-8")
    asked_for = ["--token", guard.token, "--evidence", receipt(guard), "--operator", "anna"]

    tried = laptop.json("reconcile-guard", *asked_for, "--value", "charge.json", "--dry-run")
    assert door.tokens() == [guard.token]
    code, out, _ = laptop("reconcile-guard", "--project", PROJECT, *asked_for, "--value", "charge.json")

    assert code == 0
    assert "is released by" in out
    assert "anna (token of laptop-1)" in out
    assert tried["follows"] in out
    assert door.tokens() == []
    assert door.binding.value("SELECT CAST(value AS TEXT) AS v FROM journal WHERE step = 'send'") == '{"id":"ch_1"}'


@pytest.mark.clause("run.callback-guard.live-holder", "run.callback-guard.evidence")
def test_a_refusal_names_the_error_and_the_next_step(door: Door, laptop: Laptop):
    held = door.dead(behind=0).guard
    words = ["reconcile-guard", "--token", held.token, "--operator", "anna", "--evidence"]

    refused = laptop.error(*words, receipt(held))
    unknown = laptop.error("guard", "--token", "g-none")

    assert (refused["name"], refused["code"]) == ("ExecutionGuardHeld", 1)
    assert f"contextful storage guard --project {PROJECT} --token {held.token}" in refused["message"]
    assert (unknown["name"], unknown["code"]) == ("ExecutionGuardUnknown", 1)
    door.emptied()
    dead = door.dead(behind=BEHIND).guard
    for evidence in ("hearsay", "receipt:other:ch_1"):
        malformed = laptop.error("reconcile-guard", "--token", dead.token, "--operator", "a", "--evidence", evidence)
        assert malformed["name"] == "ExecutionGuardEvidenceMismatch"
        assert f"--token {dead.token} says which evidence would" in malformed["message"]


def test_a_credential_that_is_refused_says_why_and_what_to_do(door: Door, laptop: Laptop):
    for credential, reason, told in (
        (door.token(**times(ago=7200)), "expired", f"contextful operator token --project {PROJECT}"),
        (door.token(header={"kid": "k-9"}), "unknown-key", "OPERATOR_KEYS"),
        (door.token(aud="other"), "wrong-project", "contextful operator token --project NAME"),
        ("open-sesame", "malformed", "CONTEXTFUL_OPERATOR_CREDENTIAL"),
    ):
        laptop.monkeypatch.setenv("CONTEXTFUL_OPERATOR_CREDENTIAL", credential)
        refused = laptop.error("guard")
        assert (refused["name"], refused["reason"], refused["code"]) == ("OperatorCredentialRefused", reason, 1)
        assert told in refused["message"]


def test_what_access_issued_is_shown_where_access_is_looked_for(door: Door, laptop: Laptop):
    laptop.monkeypatch.setenv("CONTEXTFUL_OPERATOR_CREDENTIAL", door.team.assertion())

    assert laptop.json("guard") == {"guards": []}


def test_a_clock_that_is_far_ahead_is_named(door: Door, laptop: Laptop):
    laptop.monkeypatch.setenv("CONTEXTFUL_OPERATOR_CREDENTIAL", door.token(**times(ago=-7200)))
    laptop.monkeypatch.setattr(SystemClock, "now", lambda _: int((time.time() + 7200) * 1000))

    refused = laptop.error("guard")

    assert refused["reason"] == "not-yet-valid"
    assert "s ahead of it: set it" in refused["found"]


def test_where_nobody_answers_nothing_was_changed_and_that_is_said(door: Door, laptop: Laptop):
    laptop.monkeypatch.setenv("CONTEXTFUL_OPERATOR_ENDPOINT", f"http://127.0.0.1:{free_ports(1)[0]}")

    for words in (["guard"], ["reconcile-guard", "--token", "g", "--evidence", "receipt:k:1", "--operator", "a"]):
        refused = laptop.error(*words)
        assert refused["name"] == "OperatorEndpointUnreachable"
        assert "nothing was changed" in refused["message"]


def test_an_address_that_is_no_workers_is_asked_about(door: Door, laptop: Laptop):
    laptop.monkeypatch.setenv("CONTEXTFUL_OPERATOR_ENDPOINT", door.team.url)

    assert "is the address right?" in laptop.error("guard")["message"]


@pytest.mark.clause("run.callback-guard.manual")
@pytest.mark.parametrize("how", [How.DROPPED_AFTER, How.ERROR_AFTER, How.CUT])
def test_a_release_whose_answer_is_lost_is_settled_by_looking(door: Door, laptop: Laptop, how: How):
    guard = door.dead().guard
    with FaultProxy(door.edge.public) as proxy:
        laptop.monkeypatch.setenv("CONTEXTFUL_OPERATOR_ENDPOINT", proxy.url)
        proxy.arm(Fault(how, 0))

        done = laptop.json(
            "reconcile-guard", "--token", guard.token, "--evidence", receipt(guard), "--operator", "anna"
        )

        came = [each.method for each in proxy.came()]
    assert (done["operator"], done["proof"]) == ("anna (token of laptop-1)", "receipt")
    assert came == ["POST", "GET"]
    assert len(door.audits()) == 1


@pytest.mark.clause("run.callback-guard.manual")
def test_a_release_that_never_came_is_not_taken_for_done_nor_sent_again(door: Door, laptop: Laptop):
    guard = door.dead().guard
    words = ["reconcile-guard", "--token", guard.token, "--evidence", receipt(guard), "--operator", "anna"]
    with FaultProxy(door.edge.public) as proxy:
        laptop.monkeypatch.setenv("CONTEXTFUL_OPERATOR_ENDPOINT", proxy.url)
        proxy.arm(Fault(How.DROPPED_BEFORE, 0))

        lost = laptop.error(*words)

        assert [each.method for each in proxy.came()] == ["POST", "GET"]
    assert lost["name"] == "OperatorAnswerLost"
    assert f"contextful storage guard --project {PROJECT} --token {guard.token}" in lost["message"]
    assert (door.tokens(), door.audits()) == ([guard.token], [])


def test_anothers_release_is_not_taken_for_ones_own(door: Door, laptop: Laptop):
    guard = door.dead().guard
    door.reconcile(guard.token, evidence=receipt(guard), operator="bert")
    with FaultProxy(door.edge.public) as proxy:
        laptop.monkeypatch.setenv("CONTEXTFUL_OPERATOR_ENDPOINT", proxy.url)
        proxy.arm(Fault(How.DROPPED_BEFORE, 0))

        lost = laptop.error(
            "reconcile-guard", "--token", guard.token, "--evidence", receipt(guard), "--operator", "anna"
        )

    assert lost["name"] == "OperatorAnswerLost"


def test_a_value_that_came_late_and_whose_answer_is_lost_is_settled_by_looking(door: Door, laptop: Laptop):
    guard = door.dead(gone=True).guard
    words = ["reconcile-guard", "--token", guard.token, "--evidence", receipt(guard), "--operator", "anna"]
    laptop.json(*words)
    (laptop.folder / "charge.json").write_text("5", encoding="utf-8")
    with FaultProxy(door.edge.public) as proxy:
        laptop.monkeypatch.setenv("CONTEXTFUL_OPERATOR_ENDPOINT", proxy.url)
        # The receipt alone stands on record already: it does not show that the value came.
        proxy.arm(Fault(How.DROPPED_BEFORE, 0))
        assert laptop.error(*words, "--value", "charge.json")["name"] == "OperatorAnswerLost"
        proxy.arm(Fault(How.DROPPED_AFTER, 0))
        done = laptop.json(*words, "--value", "charge.json")

    assert done["valued"]
    assert len(door.audits()) == 2


def test_the_users_settings_lead_to_the_worker(door: Door, laptop: Laptop):
    laptop.monkeypatch.delenv("CONTEXTFUL_OPERATOR_ENDPOINT")
    laptop.monkeypatch.delenv("CONTEXTFUL_OPERATOR_CREDENTIAL")
    laptop.settings(f'[project.{PROJECT}]\nendpoint = "{door.edge.public}"\ncredential_env = "DEMO_TOKEN"\n')

    missing = laptop.error("guard")
    laptop.monkeypatch.setenv("DEMO_TOKEN", door.token())

    assert (missing["name"], missing["code"]) == ("OperatorCredentialMissing", 2)
    assert f"export DEMO_TOKEN=$(contextful operator token --project {PROJECT})" in missing["message"]
    assert laptop.json("guard") == {"guards": []}


def test_a_value_past_a_mebibyte_is_refused_before_it_is_sent(door: Door, laptop: Laptop):
    guard = door.dead().guard
    (laptop.folder / "large.json").write_text(json.dumps("x" * (1 << 20)), encoding="utf-8")
    words = ["reconcile-guard", "--token", guard.token, "--evidence", receipt(guard), "--operator", "anna"]

    refused = laptop.error(*words, "--value", "large.json")

    assert (refused["name"], refused["code"]) == ("GuardValueUnusable", 2)
    assert "1,048,576" in refused["message"]
    assert door.tokens() == [guard.token]
