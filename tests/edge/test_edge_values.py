"""What crosses the Worker into D1 and back is what was sent, or is refused by name."""

from __future__ import annotations

import base64
from typing import Any

import pytest

BIG = 2**53 + 1


def b64(content: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(content).decode()}


@pytest.mark.parametrize(
    "value",
    [None, 0, -1, 2**53 - 2, -(2**53) + 2, 0.5, 1e300 / 1e285, "", "text", "Ünï ☂ 𝄞", "a\x00b", "'; --"],
)
def test_null_numbers_and_texts_come_back_as_they_went(binding, table, value: Any):
    binding.batch((f"INSERT INTO {table} (anything) VALUES (?1)", value))

    assert binding.value(f"SELECT anything FROM {table}") == value


@pytest.mark.parametrize("content", [b"", b"\x00", b"\x00\x01\xff" * 5, bytes(range(256)), b"\x80" * 100_000])
def test_bytes_come_back_as_they_went(binding, table, content: bytes):
    binding.batch((f"INSERT INTO {table} (data) VALUES (?1)", b64(content)))

    assert binding.rows(f"SELECT data, typeof(data) AS kind, length(data) AS size FROM {table}") == [
        [b64(content), "blob", len(content)]
    ]


@pytest.mark.parametrize("number", [2**53 - 1, 2**53, BIG, -BIG, 2**63 - 1, -(2**63)])
def test_an_integer_past_2_to_the_53_is_kept_exactly_and_read_as_text(binding, table, number: int):
    binding.batch((f"INSERT INTO {table} (id) VALUES (?1)", {"int": str(number)}))

    [[digits, kind]] = binding.rows(f"SELECT CAST(id AS TEXT) AS digits, typeof(id) AS kind FROM {table}")
    assert (digits, kind) == (str(number), "integer")
    assert binding.value(f"SELECT count(*) AS n FROM {table} WHERE id = CAST(?1 AS INTEGER)", {"int": str(number)}) == 1


def test_the_last_exact_integer_is_answered_as_its_digits(binding):
    assert binding.value(f"SELECT {2**53 - 1} AS n") == {"int": str(2**53 - 1)}


def test_a_number_that_lost_bits_on_its_way_out_is_never_answered(binding):
    answer = binding.batch((f"SELECT {BIG} AS n",), intent="read")

    assert answer.status_code == 500
    assert answer.json()["error"] == "inexact"
    assert "CAST" in answer.json()["text"]


def test_a_bound_integer_stays_one_in_an_integer_column_and_under_a_cast(binding, table):
    binding.batch((f"INSERT INTO {table} (id) VALUES (?1)", 7))

    assert binding.value(f"SELECT typeof(id) AS kind FROM {table}") == "integer"
    assert binding.value("SELECT typeof(CAST(?1 AS INTEGER)) AS kind", 7) == "integer"
    assert binding.value("SELECT CAST(?1 AS INTEGER) || '' AS joined", 7) == "7"


def test_a_bound_integer_that_is_not_cast_is_a_real_number_to_d1(binding):
    # What statements have to know; the day this fails, they may forget it.
    assert binding.value("SELECT typeof(?1) AS kind", 7) == "real"


@pytest.mark.parametrize("kind", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_number_is_refused(binding, kind: str):
    body = f'{{"protocol": 1, "intent": "read", "statements": [{{"sql": "SELECT ?1 AS n", "params": [{kind}]}}]}}'

    answer = binding.http.post("/v1/batch", content=body)

    assert answer.status_code == 400
    assert "no number that D1 keeps" in answer.json()["text"]


@pytest.mark.parametrize(
    "value",
    [[], [1, 2, 3], ["a"], {}, {"b64": 5}, {"b64": "?"}, {"int": "x"}, {"int": str(2**63)}, {"now": False},
     {"b64": "", "int": "1"}, 2**53 - 1, -(2**53) + 1, 2**70],
)  # fmt: skip
def test_what_cannot_be_bound_is_refused_with_its_place(binding, value: Any):
    answer = binding.batch(("SELECT 1 AS n",), ("SELECT ?1 AS a, ?2 AS b", 0, value))

    assert answer.status_code == 400
    assert (answer.json()["statement"], answer.json()["parameter"]) == (1, 2)
    assert "statement 1, parameter 2" in answer.json()["text"]


def test_a_lone_surrogate_is_refused(binding):
    body = '{"protocol": 1, "intent": "read", "statements": [{"sql": "SELECT ?1 AS n", "params": ["a\\ud800"]}]}'

    answer = binding.http.post("/v1/batch", content=body)

    assert answer.status_code == 400
    assert "lone surrogate" in answer.json()["text"]


def test_a_pair_of_surrogates_is_one_character(binding):
    body = '{"protocol": 1, "intent": "read", "statements": [{"sql": "SELECT ?1 AS n", "params": ["\\ud834\\udd1e"]}]}'

    assert binding.http.post("/v1/batch", content=body).json()["results"][0]["rows"] == [["𝄞"]]


def test_a_value_of_two_million_bytes_is_kept_and_a_longer_one_refused_by_us(binding, table):
    insert = f"INSERT INTO {table} (name, data) VALUES (?1, ?2)"

    assert binding.batch((insert, "é" * 1_000_000, None)).status_code == 200
    assert binding.batch((insert, None, b64(bytes(2_000_000)))).status_code == 200
    for value in ("é" * 1_000_000 + "x", b64(bytes(2_000_001))):
        answer = binding.batch((insert, value, None))
        assert answer.status_code == 400
        assert "2000001 bytes and D1 keeps 2000000" in answer.json()["text"]
    assert binding.rows(f"SELECT length(CAST(name AS BLOB)) AS a, length(data) AS b FROM {table} ORDER BY id") == [
        [2_000_000, None],
        [None, 2_000_000],
    ]
