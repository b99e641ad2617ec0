"""What host scopes and their runs may be named: nothing is written under a name that would harm or mislead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import HostScopeUnusable, RunIdUnusable
from engine.ids import LONGEST_SCOPE
from tests.stores import Effect

if TYPE_CHECKING:
    from tests.stores import Store

NO_SCOPES: tuple[Any, ...] = (
    *("", " ", "..", ".", "../../etc", "/a", "a\0b", "a\nb", "a\rb", "a\x1b[31m", "a\u202eb", "a ", "\ud800"),
    *("export:orders", "x" * (LONGEST_SCOPE + 1), None, 5, b"job"),
)
NO_RUN_IDS: tuple[Any, ...] = ("", "..", "../../../evil", "a/b", "a\0b", "a\nb", "é", "\ud800", "r" * 129, 5)


@pytest.mark.clause("run.own.host-scope")
@pytest.mark.parametrize("scope", NO_SCOPES, ids=ascii)
def test_what_names_no_scope_is_refused_before_anything_is_written(store: Store, scope: Any) -> None:
    with pytest.raises(HostScopeUnusable, match="name the scope by the work it is for") as refusal:
        store.open(scope)

    assert str(refusal.value).isprintable()
    assert (store.here.owners.all(), store.statuses()) == ([], [])


@pytest.mark.clause("run.own.host-scope")
@pytest.mark.parametrize("scope", ["job", "7", "order/42", "table:orders", "tenant:a b", "Größe", "在庫", "a..b"])
def test_what_people_name_their_work_is_taken_as_it_is(store: Store, scope: str) -> None:
    with store.open(scope) as execution:
        execution.step("one", Effect())

    assert store.run(execution.run_id).host_scope == scope


@pytest.mark.clause("run.own.host-scope")
@pytest.mark.parametrize("run_id", NO_RUN_IDS, ids=ascii)
def test_what_names_no_run_is_refused_and_the_next_engine_starts(store: Store, run_id: Any) -> None:
    with pytest.raises(RunIdUnusable, match="leave it out to have one drawn"):
        store.open(run_id=run_id)

    assert store.engine().runs.since(0, ceiling=1) == []
