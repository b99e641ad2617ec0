-- name: create_guards
-- One row for every protected row of an admitted callback; the first letters tell its kind.
-- Their token has no index: it would cost every guarded step a fifth row written at D1, as much as reading past a
-- thousand guards that stand.
CREATE TABLE IF NOT EXISTS guards (
  protected       TEXT PRIMARY KEY,
  token           TEXT NOT NULL,
  scope           TEXT NOT NULL,
  execution_id    TEXT NOT NULL,
  attempt         TEXT NOT NULL,
  holder          TEXT NOT NULL,
  step            TEXT NOT NULL,
  input           TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  kind            TEXT NOT NULL,
  destination     TEXT NOT NULL,
  window_ms       INTEGER,
  admitted_at     INTEGER NOT NULL,
  covered_until   INTEGER
) STRICT, WITHOUT ROWID;

-- name: create_guard_audit
CREATE TABLE IF NOT EXISTS guard_audit (
  id           INTEGER PRIMARY KEY,
  token        TEXT NOT NULL,
  evidence     TEXT NOT NULL,
  operator     TEXT NOT NULL,
  at           INTEGER NOT NULL,
  execution_id TEXT NOT NULL,
  step         TEXT NOT NULL,
  input        TEXT NOT NULL,
  guard        TEXT NOT NULL
) STRICT;

-- name: create_standing_guards
-- A guard's rows with what else decides about it: the lease of the attempt it names, and its holder's exit. Triggers
-- keep an owner under its guard; the attempt is named whole all the same, for a lease of any other must hold nothing.
CREATE VIEW IF NOT EXISTS standing_guards AS
SELECT g.protected, g.token, g.scope, g.execution_id, g.attempt, g.holder, g.step, g.input, g.idempotency_key, g.kind,
       g.destination, g.window_ms, g.admitted_at, g.covered_until,
       COALESCE((SELECT l.lease_until FROM leased_owners AS l
                  WHERE l.scope = g.scope AND l.execution_id = g.execution_id AND l.attempt = g.attempt
                    AND l.holder = g.holder), 0) AS lease_until,
       (SELECT h.exited_at FROM holders AS h WHERE h.id = g.holder) AS exited_at
  FROM guards AS g;

-- name: create_owners_guarded
-- A guarded owner is closed and never handed on: clearing its attempt ends a lease, naming another is a takeover. No
-- other row takes its scope either: UPDATE OR REPLACE would delete it without asking the trigger on DELETE.
CREATE TRIGGER IF NOT EXISTS owners_guarded
BEFORE UPDATE OF scope, execution_id, attempt, holder, finished_at ON owners
WHEN EXISTS (SELECT 1 FROM guards WHERE protected IN ('owner:' || OLD.scope, 'owner:' || NEW.scope))
 AND (NEW.scope IS NOT OLD.scope OR NEW.execution_id IS NOT OLD.execution_id
      OR NEW.finished_at IS NOT OLD.finished_at
      OR (NEW.holder IS NOT NULL AND (NEW.holder IS NOT OLD.holder OR NEW.attempt IS NOT OLD.attempt))
      OR (NEW.attempt IS NOT NULL AND NEW.attempt IS NOT OLD.attempt))
BEGIN
  SELECT RAISE(ABORT, 'guarded');
END;

-- name: create_owners_kept
CREATE TRIGGER IF NOT EXISTS owners_kept BEFORE DELETE ON owners
WHEN EXISTS (SELECT 1 FROM guards WHERE protected = 'owner:' || OLD.scope)
BEGIN
  SELECT RAISE(ABORT, 'guarded');
END;

-- name: create_owners_not_replaced
-- INSERT OR REPLACE deletes without asking the trigger on DELETE.
CREATE TRIGGER IF NOT EXISTS owners_not_replaced BEFORE INSERT ON owners
WHEN EXISTS (SELECT 1 FROM guards WHERE protected = 'owner:' || NEW.scope)
BEGIN
  SELECT RAISE(ABORT, 'guarded');
END;

-- name: create_leases_guarded
CREATE TRIGGER IF NOT EXISTS leases_guarded BEFORE UPDATE OF key, holder, fence ON leases
WHEN EXISTS (SELECT 1 FROM guards WHERE protected IN ('lease:' || OLD.key, 'lease:' || NEW.key))
 AND (NEW.key IS NOT OLD.key OR NEW.fence IS NOT OLD.fence
      OR (NEW.holder IS NOT NULL AND NEW.holder IS NOT OLD.holder))
