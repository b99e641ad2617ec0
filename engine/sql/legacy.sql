-- name: find_legacy_guard
-- Schema 3 had one guard for the whole store, under the only name `global`.
SELECT token FROM guard ORDER BY name LIMIT 1;

-- name: refuse_legacy_guard
-- Refuses the migration while one stands: it records no key, so no evidence ties to its effect.
INSERT INTO refusals (reason) SELECT NULL FROM guard;

-- name: drop_legacy_guard, durable
DROP TABLE guard;

-- name: drop_refusals, durable
-- It never holds a row; the new schema's has more reasons.
DROP TABLE refusals;

-- name: journal_columns
SELECT name FROM pragma_table_info('journal');

-- name: add_journal_admitted_at, durable
ALTER TABLE journal ADD COLUMN admitted_at INTEGER;

-- name: add_journal_doubts, durable
ALTER TABLE journal ADD COLUMN doubts INTEGER NOT NULL DEFAULT 0;

-- name: add_journal_receipt, durable
ALTER TABLE journal ADD COLUMN receipt TEXT;

-- name: add_journal_destination, durable
ALTER TABLE journal ADD COLUMN destination TEXT;

-- name: recall_destinations, durable
-- Schema 4 kept no destination beside an admission. Where its guard stands that tells it.
UPDATE journal
   SET destination = (SELECT MIN(g.destination) FROM guards AS g
                       WHERE g.execution_id = journal.execution_id AND g.step = journal.step AND g.input = journal.input)
 WHERE admitted_at IS NOT NULL AND destination IS NULL;

-- name: list_guarded_entries
-- The same for whoever keeps the journal elsewhere.
SELECT execution_id, step, input, MIN(destination) FROM guards GROUP BY execution_id, step, input;

-- name: advance_schema, durable
UPDATE meta SET value = :to WHERE name = 'schema' AND value = :from
RETURNING value;
