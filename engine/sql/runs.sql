-- name: create_runs
CREATE TABLE IF NOT EXISTS runs (
  run_id       TEXT PRIMARY KEY,
  fire_id      TEXT,
  pipeline_id  TEXT,
  execution_id TEXT,
  status       TEXT NOT NULL,
  holder       TEXT,
  started_at   INTEGER NOT NULL,
  record       TEXT NOT NULL,
  appended     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- name: create_runs_unappended
-- What is open, or has ended and is not in the reserved table yet: few rows, however long the history.
CREATE INDEX IF NOT EXISTS runs_unappended ON runs (status) WHERE appended = 0;

-- name: create_runs_by_start
CREATE INDEX IF NOT EXISTS runs_by_start ON runs (started_at, run_id);

-- name: create_runs_by_pipeline
CREATE INDEX IF NOT EXISTS runs_by_pipeline ON runs (pipeline_id, started_at, run_id);

-- name: create_run_rows
-- A run as it is read: its record, with the lease and the stop mark that machine state has for it.
CREATE VIEW IF NOT EXISTS run_rows AS
SELECT r.run_id, r.fire_id, r.pipeline_id, r.started_at, r.record, r.status, r.execution_id, h.pid, h.boot_id,
       COALESCE(l.lease_until, 0) AS lease_until, s.requested_at, s.scope, s.reason
  FROM runs AS r
  LEFT JOIN holders AS h ON h.id = r.holder
  LEFT JOIN leased_owners AS l ON l.attempt = r.run_id
  LEFT JOIN stops AS s ON s.run_id = r.run_id;

-- name: open_run, durable
-- Opens nothing unless the attempt took its owner in the statements before, and is not one that waited.
INSERT INTO runs (run_id, fire_id, pipeline_id, execution_id, status, holder, started_at, record)
SELECT :run_id, :fire_id, :pipeline_id, execution_id, 'running', :holder, :now, :record
  FROM owners WHERE scope = :scope AND attempt = :run_id
   AND NOT EXISTS (SELECT 1 FROM runs WHERE run_id = :run_id AND status = 'waiting');

-- name: resume_run, durable
-- Takes up the row of the waiting attempt whose owner was taken in the statements before; the fire that fires it has it.
UPDATE runs SET status = 'running', holder = :holder, fire_id = :fire_id
 WHERE status = 'waiting' AND run_id = (SELECT attempt FROM owners WHERE scope = :scope AND holder = :holder)
RETURNING run_id;

-- name: note_run, durable
-- What an attempt at work has to say of itself before it ends.
UPDATE runs SET record = :record WHERE run_id = :run_id AND status = 'running' AND holder = :holder;

-- name: insert_run, durable
INSERT INTO runs (run_id, fire_id, pipeline_id, execution_id, status, holder, started_at, record)
VALUES (:run_id, :fire_id, :pipeline_id, :execution_id, :status, NULL, :started_at, :record)
ON CONFLICT (run_id) DO NOTHING;

-- name: upsert_run
-- History never goes back: a row that has ended stays as it is, and one that began is not pending again.
INSERT INTO runs (run_id, fire_id, pipeline_id, execution_id, status, holder, started_at, record, appended)
VALUES (:run_id, :fire_id, :pipeline_id, :execution_id, :status, NULL, :started_at, :record,
        CASE WHEN :status IN ('pending', 'running', 'waiting') THEN 0 ELSE 1 END)
ON CONFLICT (run_id) DO UPDATE
   SET status = excluded.status, record = excluded.record, execution_id = excluded.execution_id,
       appended = excluded.appended
 WHERE runs.status = 'pending' OR (runs.status IN ('running', 'waiting') AND excluded.status <> 'pending');

-- name: close_run, durable
-- A running row closes; a waiting one is only canceled. `partial_failure` is reap_run's alone.
UPDATE runs SET status = :status, record = :record, holder = NULL
 WHERE run_id = :run_id AND :status NOT IN ('pending', 'running', 'partial_failure')
   AND (status = 'running' OR (status = 'waiting' AND :status = 'canceled'))
RETURNING run_id;

-- name: read_run
SELECT record, status, execution_id, pid, boot_id, lease_until, requested_at, scope, reason FROM run_rows
 WHERE run_id = :run_id;

-- name: list_runs
SELECT record, status, execution_id, pid, boot_id, lease_until, requested_at, scope, reason FROM run_rows
 WHERE started_at >= :since ORDER BY started_at DESC, run_id DESC LIMIT :ceiling;

-- name: list_pipeline_runs
SELECT record, status, execution_id, pid, boot_id, lease_until, requested_at, scope, reason FROM run_rows
 WHERE pipeline_id = :pipeline_id AND started_at >= :since
 ORDER BY started_at DESC, run_id DESC LIMIT :ceiling;

-- name: list_fire_runs
SELECT record, status, execution_id, pid, boot_id, lease_until, requested_at, scope, reason FROM run_rows
 WHERE fire_id = :fire_id ORDER BY started_at, run_id;

-- name: run_pipelines
SELECT DISTINCT pipeline_id FROM runs WHERE pipeline_id IS NOT NULL ORDER BY pipeline_id;

-- name: unappended_runs
SELECT record, status, execution_id, pid, boot_id, lease_until, requested_at, scope, reason FROM run_rows
 WHERE run_id IN (SELECT run_id FROM runs
                   WHERE appended = 0 AND status IN ('success', 'partial_failure', 'failed', 'canceled'));

-- name: note_appended
UPDATE runs SET appended = 1 WHERE run_id = :run_id AND status NOT IN ('pending', 'running', 'waiting');

-- name: orphaned_runs
-- A running row is an orphan when no unexpired lease is its own; a waiting row holds none and is left alone, and so is
-- an attempt that a standing guard names.
SELECT r.record, r.execution_id FROM runs AS r
 WHERE r.status = 'running' AND r.appended = 0
   AND NOT EXISTS (SELECT 1 FROM leased_owners AS l WHERE l.attempt = r.run_id AND l.lease_until > :now)
   AND NOT EXISTS (SELECT 1 FROM guards AS g WHERE g.attempt = r.run_id);

-- name: overtaken_runs
-- What an execution's attempt left running whose owner another has taken, or which is retired: an orphan before any
-- engine starts anew.
SELECT r.record, r.execution_id FROM runs AS r
 WHERE r.status = 'running' AND r.appended = 0 AND r.execution_id = :execution_id
   AND NOT EXISTS (SELECT 1 FROM owners AS o WHERE o.execution_id = r.execution_id AND o.attempt = r.run_id)
   AND NOT EXISTS (SELECT 1 FROM guards AS g WHERE g.attempt = r.run_id);

-- name: reap_run, durable
UPDATE runs SET status = 'partial_failure', record = :record, holder = NULL
 WHERE run_id = :run_id AND status = 'running'
   AND NOT EXISTS (SELECT 1 FROM leased_owners AS l WHERE l.attempt = :run_id AND l.lease_until > :now)
   AND NOT EXISTS (SELECT 1 FROM guards AS g WHERE g.attempt = :run_id)
RETURNING run_id;

-- name: release_reaped, durable
UPDATE owners SET attempt = NULL, holder = NULL, lease_end = NULL
 WHERE attempt = :run_id AND EXISTS (SELECT 1 FROM runs WHERE run_id = :run_id AND status = 'partial_failure');
