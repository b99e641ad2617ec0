-- name: create_awakeables
CREATE TABLE IF NOT EXISTS awakeables (
  token          TEXT PRIMARY KEY,
  execution_id   TEXT NOT NULL,
  step           TEXT NOT NULL,
  created_at     INTEGER NOT NULL,
  deadline       INTEGER NOT NULL,
  state          TEXT NOT NULL,
  payload_sha256 TEXT,
  digest         TEXT,
  subject        TEXT
) STRICT, WITHOUT ROWID;

-- name: mint_awakeable, durable
INSERT INTO awakeables (token, execution_id, step, created_at, deadline, state, subject)
VALUES (:token, :execution_id, :step, :created_at, :deadline, 'pending', :subject)
ON CONFLICT (token) DO NOTHING;

-- name: read_awakeable
SELECT token, execution_id, step, created_at, deadline, state, payload_sha256, subject
  FROM awakeables WHERE token = :token;

-- name: pending_awakeables
SELECT token, execution_id, step, created_at, deadline, state, payload_sha256, subject
  FROM awakeables WHERE execution_id = :execution_id AND state = 'pending' AND deadline > :at ORDER BY created_at, token;

-- name: resolve_awakeable, durable
-- A payload in a blob must still be kept: a sweep that doomed it meanwhile leaves the wait pending.
UPDATE awakeables SET state = 'resolved', payload_sha256 = :payload_sha256, digest = :digest
 WHERE token = :token AND state = 'pending' AND deadline > :at
   AND (:digest IS NULL OR EXISTS (SELECT 1 FROM blobs WHERE digest = :digest AND doomed_at IS NULL))
RETURNING token;

-- name: time_out_awakeable, durable
UPDATE awakeables SET state = 'timed_out', digest = NULL
 WHERE token = :token AND state = 'pending' AND deadline <= :at
RETURNING token;

-- name: record_resume, durable
-- The payload is the awaited step's output, written in the batch that resolves.
INSERT INTO journal (execution_id, step, input, run_id, value, digest, bytes)
SELECT execution_id, step, :input, 'awakeable', :value, :digest, :bytes
  FROM awakeables WHERE token = :token AND state = 'resolved' AND payload_sha256 = :payload_sha256
ON CONFLICT (execution_id, step, input) DO NOTHING;

-- name: collect_awakeables
DELETE FROM awakeables WHERE execution_id = :execution_id;
