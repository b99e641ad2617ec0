"""The object that holds an engine's container, in the real runtime with a container that only remembers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from engine import sql
from tests.local_edge import Edge, local_edge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERCEPT = ["intercept", "store.internal"]


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """An edge whose containers are fakes."""
    entry = Path(__file__).with_name("probe_entry.py")
    with local_edge(tmp_path_factory.mktemp("probe") / "state", entry=entry) as edge:
        yield edge


@pytest.fixture
def engine(probed: Edge, request: pytest.FixtureRequest) -> Callable[[str], dict[str, Any]]:
    """Do one thing with an object of the test's own."""

    def do(verb: str, *, name: str = request.node.name) -> dict[str, Any]:
        answer = httpx.get(f"{probed.public}/{name}/{verb}", trust_env=False, timeout=30)
        assert answer.status_code == 200, answer.text
        seen: dict[str, Any] = answer.json()
        return seen

    return do


def test_an_engine_is_intercepted_before_it_starts_with_its_environment(engine):
    seen = engine("wake")

    environment = {
        "CONTEXTFUL_STORAGE_PROFILE": "cloudflare-d1",
        "CONTEXTFUL_BINDING_URL": "http://store.internal",
        "CONTEXTFUL_SITE_ID": "test_an_engine_is_intercepted_before_it_starts_with_its_environment",
    }
    assert seen["calls"] == [INTERCEPT, ["start", ["contextful", "run", "resume-due"], environment, True]]
    assert 0 < seen["alarm"] - time.time() * 1000 <= 60_000


def test_waking_an_engine_that_runs_changes_nothing(engine):
    first = engine("wake")

    assert engine("wake")["calls"] == first["calls"]


def test_an_object_that_comes_back_to_a_running_container_intercepts_again(engine):
    engine("wake")
    engine("come-back")

    assert engine("beat")["calls"][2:] == [INTERCEPT]
    assert engine("beat")["calls"][2:] == [INTERCEPT]


def test_an_engine_is_who_its_binding_says_and_asking_makes_it_heard(engine):
    before = engine("wake")["heard"]
    time.sleep(0.01)

    asked = engine("ask")["asked"]

    assert asked["caller"] == "test_an_engine_is_who_its_binding_says_and_asking_makes_it_heard"
    until = time.monotonic() + 5
    while engine("look")["heard"] <= before:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_an_engine_that_is_silent_too_long_is_ended(engine):
    engine("wake")

    assert engine("beat")["calls"][2:] == []
    assert engine("beat-in-silence")["calls"][2:] == [["destroy"]]


def test_an_engine_is_asked_to_end_and_given_time(engine):
    engine("wake")

    assert engine("stop")["calls"][2:] == [["signal", 15]]
    assert engine("beat")["calls"][2:] == [["signal", 15]]


def test_cron_wakes_the_engine_when_an_owner_is_due_and_only_then(engine, probed):
    assert engine("cron", name="engine")["calls"] == []  # nobody has initialized the database
    _prepare(probed)
    _own(probed, "table:b", wake_at=4_102_444_800_000)
    assert engine("cron", name="engine")["calls"] == []

    _own(probed, "table:a", wake_at=9)

    calls = engine("cron", name="engine")["calls"]
    assert [call[0] for call in calls] == ["intercept", "start"]
    assert calls[1][1] == ["contextful", "serve", "--", "run", "resume-due"]


def _prepare(edge: Edge) -> None:
    for call in sql.schema(*sql.TABLES):
        _send(edge, call.statement.text)


def _own(edge: Edge, scope: str, *, wake_at: int) -> None:
    columns = "scope, execution_id, pins, plan_ref, wake_at, opened_at"
    _send(edge, f"INSERT INTO owners ({columns}) VALUES ('{scope}', 'e', '{{}}', 'p', {wake_at}, 1)")


def _send(edge: Edge, text: str) -> None:
    body = {"protocol": 1, "intent": "write", "statements": [{"sql": text, "params": []}]}
    answer = httpx.post(f"{edge.private}/v1/batch", json=body, trust_env=False, timeout=30)
    assert answer.status_code == 200, answer.text
