-- name: create_exports
-- How far each export has come: the next one goes on from `position`; `run_id` is its latest attempt.
CREATE TABLE IF NOT EXISTS exports (
  name        TEXT PRIMARY KEY,
  position    TEXT,
  run_id      TEXT,
  finished_at INTEGER
) STRICT, WITHOUT ROWID;

-- name: create_outbox
-- What one export has decided to publish, a row a request. Only the rows of the decision that its journal records are
-- ever sent; a body that is large, or must be sealed, is not here but recorded in the journal under its digest.
CREATE TABLE IF NOT EXISTS outbox (
  execution_id TEXT NOT NULL,
  decision     TEXT NOT NULL,
  ordinal      INTEGER NOT NULL,
  export       TEXT NOT NULL,
  content      BLOB,
  digest       TEXT NOT NULL,
  bytes        INTEGER NOT NULL,
  rows         INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  delivered_at INTEGER,
  PRIMARY KEY (execution_id, decision, ordinal)
) STRICT, WITHOUT ROWID;

-- name: begin_export
INSERT INTO exports (name, run_id) VALUES (:export, :run_id)
ON CONFLICT (name) DO UPDATE SET run_id = excluded.run_id
RETURNING position;

-- name: fill_outbox, durable
INSERT INTO outbox (execution_id, decision, ordinal, export, content, digest, bytes, rows, created_at)
VALUES (:execution_id, :decision, :ordinal, :export, :content, :digest, :bytes, :rows, :now);

-- name: count_outbox
SELECT COUNT(*) FROM outbox WHERE execution_id = :execution_id AND decision = :decision AND ordinal >= :least;

-- name: drop_undecided
-- Once a decision is recorded it is the only one: what an interrupted one left is nobody's.
DELETE FROM outbox WHERE execution_id = :execution_id AND decision <> :decision;

-- name: list_outbox
SELECT ordinal, digest, bytes, rows, delivered_at FROM outbox
 WHERE execution_id = :execution_id AND decision = :decision ORDER BY ordinal;

-- name: read_bodies
SELECT ordinal, content FROM outbox
 WHERE execution_id = :execution_id AND decision = :decision AND ordinal BETWEEN :first AND :last;

-- name: mark_delivered, durable
UPDATE outbox SET delivered_at = :now
 WHERE execution_id = :execution_id AND decision = :decision AND delivered_at IS NULL
   AND ordinal IN (SELECT value FROM json_each(:ordinals));

-- name: move_export, durable
INSERT INTO exports (name, position, run_id, finished_at) VALUES (:export, :position, :run_id, :now)
ON CONFLICT (name) DO UPDATE
   SET position = excluded.position, run_id = excluded.run_id, finished_at = excluded.finished_at;

-- name: clear_outbox, durable
DELETE FROM outbox WHERE execution_id = :execution_id;

-- name: list_exports
SELECT name, position, run_id, finished_at FROM exports ORDER BY name;

-- name: outbox_counts
-- Of every execution: its batches, those still to be delivered, and their rows.
SELECT execution_id, COUNT(DISTINCT ordinal),
       COUNT(DISTINCT CASE WHEN delivered_at IS NULL THEN ordinal END),
       SUM(CASE WHEN delivered_at IS NULL THEN rows ELSE 0 END)
  FROM outbox GROUP BY execution_id;
