-- name: create_leases
-- Leases on keys other than owners' scopes, entity fences among them: one lives by its holder's expiry.
CREATE TABLE IF NOT EXISTS leases (
  key    TEXT PRIMARY KEY,
  holder TEXT,
  fence  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- name: take_lease, durable
-- A key nobody holds, or whose holder's expiry has passed; taking it raises the fence.
INSERT INTO leases (key, holder, fence) SELECT :key, :holder, 1
 WHERE NOT EXISTS (SELECT 1 FROM leases WHERE key = :key)
RETURNING fence;

-- name: retake_lease, durable
UPDATE leases SET holder = :holder, fence = fence + 1
 WHERE key = :key AND NOT EXISTS (
   SELECT 1 FROM holders AS h WHERE h.id = leases.holder AND h.expires_at > :now AND h.exited_at IS NULL)
   AND fence = :fence
RETURNING fence;

-- name: release_lease, durable
-- The fence stays: what an earlier holder sends late is told from what the next one sends.
UPDATE leases SET holder = NULL WHERE key = :key AND holder = :holder AND fence = :fence
RETURNING fence;

-- name: read_lease
SELECT l.key, l.holder, l.fence, COALESCE(h.expires_at, 0)
  FROM leases AS l LEFT JOIN holders AS h ON h.id = l.holder WHERE l.key = :key;
