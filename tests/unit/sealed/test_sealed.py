"""Sealed storage: nothing readable leaves the machine, and nothing opens under another key or another name."""

from __future__ import annotations

import base64
import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

from engine.copies import Copies
from engine.errors import SealBroken, SealKeyUnusable, StorageProfileUnsupported
from engine.host import Engine, Settings
from engine.journal import SqlJournal
from engine.local.folder import FolderObjects
from engine.local.profiles import sqlite
from engine.paired import paired
from engine.profile import open_profile
from engine.sealed import KEY, NOTICE, Seal, SealedObjects
from engine.shapes import INLINE_LIMIT, Awakeable
from engine.sql import call
from engine.storage import initialize, preflight
from tests.clocks import SettableClock
from tests.stores import PROJECT, Effect, Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLANTED = b"PLANTED-7f3a"
ONE, OTHER = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Store]:
    store = Store("sqlite", tmp_path / "project", SettableClock(), lambda: {KEY: ONE}).initialized()
    yield store
    store.close()


@pytest.fixture
def objects(tmp_path: Path) -> SealedObjects:
    return SealedObjects(FolderObjects(tmp_path / "corpus"), seal=Seal.of({KEY: ONE}), opened=tmp_path / "opened")  # type: ignore[arg-type]  # a key is set


def everything_under(folder: Path, *, but: str = "opened") -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file() and but not in path.parts)


def test_a_content_opens_as_what_it_was_sealed_as() -> None:
    seal = Seal(bytes(32))

    for content in (b"", PLANTED, bytes(100_000)):
        closed = seal.close(content, name="t/a")
        assert seal.open(closed, name="t/a") == content
        assert PLANTED not in closed
        assert closed == seal.close(content, name="t/a")
        assert closed != seal.close(content, name="t/b")


@pytest.mark.parametrize("change", ["flipped", "cut", "renamed", "plain", "empty"])
def test_what_was_changed_does_not_open(change: str) -> None:
    seal = Seal(bytes(32))
    closed = seal.close(PLANTED, name="t/a")
    given = {"flipped": closed[:-1] + bytes([closed[-1] ^ 1]), "cut": closed[:30], "renamed": closed,
             "plain": PLANTED, "empty": b""}[change]  # fmt: skip

    with pytest.raises(SealBroken):
        seal.open(given, name="t/b" if change == "renamed" else "t/a")


@pytest.mark.parametrize("text", ["short", "zz" * 32, base64.b64encode(bytes(31)).decode()])
def test_what_is_no_key_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(SealKeyUnusable) as refusal:
        Seal.of({KEY: text})

    assert text not in str(refusal.value)


def test_a_key_may_be_spelled_in_hexadecimal_or_base64() -> None:
    seals = [Seal.of({KEY: text}) for text in (ONE, "01" * 32, f" {ONE}\n")]

    assert len({seal.id for seal in seals if seal}) == 1
    assert Seal.of({}) is None
    assert Seal.of({KEY: ""}) is None


def test_two_engines_may_begin_a_sealed_corpus_at_once(
    objects: SealedObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SealedObjects(FolderObjects(tmp_path / "corpus"), seal=Seal.of({KEY: ONE}), opened=tmp_path / "other")  # type: ignore[arg-type]  # a key is set
    listing = FolderObjects.list

    def after_the_other(folder: FolderObjects, prefix: str) -> Iterator[str]:
        monkeypatch.undo()
        other.put("t/a", PLANTED)
        return listing(folder, prefix)

    monkeypatch.setattr(FolderObjects, "list", after_the_other)

    assert objects.create("t/b", PLANTED)
    assert [objects.get("t/a"), other.get("t/b")] == [PLANTED, PLANTED]


def test_objects_are_sealed_where_they_lie_and_open_where_they_are_read(objects: SealedObjects, tmp_path: Path) -> None:
    objects.put("t/a", PLANTED)
    assert objects.create("t/b", PLANTED)
    assert not objects.create("t/b", PLANTED)
    objects.put_all([("t/c", lambda: PLANTED)])

    assert [objects.get(name) for name in ("t/a", "t/b", "t/c", "t/d")] == [PLANTED] * 3 + [None]
    assert list(objects.list("")) == ["t/a", "t/b", "t/c"]
    assert objects.local("t/a").read_bytes() == PLANTED
    assert not objects.local("t/d").exists()
    assert PLANTED not in everything_under(tmp_path / "corpus")


def test_threads_that_read_by_path_at_once_share_their_copies(
    objects: SealedObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    objects.put("t/a", PLANTED)
    together = Barrier(4)

    class Slow(Copies):
        def __init__(self, folder: Path) -> None:
            opened.append(folder)
            time.sleep(0.05)
            super().__init__(folder)

    def read(name: str) -> bytes:
        together.wait(30)
        return objects.local(name).read_bytes()

    monkeypatch.setattr("engine.copies.Copies", Slow)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, ["t/a"] * 4)) == [PLANTED] * 4

    assert len(opened) == 1