BEGIN
  SELECT RAISE(ABORT, 'guarded');
END;

-- name: create_leases_kept
CREATE TRIGGER IF NOT EXISTS leases_kept BEFORE DELETE ON leases
WHEN EXISTS (SELECT 1 FROM guards WHERE protected = 'lease:' || OLD.key)
BEGIN
  SELECT RAISE(ABORT, 'guarded');
END;

-- name: create_leases_not_replaced
CREATE TRIGGER IF NOT EXISTS leases_not_replaced BEFORE INSERT ON leases
WHEN EXISTS (SELECT 1 FROM guards WHERE protected = 'lease:' || NEW.key)
BEGIN
  SELECT RAISE(ABORT, 'guarded');
END;

-- name: refuse_inadmissible
-- An entry with an admission in doubt, or settled by a receipt, is sent again only to the destination it was sent to and
-- only while the window covers; one that begins nowhere covers nothing. Where a guard stands that is the refusal, and
-- acquire_guard meets it.
INSERT INTO refusals (reason)
SELECT CASE WHEN j.receipt IS NULL THEN 'unsettled' ELSE 'settled' END
  FROM journal AS j
 WHERE j.execution_id = :execution_id AND j.step = :step AND j.input = :input
   AND j.value IS NULL AND j.digest IS NULL AND (j.doubts > 0 OR j.receipt IS NOT NULL)
   AND (j.destination <> :destination OR :window_ms IS NULL OR j.admitted_at IS NULL
        OR :now >= j.admitted_at + :window_ms)
   AND NOT EXISTS (SELECT 1 FROM guards WHERE protected = 'owner:' || :scope);

-- name: claim_admission, durable
-- A claim that is an admission as well: the first one at a destination begins its window, each is in doubt until it is
-- settled.
INSERT INTO journal (execution_id, step, input, run_id, claim, admitted_at, doubts, destination)
VALUES (:execution_id, :step, :input,
        (SELECT attempt FROM owners
          WHERE scope = :scope AND execution_id = :execution_id AND attempt = :run_id AND holder = :holder),
        :claim, :now, 1, :destination)
ON CONFLICT (execution_id, step, input) DO UPDATE
   SET run_id = excluded.run_id, claim = excluded.claim,
       admitted_at = CASE WHEN journal.destination <> excluded.destination THEN excluded.admitted_at
                          ELSE COALESCE(journal.admitted_at, excluded.admitted_at) END,
       destination = excluded.destination, doubts = journal.doubts + 1
 WHERE journal.value IS NULL AND journal.digest IS NULL
   AND (journal.claim IS NULL OR journal.claim = excluded.claim OR journal.run_id <> excluded.run_id)
RETURNING attempts, next_attempt_at;

-- name: acquire_guard, durable
-- Binds every protected row or none, for the caller whose claim stands. A row that is not as the caller knows it, an
-- attempt whose lease has lapsed and a holder that is gone join nothing: their NULL is refused (superseded). A row
-- that is protected already meets the primary key (guarded). A recorded entry, or another's claim, guards nothing.
-- The attempt is named whole, though the rows name it too: which rows there are is the caller's to say.
INSERT INTO guards (protected, token, scope, execution_id, attempt, holder, step, input, idempotency_key, kind,
                    destination, window_ms, admitted_at, covered_until)
SELECT CASE WHEN own.scope IS NULL OR h.id IS NULL THEN NULL
            WHEN o.scope IS NOT NULL THEN 'owner:' || o.scope
            WHEN l.key IS NOT NULL THEN 'lease:' || l.key END,
       :guard, :scope, :execution_id, :run_id, :holder, :step, :input, :idempotency_key, :kind,
       :destination, :window_ms, :now, j.admitted_at + :window_ms
  FROM journal AS j
  JOIN json_each(:rows) AS want
  LEFT JOIN leased_owners AS own ON own.scope = :scope AND own.execution_id = :execution_id
       AND own.attempt = :run_id AND own.holder = :holder AND own.lease_until > :now
  LEFT JOIN holders AS h ON h.id = :holder AND h.exited_at IS NULL
  LEFT JOIN owners AS o ON o.scope = want.value ->> 'scope'
       AND o.execution_id = want.value ->> 'execution_id' AND o.attempt = want.value ->> 'attempt'
       AND o.holder = want.value ->> 'holder'
  LEFT JOIN leases AS l ON l.key = want.value ->> 'key'
       AND l.holder = want.value ->> 'holder' AND l.fence = want.value ->> 'fence'
 WHERE j.execution_id = :execution_id AND j.step = :step AND j.input = :input AND j.claim = :claim
   AND j.value IS NULL AND j.digest IS NULL
