-- name: create_requests
-- The ledger of outbound requests: an intent before they leave, settled before the entry that records their answers.
CREATE TABLE IF NOT EXISTS requests (
  id           TEXT PRIMARY KEY,
  execution_id TEXT NOT NULL,
  run_id       TEXT NOT NULL,
  step         TEXT NOT NULL,
  input        TEXT NOT NULL,
  intended_at  INTEGER NOT NULL,
  settled_at   INTEGER,
  sent         TEXT
) STRICT, WITHOUT ROWID;

-- name: intend_requests
INSERT INTO requests (id, execution_id, run_id, step, input, intended_at)
VALUES (:id, :execution_id, :run_id, :step, :input, :now);

-- name: settle_requests
UPDATE requests SET settled_at = :now, sent = :sent WHERE id = :id;

-- name: list_requests
SELECT id, execution_id, run_id, step, input, intended_at, settled_at, sent
  FROM requests WHERE execution_id = :execution_id ORDER BY intended_at, id;
