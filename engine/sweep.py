"""What crashes have left that nobody will ever need: finding it, and then removing it.

Nothing that is alive or can be resumed is touched. A run's staged files and parts stay while an owner names the run or
its execution, and for a day. Parts that no marker names could still be published by a process that was stopped between
its last look at the owner and its marker: only while the number they were made for is free. So they stay until a marker
has taken it, however old they are; from then on that process has to look at its owner again.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.corpus import layout
from engine.corpus.marker import history
from engine.corpus.parts import made_for
from engine.journal import SWEEP_GRACE_MS
from engine.owners import Owners
from engine.runs import Runs
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.clock import Chance
    from engine.profile import Profile

KEPT_MS: Final = 86_400_000
"""How long what a crash left is kept, in case somebody wants to look at it."""

HOLDERS_KEPT_MS: Final = 30 * KEPT_MS
"""How long the row of an engine that renews it no more is kept: a machine that slept that long begins anew."""

_ORDINAL: Final = re.compile(r"\.\d{6,}$")


@dataclass(frozen=True, slots=True)
class Leavings:
    """What a sweep takes: run ids with staged files, objects of unpublished commits, half-written objects, blobs."""

    staged: tuple[str, ...]
    parts: tuple[str, ...]
    unfinished: tuple[str, ...]
    blobs: tuple[str, ...]


def found(profile: Profile, *, chance: Chance) -> Leavings:
    """Everything that nobody will need; nothing is changed."""
    now = profile.database.now()
    parts = _folders(profile)  # listed before the owners and the markers are read: what is published meanwhile is named
    needed = _Needed.of(profile, chance)
    return Leavings(
        staged=tuple(_staged(profile.scratch, needed, before=now - KEPT_MS)),
        parts=tuple(_unpublished(profile, parts, needed, before=now - KEPT_MS)),
        unfinished=tuple(profile.objects.unfinished(before=now - KEPT_MS)),
        blobs=tuple(profile.journal.unreferenced(older_than=now - SWEEP_GRACE_MS)),
    )


def removed(profile: Profile, leavings: Leavings) -> Leavings:
    """Remove what was `found` and return what is gone; blobs are judged anew as they go.

    The rows of engines that are long gone, and that no owner and no guard names, go with them.
    """
    for run_id in leavings.staged:
        shutil.rmtree(profile.scratch / run_id, ignore_errors=True)
    profile.objects.delete(leavings.parts)
    profile.objects.forget(leavings.unfinished)
    profile.database.run(call("forget_holders", keep_ms=HOLDERS_KEPT_MS))
    blobs = profile.journal.sweep(older_than=profile.database.now() - SWEEP_GRACE_MS)
    return Leavings(leavings.staged, leavings.parts, leavings.unfinished, tuple(blobs))


@dataclass(frozen=True, slots=True)
class _Needed:
    """The runs and executions that owners name: alive, waiting, or pending until they are resumed or rewound."""

    runs: Runs
    attempts: frozenset[str | None]
    executions: frozenset[str]

    @classmethod
    def of(cls, profile: Profile, chance: Chance) -> _Needed:
        owners = Owners(profile.database, profile.journal, chance).all()
        attempts = frozenset(owner.attempt for owner in owners)
        return cls(Runs(profile.database), attempts, frozenset(owner.execution_id for owner in owners))

    def holds(self, name: str) -> bool:
        """Whether the run `name`, or the run that `name` is a later commit of, may go on."""
        return any(self._alive(run_id) for run_id in {name, _ORDINAL.sub("", name)})

    def _alive(self, run_id: str) -> bool:
        row = self.runs.get(run_id)
        return run_id in self.attempts or (row is not None and row.execution_id in self.executions)


def _staged(scratch: Path, needed: _Needed, *, before: int) -> Iterator[str]:
    if not scratch.is_dir():
        return
    for folder in sorted(scratch.iterdir()):
        if _newest(folder) < before and not needed.holds(folder.name):
            yield folder.name


def _newest(folder: Path) -> int:
    """The instant anything in `folder` was last written, in milliseconds."""
    return max(path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))) // 1_000_000


def _folders(profile: Profile) -> dict[tuple[str, str], list[str]]:
    """The parts by table and commit id."""
    folders: dict[tuple[str, str], list[str]] = {}
    for name in profile.objects.list(""):
        table = layout.table_of(name)
        if layout.usable(table) and name.startswith(layout.parts(table)):
            commit_id = name.removeprefix(layout.parts(table)).partition("/")[0]
            folders.setdefault((table, commit_id), []).append(name)
    return folders


def _unpublished(
    profile: Profile, folders: dict[tuple[str, str], list[str]], needed: _Needed, *, before: int
) -> Iterator[str]:
    published: dict[str, tuple[int, set[str]]] = {}
    for (table, commit_id), names in folders.items():
        if table not in published:
            published[table] = _published(profile, table)
        newest, named = published[table]
        left = [name for name in names if name not in named]
        if not left or len(left) < len(names) or needed.holds(commit_id):
            continue
        made = [made_for(profile.objects.local(name)) for name in left]
        if all(part is not None and part[0] <= newest and part[1] < before for part in made):
            yield from left


def _published(profile: Profile, table: str) -> tuple[int, set[str]]:
    """The number of the table's newest marker, and every part that its markers name."""
    newest, named = 0, set[str]()
    for marker in history(profile.objects, table):
        newest = marker.seq
        named.update(part.name for part in marker.parts)
    return newest, named
