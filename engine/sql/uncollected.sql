-- name: create_uncollected
-- Executions that are retired and whose recorded work, kept apart from the catalog, is still to be deleted.
CREATE TABLE IF NOT EXISTS uncollected (
  execution_id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- name: note_uncollected, durable
INSERT INTO uncollected (execution_id) VALUES (:execution_id) ON CONFLICT (execution_id) DO NOTHING;

-- name: list_uncollected
SELECT execution_id FROM uncollected ORDER BY execution_id;

-- name: forget_uncollected
DELETE FROM uncollected WHERE execution_id = :execution_id;
