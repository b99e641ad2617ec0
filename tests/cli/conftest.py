"""The command line as users meet it: in this process for most tests, as the installed script where that matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from engine.cli import session
from engine.cli.main import main
from engine.demo.api import DemoApi, Manners
from tests.cli.dated_site import MANIFEST, Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT: Final = Path(sys.executable).with_name("contextful")

ORDERS: Final = """\
[project]
name = "shop"
site_id = "laptop"

[[pipeline]]
id = "orders"
source = { kind = "file", path = "orders.jsonl" }

[[pipeline.table]]
name = "orders"
primary_key = ["id"]
incremental = "at"
"""

PAYMENTS: Final = """\
[project]
name = "shop"
site_id = "laptop"

[[destination]]
name = "payments"
kind = "http"
url = "{url}"
{window}
"""

QUAKES: Final = """\
[project]
name = "shop"
site_id = "laptop"

[[pipeline]]
id = "quakes"

[pipeline.source]
kind = "http"
url = "{url}/quakes"
records = "items"
paginate = {{ by = "next-url", field = "next" }}

[[pipeline.table]]
name = "quakes"
primary_key = ["id"]
incremental = "updated"
since_param = "updated_after"
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        assert self.out.count("\n") == 1, f"more than one line: {self.out!r}"
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The error of a refusal under --json."""
        return dict(self.document["error"])


@dataclass
class Shell:
    """A folder, and the commands run in it."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(self, *arguments: str) -> Ended:
        """Run a command in this process."""
        self.capture.readouterr()
        code = main(list(arguments))
        out, err = self.capture.readouterr()
        return Ended(code, out, err)

    def json(self, *arguments: str) -> Any:
        """The document of a command that succeeds."""
        ended = self(*arguments, "--json")
        assert ended.code == 0, ended.err
        return ended.document

    def script(self, *arguments: str, before: tuple[str, ...] = (), **environ: str) -> Ended:
        """Run the installed script as a process of its own, started by the command `before` where there is one."""
        ended = subprocess.run(
            [*before, SCRIPT, *arguments], cwd=self.folder, env={**os.environ, **environ}, capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the installed script."""
        process = subprocess.Popen(
            [SCRIPT, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.started.append(process)
        return process

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def orders(self, *rows: dict[str, Any]) -> None:
        """A project over a file of `rows`, two of its own without any."""
        chosen = rows or ({"id": 1, "at": "2026-01-01T00:00:00Z"}, {"id": 2, "at": "2026-01-02T00:00:00Z"})
        self.write("orders.jsonl", "".join(json.dumps(row) + "\n" for row in chosen))
        self.write("contextful.toml", ORDERS)

    def set(self, name: str, value: str) -> None:
        self.monkeypatch.setenv(name, value)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """An empty folder, and no variable of ours in the environment."""
    for name in [name for name in os.environ if name.startswith("CONTEXTFUL_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    shell = Shell(folder, capsys, monkeypatch)
    yield shell
    for process in shell.started:
        process.kill()
        process.communicate()
    session.clock.set(None)


@pytest.fixture
def slow_third_page() -> Iterator[DemoApi]:
    """An API that holds its third page back half sent."""
    with DemoApi(manners=Manners(throttle_at=0, slow_at=3, slow_s=30)) as api:
        yield api


@pytest.fixture
def site(shell: Shell) -> Iterator[Site]:
    """The site, and a project that reads it."""
    with serving() as site:
        shell.write("contextful.toml", MANIFEST.format(url=site.url))
        yield site


@pytest.fixture
def laptop(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A project whose store nothing of the test is about."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(shell.folder / "settings"))
    shell.write("contextful.toml", PAYMENTS.format(url="https://payments.example.com", window=""))
    return shell
