"""Walks that stand in a file by a link's name, which a plainer name of the same file has taken the place of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import Config, SourceChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.shapes import Pull
    from tests.unit.sources.conftest import Folder


@pytest.fixture(autouse=True)
def _two_rows_a_pull(batches_of: Callable[[int], None]) -> None:
    batches_of(2)


def put(folder: Folder, name: str, *ids: str) -> None:
    folder.write(name, "\n".join(["id", *ids, ""]).encode())


def link(folder: Folder, name: str, to: str) -> None:
    (folder.path / name).unlink(missing_ok=True)
    (folder.path / name).symlink_to(to)


def walked(folder: Folder, position: Any = None) -> list[Pull]:
    return list(folder.pulls("*.csv", position=position))


def ids(pulls: list[Pull]) -> list[str]:
    return [row["id"] for pull in pulls for row in pull.rows]


@pytest.fixture
def begun(folder: Folder) -> Any:
    """Where a walk stands that has read two rows of a file by the only name that matched; now its own matches too."""
    put(folder, "b.csv", "b")
    put(folder, "kept/z.csv", "0", "1", "2", "3")
    link(folder, "a-link.csv", "kept/z.csv")
    position = next(folder.pulls("*.csv")).position
    (folder.path / "kept" / "z.csv").rename(folder.path / "z.csv")
    link(folder, "a-link.csv", "z.csv")
    assert (position["file"], position["row"]) == ("a-link.csv", 2)
    return position


@pytest.mark.clause("run.advance.cursor-bytes")
def test_a_position_by_a_links_name_goes_on_in_the_file_it_leads_to(folder: Folder) -> None:
    put(folder, "data-1.csv", "0")
    put(folder, "data-2.csv", "1", "2", "3")
    link(folder, "latest.csv", "data-2.csv")

    assert ids(walked(folder, {"file": "latest.csv", "row": 1})) == ["2", "3"]


@pytest.mark.clause("run.advance.cursor-bytes")
def test_every_file_is_read_once_whatever_place_the_plainer_name_would_have(folder: Folder, begun: Any) -> None:
    rest = walked(folder, begun)

    assert ids(rest) == ["2", "3", "b"]
    for read, pull in enumerate(rest[:-1], start=1):
        assert ids(walked(folder, pull.position)) == ids(rest[read:])


def test_the_next_walk_reads_the_file_by_its_plainest_name(folder: Folder, begun: Any) -> None:
    assert walked(folder, begun)[-1].position is None
    assert {pull.position and pull.position["file"] for pull in walked(folder)} == {"z.csv", None}


@pytest.mark.clause("run.journal.opt-out")
def test_what_was_read_by_the_links_name_must_still_stand_in_the_file(folder: Folder, begun: Any) -> None:
    put(folder, "z.csv", "new", "0", "1", "2")

    with pytest.raises(SourceChanged, match=r"a-link\.csv has changed"):
        walked(folder, begun)


@pytest.mark.parametrize("to", ["nowhere.csv", "other"])
def test_a_link_that_leads_to_no_file_of_the_walk_is_refused(folder: Folder, to: str) -> None:
    put(folder, "a.csv", "0")
    put(folder, "other", "1")
    link(folder, "gone", to)

    with pytest.raises(Config, match="the walk stands in gone, which"):
        walked(folder, {"file": "gone", "row": 1})


def test_a_position_without_a_file_is_none(folder: Folder) -> None:
    put(folder, "a.csv", "0")

    with pytest.raises(Config, match="is no position in files"):
        walked(folder, {"file": None, "row": 1})
