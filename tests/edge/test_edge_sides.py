"""What is served on which side, and how the edge starts and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from tests.local_edge import ROOT, SERVE, Edge, free_ports, local_edge

PRIVATE = ["/v1/health", "/v1/batch", "/v1/objects", "/v1/objects/corpus/x", "/v1/objects?prefix="]


def test_the_public_side_tells_that_it_is_up_and_nothing_more(edge):
    assert httpx.get(f"{edge.public}/healthz", trust_env=False).text == "ok\n"
    for method in ("GET", "POST", "PUT", "DELETE"):
        for path in (*PRIVATE, "/", "/healthz/x"):
            answer = httpx.request(method, f"{edge.public}{path}", trust_env=False)
            assert answer.status_code == 404, (method, path)


def test_the_private_side_serves_nothing_else(binding):
    for path in ("/", "/healthz", "/v1", "/v1/objects/", "/batch"):
        assert binding.http.get(path).status_code in {400, 404}, path
    assert binding.http.get("/v1/batch").status_code == 404


def test_a_caller_is_not_who_its_header_says(binding):
    named = {"caller": "someone", "cf-container-id": "someone", "x-caller": "someone"}

    health = binding.http.get("/v1/health", headers=named).json()

    assert health["protocol"] == 1
    assert health["caller"] is None


def test_an_edge_ends_with_its_children_and_finds_its_state_again(tmp_path: Path):
    state = tmp_path / "state"
    with local_edge(state, program=[ROOT / "scripts" / "edge"]) as first:
        _send(first.private, "CREATE TABLE kept (a TEXT)")
        httpx.put(f"{first.private}/v1/objects/corpus/kept", content=b"kept", trust_env=False)
        assert _ends_with_its_children(first, signal.SIGTERM)

    with local_edge(state) as second:
        # The token is a new one and the key that signs it the same: the older one is good until it ends.
        assert second.operator != first.operator
        for each in (first, second):
            assert _listed(second.public, each.operator) != 401
        assert _send(second.private, "SELECT count(*) AS n FROM kept") == [[0]]
        assert httpx.get(f"{second.private}/v1/objects/corpus/kept", trust_env=False).content == b"kept"
        assert _ends_with_its_children(second, signal.SIGINT)


def test_an_edge_that_is_killed_takes_its_children_along(edge, tmp_path: Path):
    state = tmp_path / "state"
    with local_edge(state) as other:
        # The credential is of this state folder, and the key that signs it for its owner alone.
        assert _listed(other.public, edge.operator) == 401
        assert (state / "operator.pem").stat().st_mode & 0o077 == 0

        assert _ends_with_its_children(other, signal.SIGKILL)


def test_an_edge_whose_port_is_taken_says_so(edge, tmp_path: Path):
    taken = edge.public.rpartition(":")[2]
    where = ["--port", taken, "--private-port", str(free_ports(1)[0]), "--state", str(tmp_path)]

    ended = subprocess.run([*SERVE, *where], capture_output=True, text=True, timeout=30, check=False)

    assert ended.returncode == 1
    assert f"port {taken} is taken" in ended.stderr
    assert "--port" in ended.stderr


def test_a_state_folder_is_served_by_one_edge(edge):
    public, private = map(str, free_ports(2))
    where = ["--port", public, "--private-port", private, "--state", str(edge.state)]

    ended = subprocess.run([*SERVE, *where], capture_output=True, text=True, timeout=30, check=False)

    assert ended.returncode == 1
    assert f"another edge serves {edge.state}" in ended.stderr


@pytest.mark.parametrize(
    ("wrong", "code", "says"),
    [
        (["--port", "99999"], 2, "'99999' is no port"),
        (["--private-port", "0"], 2, "'0' is no port"),
        (["--port", "9001", "--private-port", "9001"], 2, "both 9001"),
        (["--var", "NAME"], 2, "'NAME' is not NAME=VALUE"),
        (["--state", "{file}/state"], 1, "--state"),
    ],
)
def test_an_edge_that_is_asked_for_what_cannot_be_says_so(tmp_path: Path, wrong: list[str], code: int, says: str):
    file = tmp_path / "file"
    file.touch()
    public, private = map(str, free_ports(2))
    where = ["--port", public, "--private-port", private, *(each.format(file=file) for each in wrong)]

    ended = subprocess.run([*SERVE, *where], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)

    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False)
    assert says in ended.stderr


def _ends_with_its_children(edge: Edge, number: signal.Signals) -> bool:
    children = _descendants(edge.process.pid)
    edge.process.send_signal(number)
    edge.process.wait(timeout=30)
    return bool(children) and _all_gone(children)


def _send(private: str, sql: str) -> list[list[object]]:
    body = {"protocol": 1, "intent": "write", "statements": [{"sql": sql, "params": []}]}
    answer = httpx.post(f"{private}/v1/batch", json=body, trust_env=False, timeout=30)
    rows: list[list[object]] = answer.json()["results"][0]["rows"]
    return rows


def _listed(public: str, operator: str) -> int:
    """How the public side answers whoever asks for guards with the token."""
    headers = {"authorization": f"Bearer {operator}"}
    url = f"{public}/v1/projects/contextful/guards"
    return httpx.get(url, headers=headers, trust_env=False, timeout=30).status_code


def _descendants(pid: int) -> list[int]:
    listed = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    parents: dict[int, list[int]] = {}
    for name in listed:
        try:
            status = Path(f"/proc/{name}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(status[1]), []).append(int(name))
    found, todo = [], [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _all_gone(pids: list[int]) -> bool:
    until = time.monotonic() + 10
    while any(_alive(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