RETURNING protected, admitted_at, covered_until;

-- name: acquire_guard_apart, durable
-- The same where the journal is kept elsewhere: the caller holds the entry's lock and says when it was first admitted.
INSERT INTO guards (protected, token, scope, execution_id, attempt, holder, step, input, idempotency_key, kind,
                    destination, window_ms, admitted_at, covered_until)
SELECT CASE WHEN own.scope IS NULL OR h.id IS NULL THEN NULL
            WHEN o.scope IS NOT NULL THEN 'owner:' || o.scope
            WHEN l.key IS NOT NULL THEN 'lease:' || l.key END,
       :guard, :scope, :execution_id, :run_id, :holder, :step, :input, :idempotency_key, :kind,
       :destination, :window_ms, :now, COALESCE(:first_admitted_at, :now) + :window_ms
  FROM json_each(:rows) AS want
  LEFT JOIN leased_owners AS own ON own.scope = :scope AND own.execution_id = :execution_id
       AND own.attempt = :run_id AND own.holder = :holder AND own.lease_until > :now
  LEFT JOIN holders AS h ON h.id = :holder AND h.exited_at IS NULL
  LEFT JOIN owners AS o ON o.scope = want.value ->> 'scope'
       AND o.execution_id = want.value ->> 'execution_id' AND o.attempt = want.value ->> 'attempt'
       AND o.holder = want.value ->> 'holder'
  LEFT JOIN leases AS l ON l.key = want.value ->> 'key'
       AND l.holder = want.value ->> 'holder' AND l.fence = want.value ->> 'fence'
RETURNING protected, admitted_at, covered_until;

-- name: require_recordable
-- Refuses the batch unless the claim stands, its attempt is the active one, its guard has not been taken away and the
-- value's blob is kept: a guard is not released without its record.
INSERT INTO refusals (reason)
SELECT 'superseded' WHERE NOT EXISTS (
  SELECT 1 FROM journal AS j
    JOIN owners AS o ON o.scope = :scope AND o.execution_id = j.execution_id AND o.attempt = :run_id
         AND o.holder = :holder
    JOIN guards AS g ON g.protected = 'owner:' || :scope AND g.token = :guard
   WHERE j.execution_id = :execution_id AND j.step = :step AND j.input = :input AND j.claim = :claim
     AND j.value IS NULL AND j.digest IS NULL)
   OR (:digest IS NOT NULL AND NOT EXISTS (SELECT 1 FROM blobs WHERE digest = :digest AND doomed_at IS NULL));

-- name: release_guard, durable
DELETE FROM guards WHERE token = :guard
RETURNING protected;

-- name: release_covered, durable
-- What ended without an answer is released only while the window covers, however late this statement arrives.
DELETE FROM guards WHERE token = :guard AND covered_until > :now
RETURNING protected;

-- name: clear_admission, durable
-- The destination refused: this admission is none in doubt. While its guard stands the entry is unrecorded and in doubt;
-- a statement that arrives late is held to that all the same, here and below.
UPDATE journal SET doubts = doubts - 1
 WHERE execution_id = :execution_id AND step = :step AND input = :input
   AND value IS NULL AND digest IS NULL AND doubts > 0
   AND EXISTS (SELECT 1 FROM guards WHERE token = :guard);

-- name: withdraw_admission, durable
-- Nothing was sent: this admission never was, and where it was the first it has begun no window anywhere: no row is
-- selected then, which sets both to NULL.
UPDATE journal
   SET doubts = doubts - 1,
       (admitted_at, destination) = (
         SELECT journal.admitted_at, journal.destination
          WHERE journal.doubts > 1 OR journal.admitted_at <> (SELECT MIN(g.admitted_at) FROM guards AS g
                                                               WHERE g.token = :guard))
 WHERE execution_id = :execution_id AND step = :step AND input = :input
   AND value IS NULL AND digest IS NULL AND doubts > 0
   AND EXISTS (SELECT 1 FROM guards WHERE token = :guard);

