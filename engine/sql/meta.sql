-- name: create_meta
CREATE TABLE IF NOT EXISTS meta (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- name: create_refusals
-- Never holds a row: an insert into it is how a batch refuses itself, and the constraint it meets says why.
CREATE TABLE IF NOT EXISTS refusals (
  reason TEXT NOT NULL,
  CONSTRAINT superseded CHECK (reason <> 'superseded'),
  CONSTRAINT alive CHECK (reason <> 'alive'),
  CONSTRAINT unsettled CHECK (reason <> 'unsettled'),
  CONSTRAINT settled CHECK (reason <> 'settled'),
  CONSTRAINT held CHECK (reason <> 'held'),
  CONSTRAINT released CHECK (reason <> 'released'),
  CONSTRAINT uncovered CHECK (reason <> 'uncovered')
) STRICT;

-- name: set_meta, durable
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING;

-- name: read_meta
SELECT name, value FROM meta;

-- name: forget_meta, durable
DELETE FROM meta WHERE name = :name;

-- name: sweep_wait
-- How long until the next pass over the blobs is due. A note from ahead of the clock, which was set back since, counts
-- for nothing.
SELECT COALESCE(MAX(CAST(value AS INTEGER)) + :every_ms - :now, 0) AS wait_ms
  FROM meta WHERE name = 'swept_at' AND CAST(value AS INTEGER) <= :now;

-- name: note_sweep
INSERT INTO meta (name, value) VALUES ('swept_at', CAST(:now AS TEXT))
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
