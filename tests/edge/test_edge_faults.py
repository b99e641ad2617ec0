"""Whatever breaks between engine and binding, at whichever request: nothing is lost, nothing comes twice."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Final

import pytest

from engine.errors import StepFailed, StorageBindingUnavailable
from engine.host import Engine, Settings
from engine.shapes import RunStatus
from tests.edge.faults import ERRORS, Fault, FaultProxy, How
from tests.edge.work import EFFECTS, PROJECT, Ended, Work, initialized, opened
from tests.scale import EDGE_FULL, edge_scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from engine.errors import ContextfulError
    from tests.local_edge import Edge

pytestmark = pytest.mark.clause("run.journal.d1-transport")

LEASE_MS: Final = 31_000
APPLIED: Final = frozenset({How.DROPPED_AFTER, How.ERROR_AFTER, How.CUT})
"""What happens to an answer, the request having been carried out."""

SCALED: Final = {
    How.STALLED: ({"READ": "0.8", "WRITE": "0.8"}, 1.2),
    How.DEAD: ({"READ": "5", "WRITE": "5"}, 1.5),
}
LIMITS: Final = {"READ": "15", "WRITE": "30"}
ENDED: Final = frozenset({RunStatus.SUCCESS, RunStatus.FAILED, RunStatus.PARTIAL_FAILURE})
_numbers = count()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The disk of all engines: there is nothing on it that matters."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def proxy(edge: Edge, root: Path) -> Iterator[FaultProxy]:
    initialized({"CONTEXTFUL_BINDING_URL": edge.private}, root)
    with FaultProxy(edge.private) as running:
        yield running


@pytest.fixture(scope="module")
def kinds(proxy: FaultProxy, root: Path) -> list[str]:
    """The kinds of the requests of an undisturbed run, in order."""
    proxy.arm(None)
    assert disturbed(proxy, work := Work(f"w{next(_numbers)}", root), LIMITS) == []
    assert work.read == [0, 1, 2]
    return [each.kind for each in proxy.came()]


def disturbed(proxy: FaultProxy, work: Work, limits: dict[str, str]) -> list[ContextfulError]:
    """Do the work through the proxy."""
    settings = {f"CONTEXTFUL_BINDING_{name}_TIMEOUT": seconds for name, seconds in limits.items()}
    return work.done({"CONTEXTFUL_BINDING_URL": proxy.url, **settings}, ahead_ms=next(_numbers) * LEASE_MS)


def survives(proxy: FaultProxy, root: Path, fault: Fault, limits: dict[str, str]) -> list[ContextfulError]:
    """Let `fault` happen to a piece of work, do the rest of it undisturbed, and hold the two to the promises.

    Each engine's clock stands beyond the lease of the one before, whose process is gone.
    """
    work = Work(f"w{next(_numbers)}", root)
    proxy.arm(fault)
    wrong = disturbed(proxy, work, limits)
    came, resent = proxy.came(), proxy.resent()
    proxy.arm(None)

    again = disturbed(proxy, work, LIMITS)

    what = f"{fault} ({came[fault.at].kind if fault.at < len(came) else 'never came'}): {wrong}, then {again}"
    assert again == [], what
    assert resent == [], what
    assert all(_named(each) for each in wrong), what
    if fault.how in APPLIED:
        # What was carried out is recognised by its own token: nothing is asked of the world again.
        assert work.read == [0, 1, 2], f"{what}: {work.read}"
        assert all(len(work.keys[effect]) == 1 for effect in EFFECTS), f"{what}: {work.keys}"
    assert all(work.read.count(page) in {1, 2} for page in range(3)), f"{what}: {work.read}"
    assert all(len(set(work.keys[effect])) == 1 and len(work.keys[effect]) <= 2 for effect in EFFECTS), what
    with closing(opened({"CONTEXTFUL_BINDING_URL": proxy.url}, root)) as profile:
        assert work.rows(profile) == [0, 1, 2, 3], what
        runs = [Engine(profile, Settings(PROJECT, "here")).runs.get(run_id) for run_id in work.watcher.run_ids]
    assert all(run is None or run.status in ENDED for run in runs), f"{what}: {runs}"
    return wrong


def _named(error: ContextfulError) -> bool:
    """Whether it is the outage, a step that failed for it and says so, or a run that ended for it."""
    if isinstance(error, Ended):
        return bool(error.run.error) and error.run.status in {RunStatus.FAILED, RunStatus.RUNNING}
    return isinstance(error, StorageBindingUnavailable | StepFailed) and "gave no answer" in str(error)


@pytest.mark.parametrize("how", How)
def test_a_fault_at_every_request_of_a_run_loses_nothing_and_repeats_nothing(
    how: How, proxy: FaultProxy, kinds: list[str], root: Path
) -> None:
    limits, seconds = SCALED.get(how, (LIMITS, 0))

    for at in chosen(kinds, list(How).index(how)):
        survives(proxy, root, Fault(how, at, seconds, ERRORS[at % len(ERRORS)]), limits)


def chosen(kinds: list[str], nth: int) -> Sequence[int]:
    """Every request; at the short scale a write and another one, and a different pair for each way to break them."""
    writes = [at for at, kind in enumerate(kinds) if kind == "POST write"]
    others = [at for at, kind in enumerate(kinds) if kind != "POST write"]
    pair = [writes[nth * 5 % len(writes)], others[nth * 7 % len(others)]]
    return edge_scale(short=pair, full=range(len(kinds)))


@pytest.mark.parametrize("text", edge_scale(short=ERRORS[::4], full=ERRORS))
def test_every_error_that_d1_documents_leaves_a_write_unknown(
    text: str, proxy: FaultProxy, kinds: list[str], root: Path
) -> None:
    at = kinds.index("POST write")

    wrong = survives(proxy, root, Fault(How.ERROR_BEFORE, at, text=text), LIMITS)

    assert [each.applied for each in wrong if isinstance(each, StorageBindingUnavailable)][:1] == ["unknown"]
    assert text in str(wrong[0])


@pytest.mark.skipif(not EDGE_FULL, reason="takes the minutes that a real outage takes")
@pytest.mark.parametrize(("how", "seconds"), [(How.STALLED, 30), (How.DEAD, 80)])
@pytest.mark.parametrize("kind", ["POST read", "POST write", "PUT objects", "GET objects"])
def test_a_full_length_outage_ends_a_run_that_can_be_resumed(
    how: How, seconds: int, kind: str, proxy: FaultProxy, kinds: list[str], root: Path
) -> None:
    at = kinds.index(kind)

    survives(proxy, root, Fault(how, at, seconds), {"READ": "15", "WRITE": "45"})