-- name: replay_guards, durable
-- Joins a takeover and only one that takes: a gone holder, a lapsed lease, a window that still covers.
DELETE FROM guards WHERE token IN (
  SELECT s.token FROM standing_guards AS s JOIN leased_owners AS o ON o.scope = :scope
   WHERE s.protected = 'owner:' || :scope AND s.exited_at IS NOT NULL AND s.lease_until <= :now
     AND s.covered_until > :now
     AND o.pins = :pins AND o.finished_at IS NULL AND o.lease_until <= :now);

-- name: list_guards
SELECT protected, token, scope, execution_id, attempt, holder, step, input, idempotency_key, kind, destination,
       window_ms, admitted_at, covered_until, lease_until, exited_at, CAST(:now AS INTEGER) AS read_at
  FROM standing_guards ORDER BY admitted_at, token, protected;

-- name: find_guard
SELECT protected, token, scope, execution_id, attempt, holder, step, input, idempotency_key, kind, destination,
       window_ms, admitted_at, covered_until, lease_until, exited_at, CAST(:now AS INTEGER) AS read_at
  FROM standing_guards WHERE token = :token ORDER BY protected;

-- name: find_protecting
-- The whole guard, all its rows, that protects one.
SELECT protected, token, scope, execution_id, attempt, holder, step, input, idempotency_key, kind, destination,
       window_ms, admitted_at, covered_until, lease_until, exited_at, CAST(:now AS INTEGER) AS read_at
  FROM standing_guards WHERE token = (SELECT g.token FROM guards AS g WHERE g.protected = :protected)
 ORDER BY protected;

-- name: require_reconcilable
-- Refuses the batch unless the guard stands, is not held, and, where its key is the evidence, still covers.
INSERT INTO refusals (reason)
SELECT reason FROM (
  SELECT CASE WHEN s.token IS NULL THEN 'released'
              WHEN s.exited_at IS NULL AND s.lease_until > :now THEN 'held'
              WHEN :proof = 'replay' AND (s.covered_until IS NULL OR s.covered_until <= :now) THEN 'uncovered'
         END AS reason
    FROM (SELECT 1 AS one)
    LEFT JOIN (SELECT * FROM standing_guards WHERE token = :guard LIMIT 1) AS s ON s.token = :guard) AS met
 WHERE reason IS NOT NULL;

-- name: audit_guard, durable
INSERT INTO guard_audit (token, evidence, operator, at, execution_id, step, input, guard)
VALUES (:guard, :evidence, :operator, :now, :execution_id, :step, :input, :record);

-- name: list_guard_audit
SELECT token, evidence, operator, at, guard FROM guard_audit ORDER BY id;

-- name: find_guard_audit
SELECT token, evidence, operator, at, guard FROM guard_audit
 WHERE execution_id = :execution_id AND step = :step AND input = :input ORDER BY id DESC;

-- name: settle_entry, durable
-- A receipt settles the entry; a value given with it is its value. Whoever claims it claims it anew. A blob must still
-- be kept: for one that a sweep has doomed the NULL is refused (journal.run_id), and with it the whole release.
UPDATE journal
   SET receipt = :receipt, value = :value, digest = :digest, bytes = :bytes, claim = NULL,
       run_id = CASE WHEN :digest IS NULL OR EXISTS (SELECT 1 FROM blobs WHERE digest = :digest AND doomed_at IS NULL)
                     THEN run_id END
 WHERE execution_id = :execution_id AND step = :step AND input = :input AND value IS NULL AND digest IS NULL;

-- name: clear_entry, durable
-- The destination never saw the key: the entry is as if it had not been sent.
UPDATE journal SET doubts = 0, admitted_at = NULL, destination = NULL, claim = NULL
 WHERE execution_id = :execution_id AND step = :step AND input = :input AND value IS NULL AND digest IS NULL;

-- name: free_entry, durable
-- The entry may be sent again; the claim of the attempt that was released by hand records nothing any more.
UPDATE journal SET claim = NULL
 WHERE execution_id = :execution_id AND step = :step AND input = :input AND value IS NULL AND digest IS NULL;

-- name: end_guarded_lease, durable
-- Manual release ends the attempt's lease, so that a stalled engine neither renews it nor acquires under it again.
UPDATE owners SET lease_end = CASE WHEN lease_end IS NULL OR lease_end > :now THEN :now ELSE lease_end END
 WHERE scope = :scope AND execution_id = :execution_id AND attempt = :run_id AND holder = :holder;
