"""The theorem on blob sweeps, checked on every interleaving of the engine's own writers and sweepers.

Its twins take one condition of a real statement away, and the explorer must find what it kept out.
"""

from __future__ import annotations

import pytest

from tests.model.blobs_model import BlobsModel
from tests.model.explorer import Counterexample, explore
from tests.model.replay import without
from tests.scale import scale


@pytest.fixture(autouse=True)
def _every_value_in_a_blob(monkeypatch):
    monkeypatch.setattr("engine.journal.INLINE_LIMIT", 0)


@pytest.mark.clause("run.journal.blob-sweep", "run.journal.blob-write")
@pytest.mark.parametrize(
    ("actors", "ticks", "power"),
    [
        pytest.param(("w1", "s1", "s2"), scale(short=3, full=4), False, id="a writer and two sweepers"),
        pytest.param(("w1", "w2", "s1", "s2"), scale(short=1, full=2), False, id="two of each"),
        pytest.param(("w1", "s1", "s2"), scale(short=2, full=3), True, id="the power goes"),
    ],
)
def test_a_sweep_takes_what_nothing_references_and_never_what_something_does(actors, ticks, power, record_property):
    model = BlobsModel(*actors, ticks=ticks, power=power)

    explored = explore(model.initial(), model.steps, invariants=[model.missing, model.hasty, model.lasting])

    record_property("explored", str(explored))


@pytest.mark.clause("run.journal.blob-sweep", "run.journal.one-cutoff")
def test_a_resolved_wait_keeps_its_payload_through_every_sweep(record_property):
    actors, ticks = scale(short=(("a1", "s1", "s2"), 2), full=(("w1", "a1", "s1", "s2"), 2))
    model = BlobsModel(*actors, ticks=ticks)

    explored = explore(model.initial(), model.steps, invariants=[model.missing, model.hasty, model.lasting])

    record_property("explored", str(explored))


@pytest.mark.clause("run.journal.blob-sweep")
@pytest.mark.parametrize(
    ("actors", "statement", "mutation", "theorem"),
    [
        pytest.param(
            ("w1", "s1"),
            "record_entry",
            without(
                "AND (:digest IS NULL OR EXISTS (SELECT 1 FROM blobs WHERE digest = :digest AND doomed_at IS NULL))"
            ),
            "missing",
            id="a record does not ask whether its blob is doomed",
        ),
        pytest.param(
            ("a1", "s1"),
            "resolve_awakeable",
            without(
                "AND (:digest IS NULL OR EXISTS (SELECT 1 FROM blobs WHERE digest = :digest AND doomed_at IS NULL))"
            ),
            "missing",
            id="a resolution does not ask whether its blob is doomed",
        ),
        pytest.param(
            ("w1", "s1"),
            "doom_blobs",
            without("AND digest NOT IN (SELECT digest FROM journal WHERE digest IS NOT NULL)"),
            "missing",
            id="a sweep does not ask what entries reference",
        ),
        pytest.param(
            ("w1", "s1"),
            "doom_blobs",
            without("AND stored_at < :older_than"),
            "hasty",
            id="a sweep has no grace",
        ),
        pytest.param(
            ("w1", "s1", "s2"),
            "delete_doomed_content",
            without("AND doomed_at IS NOT NULL"),
            "missing",
            id="a delete does not ask whether the doom still stands",
        ),
        pytest.param(
            ("w1", "s1"),
            "store_content",
            without("AND doomed_at IS NULL"),
            "lasting",
            id="a content is stored beside a doomed row",
        ),
        pytest.param(
            ("w1", "s1", "s2"),
            "forget_doomed",
            without("doomed_at = :doomed_at", "doomed_at IS NOT NULL AND :doomed_at IS NOT NULL"),
            "lasting",
            id="a stalled sweeper forgets a later doom",
        ),
        pytest.param(
            ("w1", "s1", "s2"),
            "forget_doomed",
            without("AND doomed_at = :doomed_at", "AND :doomed_at IS NOT NULL"),
            "missing",
            id="a stalled sweeper forgets a blob that was written again",
        ),
    ],
)
def test_a_sweep_without_its_condition_is_found_out(actors, statement, mutation, theorem):
    model = BlobsModel(*actors, ticks=2, mutations={statement: mutation})

    with pytest.raises(Counterexample):
        explore(model.initial(), model.steps, invariants=[getattr(model, theorem)])
