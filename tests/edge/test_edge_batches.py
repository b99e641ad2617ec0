"""A batch is one transaction; what stopped it is named, and what D1 cannot take never reaches it."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine.nesting import DEEPEST


def test_a_batch_whose_third_statement_fails_leaves_nothing_and_names_it(binding, table):
    insert = f"INSERT INTO {table} (id) VALUES (?1)"

    answer = binding.batch((insert, 1), (insert, 2), (insert, 1), (insert, 3))

    assert answer.status_code == 409
    assert answer.json() == {
        "constraint": "SQLITE_CONSTRAINT_PRIMARYKEY",
        "text": f"UNIQUE constraint failed: {table}.id",
        "statement": 2,
    }
    assert binding.rows(f"SELECT id FROM {table}") == []


@pytest.mark.parametrize("place", range(5))
def test_the_failed_statement_is_found_wherever_it_stands(binding, table, place: int):
    statements: list[tuple[Any, ...]] = [(f"INSERT INTO {table} (id) VALUES (?1)", n) for n in range(5)]
    statements[place] = (f"UPDATE {table} SET name = json('{{') WHERE ?1 OR 1 RETURNING json('{{') AS broken", place)
    statements.insert(0, (f"INSERT INTO {table} (id) VALUES (99)",))

    answer = binding.batch(*statements)

    assert answer.status_code == 409
    assert answer.json() == {"error": "SQLITE_ERROR", "text": "malformed JSON", "statement": place + 1}
    assert binding.rows(f"SELECT id FROM {table}") == []


def test_batches_of_many_at_once_do_not_mix(binding, table):
    binding.batch((f"INSERT INTO {table} (id, anything) VALUES (1, 0)",))

    def raise_by_one(_n: int) -> int:
        add = f"UPDATE {table} SET anything = CAST(anything AS INTEGER) + 1 WHERE id = 1"
        answer = binding.batch((add,), (f"SELECT CAST(anything AS INTEGER) AS n FROM {table}",))
        return int(answer.json()["results"][1]["rows"][0][0])

    with ThreadPoolExecutor(10) as pool:
        seen = sorted(pool.map(raise_by_one, range(40)))

    assert seen == list(range(1, 41))


def test_a_named_check_is_named(binding, table):
    binding.batch((f"CREATE TABLE {table}_guard (why TEXT, CONSTRAINT superseded CHECK (why <> 'superseded'))",))

    answer = binding.batch(("SELECT 1 AS n",), (f"INSERT INTO {table}_guard (why) VALUES ('superseded')",))

    assert answer.json()["text"] == "CHECK constraint failed: superseded"
    assert answer.json()["statement"] == 1


def test_a_statement_that_is_no_sql_is_named(binding):
    answer = binding.batch(("SELECT 1 AS n",), ("SELECT FROM nowhere",))

    assert answer.status_code == 409
    assert answer.json()["statement"] == 1
    assert "syntax error" in answer.json()["text"]


def test_an_error_of_one_statement_undoes_tables_too(binding, table):
    answer = binding.batch((f"CREATE TABLE {table}_new (a TEXT)",), ("INSERT INTO missing (a) VALUES (1)",))

    assert answer.json()["statement"] == 1
    assert binding.rows("SELECT name FROM sqlite_schema WHERE name = ?1", f"{table}_new") == []


def test_a_batch_answers_each_statement_with_its_rows_and_counts(binding, table):
    answer = binding.batch(
        (f"INSERT INTO {table} (id, name) VALUES (?1, ?2), (2, 'b') RETURNING name, id", 1, "a"),
        (f"SELECT id FROM {table} ORDER BY id DESC",),
    )

    first, second = answer.json()["results"]
    assert first["rows"] == [["a", 1], ["b", 2]]
    assert (first["changes"], first["rows_written"]) == (2, 2)
    assert second["rows"] == [[2], [1]]
    assert (second["changes"], second["rows_read"]) == (0, 2)


def test_a_batch_of_no_statement_is_refused(binding):
    answer = binding.batch()

    assert answer.status_code == 400
    assert answer.json()["text"] == "statements must be a list of 1 to 1000"


def test_a_hundred_parameters_are_taken_and_one_more_is_refused_by_us(binding):
    def select(count: int) -> tuple[Any, ...]:
        return (f"SELECT coalesce({', '.join(f'?{n}' for n in range(1, 31))}, ?{count}) AS n", *range(count))

    assert binding.batch(select(100)).status_code == 200
    answer = binding.batch(select(101))
    assert answer.status_code == 400
    assert "101 parameters and D1 takes 100" in answer.json()["text"]


def test_one_list_parameter_carries_thousands(binding):
    numbers = "[" + ",".join(map(str, range(5000))) + "]"

    assert binding.value("SELECT sum(value) AS total FROM json_each(?1)", numbers) == sum(range(5000))


def test_sql_longer_than_d1_takes_is_refused_by_us(binding):
    answer = binding.batch((f"SELECT 1 AS n -- {'x' * 100_000}",))

    assert answer.status_code == 400
    assert "bytes of SQL and D1 takes 100000" in answer.json()["text"]


def test_the_wrong_number_of_parameters_is_a_failure_of_its_statement(binding):
    answer = binding.batch(("SELECT 1 AS n",), ("SELECT ?1 AS a, ?2 AS b", 1))

    assert answer.status_code == 409
    assert answer.json()["statement"] == 1


def test_now_is_the_workers_clock_and_one_value_a_batch(binding, table):
    before = int(time.time() * 1000)

    answer = binding.batch(
        ("SELECT CAST(?1 AS INTEGER) AS t", {"now": True}),
        (f"INSERT INTO {table} (id) VALUES (?1) RETURNING id", {"now": True}),
        ("SELECT CAST(?2 AS INTEGER) - ?1 AS zero", {"now": True}, {"now": True}),
    )

    first, second, third = (result["rows"][0][0] for result in answer.json()["results"])
    assert first == second
    assert third == 0
    assert before - 1000 <= first <= int(time.time() * 1000) + 1000


def test_a_column_called_items_is_a_column(binding):
    assert binding.rows("SELECT 'x' AS items, 'y' AS keys, 'z' AS get") == [["x", "y", "z"]]


@pytest.mark.parametrize(
    "sql",
    ["SELECT 1 AS a, 2 AS a", "SELECT t.id, u.id FROM t, t AS u", "SELECT 1 AS a, 2 \"A\"", "SELECT 5, 6 AS b",
     "INSERT INTO t (id) VALUES (1) RETURNING id, id", "SELECT * FROM t",
     "WITH x AS (SELECT 1 AS a) SELECT a, a FROM x"],
)  # fmt: skip
def test_columns_that_an_object_cannot_keep_apart_are_refused(binding, sql: str):
    answer = binding.batch((sql,))

    assert answer.status_code == 400
    assert "column" in answer.json()["text"]


def test_a_batch_that_says_it_reads_may_not_write(binding, table):
    answer = binding.batch((f"INSERT INTO {table} (id) VALUES (1)",), intent="read")

    assert answer.status_code == 400
    assert "may write" in answer.json()["text"]


@pytest.mark.parametrize("protocol", [0, 2, None, "1"])
def test_another_protocol_is_answered_with_both_numbers(binding, protocol: Any):
    answer = binding.http.post("/v1/batch", json={"protocol": protocol, "intent": "read", "statements": []})

    assert answer.status_code == 426
    assert (answer.json()["speaks"], answer.json()["asked"]) == (1, protocol)
    assert "protocol 1" in answer.json()["text"]


def test_another_protocols_address_is_answered_with_both_numbers(binding):
    answer = binding.http.get("/v2/health")

    assert answer.status_code == 426
    assert (answer.json()["speaks"], answer.json()["asked"]) == (1, 2)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"protocol": 1, "intent": "guess", "statements": []}'])
def test_what_is_no_batch_is_refused(binding, body: bytes):
    assert binding.http.post("/v1/batch", content=body).status_code in {400, 426}


@pytest.mark.parametrize("depth", [DEEPEST + 1, 5_000, 200_000])
@pytest.mark.parametrize("ends", [True, False])
def test_a_batch_that_is_nested_past_all_measure_is_refused_and_the_worker_lives(binding, depth: int, ends: bool):
    head, tail = b'{"protocol": 1, "intent": "read", "statements": ', b"}"

    answer = binding.http.post("/v1/batch", content=head + b"[" * depth + (b"]" * depth + tail if ends else b""))

    assert answer.status_code == 400
    assert answer.json()["text"] == f"the body is not JSON: it is nested more than {DEEPEST} deep"
    assert binding.value("SELECT 1 AS n") == 1


def test_a_batch_of_many_brackets_that_lie_beside_one_another_is_taken(binding):
    lists = json.dumps([[n] for n in range(5 * DEEPEST)])
    statements = [("SELECT json_array_length(?1) AS n, length(?2) AS m", lists, {"b64": "AAAA"})] * (2 * DEEPEST)

    answer = binding.batch(*statements, intent="read")

    assert [each["rows"] for each in answer.json()["results"]] == [[[5 * DEEPEST, 3]]] * (2 * DEEPEST)
