-- name: create_fires
CREATE TABLE IF NOT EXISTS fires (
  fire_id      TEXT PRIMARY KEY,
  pipeline_id  TEXT NOT NULL,
  state        TEXT NOT NULL,
  holder       TEXT,
  requested_at INTEGER NOT NULL,
  ended_at     INTEGER
) STRICT, WITHOUT ROWID;

-- name: request_fire, durable
INSERT INTO fires (fire_id, pipeline_id, state, requested_at) VALUES (:fire_id, :pipeline_id, 'requested', :now)
ON CONFLICT (fire_id) DO NOTHING;

-- name: read_fire
SELECT f.fire_id, f.pipeline_id, f.state, f.requested_at, f.ended_at,
       CASE WHEN h.exited_at IS NULL THEN COALESCE(h.expires_at, 0) ELSE 0 END
  FROM fires AS f LEFT JOIN holders AS h ON h.id = f.holder WHERE f.fire_id = :fire_id;

-- name: move_fire, durable
-- Compare and set: a fire that is no longer in the state its mover saw, or no longer its mover's, stays where it is.
UPDATE fires SET state = :target, holder = :holder, ended_at = :ended_at
 WHERE fire_id = :fire_id AND state = :state AND COALESCE(holder, '') = COALESCE(:held_by, '')
RETURNING state;

-- name: adopt_fire, durable
-- A fire whose engine is gone is taken up by another; one whose engine lives stays with it.
UPDATE fires SET holder = :holder
 WHERE fire_id = :fire_id AND state = 'running'
   AND NOT EXISTS (SELECT 1 FROM holders AS h
                    WHERE h.id = fires.holder AND h.id <> :holder AND h.exited_at IS NULL AND h.expires_at > :now)
RETURNING fire_id;

-- name: leave_fire, durable
-- A fire one of whose runs waits stays running, and nobody's: whoever resumes the run takes it up.
UPDATE fires SET holder = NULL WHERE fire_id = :fire_id AND state = 'running' AND holder = :holder;

-- name: dead_fires
-- A fire that owns a waiting run is not dead.
SELECT f.fire_id FROM fires AS f LEFT JOIN holders AS h ON h.id = f.holder
 WHERE f.state = 'running' AND f.fire_id <> :but
   AND (h.id IS NULL OR h.exited_at IS NOT NULL OR h.expires_at <= :now)
   AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.fire_id = f.fire_id AND r.status = 'waiting');

-- name: fail_dead_fires, durable
-- Judges anew: since it was listed a fire may have been adopted, or its engine have renewed its lease.
UPDATE fires SET state = 'failed', holder = NULL, ended_at = :now
 WHERE state = 'running' AND fire_id <> :but
   AND NOT EXISTS (SELECT 1 FROM holders AS h
                    WHERE h.id = fires.holder AND h.exited_at IS NULL AND h.expires_at > :now)
   AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.fire_id = fires.fire_id AND r.status = 'waiting');
