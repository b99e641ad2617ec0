-- name: create_chunks
-- What a backfill has to do and has done, one row a window; the window is JSON.
CREATE TABLE IF NOT EXISTS chunks (
  plan_id     TEXT NOT NULL,
  number      INTEGER NOT NULL,
  scope       TEXT NOT NULL,
  pipeline_id TEXT NOT NULL,
  table_name  TEXT NOT NULL,
  state       TEXT NOT NULL,
  attempts    INTEGER NOT NULL,
  run_id      TEXT,
  PRIMARY KEY (plan_id, number)
) STRICT, WITHOUT ROWID;

-- name: create_chunks_by_scope
CREATE INDEX IF NOT EXISTS chunks_by_scope ON chunks (scope, state);

-- name: plan_chunks, durable
-- A plan that stands already stays as it is.
INSERT INTO chunks (plan_id, number, scope, pipeline_id, table_name, state, attempts)
SELECT :plan_id, want.key, want.value, :pipeline_id, :table_name, 'pending', 0
  FROM json_each(:scopes) AS want WHERE true
ON CONFLICT (plan_id, number) DO NOTHING;

-- name: read_chunks
SELECT plan_id, number, scope, state, attempts, run_id FROM chunks WHERE plan_id = :plan_id ORDER BY number;

-- name: other_chunks
-- What other plans of the table have done, or have still to do.
SELECT DISTINCT plan_id, number, scope, state, attempts, run_id FROM chunks
 WHERE table_name = :table_name AND plan_id <> :plan_id ORDER BY plan_id, number;

-- name: begin_chunk, durable
-- Begins nothing that is done. An attempt that was under way when its process died counts once another follows it; one
-- that waited goes on as itself and has not ended.
UPDATE chunks
   SET attempts = attempts + CASE WHEN state = 'running' AND run_id <> :run_id THEN 1 ELSE 0 END,
       state = 'running', run_id = :run_id
 WHERE plan_id = :plan_id AND number = :number AND state <> 'done'
RETURNING state;

-- name: return_chunk, durable
-- Back to pending, one attempt more or, where it was stopped or waits, as many as before (run.cancel.resumable-remains).
UPDATE chunks SET state = 'pending', attempts = attempts + :ended
 WHERE plan_id = :plan_id AND number = :number AND run_id = :run_id AND state = 'running';

-- name: finish_chunk, durable
-- Whatever plan has the window, it has landed; the plan whose attempt it was counts that.
UPDATE chunks SET attempts = attempts + CASE WHEN plan_id = :plan_id THEN 1 ELSE 0 END, state = 'done', run_id = :run_id
 WHERE scope = :scope AND state <> 'done';

-- name: unplan_chunks, durable
-- What a rewind gives up stays in its plan and is asked for afresh.
UPDATE chunks SET state = 'pending' WHERE scope = :scope AND state = 'running';

-- name: forget_chunks, durable
DELETE FROM chunks WHERE table_name = :table_name;