@pytest.mark.clause("run.journal.storage-unsupported")
def test_nothing_a_run_records_is_readable_in_the_store(sealed: Store) -> None:
    execution = sealed.open()
    small = execution.step("small", Effect(PLANTED.decode()))
    large = execution.step("large", Effect(PLANTED * INLINE_LIMIT))
    awaited = Awakeable("token", execution.execution_id, "wait", sealed.clock.now(), sealed.clock.now() + 1000)
    awakeables = sealed.here.profile.awakeables
    awakeables.mint(awaited)
    awakeables.resolve("token", PLANTED, at=sealed.clock.now())

    assert (small, large) == (PLANTED.decode(), PLANTED * INLINE_LIMIT)
    values = [sealed.here.profile.journal.value(entry) for entry in sealed.entries(execution.execution_id)]
    assert sum(PLANTED in value for value in values) == 3
    assert PLANTED not in everything_under(sealed.root)


@pytest.mark.clause("run.journal.storage-unsupported")
@pytest.mark.parametrize(("environ", "says"), [({}, "without the key"), ({KEY: OTHER}, "sealed under key")])
def test_a_sealed_corpus_opens_under_its_own_key_alone(sealed: Store, environ: dict[str, str], says: str) -> None:
    sealed.profile().objects.put("t/a", PLANTED)
    [standing] = sealed.profile().database.run(call("read_meta"))
    opened = open_profile("sqlite", sealed.root, clock=sealed.clock, environ=environ)
    objects = opened.objects

    for use in (
        lambda: preflight(opened, project=PROJECT),
        lambda: initialize(opened, project=PROJECT),
        lambda: Engine(opened, Settings(PROJECT, "site-1"), clock=sealed.clock),
        lambda: objects.get("t/a"),
        lambda: objects.local("t/a"),
        lambda: objects.list(""),
        lambda: objects.delete(["t/a"]),
        lambda: objects.create("t/b", b""),
        lambda: objects.put("t/a", b""),
        lambda: objects.put_all([("t/a", bytes)]),
        lambda: objects.unfinished(before=0),
        lambda: objects.forget([]),
        lambda: objects.turn("t/").__enter__(),
    ):
        with pytest.raises((StorageProfileUnsupported, SealBroken), match=says):
            use()
    opened.close()
    assert sealed.profile().objects.get("t/a") == PLANTED
    assert sealed.profile().database.run(call("read_meta")) == [standing]


@pytest.mark.clause("run.journal.storage-unsupported")
def test_a_profile_that_records_unsealed_takes_no_sealed_corpus(tmp_path: Path) -> None:
    with pytest.raises(StorageProfileUnsupported, match="'file' records values unsealed") as refusal:
        open_profile("file", tmp_path, clock=SettableClock(), environ={KEY: ONE})

    assert KEY in str(refusal.value)
    assert not (tmp_path / "corpus" / NOTICE).exists()


@pytest.mark.clause("run.journal.storage-unsupported")
def test_a_sealed_corpus_beside_an_unsealed_journal_is_refused(sealed: Store) -> None:
    profile = sqlite(sealed.root, clock=sealed.clock, environ=sealed.environ)
    unsealed = SqlJournal(profile.database, Any)  # type: ignore[arg-type]  # no blob is asked for

    with pytest.raises(StorageProfileUnsupported):
        paired(dataclasses.replace(profile, journal=unsealed))
    profile.close()


def test_a_corpus_written_without_a_key_is_not_taken_for_sealed(tmp_path: Path) -> None:
    plain = open_profile("sqlite", tmp_path, clock=SettableClock(), environ={})
    initialize(plain, project=PROJECT)
    plain.objects.put("t/a", PLANTED)
    plain.close()

    sealing = open_profile("sqlite", tmp_path, clock=SettableClock(), environ={KEY: ONE})
    with pytest.raises(SealBroken, match="without a key"):
        preflight(sealing, project=PROJECT)
    sealing.close()
