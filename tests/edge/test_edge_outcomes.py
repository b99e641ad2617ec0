"""What is known of a request that nobody answered, however often it was sent: nothing happened, or it may have."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from d1.binding import Binding
from engine.binding import ATTEMPTS, Exchange, Patience
from engine.errors import StorageBindingUnavailable
from r2.binding import BindingKeys
from r2.objects import BucketObjects
from tests.edge.faults import Fault, FaultProxy, How
from tests.local_edge import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.local_edge import Edge

pytestmark = pytest.mark.clause("run.journal.d1-transport")

PATIENCE = Patience(read_s=10, write_s=10, pause_s=0.01)
_numbers = count()


@pytest.fixture(scope="module")
def proxy(edge: Edge) -> Iterator[FaultProxy]:
    with FaultProxy(edge.private) as running:
        yield running


@pytest.fixture
def keys(proxy: FaultProxy) -> Iterator[BindingKeys]:
    with closing(BindingKeys(Exchange(proxy.url, patience=PATIENCE))) as opened:
        yield opened


@pytest.fixture
def batches(proxy: FaultProxy) -> Iterator[Binding]:
    with closing(Binding(Exchange(proxy.url, patience=PATIENCE))) as opened:
        yield opened


def outcome(work: Callable[[], Any]) -> str:
    """What is said to be known of work that stays without an answer."""
    with pytest.raises(StorageBindingUnavailable) as raised:
        work()
    return raised.value.applied


def made(table: str) -> list[dict[str, Any]]:
    """Statements that may be applied twice."""
    return [{"sql": f"CREATE TABLE IF NOT EXISTS {table} (id INTEGER) STRICT", "params": []}]


@pytest.mark.parametrize("how", [How.DROPPED_AFTER, How.CUT])
def test_a_conditional_put_that_was_never_answered_may_have_been_applied(proxy, keys, how: How):
    key = f"corpus/outcomes/{next(_numbers)}"
    proxy.arm(Fault(how, 0, times=ATTEMPTS))

    known = outcome(lambda: keys.put(key, b"content", replacing=None))

    assert known == "unknown"
    assert len(proxy.came()) == ATTEMPTS
    assert keys.get(key).content == b"content"


def test_a_replacement_that_was_never_answered_may_have_been_applied(proxy, keys):
    key = f"corpus/outcomes/{next(_numbers)}"
    keys.put(key, b"old", replacing=None)
    standing = keys.head(key)
    proxy.arm(Fault(How.DROPPED_AFTER, 0, times=ATTEMPTS))

    known = outcome(lambda: keys.put(key, b"new", replacing=standing.etag))

    assert known == "unknown"
    assert keys.get(key).content == b"new"


@pytest.mark.parametrize("how", [How.DROPPED_BEFORE, How.DROPPED_AFTER])
def test_a_creation_stays_unknown_where_looking_for_it_fails_as_well(proxy, keys, tmp_path: Path, how: How):
    objects = BucketObjects(keys, tmp_path)
    proxy.arm(Fault(how, 0, times=1 + ATTEMPTS))

    known = outcome(lambda: objects.create(f"outcomes/{next(_numbers)}", b"content"))

    assert known == "unknown"
    assert [each.method for each in proxy.came()] == ["PUT", *["GET"] * ATTEMPTS]


def test_a_replacement_stays_unknown_where_looking_for_what_refused_it_fails(proxy, keys, tmp_path: Path):
    objects, name = BucketObjects(keys, tmp_path), f"outcomes/{next(_numbers)}"
    objects.put(name, b"old")
    proxy.arm(Fault(How.DROPPED_AFTER, 1, times=ATTEMPTS))

    known = outcome(lambda: objects.put(name, b"new"))

    assert known == "unknown"
    assert [each.method for each in proxy.came()] == ["PUT", *["GET"] * ATTEMPTS]


@pytest.mark.clause("run.journal.d1-initialize")
@pytest.mark.parametrize(("how", "times"), [(How.DROPPED_AFTER, ATTEMPTS), (How.ERROR_AFTER, 1)])
def test_an_initialization_that_was_never_answered_may_have_been_applied(proxy, batches, how: How, times: int):
    table = f"outcomes_{next(_numbers)}"
    proxy.arm(Fault(how, 0, times=times))

    known = outcome(lambda: batches.batch(made(table), intent="initialize"))

    assert known == "unknown"
    count_of = {"sql": f"SELECT COUNT(*) FROM {table}", "params": []}
    assert batches.batch([count_of], intent="read") == [[(0,)]]


def test_what_only_reads_applied_nothing_however_often_it_was_sent(proxy, keys, batches):
    for work in (
        lambda: keys.get("corpus/outcomes/none"),
        lambda: keys.head("corpus/outcomes/none"),
        lambda: list(keys.list("corpus/outcomes/")),
        lambda: batches.batch([{"sql": "SELECT 1", "params": []}], intent="read"),
    ):
        proxy.arm(Fault(How.DROPPED_AFTER, 0, times=ATTEMPTS))

        assert outcome(work) == "no"
        assert len(proxy.came()) == ATTEMPTS


def test_what_never_left_applied_nothing():
    [port] = free_ports(1)
    exchange = Exchange(f"http://127.0.0.1:{port}", patience=PATIENCE)

    with closing(BindingKeys(exchange)) as keys, closing(Binding(exchange)) as batches:
        known = [
            outcome(lambda: keys.put("corpus/outcomes/none", b"", replacing=None)),
            outcome(lambda: keys.create("corpus/outcomes/none", b"")),
            outcome(lambda: batches.batch(made("none"), intent="initialize")),
            outcome(lambda: batches.batch(made("none"), intent="write")),
        ]

    assert known == ["no"] * 4
