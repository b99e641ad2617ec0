"""What a read asks of the store: one listing of a table, and of its markers those that it needs, each once."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.drop import drop
from engine.corpus.fetch import contents
from engine.corpus.read import ReadFace
from engine.errors import ReadRefused, StorageUnusable
from engine.local.folder import FolderObjects
from engine.shapes import WriteMode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.corpus.conftest import Corpus

COMMITS = 40


class Asked(FolderObjects):
    """A folder that counts what it is asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.listings: list[str] = []
        self.gets: Counter[str] = Counter()

    def get(self, name: str) -> bytes | None:
        self.gets[name] += 1
        return super().get(name)

    def list(self, prefix: str) -> Iterator[str]:
        self.listings.append(prefix)
        return super().list(prefix)


@pytest.fixture
def asked(corpus: Corpus) -> Asked:
    return Asked(corpus.root / "corpus")


def land(corpus: Corpus, count: int, **how: Any) -> None:
    """`count` commits, one a second."""
    first = corpus.newest.seq if corpus.newest else 0
    for number in range(first + 1, first + count + 1):
        corpus.land(f"r-{number}", [{"id": number, "v": "a"}], at=number * 1000, **how)


def read(asked: Asked, **how: Any) -> list[int]:
    return [number for (number,) in ReadFace(asked).read("SELECT id FROM t ORDER BY id", **how).rows]


def numbers(asked: Asked) -> set[int]:
    """The markers that were asked for, none of them twice."""
    assert set(asked.gets.values()) == {1}
    return {int(name.removesuffix(".json")[-12:]) for name in asked.gets}


def test_a_read_lists_a_table_once_and_asks_for_each_marker_once(corpus: Any, asked: Any) -> None:
    land(corpus, COMMITS)

    assert read(asked) == [*range(1, COMMITS + 1)]

    assert asked.listings == ["t/commits/"]
    assert numbers(asked) == {*range(1, COMMITS + 1)}


def test_of_a_table_that_is_replaced_only_what_stands_is_asked_for(corpus: Any, asked: Any) -> None:
    land(corpus, COMMITS, mode=WriteMode.REPLACE)

    assert read(asked) == [COMMITS]
    assert numbers(asked) == {COMMITS}


def test_rows_appended_to_a_replaced_table_are_looked_for_no_further_than_what_it_replaced(corpus: Any, asked: Any):
    land(corpus, COMMITS, mode=WriteMode.REPLACE)
    land(corpus, 3)

    assert read(asked) == [*range(COMMITS, COMMITS + 4)]
    assert min(numbers(asked)) > COMMITS - 8


@pytest.mark.parametrize("second", [1, 2, 13, COMMITS, COMMITS + 1])
def test_a_past_instant_is_found_by_looking_at_few_of_the_later_markers(corpus: Any, asked: Any, second: int) -> None:
    land(corpus, COMMITS)

    assert read(asked, as_of=second * 1000 + 999) == [*range(1, min(second, COMMITS) + 1)]

    assert asked.listings == ["t/commits/"]
    assert len({seq for seq in numbers(asked) if seq > second}) <= 6


def test_before_its_first_commit_a_table_has_its_columns_and_no_rows(corpus: Any, asked: Any) -> None:
    land(corpus, COMMITS)

    answer = ReadFace(asked).read("SELECT id, v FROM t", as_of=0)

    assert (answer.columns, answer.rows, answer.snapshots) == (("id", "v"), [], {})
    assert len(numbers(asked)) <= 6


def test_tables_are_described_from_one_listing(corpus: Any, asked: Any) -> None:
    for table in ("t", "u", "v"):
        corpus.table = table
        land(corpus, 3)

    assert [(info.name, info.rows) for info in ReadFace(asked).describe()] == [("t", 3), ("u", 3), ("v", 3)]
    assert asked.listings == [""]
    assert set(asked.gets.values()) == {1}


def test_a_table_dropped_and_begun_anew_while_it_is_read_is_read_as_it_is_now(corpus: Any, asked: Any) -> None:
    land(corpus, 3)
    dropped: list[str] = []

    class Dropped(Asked):
        turn_to_drop = threading.Lock()  # several are asked for at once

        def get(self, name: str) -> bytes | None:
            with self.turn_to_drop:
                self.drop()
            return super().get(name)

        def drop(self) -> None:
            if not dropped:
                dropped.extend(sorted(corpus.names(), reverse=True))
                corpus.objects.delete(dropped)
                corpus.land("r-9", [{"id": 9, "v": "z"}])

    assert read(Dropped(corpus.root / "corpus")) == [9]


def test_a_marker_that_a_listing_missed_while_later_ones_were_made_is_read_all_the_same(corpus: Any) -> None:
    land(corpus, 5)

    class Passing(Asked):
        def list(self, prefix: str) -> Iterator[str]:
            return (name for name in super().list(prefix) if not name.endswith(("2.json", "3.json")))

    assert read(Passing(corpus.root / "corpus")) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("anew", [True, False])
def test_a_table_whose_parts_are_dropped_under_a_read_is_read_as_it_is_now(corpus: Any, *, anew: bool) -> None:
    land(corpus, 3)
    dropped: list[int] = []

    class Dropped(Asked):
        turn_to_drop = threading.Lock()  # several are asked for at once

        def local(self, name: str, *, sha256: str | None = None) -> Path:
            with self.turn_to_drop:
                if sha256 and not dropped:  # a part's alone is told
                    dropped.append(drop(corpus.objects, "t"))
                    if anew:
                        corpus.land("r-9", [{"id": 9, "v": "z"}])
            return super().local(name, sha256=sha256)

    objects = Dropped(corpus.root / "corpus")
    if anew:
        assert read(objects) == [9]
    else:
        with pytest.raises(ReadRefused, match="there is no table 't'"):
            read(objects)


def test_a_marker_that_is_listed_and_never_there_is_a_failure_of_the_store(corpus: Any) -> None:
    land(corpus, 3)

    class Losing(Asked):
        def get(self, name: str) -> bytes | None:
            return None if name.endswith("2.json") else super().get(name)

    with pytest.raises(StorageUnusable, match="t/commits/"):
        read(Losing(corpus.root / "corpus"))


def test_an_interrupt_of_a_read_waits_for_no_more_than_what_is_under_way() -> None:
    asked: list[str] = []

    class Slow(FolderObjects):
        def get(self, name: str) -> bytes | None:
            asked.append(name)
            if len(asked) == 20:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(0.005)
            return b""

    names = [f"t/{number}" for number in range(2_000)]
    with pytest.raises(KeyboardInterrupt):
        contents(Slow(Path("nowhere")), names)

    assert len(asked) < len(names)
