-- name: create_snapshots
-- The manifests that were applied, numbered from 1; the highest number is the current one.
CREATE TABLE IF NOT EXISTS snapshots (
  number     INTEGER PRIMARY KEY,
  content    TEXT NOT NULL,
  applied_at INTEGER NOT NULL,
  applied_by TEXT NOT NULL
) STRICT;

-- name: add_snapshot, durable
-- Compares and sets: where another operator's snapshot took the number first, the primary key refuses this one.
INSERT INTO snapshots (number, content, applied_at, applied_by) VALUES (:number, :content, :now, :applied_by)
RETURNING applied_at;

-- name: current_snapshot
SELECT number, content, applied_at, applied_by FROM snapshots ORDER BY number DESC LIMIT 1;
