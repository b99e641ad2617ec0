"""A throw-away PostgreSQL server on the loopback address, one a test process, gone with it.

Its sessions begin in a zone of half hours, so that nothing which leans on the session's zone comes out right by chance.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from tests.scale import FULL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PASSWORD: Final = "pass/w0rd@of:tests"
MISSING: Final = "no PostgreSQL server is installed (initdb is neither on PATH nor in /usr/lib/postgresql/*/bin)"
REMEDY: Final = "install it, for instance: apt-get install -y postgresql"
ZONE: Final = "America/St_Johns"


@dataclass
class Server:
    """A running server. Each `database` is empty and a test's own."""

    port: int
    names: Iterator[int]

    def database(self) -> str:
        """Create a database and return its URI, the password left out as `${PASSWORD}`."""
        name = f"test_{next(self.names)}"
        with psycopg.connect(self.uri("postgres"), autocommit=True) as session:
            session.execute(f"CREATE DATABASE {name}")
        return f"postgresql://owner:${{PASSWORD}}@127.0.0.1:{self.port}/{name}"

    def uri(self, name: str) -> str:
        return psycopg.conninfo.make_conninfo(
            user="owner", password=PASSWORD, host="127.0.0.1", port=self.port, dbname=name
        )


def binaries() -> Path | None:
    """The folder of the server's programs, the newest where there are several."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    installed = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((path.parent for path in installed), key=lambda path: float(path.parent.name), default=None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The server, started when a test first asks for it."""
    programs = binaries()
    if programs is None:
        pytest.fail(f"{MISSING}; {REMEDY}")
    folder = Path(tempfile.mkdtemp(prefix="contextful-pg-"))
    try:
        with _running(programs, folder) as port:
            yield Server(port, count(1))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def leave_out(items: list[pytest.Item]) -> Sequence[pytest.Item]:
    """Take the tests that need the server out of `items` where none is installed, and return them.

    A machine without one still tests all the rest; the full scale, which is CI's, goes nowhere without it.
    """
    needing = [item for item in items if _needs_server(item)] if not binaries() else []
    if needing and FULL:
        raise pytest.UsageError(f"{MISSING}, and CONTEXTFUL_TEST_SCALE=full tests everything; {REMEDY}")
    items[:] = [item for item in items if item not in set(needing)]
    return needing


def _needs_server(item: pytest.Item) -> bool:
    chosen = getattr(item, "callspec", None)
    by_kind = chosen is not None and chosen.params.get("database") == "postgres"
    return by_kind or "postgres" in getattr(item, "fixturenames", ())


@contextmanager
def _running(programs: Path, folder: Path) -> Iterator[int]:
    who: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        account = _account()
        who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        os.chown(folder, account.pw_uid, account.pw_gid)
    secret, data, port = folder / "password", folder / "data", _free_port()
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    quiet: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, **who}
    subprocess.run([programs / "initdb", "--pgdata", data, "--username=owner", "--auth=scram-sha-256", "--no-sync",
                    "--encoding=UTF8", "--locale=C", f"--pwfile={secret}"], check=True, **quiet)  # fmt: skip
    options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off",
               "timezone": ZONE, "datestyle": "German", "max_connections": 20}  # fmt: skip
    settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([programs / "postgres", "-D", data, *settings], stderr=log, **quiet)
    try:
        _await(server, port, folder / "log")
        yield port
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _await(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="owner", password=PASSWORD, dbname="postgres").close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the PostgreSQL server does not start: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        else:
            return


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
