"""An interrupt at any word of a transaction: nothing of it stays, and nothing of what follows is lost in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from engine.local.sqlite import SqliteDatabase
from engine.ports import Call, Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WORDS: Final = ("BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)", "COMMIT", "ROLLBACK")


def put(number: int, *, alone: bool = True) -> list[Call]:
    """A batch that writes `number`, of one statement or of two."""
    statement = Statement("put", f"INSERT INTO t VALUES ({number})", (), reads=False, durable=True)
    return [Call(statement, {})] * (1 if alone else 2)


class Interrupted:
    """A connection whose user presses Ctrl-C as each of `words` is executed: before it is, or as it returns."""

    def __init__(self, connection: Any, *words: str, before: bool) -> None:
        self._connection = connection
        self._words = list(words)
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, text: str, *arguments: Any) -> Any:
        if text not in self._words:
            return self._connection.execute(text, *arguments)
        self._words.remove(text)
        if not self._before:
            self._connection.execute(text, *arguments)
        raise KeyboardInterrupt


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase(tmp_path / "state.sqlite")
    database.run(Call(Statement("create", "CREATE TABLE t (n INTEGER)", (), reads=False, durable=True), {}))
    yield database
    database.close()


@pytest.fixture
def seen(database: SqliteDatabase) -> Callable[[], list[int]]:
    """What another process reads."""

    def seen() -> list[int]:
        other = SqliteDatabase(database.path)
        rows = other.run(Call(Statement("all", "SELECT n FROM t ORDER BY n", (), reads=True, durable=False), {}))[0]
        other.close()
        return [number for (number,) in rows]

    return seen


@pytest.mark.clause("run.journal.sqlite-write-lock", "run.journal.step-output")
@pytest.mark.parametrize("before", [True, False], ids=["before it", "as it returns"])
@pytest.mark.parametrize("twice", [False, True], ids=["once", "and while that is answered"])
@pytest.mark.parametrize("word", WORDS[:3])
def test_what_is_written_after_an_interrupted_batch_is_there_for_all(
    database: SqliteDatabase, seen: Callable[[], list[int]], word: str, *, before: bool, twice: bool
) -> None:
    real: Any = database._connection
    words = (word, "ROLLBACK") if twice else (word,)
    database._opened = Interrupted(real, *words, before=before)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        database.run(*put(1, alone=False))
    database._opened = real

    database.run(*put(2))
    database.run(*put(3, alone=False))

    committed = [1, 1] if word == "COMMIT" and not before else []
    assert seen() == [*committed, 2, 3, 3]


@pytest.mark.clause("run.journal.sqlite-write-lock")
@pytest.mark.parametrize("before", [True, False], ids=["before it", "as it returns"])
def test_a_statement_by_itself_is_there_whole_or_not_at_all(
    database: SqliteDatabase, seen: Callable[[], list[int]], *, before: bool
) -> None:
    real: Any = database._connection
    database._opened = Interrupted(real, WORDS[1], before=before)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        database.run(*put(1))
    database._opened = real

    database.run(*put(2))

    assert seen() == ([2] if before else [1, 2])
