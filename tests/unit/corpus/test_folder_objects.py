"""A local folder of objects: whole or absent, on disk when a call returns, refusing in words."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from engine.errors import StorageUnusable
from engine.local import folder
from engine.local.folder import LOCK, FolderObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def objects(tmp_path: Path) -> FolderObjects:
    return FolderObjects(tmp_path / "corpus")


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    counted = {"files": 0, "folders": 0}
    counting = threading.Lock()

    def count(kind: str) -> None:
        with counting:
            counted[kind] += 1

    monkeypatch.setattr(os, "fdatasync", lambda _: count("files"))
    monkeypatch.setattr(os, "fsync", lambda _: count("folders"))
    return counted


def test_what_was_put_is_got_and_listed_in_order(objects: FolderObjects) -> None:
    objects.put("t/b", b"2")
    objects.put("t/a", b"1")
    objects.put("t/a", b"3")
    objects.put("u/a", b"4")

    assert objects.get("t/a") == b"3"
    assert objects.get("t/c") is None
    assert objects.get("t/a/below") is None
    assert list(objects.list("t/")) == ["t/a", "t/b"]
    assert list(objects.list("")) == ["t/a", "t/b", "u/a"]
    assert list(objects.list("nothing/")) == []
    assert objects.local("t/a").read_bytes() == b"3"


def test_a_prefix_need_not_end_at_a_folder(objects: FolderObjects) -> None:
    objects.put("t/commits/1", b"")
    objects.put("two/commits/1", b"")

    assert list(objects.list("t")) == ["t/commits/1", "two/commits/1"]
    assert list(objects.list("t/c")) == ["t/commits/1"]


def test_of_many_creators_one_wins_and_its_content_stands(objects: FolderObjects) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: objects.create("t/commits/1", str(n).encode()), range(8)))

    assert sum(won) == 1
    assert objects.get("t/commits/1") == str(won.index(True)).encode()


def test_creating_syncs_the_file_and_then_its_folder(objects: FolderObjects, syncs: dict[str, int]) -> None:
    objects.create("t/1", b"")
    syncs.update(files=0, folders=0)

    objects.create("t/2", b"")

    assert syncs == {"files": 1, "folders": 1}


def test_a_new_folder_is_synced_into_the_one_above_it(objects: FolderObjects, syncs: dict[str, int]) -> None:
    objects.put("first", b"")
    syncs.update(files=0, folders=0)

    objects.put("t/parts/r-1/0", b"")

    assert syncs == {"files": 1, "folders": 4}


def test_many_parts_sync_their_folder_once(objects: FolderObjects, syncs: dict[str, int]) -> None:
    objects.put("t/first", b"")
    syncs.update(files=0, folders=0)

    objects.put_all((f"t/{n}", partial(bytes, n)) for n in range(50))

    assert syncs == {"files": 50, "folders": 1}
    assert objects.get("t/49") == bytes(49)


def test_putting_many_takes_only_a_few_ahead_of_the_disk(
    objects: FolderObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    taken: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda _: released.wait(10))

    def contents() -> Iterator[tuple[str, Callable[[], bytes]]]:
        for n in range(40):
            taken.append(n)
            yield f"t/{n}", bytes

    writer = threading.Thread(target=objects.put_all, args=(contents(),))
    writer.start()
    writer.join(0.2)
    ahead = len(taken)
    released.set()
    writer.join()

    assert ahead <= 2 * folder.WRITERS + 1
    assert len(taken) == 40


def test_a_crash_before_the_name_leaves_nothing_that_shows(objects: FolderObjects, tmp_path: Path) -> None:
    objects.put("t/1", b"")
    (tmp_path / "corpus" / folder.INCOMING / "half").write_bytes(b"ha")
    with objects.turn("t"):
        names = list(objects.list(""))

    assert names == ["t/1"]


def test_a_failed_write_leaves_no_file_behind(
    objects: FolderObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.put("t/1", b"")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(StorageUnusable) as refusal:
        objects.put_all([("t/2", bytes), ("t/3", bytes)])

    assert "t/2" in refusal.value.place
    assert "No space left on device" in str(refusal.value)
    assert list((tmp_path / "corpus" / folder.INCOMING).iterdir()) == []
    assert list(objects.list("")) == ["t/1"]


def test_a_root_that_is_a_file_is_refused_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "corpus").write_text("not a folder")

    with pytest.raises(StorageUnusable) as refusal:
        FolderObjects(tmp_path / "corpus").put("t/1", b"")

    assert str(tmp_path / "corpus") in refusal.value.place


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../x", "t/../x", "t//x", "t/", "t/.", ".incoming/x", "t\\x", "t\0"]
)
def test_a_name_that_would_leave_the_folder_is_refused(objects: FolderObjects, name: str) -> None:
    with pytest.raises(ValueError, match="is no object's name"):
        objects.put(name, b"")


def test_deleting_takes_empty_folders_along_and_may_be_repeated(objects: FolderObjects, tmp_path: Path) -> None:
    objects.put("t/parts/r/1", b"")
    objects.put("u/1", b"")

    objects.delete(["t/parts/r/1", "t/parts/r/2"])
    objects.delete(["t/parts/r/1"])

    assert not (tmp_path / "corpus" / "t").exists()
    assert list(objects.list("")) == ["u/1"]


def test_folders_come_back_while_another_removes_them(objects: FolderObjects) -> None:
    def churn(n: int) -> None:
        for _ in range(30):
            objects.put(f"t/parts/{n}/1", b"")
            objects.delete([f"t/parts/{n}/1"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(churn, range(4)))

    assert list(objects.list("")) == []


def test_a_turn_held_by_a_stopped_process_is_not_waited_for_long(
    objects: FolderObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "PATIENCE_S", 0.05)

    with objects.turn("t"), FolderObjects(objects.local("t").parent).turn("t"):
        went_on = True

    assert went_on


def test_a_turn_is_taken_in_a_folder_that_another_has_just_removed(
    objects: FolderObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drop takes the lock's file away, and the folder with it, between the two moments of taking a turn."""
    opens, tried = os.open, []

    def dropped(path: Path, *how: int) -> int:
        if path.name == LOCK:
            tried.append(path)
            if len(tried) == 1:
                path.parent.rmdir()
        return opens(path, *how)

    monkeypatch.setattr(os, "open", dropped)
    with objects.turn("t"):
        monkeypatch.undo()

    assert tried == [tmp_path / "corpus" / "t" / LOCK] * 2


def test_the_folder_of_a_new_table_is_on_disk_before_anything_is_created_in_it(
    objects: FolderObjects, syncs: dict[str, int]
) -> None:
    objects.put("u/a", b"1")
    before = syncs["folders"]

    with objects.turn("t"):
        assert syncs["folders"] == before + 1
