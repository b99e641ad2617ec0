"""When an engine is said to be gone: real processes, ended in every way."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ON_EDGE
from tests.serve.strays import alive

if TYPE_CHECKING:
    import subprocess

    from tests.serve.conftest import Ground

HOLDER_GONE = "run.callback-guard.holder-gone"
CONTAINER_STOP = "run.callback-guard.container-stop"


@pytest.mark.clause(HOLDER_GONE, "run.callback-guard.holder-identity")
@pytest.mark.parametrize("blank", ["sqlite", ON_EDGE], indirect=True)
def test_an_engine_that_is_killed_is_recorded_gone(ground: Ground) -> None:
    serve = ground.serve("waits")
    engine = ground.noted("engine")
    at_work = ground.exits()

    os.kill(engine, signal.SIGKILL)
    ended = ground.ended(serve)

    assert at_work == [False]
    assert ended.code == 128 + signal.SIGKILL
    assert (ended.running, ground.exits()) == ([], [True])
    assert ended.recordings[0]["recording"] == list(ground.holders())


@pytest.mark.clause(HOLDER_GONE)
def test_a_process_of_its_group_that_goes_on_keeps_the_exit_unrecorded_until_it_is_killed(ground: Ground) -> None:
    serve = ground.serve("leaves", "stubborn", grace_s=2)
    ground.noted("stubborn-asked")
    while_it_runs = ground.exits()

    ended = ground.ended(serve)

    assert while_it_runs == [False]
    assert ended.said[0] == "not everything of the engine has ended: it is killed"
    assert (ended.code, ended.running, ground.exits()) == (137, [], [True])


@pytest.mark.clause(HOLDER_GONE)
def test_a_process_that_fled_its_session_is_killed_before_the_exit_is_recorded(ground: Ground) -> None:
    serve = ground.serve("leaves", "fugitive", grace_s=0.5)
    fugitive = ground.noted("fugitive")

    ended = ground.ended(serve)

    assert not alive(fugitive)
    assert (ended.running, ground.exits()) == ([], [True])


@pytest.mark.clause(HOLDER_GONE)
def test_a_child_of_a_process_that_fled_is_killed_too(ground: Ground) -> None:
    ended = ground.ended(ground.serve("leaves_a_pair", grace_s=0.3))

    assert not alive(ground.noted("elder"))
    assert not alive(ground.noted("younger"))
    assert (ended.running, ground.exits()) == ([], [True])


@pytest.mark.clause(HOLDER_GONE, "run.callback-guard.holder-identity")
def test_every_engine_below_a_child_is_recorded_gone_with_it(ground: Ground) -> None:
    serve = ground.serve("has_engines_below")
    engine = ground.noted("engine")
    at_work = ground.exits()

    os.kill(engine, signal.SIGKILL)
    ended = ground.ended(serve)

    assert at_work == [False, False, False]
    assert not alive(ground.noted("third"))
    assert (ended.running, ground.exits()) == ([], [True, True, True])


@pytest.mark.clause(HOLDER_GONE, "run.callback-guard.holder-identity")
def test_an_engine_that_fled_its_session_is_recorded_gone_with_it(ground: Ground) -> None:
    ended = ground.ended(ground.serve("has_a_daemon"))

    assert not alive(ground.noted("daemon"))
    assert (ended.running, ground.exits()) == ([], [True, True])


@pytest.mark.clause(CONTAINER_STOP)
def test_when_serve_is_killed_nobody_records_the_exit_of_its_engine(ground: Ground) -> None:
    serve = ground.serve("waits")
    engine = ground.noted("engine")

    serve.kill()
    serve.wait(10)
    survives = alive(engine)
    os.kill(engine, signal.SIGKILL)
    while alive(engine):
        time.sleep(0.01)

    assert survives
    assert ground.exits() == [False]
    assert ground.ended(serve).recordings == []


@pytest.mark.clause(HOLDER_GONE)
@pytest.mark.parametrize("way", ["without serve", "after serve"])
def test_an_engine_that_stops_records_its_own_exit(ground: Ground, way: str) -> None:
    process = ground.run("drains") if way == "without serve" else ground.serve("drains")
    engine = ground.noted("engine")
    if way == "after serve":
        process.kill()
        process.wait(10)

    os.kill(engine, signal.SIGTERM)
    process.wait(10)
    while alive(engine):
        time.sleep(0.01)

    assert ground.exits() == [True]


@pytest.mark.clause(HOLDER_GONE)
def test_an_exit_that_an_engine_recorded_itself_stays_as_it_is(ground: Ground) -> None:
    ended = ground.ended(ground.serve("ends", "3"))

    ((holder, exited_at),) = ground.holders().items()
    (recording,) = ended.recordings
    assert ended.code == 3
    assert recording["recording"] == [holder]
    assert exited_at is not None
    assert exited_at < recording["at"]


def test_a_stop_is_passed_on_and_waited_for(ground: Ground) -> None:
    serve = ground.serve("drains")
    ground.noted("engine")

    serve.send_signal(signal.SIGTERM)
    ended = ground.ended(serve)

    assert (ended.code, ground.exits()) == (7, [True])
    assert not any("killed" in line for line in ended.said)


@pytest.mark.parametrize("again", [False, True], ids=["after the grace", "at the second stop"])
def test_an_engine_that_does_not_stop_is_killed(ground: Ground, again: bool) -> None:
    serve = ground.serve("ignores", grace_s=60 if again else 0.5)
    ground.noted("engine")

    serve.send_signal(signal.SIGINT)
    if again:
        time.sleep(0.2)
        serve.send_signal(signal.SIGTERM)
    ended = ground.ended(serve)

    assert (ended.code, ended.running, ground.exits()) == (137, [], [True])


@pytest.mark.clause(HOLDER_GONE)
def test_an_exit_is_recorded_when_the_store_is_back(ground: Ground) -> None:
    serve = ground.serve("waits")
    engine = ground.noted("engine")
    with away(ground):
        os.kill(engine, signal.SIGKILL)
        before = heard(serve, "is not recorded yet")

    ended = ground.ended(serve, before=before)

    assert (ended.code, ground.exits()) == (137, [True])
    assert len(ended.recordings) > 1
    assert "again in 0.5 s" in ended.said[0]


@pytest.mark.clause(CONTAINER_STOP)
def test_a_serve_that_is_stopped_twice_gives_the_recording_up(ground: Ground) -> None:
    serve = ground.serve("waits")
    ground.noted("engine")
    with away(ground):
        serve.send_signal(signal.SIGTERM)
        before = heard(serve, "is not recorded yet")
        serve.send_signal(signal.SIGTERM)
        ended = ground.ended(serve, before=before)

    assert ended.said[-1].endswith("was not recorded: its guards wait for an operator")
    assert ground.exits() == [False]


class away:  # noqa: N801 - reads as a word
    """The store cannot be opened for the block."""

    def __init__(self, ground: Ground) -> None:
        self.file = ground.store.root / "state.sqlite"

    def __enter__(self) -> None:
        self.file.rename(self.file.with_suffix(".away"))
        self.file.mkdir()

    def __exit__(self, *_: object) -> None:
        self.file.rmdir()
        self.file.with_suffix(".away").rename(self.file)


def heard(serve: subprocess.Popen[str], words: str) -> str:
    """What a supervisor has told, once it has told `words`."""
    assert serve.stdout is not None
    told = ""
    while words not in told:
        line = serve.stdout.readline()
        assert line, f"it ended: {told}"
        told += line
    return told
