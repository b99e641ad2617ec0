-- name: create_blobs
-- What is kept outside the rows, by digest. A doomed blob is being deleted: nothing may reference it any more.
CREATE TABLE IF NOT EXISTS blobs (
  digest    TEXT PRIMARY KEY,
  bytes     INTEGER NOT NULL,
  stored_at INTEGER NOT NULL,
  doomed_at INTEGER
) STRICT, WITHOUT ROWID;

-- name: create_blob_contents
CREATE TABLE IF NOT EXISTS blob_contents (
  digest  TEXT PRIMARY KEY,
  content BLOB NOT NULL
) STRICT;

-- name: keep_blob, durable
-- Using a blob again refreshes its age; a doomed one answers nothing, and the writer comes back once it is gone.
INSERT INTO blobs (digest, bytes, stored_at) VALUES (:digest, :bytes, :now)
ON CONFLICT (digest) DO UPDATE SET stored_at = excluded.stored_at WHERE blobs.doomed_at IS NULL
RETURNING digest;

-- name: store_content, durable
-- Only beside its row: a content that a doomed row let in would outlive that row, and no sweep would ever see it.
INSERT INTO blob_contents (digest, content)
SELECT :digest, :content WHERE EXISTS (SELECT 1 FROM blobs WHERE digest = :digest AND doomed_at IS NULL)
ON CONFLICT (digest) DO NOTHING;

-- name: read_content
SELECT content FROM blob_contents WHERE digest = :digest;

-- name: doom_blobs
-- A portion at once: who puts a doomed content again waits for its deletion.
UPDATE blobs SET doomed_at = :now
 WHERE digest IN (
   SELECT digest FROM blobs
    WHERE doomed_at IS NULL AND stored_at < :older_than
      AND digest NOT IN (SELECT digest FROM journal WHERE digest IS NOT NULL)
      AND digest NOT IN (SELECT digest FROM awakeables WHERE digest IS NOT NULL AND state = 'pending')
    ORDER BY digest LIMIT :portion);

-- name: unreferenced_blobs
SELECT digest FROM blobs
 WHERE doomed_at IS NOT NULL
    OR (stored_at < :older_than
        AND digest NOT IN (SELECT digest FROM journal WHERE digest IS NOT NULL)
        AND digest NOT IN (SELECT digest FROM awakeables WHERE digest IS NOT NULL AND state = 'pending'))
 ORDER BY digest;

-- name: doomed_blobs
SELECT digest, doomed_at FROM blobs WHERE doomed_at IS NOT NULL ORDER BY digest LIMIT :portion;

-- name: delete_doomed_content
DELETE FROM blob_contents
 WHERE digest = :digest AND EXISTS (SELECT 1 FROM blobs WHERE digest = :digest AND doomed_at IS NOT NULL);

-- name: forget_doomed
-- Only the doom whose content was deleted: a sweeper that stalled must not forget a later one, whose content still lies
-- there. Between two dooms of a digest lies the grace, so their instants differ.
DELETE FROM blobs WHERE digest = :digest AND doomed_at = :doomed_at;

-- name: hold_blob, durable
-- For contents that lie in a bucket. A doom that is older than any deletion under it can be is taken back: no sweeper
-- will act on it any more, so the writer writes the content anew.
INSERT INTO blobs (digest, bytes, stored_at) VALUES (:digest, :bytes, :now)
ON CONFLICT (digest) DO UPDATE SET stored_at = excluded.stored_at, doomed_at = NULL
 WHERE blobs.doomed_at IS NULL OR blobs.doomed_at < :now - :kept
RETURNING digest;

-- name: doom_for_deletion, durable
-- Answers exactly what this call dooms, for its caller alone to delete: a fresh doom, or one whose sweeper never came
-- back for as long as a doom is kept. No more than its caller can delete in time.
UPDATE blobs SET doomed_at = :now
 WHERE digest IN (
   SELECT digest FROM blobs
    WHERE (doomed_at < :now - :kept OR (doomed_at IS NULL AND stored_at < :older_than))
      AND digest NOT IN (SELECT digest FROM journal WHERE digest IS NOT NULL)
      AND digest NOT IN (SELECT digest FROM awakeables WHERE digest IS NOT NULL AND state = 'pending')
    ORDER BY digest LIMIT :portion)
RETURNING digest, doomed_at;
