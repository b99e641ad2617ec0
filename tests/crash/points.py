"""The named points of a run at which a child process can be killed or stopped, found without a hook in the engine.

Every durable effect goes through a port or the file system. Within the child the ports' methods are wrapped and the
interpreter's audit events for files are listened to, so a statement or file that is new tomorrow is a point tomorrow:

    before / after <statements of a batch>           the database: after is "committed, and the answer lost"
    before / after create|put|put_all|delete <object>  the corpus
    before link|rename|open|mkdir|remove|… <file>    each step below the ports
    within write <file>                              half of the bytes are there

In a bucket an object comes to be by one request: that is where it is linked.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from d1.database import D1Database
from engine.local.folder import FolderObjects
from engine.local.sqlite import SqliteDatabase
from r2.binding import BindingKeys
from r2.objects import BucketObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.ports import Call, Rows

_CHANCE = re.compile(r"[0-9a-f]{8,}|\d{5,}")
_FILES = {
    "os.link": 1,
    "os.rename": 1,
    "os.remove": 0,
    "os.mkdir": 0,
    "os.rmdir": 0,
    "os.truncate": 0,
    "shutil.rmtree": 0,
}
"""Audit events of the file system, and which of their arguments is the path they are about."""


class Points:
    """Notes each point as `<what> #<count>` and sends `number` to the own process at the one named `at`."""

    def __init__(self, root: Path, *, at: str | None = None, number: int = signal.SIGKILL) -> None:
        self.reached: list[str] = []
        self._root = str(root) + os.sep
        self._at = at
        self._number = number
        self._counts: Counter[str] = Counter()
        self._lock = threading.RLock()

    def reach(self, name: str, *, first: Callable[[], object] | None = None) -> None:
        """Note the point; at the planned one do `first` and send the signal."""
        with self._lock:
            self._counts[name] += 1
            point = f"{name} #{self._counts[name]}"
            self.reached.append(point)
            planned = point == self._at
        if planned:
            if first:
                first()
            os.kill(os.getpid(), self._number)
            time.sleep(0.02)  # another thread may be the one that takes the signal

    def watch(self) -> None:
        """Wrap the ports and listen to the file system, for as long as this process lives."""
        for database in (SqliteDatabase, D1Database):
            self._watch_database(database)
        for objects in (FolderObjects, BucketObjects):
            for verb in ("create", "put", "put_all", "delete"):
                self._watch_object(objects, verb)
        self._watch_keys()
        self._watch_writes()
        sys.addaudithook(self._audit)

    def _watch_database(self, kind: type[SqliteDatabase | D1Database]) -> None:
        run = kind.run

        @wraps(run)
        def watched(database: Any, *calls: Call) -> list[Rows]:
            names = list(dict.fromkeys(call.statement.name for call in calls))
            name = "+".join(names if len(names) < 8 else [*names[:3], "…", names[-1]])
            if all(call.statement.reads for call in calls):
                return run(database, *calls)
            self.reach(f"before {name}")
            results = run(database, *calls)
            self.reach(f"after {name}")
            return results

        setattr(kind, "run", watched)  # noqa: B010 - a method is replaced on purpose

    def _watch_object(self, kind: type[FolderObjects | BucketObjects], verb: str) -> None:
        method = getattr(kind, verb)

        @wraps(method)
        def watched(objects: Any, what: str | Iterable[Any], *rest: Any) -> Any:
            name = f"{verb} {_anonymous(what)}" if isinstance(what, str) else verb
            self.reach(f"before {name}")
            result = method(objects, what, *rest)
            self.reach(f"after {name}")
            return result

        setattr(kind, verb, watched)

    def _watch_keys(self) -> None:
        create = BindingKeys.create

        def watched(keys: BindingKeys, key: str, content: bytes) -> bool:
            self.reach(f"before link {_anonymous(key)}")
            return create(keys, key, content)

        setattr(BindingKeys, "create", watched)  # noqa: B010 - as above

    def _watch_writes(self) -> None:
        write, write_bytes = os.write, Path.write_bytes

        def torn_write(descriptor: int, content: Any) -> int:
            place = self._place(Path(f"/proc/self/fd/{descriptor}").readlink())
            if place:
                self.reach(f"within write {place}", first=lambda: write(descriptor, content[: len(content) // 2]))
            return write(descriptor, content)

        def torn_write_bytes(path: Path, content: Any) -> int:
            place = self._place(path)
            if place:
                half = content[: len(content) // 2]
                self.reach(f"within write {place}", first=lambda: write_bytes(path, half))
            return write_bytes(path, content)

        setattr(os, "write", torn_write)  # noqa: B010 - as above
        setattr(Path, "write_bytes", torn_write_bytes)  # noqa: B010 - as above

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) and (place := self._place(path)):
                self.reach(f"before open {place}")
        elif event in _FILES and (place := self._place(arguments[_FILES[event]])):
            self.reach(f"before {event.partition('.')[2]} {place}")

    def _place(self, path: Any) -> str | None:
        """Where below the root `path` is, without what chance put into it; None for what is not ours and for locks."""
        text = os.fspath(path) if isinstance(path, str | Path) else ""
        if not text.startswith(self._root):
            return None
        place = _anonymous(text.removeprefix(self._root))
        return None if place.startswith("locks/") or place.endswith(".lock") else place


def _anonymous(name: str) -> str:
    return _CHANCE.sub("*", name)
