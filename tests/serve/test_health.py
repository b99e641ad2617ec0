"""`/healthz`, and nothing else."""

from __future__ import annotations

import socket

import httpx
import pytest

from engine.errors import AddressUnusable
from engine.serve.health import health


@pytest.fixture
def http() -> httpx.Client:
    """A client without a proxy."""
    return httpx.Client(trust_env=False, timeout=10)


def test_it_answers_and_is_not_kept(http: httpx.Client) -> None:
    with http, health("127.0.0.1", 0) as url:
        answer = http.get(url)
        asked = http.get(f"{url}?from=probe")

    assert (answer.status_code, answer.text, answer.headers["cache-control"]) == (200, "ok\n", "no-store")
    assert asked.status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("GET", "/healthz/"), ("GET", "/v1/batch"), ("POST", "/healthz"), ("HEAD", "/healthz"), ("X", "/")],
)
def test_anything_else_is_not_found(http: httpx.Client, method: str, path: str) -> None:
    with http, health("127.0.0.1", 0) as url:
        answer = http.request(method, url.removesuffix("/healthz") + path)

    assert answer.status_code == 404
    assert "python" not in answer.headers["server"].lower()


def test_what_is_no_request_is_not_found_and_the_next_one_is_answered(http: httpx.Client) -> None:
    with http, health("127.0.0.1", 0) as url:
        with socket.create_connection(("127.0.0.1", int(url.split(":")[2].partition("/")[0])), timeout=10) as peer:
            peer.sendall(b"\x00nonsense\r\n\r\n")
            answered = peer.recv(4096)
        after = http.get(url)

    assert b" 404 " in answered or b"not found" in answered
    assert after.status_code == 200


def test_an_address_that_is_taken_is_named() -> None:
    with health("127.0.0.1", 0) as url:
        port = int(url.split(":")[2].partition("/")[0])
        with pytest.raises(AddressUnusable) as refusal, health("127.0.0.1", port):
            pass

    assert (refusal.value.host, refusal.value.port, refusal.value.exit_code) == ("127.0.0.1", port, 2)
    assert "Address already in use" in str(refusal.value)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_a_host_that_is_not_of_this_machine_is_named(host: str) -> None:
    with pytest.raises(AddressUnusable, match=f"{host} port 0 cannot be listened on"), health(host, 0):
        pass
