-- name: create_journal
-- A row is pending while it has neither value nor digest; `claim` names the one caller computing it. An effect was first
-- admitted to `destination` at `admitted_at`; `doubts` of its admissions have no answer, `receipt` settles it.
CREATE TABLE IF NOT EXISTS journal (
  execution_id    TEXT NOT NULL,
  step            TEXT NOT NULL,
  input           TEXT NOT NULL,
  run_id          TEXT NOT NULL,
  claim           TEXT,
  attempts        INTEGER NOT NULL DEFAULT 0,
  next_attempt_at INTEGER,
  value           BLOB,
  digest          TEXT,
  bytes           INTEGER,
  admitted_at     INTEGER,
  doubts          INTEGER NOT NULL DEFAULT 0,
  receipt         TEXT,
  destination     TEXT,
  PRIMARY KEY (execution_id, step, input)
) STRICT, WITHOUT ROWID;

-- name: create_journal_blobs
CREATE INDEX IF NOT EXISTS journal_blobs ON journal (digest) WHERE digest IS NOT NULL;

-- name: claim_entry
-- An attempt that no longer holds its owner claims nothing: its NULL is refused (superseded). A pending row is taken
-- over only from another attempt, which the owner's own row proves is no longer the active one; claimed again under its
-- own token, it stands: that is how a caller that waited learns in one batch that it may still dispatch. What an
-- unanswered call or a receipt has marked is left to claim_admission: no other claim asks whether a window covers.
INSERT INTO journal (execution_id, step, input, run_id, claim)
VALUES (:execution_id, :step, :input,
        (SELECT attempt FROM owners
          WHERE scope = :scope AND execution_id = :execution_id AND attempt = :run_id AND holder = :holder),
        :claim)
ON CONFLICT (execution_id, step, input) DO UPDATE SET run_id = excluded.run_id, claim = excluded.claim
 WHERE journal.value IS NULL AND journal.digest IS NULL
   AND (journal.claim IS NULL OR journal.claim = excluded.claim OR journal.run_id <> excluded.run_id)
   AND ((journal.doubts = 0 AND journal.receipt IS NULL) OR journal.claim = excluded.claim)
RETURNING attempts, next_attempt_at, admitted_at, doubts, receipt, destination;

-- name: find_entry
SELECT run_id, claim, attempts, next_attempt_at, value, digest, bytes, admitted_at, doubts, receipt, destination
  FROM journal WHERE execution_id = :execution_id AND step = :step AND input = :input;

-- name: renew_claim, durable
UPDATE journal SET attempts = :attempts, next_attempt_at = :next_attempt_at
 WHERE execution_id = :execution_id AND step = :step AND input = :input AND claim = :claim;

-- name: surrender_claim, durable
-- A step that failed leaves its row to whoever comes next, with a fresh budget; not before the other side's instant.
UPDATE journal SET claim = NULL, attempts = 0, next_attempt_at = :next_attempt_at
 WHERE execution_id = :execution_id AND step = :step AND input = :input AND claim = :claim;

-- name: park_claim
-- A step that waits keeps its count and its instant, which renew_claim has brought to the disk, and no claim.
UPDATE journal SET claim = NULL
 WHERE execution_id = :execution_id AND step = :step AND input = :input AND claim = :claim;

-- name: drop_claims
-- The claims of an attempt's life that is over: the attempt goes on under the same name and could not take them over.
UPDATE journal SET claim = NULL WHERE execution_id = :execution_id AND claim IS NOT NULL;

-- name: record_entry, durable
-- Only the standing claim of the active attempt records, and only once; a blob must still be kept.
UPDATE journal
   SET value = :value, digest = :digest, bytes = :bytes, claim = NULL, next_attempt_at = NULL
 WHERE execution_id = :execution_id AND step = :step AND input = :input AND claim = :claim
   AND EXISTS (SELECT 1 FROM owners
                WHERE scope = :scope AND execution_id = :execution_id AND attempt = :run_id AND holder = :holder)
   AND (:digest IS NULL OR EXISTS (SELECT 1 FROM blobs WHERE digest = :digest AND doomed_at IS NULL))
RETURNING run_id;

-- name: withdraw_claim
DELETE FROM journal
 WHERE execution_id = :execution_id AND step = :step AND input = :input AND claim = :claim;

-- name: list_entries
SELECT step, input, run_id, claim, attempts, next_attempt_at, value, digest, bytes, admitted_at, doubts, receipt,
       destination
  FROM journal WHERE execution_id = :execution_id ORDER BY step, input;

-- name: collect_pulls
-- What a checkpoint has landed; the pulls from number `below` on are still to land.
DELETE FROM journal
 WHERE execution_id = :execution_id
   AND CASE WHEN step LIKE 'pull:%' THEN CAST(SUBSTR(step, 6) AS INTEGER) END < :below;

-- name: collect_entries
DELETE FROM journal WHERE execution_id = :execution_id;
