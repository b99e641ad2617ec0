"""What leaves in the clear loads no certificates; what leaves over TLS verifies."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from engine.demo.api import DemoApi, Manners
from engine.execution.transports import LateTls, plain

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, transport=LateTls(), mounts={"http://": plain()}) as client:
        yield client


def test_a_plain_request_loads_no_certificates(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Any] = []
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *places, **_: loaded.append(places))

    with DemoApi(manners=Manners(throttle_at=0, slow_at=0)) as api:
        assert client.get(f"{api.url}/quakes").status_code == 200

    assert loaded == []


def test_a_request_over_tls_goes_to_a_transport_that_verifies(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[ssl.SSLContext] = []

    def noted(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        context = transport._pool._ssl_context  # what the connection will be made with
        assert context is not None
        used.append(context)
        return httpx.Response(204)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", noted)
    with httpx.Client(trust_env=False, transport=LateTls(), mounts={"http://": plain()}) as client:
        client.get("https://127.0.0.1/")
        client.get("https://127.0.0.1/again")

    assert [context.verify_mode for context in used] == [ssl.CERT_REQUIRED] * 2
    assert all(context.check_hostname for context in used)
    assert used[0] is used[1]
