"""A pass over the blobs of a bucket is noted when nothing is left of it, and made again otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.blob_pass import SWEEP_AGAIN_MS, BlobPass
from engine.errors import StorageBindingUnavailable, StorageUnusable
from engine.journal import SWEEP_EVERY_MS, SWEEP_GRACE_MS, SqlJournal
from engine.sql import call
from r2 import names
from r2.blobs import DELETE_WITHIN_S, DOOM_KEPT_MS, BucketBlobs
from tests.r2.test_blobs import Faulty

if TYPE_CHECKING:
    from engine.local.sqlite import SqliteDatabase
    from r2.keys import Keys
    from tests.clocks import SettableClock


class Bucket:
    """Keys that do to a deletion whatever stands in `fault`, and the passes over what is kept under them."""

    def __init__(self, keys: Keys, database: SqliteDatabase, clock: SettableClock) -> None:
        self._keys, self._database, self._clock = keys, database, clock
        self.fault: Exception | None = None
        self.seconds = 0.0
        self.took = 0.0
        self._blobs = BucketBlobs(Faulty(keys, delete=self._delete), database, elapsed=lambda: self.seconds)
        self.passes = self.started()

    def started(self) -> BlobPass:
        """What another engine has."""
        return BlobPass(self._database, SqlJournal(self._database, self._blobs), self._clock)

    def put(self, count: int) -> list[str]:
        """Contents that nothing references, past the grace."""
        kept = [self._blobs.put(b"%d" % number).sha256 for number in range(count)]
        self._clock.advance(SWEEP_GRACE_MS + 1)
        return kept

    def stands(self, digest: str) -> bool:
        return self._keys.get(names.blob(digest)) is not None

    @property
    def noted(self) -> bool:
        return self._database.run(call("sweep_wait", every_ms=SWEEP_EVERY_MS)) != [[(0,)]]

    def _delete(self, key: str) -> bool:
        self.seconds += self.took
        if self.fault:
            raise self.fault
        return self._keys.delete(key)


@pytest.fixture
def bucket(s3_keys: Keys, database: SqliteDatabase, clock: SettableClock) -> Bucket:
    return Bucket(s3_keys, database, clock)


REFUSED = StorageUnusable(place="blobs/", reason="403 AccessDenied")
AWAY = StorageBindingUnavailable(place="blobs/", reason="no answer", applied="unknown")


@pytest.mark.clause("run.journal.blob-sweep", "run.journal.d1-blob")
@pytest.mark.parametrize("fault", [REFUSED, AWAY], ids=["refused", "unanswered"])
def test_a_pass_whose_deletions_fail_is_not_noted_and_made_again_when_the_dooms_are_over(
    bucket: Bucket, clock: SettableClock, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Within five minutes of it another engine finds nothing that it may doom: that is no pass either."""
    [digest] = bucket.put(1)
    bucket.fault = fault

    bucket.passes.make_if_due()
    bucket.fault = None
    bucket.started().make_if_due()
    early = (bucket.noted, bucket.stands(digest))
    clock.advance(SWEEP_AGAIN_MS)
    bucket.passes.make_if_due()

    assert early == (False, True)
    assert (bucket.noted, bucket.stands(digest)) == (True, False)
    assert [record.exc_info for record in caplog.records] == [None, None]
    assert all("not swept yet, again in 6 min" in record.message for record in caplog.records)


@pytest.mark.clause("run.journal.blob-sweep", "run.journal.d1-blob")
def test_a_pass_that_its_deadline_ended_is_not_noted_and_made_again(bucket: Bucket, clock: SettableClock) -> None:
    kept = bucket.put(3)
    bucket.took = DELETE_WITHIN_S / 2

    bucket.passes.make_if_due()
    early = (bucket.noted, sum(bucket.stands(digest) for digest in kept))
    bucket.took = 0
    clock.advance(SWEEP_AGAIN_MS)
    bucket.passes.make_if_due()

    assert early == (False, 1)
    assert (bucket.noted, any(bucket.stands(digest) for digest in kept)) == (True, False)


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_pass_is_made_again_only_when_no_doom_of_the_last_keeps_it_out() -> None:
    assert SWEEP_AGAIN_MS > DOOM_KEPT_MS
