-- name: create_stops
-- Requests to stop a run, the newest of each: machine state that the run row joins, never rebuilt.
CREATE TABLE IF NOT EXISTS stops (
  run_id       TEXT PRIMARY KEY,
  requested_at INTEGER NOT NULL,
  scope        TEXT NOT NULL,
  reason       TEXT
) STRICT, WITHOUT ROWID;

-- name: stop_runs, durable
-- Marks the run asked for and, in the scope 'pipeline', every other one in flight of the pipeline its own row names; a
-- host run's pipeline is its host scope. Marks nothing unless the run asked for is in flight itself.
INSERT INTO stops (run_id, requested_at, scope, reason)
SELECT r.run_id, :now, :scope, :reason
  FROM runs AS asked
  JOIN runs AS r
    ON r.run_id = asked.run_id
    OR (:scope = 'pipeline'
        AND (r.pipeline_id = asked.pipeline_id
             OR (asked.pipeline_id IS NULL AND r.pipeline_id IS NULL
                 AND r.record ->> 'host_scope' = asked.record ->> 'host_scope')))
 WHERE asked.run_id = :run_id
   AND asked.status IN ('pending', 'running', 'waiting') AND r.status IN ('pending', 'running', 'waiting')
ON CONFLICT (run_id) DO UPDATE
   SET requested_at = excluded.requested_at, scope = excluded.scope, reason = excluded.reason
RETURNING run_id;

-- name: read_stop
SELECT requested_at, scope, reason FROM stops WHERE run_id = :run_id;

-- name: held_stops
-- The marks on what one engine has open.
SELECT s.run_id, s.requested_at, s.scope, s.reason
  FROM owners AS o JOIN stops AS s ON s.run_id = o.attempt
 WHERE o.holder = :holder;

-- name: cancel_waiting, durable
-- A waiting run has no process to stop it: the request itself ends it, unless one has just taken it up.
UPDATE runs SET status = 'canceled', record = :record, holder = NULL
 WHERE run_id = :run_id AND status = 'waiting'
RETURNING run_id;

-- name: release_canceled, durable
UPDATE owners SET attempt = NULL, holder = NULL, lease_end = NULL, wake_at = NULL
 WHERE attempt = :run_id AND EXISTS (SELECT 1 FROM runs WHERE run_id = :run_id AND status = 'canceled');

-- name: cancel_left_fire, durable
-- A fire that only waited for runs which are stopped now has nothing left to wait for.
UPDATE fires SET state = 'canceled', ended_at = :now
 WHERE fire_id = :fire_id AND state = 'running' AND holder IS NULL
   AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.fire_id = :fire_id AND r.status IN ('running', 'waiting'));
