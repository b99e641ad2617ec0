-- name: create_owners
CREATE TABLE IF NOT EXISTS owners (
  scope        TEXT PRIMARY KEY,
  execution_id TEXT NOT NULL,
  pins         TEXT NOT NULL,
  plan_ref     TEXT NOT NULL,
  input_hash   TEXT,
  asked_pins   TEXT,
  attempt      TEXT,
  holder       TEXT,
  lease_end    INTEGER,
  wake_at      INTEGER,
  opened_at    INTEGER NOT NULL,
  finished_at  INTEGER
) STRICT, WITHOUT ROWID;

-- name: create_leased_owners
-- A lease ends where its handle stamped an end, else with its holder; without a holder it has lapsed.
CREATE VIEW IF NOT EXISTS leased_owners AS
SELECT o.scope, o.execution_id, o.pins, o.plan_ref, o.asked_pins, o.attempt, o.holder, o.wake_at, o.opened_at,
       o.finished_at,
       CASE WHEN o.attempt IS NULL THEN 0 ELSE COALESCE(o.lease_end, h.expires_at, 0) END AS lease_until
  FROM owners AS o LEFT JOIN holders AS h ON h.id = o.holder;

-- name: open_owner, durable
-- Inserts nothing where the owner stands, instead of meeting its key: a guard on it refuses every insert.
INSERT INTO owners (scope, execution_id, pins, plan_ref, input_hash, attempt, holder, opened_at)
SELECT :scope, :execution_id, :pins, :plan_ref, :input_hash, :run_id, :holder, :now
 WHERE NOT EXISTS (SELECT 1 FROM owners WHERE scope = :scope)
RETURNING attempt;

-- name: take_owner, durable
-- Only a lapsed lease is taken, and only under the pins the owner was opened with. An attempt that waits goes on as
-- itself: its row is taken up again and no other attempt is made.
UPDATE owners
   SET attempt = COALESCE(
         (SELECT r.run_id FROM runs AS r WHERE r.run_id = owners.attempt AND r.status = 'waiting'), :run_id),
       holder = :holder, lease_end = NULL, wake_at = NULL
 WHERE scope = :scope AND pins = :pins AND finished_at IS NULL
   AND (attempt IS NULL OR :now >= (SELECT l.lease_until FROM leased_owners AS l WHERE l.scope = :scope))
RETURNING attempt;

-- name: note_asked_pins
UPDATE owners SET asked_pins = :pins WHERE scope = :scope AND pins <> :pins;

-- name: read_owner
SELECT scope, execution_id, pins, plan_ref, asked_pins, attempt, holder, lease_until, wake_at, opened_at, finished_at
  FROM leased_owners WHERE scope = :scope;

-- name: list_owners
SELECT scope, execution_id, pins, plan_ref, asked_pins, attempt, holder, lease_until, wake_at, opened_at, finished_at
  FROM leased_owners ORDER BY scope;

-- name: held_attempts
SELECT attempt FROM owners WHERE holder = :holder AND lease_end IS NULL;

-- name: active_attempt
SELECT execution_id, attempt, holder FROM owners WHERE scope = :scope;

-- name: require_attempt
-- Refuses the batch unless the attempt still holds its owner, in the life it has under this holder.
INSERT INTO refusals (reason)
SELECT 'superseded' WHERE NOT EXISTS (
  SELECT 1 FROM owners
   WHERE scope = :scope AND execution_id = :execution_id AND attempt = :run_id AND holder = :holder);

-- name: require_lapsed
-- Refuses the batch while an attempt of the owner is on an unexpired lease.
INSERT INTO refusals (reason)
SELECT 'alive' FROM leased_owners WHERE scope = :scope AND lease_until > :now;

-- name: require_no_wait
-- Refuses the batch while an attempt of the owner waits for its instant, or for whoever takes it up past that.
INSERT INTO refusals (reason)
SELECT 'alive' FROM owners WHERE scope = :scope AND wake_at IS NOT NULL;

-- name: release_owner, durable
UPDATE owners SET attempt = NULL, holder = NULL, lease_end = NULL, wake_at = NULL
 WHERE scope = :scope AND attempt = :run_id AND holder = :holder;

-- name: park_owner, durable
-- A waiting attempt keeps its owner and holds no lease: whoever comes at its instant takes it at once.
UPDATE owners SET holder = NULL, lease_end = NULL, wake_at = :wake_at
 WHERE scope = :scope AND execution_id = :execution_id;

-- name: end_lease
UPDATE owners SET lease_end = (SELECT h.expires_at FROM holders AS h WHERE h.id = owners.holder)
 WHERE scope = :scope AND attempt = :run_id AND lease_end IS NULL;

-- name: finish_owner, durable
UPDATE owners SET finished_at = :now, attempt = NULL, holder = NULL, lease_end = NULL
 WHERE scope = :scope AND execution_id = :execution_id;

-- name: retire_owner, durable
DELETE FROM owners WHERE scope = :scope AND execution_id = :execution_id
RETURNING scope;
