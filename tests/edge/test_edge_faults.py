"""Whatever breaks between engine and binding, at whichever request: nothing is lost, nothing comes twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

import pytest

from engine.errors import StepFailed, StorageBindingUnavailable
from engine.runs import Runs
from engine.shapes import RunStatus
from tests.edge.faults import ERRORS, Fault, FaultProxy, How, Request
from tests.edge.work import EFFECTS, Ended, Work, equipped, initialized, opened
from tests.scale import FULL, scale

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.errors import ContextfulError
    from tests.local_edge import Edge

pytestmark = pytest.mark.clause("run.journal.d1-transport")

LEASE_MS: Final = 31_000
APPLIED: Final = frozenset({How.DROPPED_AFTER, How.ERROR_AFTER, How.CUT})
"""What happens to an answer, the request having been carried out."""

LIMITS: Final = {"READ": "15", "WRITE": "30"}
SCALED: Final = {
    How.STALLED: ({"READ": "0.8", "WRITE": "0.8"}, 1.2),
    How.DEAD: ({"READ": "5", "WRITE": "5"}, 1.5),
    How.SILENT: ({"READ": "0.8", "WRITE": "0.8"}, 3.5),
}
"""Limits and seconds such that a stall outlasts a request, and an outage all three attempts at one."""

ENDED: Final = frozenset({RunStatus.SUCCESS, RunStatus.FAILED, RunStatus.PARTIAL_FAILURE})
AT_ONCE: Final = 4
"""Faults at a time where they are short."""

OUTAGES: Final = [
    (how, seconds, kind)
    for how, seconds in ((How.STALLED, 30), (How.DEAD, 80), (How.SILENT, 80))
    for kind in ("POST read", "POST write", "PUT objects", "GET objects")
]
"""A real outage at each kind of request: what happens, how many seconds, at which."""

_numbers = count()


@dataclass(frozen=True, slots=True)
class Lane:
    """A way to the binding and a folder, for one piece of work at a time. Nothing on the disk of an engine matters."""

    proxy: FaultProxy
    root: Path

    def done(self, work: Work, limits: dict[str, str], *, ahead_ms: int) -> list[ContextfulError]:
        """Do what is left of `work` through the proxy; return what went wrong."""
        settings = {f"CONTEXTFUL_BINDING_{name}_TIMEOUT": seconds for name, seconds in limits.items()}
        return work.done({"CONTEXTFUL_BINDING_URL": self.proxy.url, **settings}, ahead_ms=ahead_ms)


@dataclass(frozen=True, slots=True)
class Disturbed:
    """A piece of work that `fault` happened to: the requests of its first engine, what went wrong in it, and then."""

    lane: Lane
    work: Work
    fault: Fault
    came: list[Request]
    resent: list[Request]
    wrong: list[ContextfulError]
    again: list[ContextfulError]


@pytest.fixture(scope="module")
def lanes(edge: Edge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Lane]]:
    """Lanes that lead to one edge, as many as any test uses."""
    folder = tmp_path_factory.mktemp("work")
    initialized({"CONTEXTFUL_BINDING_URL": edge.private}, folder)
    with ExitStack() as running:
        proxies = [running.enter_context(FaultProxy(edge.private)) for _ in OUTAGES]
        roots = [folder / f"lane{number}" for number, _ in enumerate(proxies)]
        yield [Lane(proxy, equipped(root)) for proxy, root in zip(proxies, roots, strict=True)]


@pytest.fixture(scope="module")
def kinds(lanes: list[Lane]) -> list[str]:
    """The kinds of the requests of an undisturbed run, in order."""
    proxy = lanes[0].proxy
    for _ in range(2):  # the first engine sweeps as well, which the others of a day do not
        work = Work(f"w{next(_numbers)}", lanes[0].root)
        proxy.arm(None)
        assert lanes[0].done(work, LIMITS, ahead_ms=next(_numbers) * LEASE_MS) == []
        assert work.read == [0, 1, 2]
    return [each.kind for each in proxy.came()]


def survive(lanes: list[Lane], faults: list[Fault], limits: dict[str, str]) -> list[str]:
    """Let each fault happen to a piece of work and hold it to the promises; return what each went wrong with, if any.

    As many at a time as there are lanes: most of a fault is waiting.
    """
    rounds = [faults[start : start + len(lanes)] for start in range(0, len(faults), len(lanes))]
    return [_held(each) for together in rounds for each in _round(lanes, together, limits)]


def _round(lanes: list[Lane], faults: list[Fault], limits: dict[str, str]) -> list[Disturbed]:
    """Disturb one piece of work a lane, then do the rest of each undisturbed.

    All engines of a kind share a clock, for each reaps what has lapsed by its own; the second kind's stands beyond the
    leases of the first, whose processes are gone.
    """
    lanes, ahead_ms = lanes[: len(faults)], next(_numbers) * 2 * LEASE_MS
    works = [Work(f"w{next(_numbers)}", lane.root) for lane in lanes]
    for lane, fault in zip(lanes, faults, strict=True):
        lane.proxy.arm(fault)
    with ThreadPoolExecutor(len(lanes)) as pool:
        wrong = list(pool.map(lambda lane, work: lane.done(work, limits, ahead_ms=ahead_ms), lanes, works))
        came = [(lane.proxy.came(), lane.proxy.resent()) for lane in lanes]
        for lane in lanes:
            lane.proxy.arm(None)
        ahead_ms += LEASE_MS
        again = list(pool.map(lambda lane, work: lane.done(work, LIMITS, ahead_ms=ahead_ms), lanes, works))
    told = zip(lanes, works, faults, came, wrong, again, strict=True)
    return [Disturbed(lane, work, fault, *requests, *errors) for lane, work, fault, requests, *errors in told]


def _held(to: Disturbed) -> str:
    """Hold what was disturbed to the promises; return what went wrong first."""
    fault, work = to.fault, to.work
    broken = to.came[fault.at] if fault.at < len(to.came) else None
    what = f"{fault} ({broken and broken.kind}): {to.wrong}, then {to.again}; {work.read}, {work.keys}"
    assert to.again == [], what
    assert to.resent == [], what
    assert all(_named(each) for each in to.wrong), what
    if fault.how not in SCALED and broken:
        known = f"applied: {_outcome(broken)}"
        assert all(known in str(each) for each in to.wrong[:1]), what
    if fault.how in APPLIED:
        # What was carried out is recognised by its own token: nothing is asked of the world again.
        assert work.read == [0, 1, 2], what
        assert all(len(work.keys[effect]) == 1 for effect in EFFECTS), what
    assert all(work.read.count(page) in {1, 2} for page in range(3)), what
    assert all(len(work.keys[effect]) in {1, 2} for effect in EFFECTS), what
    assert all(len(set(work.keys[effect])) == 1 for effect in EFFECTS), what
    _landed(to.lane, work, what)
    return str(to.wrong[0]) if to.wrong else ""


def _landed(lane: Lane, work: Work, what: str) -> None:
    with closing(opened({"CONTEXTFUL_BINDING_URL": lane.proxy.url}, lane.root)) as profile:
        assert work.rows(profile) == [0, 1, 2, 3], what
        runs = [Runs(profile.database).get(run_id) for run_id in work.watcher.run_ids]
    assert all(run is None or run.status in ENDED for run in runs), f"{what}: {runs}"


def _outcome(broken: Request) -> str:
    """What is known of a request that stayed without an answer: reads applied nothing, and anything else may have."""
    return "unknown" if broken.writes or broken.method == "PUT" else "no"


def _named(error: ContextfulError) -> bool:
    """Whether it is the outage, a step that failed for it and says so, or a run that ended for it."""
    if isinstance(error, Ended):
        return bool(error.run.error) and error.run.status in {RunStatus.FAILED, RunStatus.RUNNING}
    return isinstance(error, StorageBindingUnavailable | StepFailed) and "gave no answer" in str(error)


@pytest.mark.parametrize("how", How)
def test_a_fault_at_every_request_of_a_run_loses_nothing_and_repeats_nothing(
    how: How, lanes: list[Lane], kinds: list[str]
) -> None:
    limits, seconds = SCALED.get(how, (LIMITS, 0))
    at = chosen(kinds, list(How).index(how))

    came_to = survive(lanes[:AT_ONCE], [Fault(how, each, seconds, ERRORS[each % len(ERRORS)]) for each in at], limits)

    print(f"{how}: {len(came_to)} of {len(kinds)} requests, {sum(map(bool, came_to))} ended what was under way")
    assert len(came_to) == len(at)


def chosen(kinds: list[str], nth: int) -> list[int]:
    """Every request; at the short scale a write and another one, and a different pair for each way to break them."""
    writes = [at for at, kind in enumerate(kinds) if kind == "POST write"]
    others = [at for at, kind in enumerate(kinds) if kind != "POST write"]
    pair = [writes[nth * 5 % len(writes)], others[nth * 7 % len(others)]]
    return scale(short=pair, full=list(range(len(kinds))))


def test_every_error_that_d1_documents_leaves_a_write_unknown(lanes: list[Lane], kinds: list[str]) -> None:
    at, texts = kinds.index("POST write"), scale(short=ERRORS[::4], full=ERRORS)

    came_to = survive(lanes[:AT_ONCE], [Fault(How.ERROR_BEFORE, at, text=text) for text in texts], LIMITS)

    for text, said in zip(texts, came_to, strict=True):
        assert text in said
        assert "applied: unknown" in said


@pytest.mark.skipif(not FULL, reason="takes the minutes that a real outage takes")
def test_a_full_length_outage_ends_a_run_that_can_be_resumed(lanes: list[Lane], kinds: list[str]) -> None:
    faults = [Fault(how, kinds.index(kind), seconds) for how, seconds, kind in OUTAGES]

    came_to = survive(lanes, faults, {"READ": "15", "WRITE": "45"})

    for (how, _, kind), said in zip(OUTAGES, came_to, strict=True):
        print(f"{how} at {kind}: {said or 'nobody noticed'}")
        # A stall is over within an attempt of a write, and before the third of anything else.
        known = "applied: no" if kind in {"POST read", "GET objects"} else "applied: unknown"
        assert (known in said) if how is not How.STALLED else not said, f"{how} at {kind}: {said}"
