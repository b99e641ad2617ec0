"""History leaves the machine with nothing asked of the bucket, whichever it is and whatever has become of it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from engine.cli.main import main
from engine.profile import open_profile
from engine.sealed import KEY
from tests.edge.faults import FaultProxy
from tests.local_edge import free_ports
from tests.stores import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.clocks import SettableClock

ON_EDGE = "cloudflare-d1"
SEALED = {KEY: base64.b64encode(bytes(32)).decode()}
MANIFEST = '[project]\nname = "demo"\nsite_id = "laptop"\n'


@pytest.fixture(params=[{}, SEALED], ids=["plain", "sealed"])
def worked(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock, fresh_edge: Callable[[], dict[str, str]]
) -> Iterator[Store]:
    """A store in which one run has ended."""
    store = Store(ON_EDGE, tmp_path / "store", clock, lambda: {**fresh_edge(), **request.param}).initialized()
    with store.open() as execution:
        execution.step("one", lambda _: 1)
    store.here.profile.objects.put("t/a", b"a row")
    yield store
    store.close()


@pytest.fixture
def proxy(worked: Store) -> Iterator[FaultProxy]:
    """What stands before the binding and keeps what comes."""
    with FaultProxy(worked.environ["CONTEXTFUL_BINDING_URL"]) as standing:
        yield standing


@pytest.fixture
def project(worked: Store, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose commands reach the store through the proxy."""
    (tmp_path / "contextful.toml").write_text(MANIFEST, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    settings = {**worked.environ, "CONTEXTFUL_STORAGE_PROFILE": ON_EDGE, "CONTEXTFUL_BINDING_URL": proxy.url}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def objects(proxy: FaultProxy) -> list[str]:
    """Every request for an object since the last look."""
    found = [each.path for each in proxy.came() if each.path.startswith("/v1/objects")]
    proxy.arm(None)
    return found


@pytest.mark.clause("run.record.history-export")
def test_history_is_told_without_one_request_to_the_bucket(
    project: Path, proxy: FaultProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "export"]) == 0
    head, told = map(json.loads, capsys.readouterr().out.splitlines())
    assert (head["count"], told["status"]) == (1, "success")
    assert len(proxy.came()) <= 4
    assert objects(proxy) == []

    assert main(["run", "list"]) == 0
    assert told["run_id"] in capsys.readouterr().out
    assert objects(proxy) == []


@pytest.mark.clause("run.record.history-export")
def test_history_is_told_though_the_bucket_is_away(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONTEXTFUL_OBJECTS", "r2-s3")
    for name in ("BUCKET", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"CONTEXTFUL_S3_{name}", "x")
    monkeypatch.setenv("CONTEXTFUL_S3_ENDPOINT", f"http://127.0.0.1:{free_ports(1)[0]}")

    assert main(["run", "export", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 1


@pytest.mark.clause("run.journal.storage-unsupported")
def test_a_bucket_is_looked_at_once_before_its_first_use(worked: Store, proxy: FaultProxy) -> None:
    environ = worked.environ | {"CONTEXTFUL_BINDING_URL": proxy.url}

    profile = open_profile(ON_EDGE, worked.root, clock=worked.clock, environ=environ)
    assert proxy.came() == []

    assert profile.objects.get("t/a") == b"a row"
    assert objects(proxy) == ["/v1/objects/corpus/seal.json", "/v1/objects/corpus/t/a"]
    profile.require_paired()
    assert profile.objects.get("t/a") == b"a row"
    assert objects(proxy) == ["/v1/objects/corpus/t/a"]
    profile.close()
