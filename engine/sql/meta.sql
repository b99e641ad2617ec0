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
