-- name: create_cursors
-- Caches the newest committed marker of each table; the marker is the truth.
CREATE TABLE IF NOT EXISTS cursors (
  table_name TEXT PRIMARY KEY,
  seq        INTEGER NOT NULL,
  commit_id  TEXT NOT NULL,
  kind       TEXT NOT NULL,
  position   TEXT
) STRICT, WITHOUT ROWID;

-- name: cache_position, durable
INSERT INTO cursors (table_name, seq, commit_id, kind, position)
VALUES (:table_name, :seq, :commit_id, :kind, :position)
ON CONFLICT (table_name) DO UPDATE
   SET seq = excluded.seq, commit_id = excluded.commit_id, kind = excluded.kind, position = excluded.position
 WHERE excluded.seq > cursors.seq;

-- name: cache_following, durable
-- Caches a marker only right behind the cached one: a live run's own that lies between is that run's to be found.
INSERT INTO cursors (table_name, seq, commit_id, kind, position)
SELECT :table_name, :seq, :commit_id, :kind, :position
 WHERE :seq = 1 + COALESCE((SELECT seq FROM cursors WHERE table_name = :table_name), 0)
ON CONFLICT (table_name) DO UPDATE
   SET seq = excluded.seq, commit_id = excluded.commit_id, kind = excluded.kind, position = excluded.position
 WHERE excluded.seq > cursors.seq;

-- name: read_cursor
SELECT table_name, seq, commit_id, kind, position FROM cursors WHERE table_name = :table_name;

-- name: list_cursors
SELECT table_name, seq, commit_id FROM cursors ORDER BY table_name;

-- name: forget_cursor, durable
DELETE FROM cursors WHERE table_name = :table_name;
