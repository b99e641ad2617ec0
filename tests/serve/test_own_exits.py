"""What a holder says of itself: whom it names itself to, and when it may write that it is gone."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

import pytest

from engine.errors import Canceled, StorageFailure
from engine.execution.announce import HOLDERS, address
from engine.ports import Call, Statement
from engine.serve.pipe import HoldersPipe
from tests.serve.conftest import EXITS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.execution.leases import Leases
    from tests.stores import Store

HOLDER_GONE = "run.callback-guard.holder-gone"
HOLDER_IDENTITY = "run.callback-guard.holder-identity"


@pytest.fixture
def leases(store: Store) -> Leases:
    """The leases of an engine that is registered."""
    leases = store.here.leases
    leases.register()
    return leases


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[HoldersPipe]:
    """The pipe of a serve process above this one."""
    with HoldersPipe() as pipe:
        monkeypatch.setenv(HOLDERS, address(pipe.path, adopting=True))
        yield pipe


def exited(store: Store) -> bool:
    ((rows),) = store.here.profile.database.run(Call(EXITS, {}))
    ((_, exited_at),) = rows
    return exited_at is not None


@pytest.mark.clause(HOLDER_GONE)
def test_a_closed_engine_is_recorded_gone(store: Store) -> None:
    engine = store.engine()
    engine.leases.register()

    engine.close()

    assert exited(store)


@pytest.mark.clause(HOLDER_GONE)
def test_no_exit_is_written_while_another_thread_is_inside_a_callback(
    store: Store, leases: Leases, caplog: pytest.LogCaptureFixture
) -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with leases.at_work():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)

    with caplog.at_level(logging.WARNING, logger="contextful"):
        said = leases.exit()
    leave.set()
    thread.join()

    assert (said, exited(store)) == (False, False)
    assert f"the exit of the holder {leases.holder} is not recorded" in caplog.text


@pytest.mark.clause(HOLDER_GONE)
def test_the_exit_is_written_once_the_last_callback_has_returned_however_it_did(store: Store, leases: Leases) -> None:
    with leases.at_work(), pytest.raises(KeyboardInterrupt), leases.at_work():
        raise KeyboardInterrupt

    assert (leases.exit(), exited(store)) == (True, True)


@pytest.mark.clause(HOLDER_GONE)
@pytest.mark.parametrize("at_work", [False, True])
def test_no_callback_begins_once_the_holder_is_leaving(leases: Leases, at_work: bool) -> None:
    @leases.at_work()
    def work() -> None:
        pytest.fail("it was sent")

    if at_work:
        with leases.at_work():
            leases.exit()
    else:
        leases.exit()

    with pytest.raises(Canceled, match="closed before this callback began"):
        work()


def test_a_holder_that_was_never_registered_leaves_nothing(store: Store) -> None:
    assert store.engine().leases.exit()
    assert store.here.profile.database.run(Call(EXITS, {})) == [[]]


@pytest.mark.clause(HOLDER_IDENTITY)
def test_a_holder_is_named_to_serve_before_its_row_is_written(store: Store, pipe: HoldersPipe) -> None:
    drop = Statement("drop", "DROP TABLE holders", (), reads=False, durable=False)
    store.here.profile.database.run(Call(drop, {}))

    with pytest.raises(StorageFailure):
        store.here.leases.register()

    assert pipe.holders() == (store.here.leases.holder,)


@pytest.mark.clause(HOLDER_IDENTITY)
def test_every_engine_has_a_holder_of_its_own_and_names_it_once(store: Store, pipe: HoldersPipe) -> None:
    engines = [store.engine(), store.engine()]
    for engine in (*engines, *engines):
        engine.leases.register()

    assert len({engine.leases.holder for engine in engines}) == 2
    assert pipe.holders() == tuple(engine.leases.holder for engine in engines)


@pytest.mark.clause(HOLDER_GONE)
@pytest.mark.parametrize("serve", ["of another family", "of an earlier time", "that ends its children alone"])
def test_a_process_that_serve_does_not_end_names_it_no_holder(
    store: Store, pipe: HoldersPipe, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, serve: str
) -> None:
    pid, started, path = address(pipe.path, adopting=True).split(":")
    others = {
        "of another family": f"{os.getpid() + 1}:{started}:{path}",
        "of an earlier time": f"{pid}:{int(started) - 1}:{path}",
        "that ends its children alone": address(pipe.path, adopting=False),
    }
    monkeypatch.setenv(HOLDERS, others[serve])

    with caplog.at_level(logging.WARNING, logger="contextful"):
        store.here.leases.register()

    assert pipe.holders() == ()
    assert "this process is not one that it ends" in caplog.text


def test_where_orphans_are_not_adopted_a_child_of_serve_names_its_holder(
    store: Store, pipe: HoldersPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOLDERS, f"{os.getppid()}:-:{pipe.path}")

    store.here.leases.register()

    assert pipe.holders() == (store.here.leases.holder,)


@pytest.mark.parametrize("place", ["nothing", "a file", "a pipe nobody reads"])
def test_a_holder_that_nobody_hears_of_is_warned_of_and_works(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    told = tmp_path / "told"
    if place == "a file":
        told.write_text("of value")
    elif place == "a pipe nobody reads":
        with HoldersPipe() as pipe:
            pipe.path.rename(told)
    monkeypatch.setenv(HOLDERS, address(told, adopting=True))

    with caplog.at_level(logging.WARNING, logger="contextful"):
        store.open().close()

    assert f"no serve process hears of the holder {store.here.leases.holder}" in caplog.text
    assert not told.is_file() or told.read_text() == "of value"
