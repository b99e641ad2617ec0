"""The demonstration: a run is killed half way, a second process resumes it, and the API's own notes tell the rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.demo.api import Asked, DemoApi, Manners, quakes
from engine.errors import InitRefused, Permanent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S: Final = 30.0
"""How long a child may take to get half way before something is plainly wrong."""

AHEAD: Final = "31s"
"""How far the second process's clock stands ahead: one second past a dead run's lease."""

_RUN: Final = ("pipeline", "run", "quakes")

_OF_STORAGE: Final = (
    "CONTEXTFUL_STORAGE_",
    "CONTEXTFUL_BINDING_",
    "CONTEXTFUL_OBJECTS",
    "CONTEXTFUL_S3_",
    "CONTEXTFUL_SEAL_",
)

_MANIFEST: Final = """\
# Written by contextful demo. The API lived in the demonstration's process and is gone; the rows are here.
[project]
name = "demo"
site_id = "demo"

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


@dataclass(frozen=True, slots=True)
class Story:
    """What happened: the API's notes up to the kill and after it, and what the second process reported."""

    manifest: Path
    before: tuple[Asked, ...]
    after: tuple[Asked, ...]
    run: dict[str, Any]
    distinct: int
    seconds: float

    @property
    def repeated(self) -> int:
        """Pages asked for again after they had been answered whole."""
        answered: set[str] = set()
        again = 0
        for asked in (*self.before, *self.after):
            again += asked.target in answered
            if asked.rows:
                answered.add(asked.target)
        return again

    @property
    def holds(self) -> bool:
        """Whether every event of the data set landed once and no answered page was asked for again."""
        return self.run["rows"] == self.distinct == len(quakes()) and not self.repeated


def told(manifest: Path, *, manners: Manners, real_time: bool) -> Story:
    """Live through it at `manifest`: run, kill with SIGKILL half way, resume, look.

    The second process's clock stands 31 s ahead, so that nobody waits for the dead run's lease; with `real_time` it
    waits. Raise `InitRefused` where a manifest stands already, `Permanent` when a child does not do its part.
    """
    began = time.monotonic()
    with DemoApi(manners=manners) as api:
        _write(manifest, _MANIFEST.format(url=api.url))
        _from_nothing(manifest)
        _killed_half_way(manifest, api)
        before = api.asked()
        run = _resumed(manifest, real_time=real_time)
        after = api.asked()[len(before) :]
    return Story(manifest, before, after, run, _distinct(manifest), time.monotonic() - began)


def _write(manifest: Path, text: str) -> None:
    try:
        manifest.parent.mkdir(parents=True, exist_ok=True)
        with manifest.open("x", encoding="utf-8") as fresh:
            fresh.write(text)
    except FileExistsError:
        raise InitRefused(file=str(manifest), reason="it is already there, and no file is overwritten") from None
    except OSError as error:
        raise InitRefused(file=str(manifest), reason=error.strerror or str(error)) from error


def _from_nothing(manifest: Path) -> None:
    """Where state outlives the folder, an earlier demonstration's position does not count."""
    if "CONTEXTFUL_STORAGE_PROFILE" in os.environ:
        with _child(manifest, "pipeline", "reset", "quakes", "--yes") as reset:
            _, errors = reset.communicate(timeout=PATIENCE_S)
        if reset.returncode:
            raise Permanent(f"the table of an earlier demonstration cannot be reset: {errors}")


def _killed_half_way(manifest: Path, api: DemoApi) -> None:
    """Start a run, and kill it while the API has sent it half a page."""
    with _child(manifest, *_RUN) as first:
        deadline = time.monotonic() + PATIENCE_S
        while not api.slow_page.wait(0.05):
            if first.poll() is not None or time.monotonic() > deadline:
                first.kill()
                raise Permanent(f"the first run never got half way: {_said(first)}")
        first.send_signal(signal.SIGKILL)
        first.wait()
    deadline = time.monotonic() + PATIENCE_S
    while not any(asked.status == 200 and not asked.rows for asked in api.asked()):
        if time.monotonic() > deadline:
            raise Permanent("the API never noticed that its reader was killed")
        time.sleep(0.02)


def _resumed(manifest: Path, *, real_time: bool) -> dict[str, Any]:
    """Run again and return what the run says of itself."""
    ahead, wait = ([], ["--wait", "60s"]) if real_time else (["--clock-ahead", AHEAD], [])
    with _child(manifest, *_RUN, *wait, before=ahead) as second:
        output, errors = second.communicate(timeout=PATIENCE_S + 60)
    if second.returncode:
        raise Permanent(f"the second run ended with {second.returncode}: {errors}")
    (run,) = json.loads(output)["runs"]
    return dict(run)


@contextmanager
def _child(manifest: Path, *words: str, before: list[str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a command on the manifest; whatever ends the block ends it."""
    command = [sys.executable, "-m", "engine.cli.ahead", *(before or [])]
    with subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
        [*command, *words, "--manifest", str(manifest), "--json"],
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _environment() -> dict[str, str]:
    """This process's, of the command line's variables only those that say where state lives."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CONTEXTFUL_") or name.startswith(_OF_STORAGE)
    }


def _said(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate()
    return errors.strip()


def _distinct(manifest: Path) -> int:
    """How many different events the corpus holds."""
    from engine.corpus.read import ReadFace  # noqa: PLC0415 - the reader loads while nobody waits for a first page
    from engine.project import Project  # noqa: PLC0415

    with Project.find(manifest, environ=_environment()) as project:
        answer = ReadFace(project.profile.objects).read("SELECT count(DISTINCT id) FROM quakes")
    return int(answer.rows[0][0])
