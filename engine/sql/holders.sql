-- name: create_holders
-- One row an engine process: every lease it holds lives by this row's expiry.
CREATE TABLE IF NOT EXISTS holders (
  id            TEXT PRIMARY KEY,
  pid           INTEGER NOT NULL,
  boot_id       TEXT NOT NULL,
  registered_at INTEGER NOT NULL,
  expires_at    INTEGER NOT NULL,
  exited_at     INTEGER
) STRICT, WITHOUT ROWID;

-- name: register_holder, durable
INSERT INTO holders (id, pid, boot_id, registered_at, expires_at)
VALUES (:holder, :pid, :boot_id, :now, :now + :lease_ms)
ON CONFLICT (id) DO NOTHING;

-- name: renew_holder
UPDATE holders SET expires_at = :now + :lease_ms
 WHERE id = :holder AND exited_at IS NULL
RETURNING expires_at;

-- name: exit_holder, durable
UPDATE holders SET exited_at = :now WHERE id = :holder AND exited_at IS NULL;

-- name: forget_holders
-- A holder's row outlives every owner and every guard that names it: its exit is what a replay asks for.
DELETE FROM holders
 WHERE expires_at < :now - :keep_ms
   AND id NOT IN (SELECT holder FROM owners WHERE holder IS NOT NULL)
   AND id NOT IN (SELECT holder FROM guards);
