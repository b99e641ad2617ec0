"""Guards of a sealed store at a Worker whose D1 loses answers and whose team is gone."""

from __future__ import annotations

import base64
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from engine.errors import GuardValueUnsealed
from engine.operator.remote import Remote, RemoteDesk
from engine.sealed import KEY, Seal
from tests.edge.asked_guards import names, receipt, resumed
from tests.edge.operators import AUDIENCE
from tests.guarded import recorded_bytes
from tests.local_edge import ROOT, SERVE, free_ports, local_edge
from tests.stores import PROJECT, Effect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.guards.guard import Guard
    from tests.edge.operators import Door

SEALS = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(scope="module")
def kept_sealed_door(open_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """An edge whose D1 loses the answers that a request names and whose team is gone, over a sealed store."""
    state, entry = tmp_path_factory.mktemp("lossy"), ROOT / "tests" / "edge" / "lossy_entry.py"
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    program: list[str | Path] = [*SERVE, "--var", f"ACCESS_TEAM={nobody}", "--var", f"ACCESS_AUD={AUDIENCE}"]
    with (
        local_edge(state, project=PROJECT, entry=entry, program=program) as edge,
        open_door.at(edge, state) as other,
    ):
        other.store(seal=SEALS)
        yield other


@pytest.fixture
def sealed_door(kept_sealed_door: Door, tmp_path: Path) -> Iterator[Door]:
    """That edge without guards."""
    kept_sealed_door.folder = tmp_path
    kept_sealed_door.emptied()
    yield kept_sealed_door
    kept_sealed_door.leave()


@pytest.mark.clause("run.callback-guard.manual")
def test_a_release_whose_answer_d1_loses_is_told_as_what_it_was(sealed_door: Door):
    guard = sealed_door.dead(seal=SEALS).guard

    lost = sealed_door.reconcile(guard.token, loses="before", evidence=receipt(guard))
    assert (lost.status_code, lost.json()["error"]["applied"]) == (503, "unknown")
    assert sealed_door.tokens() == [guard.token]
    done = sealed_door.reconcile(guard.token, loses="after", evidence=receipt(guard))
    assert (done.status_code, sealed_door.tokens(), len(sealed_door.audits())) == (200, [], 1)

    sealed_door.emptied()
    guard = sealed_door.dead(seal=SEALS).guard
    unseen = sealed_door.reconcile(guard.token, loses="everything after", evidence=receipt(guard))
    assert (unseen.status_code, unseen.json()["error"]["applied"]) == (503, "unknown")
    assert sealed_door.tokens() == []


def test_where_a_teams_keys_cannot_be_read_nobody_is_called_a_stranger(sealed_door: Door):
    answer = sealed_door.ask(assertion=sealed_door.team.assertion())

    assert (answer.status_code, names(answer)) == (503, "OperatorEndpointUnreachable")


def test_a_store_that_does_not_seal_takes_no_sealed_value(door: Door):
    guard = door.dead(gone=True).guard

    with pytest.raises(GuardValueUnsealed, match="records values as they are"):
        _given_from_home(door, guard, seal=Seal.of({KEY: SEALS}))

    assert door.tokens() == [guard.token]


def test_a_sealed_store_takes_sealed_values_alone(sealed_door: Door):
    """A Worker has no key: what it records must be sealed where everything else is."""
    guard = sealed_door.dead(gone=True, seal=SEALS).guard

    for wrong in (None, Seal.of({KEY: base64.b64encode(bytes(32)).decode()})):
        with pytest.raises(GuardValueUnsealed, match="sealed under key"):
            _given_from_home(sealed_door, guard, seal=wrong)
    assert sealed_door.tokens() == [guard.token]
    _given_from_home(sealed_door, guard, seal=Seal.of({KEY: SEALS}))

    [[value]] = sealed_door.binding.rows("SELECT value FROM journal WHERE step = 'send'")
    assert b"ch_1" not in base64.b64decode(value["b64"])
    assert resumed(sealed_door, Effect()) == {"id": "ch_1"}


def _given_from_home(door: Door, guard: Guard, *, seal: Seal | None) -> None:
    """Release the guard with a value from a laptop that has this seal."""
    with closing(RemoteDesk(Remote(PROJECT, door.edge.public, door.token()), seal=seal, now_s=0)) as desk:
        value = recorded_bytes({"id": "ch_1"})
        desk.reconcile(guard.token, evidence=receipt(guard), operator="anna", value=value, dry_run=False)
