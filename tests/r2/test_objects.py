"""Objects keep one promise, in a folder and in a bucket: created once, replaced whole, listed in order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import StorageBindingUnavailable, StorageUnusable
from r2.keys import Held
from r2.objects import RETRIES, BucketObjects

if TYPE_CHECKING:
    from pathlib import Path

    from engine.ports import Objects
    from r2.keys import Keys


def test_what_was_put_is_got_and_listed_in_order(objects: Objects) -> None:
    objects.put("t/b", b"2")
    objects.put("t/a", b"1")
    objects.put("t/a", b"3")
    objects.put("u/a", b"")

    assert objects.get("t/a") == b"3"
    assert objects.get("u/a") == b""
    assert objects.get("t/c") is None
    assert list(objects.list("t/")) == ["t/a", "t/b"]
    assert list(objects.list("")) == ["t/a", "t/b", "u/a"]
    assert list(objects.list("nothing/")) == []


def test_an_object_is_created_once_and_its_content_stands(objects: Objects) -> None:
    first, again, other = (objects.create("t/commits/1", content) for content in (b"a", b"a", b"b"))

    assert (first, again, other) == (True, False, False)
    assert objects.get("t/commits/1") == b"a"


def test_of_many_creators_one_wins(objects: Objects) -> None:
    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(lambda n: objects.create("t/commits/1", str(n).encode()), range(4)))

    assert sum(won) == 1
    assert objects.get("t/commits/1") == str(won.index(True)).encode()


def test_many_are_put_together_and_deleted_whether_or_not_they_exist(objects: Objects) -> None:
    objects.put_all((f"t/parts/r-1/{n:06}.parquet", (b"%d" % n).__bytes__) for n in range(20))

    objects.delete([f"t/parts/r-1/{n:06}.parquet" for n in range(1, 25)])

    assert list(objects.list("t/")) == ["t/parts/r-1/000000.parquet"]


def test_a_local_copy_is_of_what_stands_now(objects: Objects) -> None:
    objects.put("t/a", b"1")
    assert objects.local("t/a").read_bytes() == b"1"

    objects.put("t/a", b"2")

    assert objects.local("t/a").read_bytes() == b"2"
    assert objects.local("t/a").read_bytes() == b"2"
    assert not objects.local("t/none").exists()


@pytest.mark.parametrize("name", ["", "/a", "a//b", "../a", "a/..", "a\\b"])
def test_what_leaves_the_corpus_is_no_name(objects: Objects, name: str) -> None:
    with pytest.raises(ValueError, match="no object's name"):
        objects.get(name)


def test_names_come_back_as_they_were_written(objects: Objects) -> None:
    named = ["t/parts/r 1%2F?#&+=/ü.parquet", "t/parts/r-1.000002/000000.parquet"]
    objects.put_all((name, name.encode) for name in named)

    assert list(objects.list("t/")) == sorted(named)
    assert [objects.get(name) for name in named] == [name.encode() for name in named]


def test_a_listing_goes_past_its_first_page(keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for protocol in ("binding", "s3"):
        monkeypatch.setattr(f"r2.{protocol}.PAGE", 3)
    objects = BucketObjects(keys, tmp_path)
    objects.put_all((f"t/{n}", bytes) for n in range(8))

    assert list(objects.list("t/")) == [f"t/{n}" for n in range(8)]


class Losing:
    """Keys that lose the answers of creations, before or after these are done."""

    def __init__(self, keys: Keys, *, done: bool) -> None:
        self._keys = keys
        self._done = done

    def create(self, key: str, content: bytes) -> bool:
        if self._done:
            self._keys.create(key, content)
        raise StorageBindingUnavailable(place=key, reason="the answer is lost", applied="unknown")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._keys, name)


def test_a_creation_whose_answer_was_lost_is_ours_if_its_content_stands(keys: Keys, tmp_path: Path) -> None:
    losing = BucketObjects(Losing(keys, done=True), tmp_path)

    assert losing.create("t/commits/1", b"ours")
    assert not losing.create("t/commits/1", b"theirs")
    assert losing.get("t/commits/1") == b"ours"


def test_a_creation_that_may_still_come_about_stays_unknown(keys: Keys, tmp_path: Path) -> None:
    losing = BucketObjects(Losing(keys, done=False), tmp_path)

    with pytest.raises(StorageBindingUnavailable):
        losing.create("t/commits/1", b"ours")


def test_a_replacement_that_arrives_late_replaces_nothing(keys: Keys, tmp_path: Path) -> None:
    objects = BucketObjects(keys, tmp_path)
    objects.put("t/a", b"1")
    known = keys.head("corpus/t/a")
    objects.put("t/a", b"2")

    assert known is not None
    assert not keys.put("corpus/t/a", b"1 again", replacing=known.etag)
    assert not keys.put("corpus/t/a", b"1 again", replacing=None)
    assert objects.get("t/a") == b"2"


def test_a_replacement_that_others_keep_overtaking_gives_up(tmp_path: Path) -> None:
    class Contended:
        def put(self, key: str, content: bytes, *, replacing: str | None) -> bool:
            return False

        def get(self, key: str) -> Held:
            return Held(b"theirs", "e")

    with pytest.raises(StorageUnusable, match=f"{RETRIES} times"):
        BucketObjects(Contended(), tmp_path).put("t/a", b"ours")  # type: ignore[arg-type]  # half a bucket is enough
