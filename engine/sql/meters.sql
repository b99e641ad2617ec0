-- name: create_meters
-- What was granted of each quota within its window: one row an instant. At most as many rows as a quota has permits.
CREATE TABLE IF NOT EXISTS meters (
  quota   TEXT NOT NULL,
  at      INTEGER NOT NULL,
  permits INTEGER NOT NULL,
  PRIMARY KEY (quota, at)
) STRICT, WITHOUT ROWID;

-- name: forget_permits
-- What left the window, and what stands so far ahead that the clock must have been set back since.
DELETE FROM meters WHERE quota = :quota AND (at <= :now - :every_ms OR at > :now + :every_ms);

-- name: grant_permits
INSERT INTO meters (quota, at, permits)
SELECT :quota, :now, :permits
 WHERE (SELECT COALESCE(SUM(permits), 0) FROM meters WHERE quota = :quota) + :permits <= :most
ON CONFLICT (quota, at) DO UPDATE SET permits = meters.permits + excluded.permits
RETURNING permits;

-- name: free_permits
-- How long until so many permits have left the window that as many as asked for are free.
SELECT MIN(freed.at) + :every_ms - :now AS wait_ms
  FROM (SELECT at, SUM(permits) OVER (ORDER BY at) AS permits FROM meters WHERE quota = :quota) AS freed
 WHERE freed.permits >= (SELECT SUM(permits) FROM meters WHERE quota = :quota) + :permits - :most;
