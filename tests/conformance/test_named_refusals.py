"""What a program names wrongly is told by name, before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import Config, DestinationUnknown, RunIdUsed
from engine.pipeline.declaration import Destination
from engine.shapes import RunStatus
from tests.stores import Effect

if TYPE_CHECKING:
    from tests.stores import Store


@pytest.mark.clause("run.own.execution-id-keys-the-journal")
@pytest.mark.parametrize("scope", ["job", "another"])
def test_a_run_id_that_is_used_is_refused_by_name_and_opens_nothing(store: Store, scope: str) -> None:
    with store.open("job", run_id="monday"):
        pass

    with pytest.raises(RunIdUsed, match="'monday'") as refusal:
        store.open(scope, run_id="monday")

    assert isinstance(refusal.value, Config)
    assert store.owner(scope) is None
    assert store.run("monday").status is RunStatus.SUCCESS
    assert [row.run_id for row in store.here.history.rows()] == ["monday"]


def test_the_id_of_an_attempt_that_still_runs_is_used_too(store: Store) -> None:
    running = store.open("job", run_id="monday")

    with pytest.raises(RunIdUsed):
        store.elsewhere("job", run_id="monday")

    assert running.step("one", Effect("done")) == "done"


def test_an_unknown_destination_is_refused_before_its_effect_runs(store: Store) -> None:
    known = {name: Destination(name, "http://127.0.0.1:9") for name in ("payments", "mail")}
    execution, effect = store.open(engine=store.engine(destinations=known)), Effect()

    with pytest.raises(DestinationUnknown) as refusal:
        execution.step("charge", effect, destination="payment")

    assert isinstance(refusal.value, Config)
    assert str(refusal.value) == (
        "step charge goes to the destination 'payment', which the manifest does not declare; "
        "declare it as a [[destination]]; declared: mail, payments"
    )
    assert effect.calls == 0
