"""How a PostgreSQL server fails, by the tags of its failures, and that no password is told."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import psycopg
import pytest

from engine.errors import AuthExpired, ConnectorBoundHit, ContextfulError, Permanent, Transient
from engine.pipeline.source import Secrets
from engine.pipeline.sources import open_source
from tests.postgres import PASSWORD


@pytest.mark.clause("run.retry.failure-taxonomy")
@pytest.mark.parametrize("secret", ["wrong-password", ""])
def test_a_refused_password_is_told_without_it(postgres_database, secret):
    asked = replace(postgres_database, secrets=Secrets({"PASSWORD": secret}))

    with pytest.raises(AuthExpired) as refusal:
        asked.pulls(asked.table())

    assert "wrong-password" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_a_role_without_the_right_to_read_is_a_refused_credential(postgres_database):
    postgres_database("CREATE TABLE orders (id integer)")
    postgres_database("DROP ROLE IF EXISTS reader")
    postgres_database("CREATE ROLE reader LOGIN PASSWORD 'r'")
    reader = replace(postgres_database, dsn=postgres_database.dsn.replace("owner:${PASSWORD}", "reader:r"))

    with pytest.raises(AuthExpired, match="permission denied"):
        reader.pulls(reader.table())


def test_a_database_that_is_not_there_stands(postgres_database):
    lost = replace(postgres_database, dsn=postgres_database.dsn + "_lost")

    with pytest.raises(Permanent, match="does not exist"):
        lost.pulls(lost.table())


@pytest.mark.clause("run.retry.failure-taxonomy")
def test_a_server_that_does_not_answer_is_transient(postgres_database):
    lost = replace(postgres_database, dsn="postgresql://owner:${PASSWORD}@127.0.0.1:9/x")

    with pytest.raises(Transient, match=r"(?i)refused") as refusal:
        lost.pulls(lost.table())

    assert PASSWORD not in str(refusal.value)


@pytest.mark.clause("run.retry.failure-taxonomy")
def test_a_connection_that_breaks_in_the_middle_is_transient(postgres_database, postgres):
    postgres_database("CREATE TABLE orders AS SELECT id FROM generate_series(1, 50000) AS id")
    table = postgres_database.table(primary_key=("id",), source={"batch": 10})
    walk = open_source(table).pulls(postgres_database.ask())
    next(walk)
    with psycopg.connect(postgres.uri("postgres"), autocommit=True) as operator:
        operator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'contextful'")

    with pytest.raises(Transient):
        list(walk)


@pytest.mark.clause("run.retry.bound-hit-is-transient")
def test_a_statement_that_takes_too_long_strikes_the_deadline(postgres_database):
    query = "SELECT 1 AS id FROM (SELECT pg_sleep(30)) AS s"

    with pytest.raises(ConnectorBoundHit) as refusal:
        postgres_database.pulls(postgres_database.table(source={"query": query, "timeout_ms": 200}))

    assert refusal.value.bound == "call-deadline"


def test_a_password_is_found_in_no_error_wherever_the_dsn_is_wrong(postgres_database):
    for dsn in (
        "postgresql://u:hunter2@[::1/x",
        "postgresql://u:hunter2@127.0.0.1:port/x",
        "postgresql://%zz:hunter2@h",
    ):
        broken = replace(postgres_database, dsn=dsn)

        with pytest.raises(ContextfulError) as refusal:
            broken.pulls(broken.table())

        assert "hunter2" not in str(refusal.value)


def test_without_psycopg_the_extra_is_named():
    program = """
import sys
sys.modules["psycopg"] = None
from pathlib import Path
from engine.errors import Config
from engine.pipeline.declaration import SqlSource
from engine.pipeline.sources.dsn import opened
try:
    opened(SqlSource("postgresql://h/d", Path("."), relation="a"), {}, place="here")
except Config as refusal:
    assert "contextful[postgres]" in str(refusal), refusal
else:
    raise AssertionError("it was opened")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_password_that_the_server_repeats_is_masked(postgres_database):
    with pytest.raises(Permanent, match="does not exist") as refusal:
        postgres_database.pulls(postgres_database.table(source={"query": f'SELECT "{PASSWORD}"'}))

    assert PASSWORD not in str(refusal.value)
