"""A project that reads a shelf of the site, and what there is to know of it from outside the engine."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import weakref
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from engine.clock import SystemClock
from engine.profile import open_profile
from engine.shapes import INLINE_LIMIT
from engine.storage import initialize
from tests.crash.ground import Folder
from tests.crash.herd import ON_EDGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crash.ground import Bucket, Edges, Ground
    from tests.crash.herd import Child, Herd
    from tests.crash.site import Rows, Shelf, Site

LEASE_AND_A_BIT_MS: Final = 31_000
PROJECT: Final = "crash"
PINNED: Final = ["_run_id", "_commit_seq", "_ingested_at"]

MANIFEST: Final = """
[project]
name = "{project}"
site_id = "here"

[[pipeline]]
id = "p"
[pipeline.source]
kind = "http"
url = "{url}"
records = "items"
paginate = {{ by = "next-url", field = "next" }}

[[pipeline.table]]
name = "items"
{declared}
"""


@dataclass(frozen=True)
class Play:
    """What a table declares and the pages it reads; `before` are the pages of a run that ended well long ago."""

    name: str
    declared: str
    pages: tuple[tuple[dict[str, Any], ...], ...]
    before: tuple[tuple[dict[str, Any], ...], ...] = ()
    stamped: bool = False


def page(*numbers: int, version: int = 1) -> tuple[dict[str, Any], ...]:
    """A page of rows with these ids; a later version of a row has a later clock."""
    return tuple(
        {
            "id": number,
            "updated": f"2026-01-0{version}T00:00:{number:02}Z",
            "text": f"row {number}, version {version} ✓",
            "amount": number / 8 if number % 5 else None,
        }
        for number in numbers
    )


KEYLESS: Final = Play("keyless", "", (page(1, 2, 3), page(4, 5), page(6, 7), page(8), page(9, 10), page(11, 12)))
KEYED: Final = Play(
    "keyed",
    'primary_key = ["id"]',
    (page(1, 2, 3), page(4, 5), (), page(2, 4, version=2), page(6, 7), page(1, 2, version=3)),
)
INCREMENTAL: Final = Play(
    "incremental",
    'primary_key = ["id"]\nincremental = "updated"\nsince_param = "since"',
    (page(1, 2, 3), page(4, 5), page(6, 7), page(1, 5, version=2), page(8, 9, version=2), page(2, version=3)),
    before=(page(1, 2, 3), page(4, 5)),
)
STAMPED: Final = Play("stamped", "", KEYLESS.pages, stamped=True)
LARGE: Final = Play(
    "large", "", (page(1), tuple(row | {"text": "long " * (INLINE_LIMIT // 4)} for row in page(2)), page(3))
)
"""One pull is recorded as a blob."""

PLAYS: Final = {play.name: play for play in (KEYLESS, KEYED, INCREMENTAL, STAMPED, LARGE)}


@dataclass(frozen=True)
class Commit:
    """One marker without what names its attempt, and the rows of its parts without what the commit pinned."""

    facts: dict[str, Any]
    parts: tuple[pa.Table, ...]


@dataclass(frozen=True)
class Scene:
    """One project in `root` reading `shelf`, its state on `ground`."""

    play: Play
    profile: str
    root: Path
    ground: Ground
    shelf: Shelf
    herd: Herd

    def start(self, do: str = "run", **options: Any) -> Child:
        """Start a child on this project."""
        return self.herd.start(do, self.root, **self._told(options))

    def finished(self, do: str = "run", **options: Any) -> dict[str, Any]:
        """Do a job on this project to its end."""
        return self.herd.finished(do, self.root, **self._told(options))

    @property
    def state(self) -> Path:
        """The folder that it works in; where its state lies unless that is on an edge."""
        return self.root / ".contextful"

    def commits(self) -> list[Commit]:
        """Every commit as plain readers find it, each part held against its marker's digest."""
        return [_commit(marker, self.ground) for marker in self.markers()]

    def markers(self) -> list[dict[str, Any]]:
        """Every marker of the table, in order."""
        found = [name for name in self.ground.names("items/commits/") if name.endswith(".json")]
        return [json.loads(self.ground.content(name)) for name in found]

    def part_folders(self) -> set[str]:
        """The commits that have parts, whether a marker names them or not."""
        return {name.split("/")[2] for name in self.ground.names("items/parts/")}

    def rows(self) -> list[dict[str, Any]]:
        """Every committed row with the table's own columns, in commit order."""
        own = [part.select([c for c in part.column_names if not c.startswith("_")]) for part in self._parts()]
        return [row for part in own for row in part.to_pylist()]

    def goes_elsewhere(self) -> None:
        """Let the next process be on another machine, where it finds what is on the edge and nothing else."""
        if self.profile == ON_EDGE:
            shutil.rmtree(self.state, ignore_errors=True)

    def latest(self) -> dict[int, dict[str, Any]]:
        """The last row of each id."""
        return {row["id"]: row for row in self.rows()}

    def staged(self) -> dict[str, bytes]:
        """Every staged file by its name within its run's folder."""
        return {path.name: path.read_bytes() for path in sorted((self.state / "staged").rglob("*.arrow"))}

    def leftovers(self) -> list[str]:
        """What lies below the staged folder."""
        return [str(path.relative_to(self.state)) for path in (self.state / "staged").rglob("*")]

    def reads(self, shelf: Shelf) -> None:
        """Have the next run read `shelf`."""
        text = MANIFEST.format(project=PROJECT, url=shelf.url, declared=self.play.declared)
        (self.root / "contextful.toml").write_text(text, encoding="utf-8")

    def _told(self, options: dict[str, Any]) -> dict[str, Any]:
        environ = {**self.ground.environ, **options.get("environ", {})}
        return {"profile": self.profile, **options, "environ": environ}

    def _parts(self) -> Iterator[pa.Table]:
        for commit in self.commits():
            yield from commit.parts


