-- name: list_tables
-- D1 keeps tables of its own, which nobody else may use.
SELECT name FROM sqlite_master WHERE type = 'table' AND SUBSTR(name, 1, 4) <> '_cf_' ORDER BY name;

-- name: list_triggers
SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name;
