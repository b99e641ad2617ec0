-- name: create_operator_refusals
-- What was refused at the operator's door, counted by the minute: a flood leaves a row a minute and reason. No row tells
-- anything of the credential.
CREATE TABLE IF NOT EXISTS operator_refusals (
  minute  INTEGER NOT NULL,
  reason  TEXT NOT NULL,
  project TEXT NOT NULL,
  count   INTEGER NOT NULL,
  PRIMARY KEY (minute, reason, project)
) STRICT, WITHOUT ROWID;

-- name: count_operator_refusals, durable
INSERT INTO operator_refusals (minute, reason, project, count) VALUES (:minute, :reason, :project, :count)
ON CONFLICT (minute, reason, project) DO UPDATE SET count = operator_refusals.count + excluded.count;

-- name: forget_operator_refusals, durable
DELETE FROM operator_refusals WHERE minute < :before;

-- name: find_reconciled
-- What operators did about one guard, and whether its step has a value by now.
SELECT a.evidence, a.operator, a.at, a.guard,
       EXISTS (SELECT 1 FROM journal AS j
                WHERE j.execution_id = a.execution_id AND j.step = a.step AND j.input = a.input
                  AND (j.value IS NOT NULL OR j.digest IS NOT NULL)) AS recorded
  FROM guard_audit AS a WHERE a.token = :token ORDER BY a.id;

-- name: require_suppliable
-- Refuses the batch unless the step still waits for the value of the receipt that settled it, no callback out for it.
INSERT INTO refusals (reason)
SELECT 'superseded' WHERE NOT EXISTS (
  SELECT 1 FROM journal
   WHERE execution_id = :execution_id AND step = :step AND input = :input AND receipt = :receipt
     AND value IS NULL AND digest IS NULL)
   OR EXISTS (SELECT 1 FROM guards WHERE protected = 'owner:' || :scope);