@dataclass(frozen=True)
class Reference:
    """An uninterrupted run of a play: the commits before it, after it, after another one; its points and requests."""

    before: list[Commit]
    once: list[Commit]
    twice: list[Commit]
    points: list[str]
    seconds: float


@dataclass
class Stagehand:
    """Sets scenes in folders of their own below `workshop`, each with a shelf of its own."""

    workshop: Path
    site: Site
    herd: Herd
    edges: Edges
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.reference = cache(self._reference)
        self._old_state = cache(self._played_before)

    def scene(self, play: Play, profile: str) -> Scene:
        """A project at the moment before the run of `play`."""
        scene = self._fresh(play, profile, play.pages)
        if play.before and profile == ON_EDGE:
            self._play_before(scene)
        elif play.before:
            shutil.copytree(self._old_state(play.name, profile), scene.state)
        return scene

    def beside(self, scene: Scene) -> Scene:
        """Another project that reads the same shelf: what a source answers holds its own address."""
        return self._project(scene.play, scene.profile, scene.shelf)

    def _fresh(self, play: Play, profile: str, pages: tuple[Any, ...]) -> Scene:
        return self._project(play, profile, self._shelf(play, pages))

    def _shelf(self, play: Play, pages: tuple[Any, ...]) -> Shelf:
        laid: list[Rows] = [list(rows) for rows in pages]
        return self.site.shelf(f"{play.name}-{next(self._numbers)}", laid, stamped=play.stamped)

    def _project(self, play: Play, profile: str, shelf: Shelf) -> Scene:
        root = self.workshop / f"project-{next(self._numbers)}"
        root.mkdir()
        if profile != ON_EDGE:
            scene = Scene(play, profile, root, Folder(root / ".contextful" / "corpus"), shelf, self.herd)
        else:
            bucket = self.edges.take()
            scene = Scene(play, profile, root, bucket, shelf, self.herd)
            weakref.finalize(scene, self.edges.give_back, bucket)
            initialized(bucket)
        scene.reads(shelf)
        return scene

    def _play_before(self, scene: Scene) -> None:
        scene.reads(self._shelf(scene.play, scene.play.before))
        assert scene.finished()["exit"] == 0, self.herd.complaints()
        scene.reads(scene.shelf)

    def _played_before(self, name: str, profile: str) -> Path:
        play = PLAYS[name]
        scene = self._fresh(play, profile, play.before)
        assert scene.finished()["exit"] == 0, self.herd.complaints()
        return scene.state

    def _reference(self, name: str, profile: str) -> Reference:
        play = PLAYS[name]
        scene = self.scene(play, profile)
        before = scene.commits()
        first = scene.finished()
        assert first["exit"] == 0, (first, self.herd.complaints())
        once = scene.commits()
        assert len(once) == len(before) + 1
        assert all(scene.shelf.asked[number] == 1 for number in range(len(play.pages)))
        assert scene.finished(offset_ms=LEASE_AND_A_BIT_MS)["exit"] == 0
        points = [point for point in first["points"] if not by_chance(point)]
        return Reference(before, once, scene.commits(), points, first["seconds"])


def initialized(bucket: Bucket) -> None:
    """Make the store behind `bucket` ready for the project of all scenes, as its operator does."""
    opened = open_profile(ON_EDGE, Path(), clock=SystemClock(), environ=bucket.environ)
    with closing(opened) as profile:
        initialize(profile, project=PROJECT)


def by_chance(point: str) -> bool:
    """Whether the threads that write parts may or may not come to `point`: each looks for their folder by itself."""
    return point.startswith("before mkdir corpus/") and not point.endswith(" #1")


def _commit(marker: dict[str, Any], ground: Ground) -> Commit:
    parts = []
    for part in marker["parts"]:
        content = ground.content(part["name"])
        assert hashlib.sha256(content).hexdigest() == part["sha256"], part["name"]
        table = pq.read_table(pa.BufferReader(content))
        assert table.num_rows == part["rows"], part["name"]
        parts.append(table.drop_columns(PINNED))
    names = [part["name"].rpartition("/")[2] for part in marker["parts"]]
    attempt = {"committed_at", "run_id", "commit_id", "execution_id", "parts"}
    return Commit({k: v for k, v in marker.items() if k not in attempt} | {"parts": names}, tuple(parts))
