"""Starting over: both verbs ask, and refuse while work is unfinished."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from engine.cli import session
from engine.clock import SystemClock
from tests.cli.conftest import ORDERS

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


class Died(BaseException):
    """The end of a process."""


def died(*_: object, **__: object) -> None:
    raise Died


class Terminal(io.StringIO):
    """A keyboard on which an answer has been typed."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def landed(shell: Shell) -> Shell:
    """Two orders, landed."""
    shell.orders()
    assert shell("pipeline", "run", "orders").code == 0
    return shell


@pytest.fixture
def stuck(landed: Shell) -> Shell:
    """The orders, with an execution that recorded a pull and failed."""
    landed.write("contextful.toml", ORDERS.replace("orders.jsonl", "*.jsonl"))
    landed.write("zz.jsonl", "{broken")
    assert landed("pipeline", "run", "orders").code == 1
    return landed


def test_a_reset_reads_everything_again_and_touches_no_row(landed: Shell) -> None:
    document = landed.json("pipeline", "reset", "orders", "--yes")

    assert document["tables"] == [
        {"table": "orders", "from": {"field": "at", "at": "2026-01-02T00:00:00Z"}, "to": None}
    ]
    assert landed.json("read", "SELECT count(*) FROM orders")["rows"] == [[2]]
    assert landed.json("pipeline", "run", "orders")["runs"][0]["rows"] == 2


def test_a_reset_to_a_value_starts_there(landed: Shell) -> None:
    landed.json("pipeline", "reset", "orders", "--yes", "--to", "2026-01-01T12:00:00Z")

    (run,) = landed.json("pipeline", "run", "orders")["runs"]

    assert (run["rows"], run["not_admitted"]) == (1, 1)


def test_a_position_may_be_given_as_json(landed: Shell) -> None:
    document = landed.json(
        "pipeline", "reset", "orders", "--yes", "--to", '{"field": "at", "at": "2026-01-01T00:00:00Z"}'
    )

    assert document["tables"][0]["to"] == {"field": "at", "at": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize("to", ["tomorrow", "17", '{"field": "other", "at": "2026-01-01T00:00:00Z"}', "null"])
def test_a_value_that_is_no_position_is_refused(landed: Shell, to: str) -> None:
    ended = landed("pipeline", "reset", "orders", "--yes", "--to", to, "--json")

    assert ended.code == 2
    assert ended.error["name"] == "PositionSpelling"


@pytest.mark.parametrize("verb", [("pipeline", "reset", "orders"), ("table", "drop", "orders")])
def test_without_a_terminal_both_verbs_want_yes(landed: Shell, verb: tuple[str, ...]) -> None:
    ended = landed.script(*verb)

    assert ended.code == 2
    assert ended.err.startswith("ConfirmationNeeded: orders ")
    assert ended.err.rstrip().endswith("add --yes to do it")
    assert landed.json("read", "SELECT count(*) FROM orders")["rows"] == [[2]]


@pytest.mark.parametrize(("answer", "code", "tables"), [("y\n", 0, 0), ("n\n", 1, 1), ("", 1, 1)])
def test_on_a_terminal_the_answer_decides(landed: Shell, answer: str, code: int, tables: int) -> None:
    landed.monkeypatch.setattr("sys.stdin", Terminal(answer))

    ended = landed("table", "drop", "orders")

    assert ended.code == code
    assert "it loses that and its 2 rows" in ended.err
    assert len(landed.json("read")["tables"]) == tables


@pytest.mark.parametrize("verb", [("pipeline", "reset", "orders"), ("table", "drop", "orders")])
def test_both_verbs_refuse_while_an_execution_is_unfinished(stuck: Shell, verb: tuple[str, ...]) -> None:
    (pending,) = stuck.json("status")["pending"]

    ended = stuck(*verb, "--yes", "--json")

    assert ended.code == 1
    assert ended.error["name"] == "ExecutionPending"
    assert ended.error["execution_id"] == pending["execution_id"]
    assert f"contextful run rewind {pending['execution_id']} --reason TEXT --force" in ended.err
    assert stuck.json("read", "SELECT count(*) FROM orders")["rows"] == [[2]]


def test_an_execution_that_died_after_its_commit_is_finished(shell: Shell) -> None:
    shell.orders()
    with shell.monkeypatch.context() as patched:
        patched.setattr("engine.owners.Owners.retire", died)
        with pytest.raises(Died):
            shell("pipeline", "run", "orders")
    session.clock.set(SystemClock(31_000))
    assert len(shell.json("status")["pending"]) == 1

    assert shell("pipeline", "reset", "orders", "--yes").code == 0

    assert shell.json("status")["pending"] == []
    assert shell.json("pipeline", "run", "orders")["runs"][0]["rows"] == 2


def test_a_dropped_table_starts_from_nothing(landed: Shell) -> None:
    assert landed.json("table", "drop", "orders", "--yes") == {"table": "orders", "rows": 2, "commits": 1}

    assert landed.json("read")["tables"] == []
    (run,) = landed.json("pipeline", "run", "orders")["runs"]
    assert (run["rows"], run["not_admitted"]) == (2, 0)


def test_a_table_only_the_corpus_knows_can_be_dropped(landed: Shell) -> None:
    landed.write("contextful.toml", ORDERS.replace('name = "orders"', 'name = "renamed"'))

    assert landed("table", "drop", "orders", "--yes").code == 0


def test_an_unknown_table_is_answered_with_those_there_are(landed: Shell) -> None:
    ended = landed("table", "drop", "oders", "--yes")

    assert ended.code == 2
    assert "TableUnknown: project shop has no table 'oders'; did you mean orders?" in ended.err


def test_one_position_does_not_fit_several_tables(landed: Shell) -> None:
    landed.write("contextful.toml", ORDERS + '\n[[pipeline.table]]\nname = "more"\n')

    ended = landed("pipeline", "reset", "orders", "--to", "2026-01-01T00:00:00Z", "--yes")

    assert ended.code == 2
    assert "--table" in ended.err


def test_a_table_without_a_position_has_nothing_to_reset(shell: Shell) -> None:
    shell.orders()

    ended = shell("pipeline", "reset", "orders")

    assert (ended.code, ended.out) == (0, "orders stays at no position\n")
