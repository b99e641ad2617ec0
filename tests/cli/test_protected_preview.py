"""A preview of protected columns shows what would be recorded of them."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import ORDERS

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

PEPPER = "a long secret text"
CLASSES = """
columns = { email = { class = "hash" }, phone = { class = "drop" }, name = { class = "null" }, fax.class = "drop" }
"""
ROW = {"id": 1, "at": "2026-01-01T00:00:00Z", "email": "ada@example.com", "phone": "+49 30", "name": "Ada"}


@pytest.fixture
def protected(shell: Shell) -> Shell:
    shell.orders(ROW, {**ROW, "id": 2, "email": None})
    shell.write("contextful.toml", ORDERS + CLASSES)
    shell.monkeypatch.setenv("CONTEXTFUL_PEPPER", PEPPER)
    return shell


def test_a_preview_shows_digests_and_no_raw_value(protected: Shell) -> None:
    digest = hmac.digest(PEPPER.encode(), b"ada@example.com", "sha256").hex()[:32]

    shown = protected("pipeline", "preview", "orders")
    (page,) = protected.json("pipeline", "preview", "orders")["tables"]

    assert [row[1:] for row in page["rows"]] == [["2026-01-01T00:00:00Z", digest, None], [ROW["at"], None, None]]
    assert {column["name"]: column["type"] for column in page["columns"]}["email"] == "string"
    assert digest in shown.out
    for raw in ("ada@", "+49", "Ada"):
        assert raw not in f"{shown.out}{shown.err}{page}"


def test_a_preview_says_what_each_class_does_and_which_column_is_not_there(protected: Shell) -> None:
    shown = protected("pipeline", "preview", "orders")
    (page,) = protected.json("pipeline", "preview", "orders")["tables"]

    assert page["protected"] == {"email": "hash", "fax": "drop", "name": "null", "phone": "drop"}
    assert page["not_found"] == ["fax"]
    assert "fax has the class drop, and no such column is on this page" in shown.out
    assert "phone has the class drop: it is left out" in shown.out


def test_a_preview_of_a_broken_page_quotes_nothing_of_it(protected: Shell) -> None:
    protected.write("orders.jsonl", '{"email": "ada@example.com", "id": 1,\n')

    ended = protected("pipeline", "preview", "orders")

    assert ended.code == 1
    assert "orders.jsonl line 1" in ended.err
    assert "ada@" not in ended.err
    assert "content withheld: the table has protected columns" in ended.err


def test_a_manifest_that_needs_a_pepper_and_finds_none_exits_2(protected: Shell) -> None:
    protected.monkeypatch.delenv("CONTEXTFUL_PEPPER")

    ended = protected("pipeline", "run", "orders")

    assert ended.code == 2
    assert "CONTEXTFUL_PEPPER is not set" in ended.err
