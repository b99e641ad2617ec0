"""An engine's process and whatever descends from it: started, ended, and known to be gone.

Where orphans are adopted (Linux), everything that descends from the engine is a child of this process in the end,
whatever session it fled to: so nothing of it is left once this process has no child left. Elsewhere only the engine's
process group can be watched, and what leaves that group is out of reach.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from engine.errors import Permanent
from engine.execution.announce import HOLDERS, address
from engine.serve.processes import Process, adopt_orphans, group_stands, processes, send, send_group

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class Family:
    """One engine, the leader of a session of its own. A process has one family at a time: it collects all that ends.

    `holders` is the pipe to name holders to. `code` is how the engine ended: its exit code, negative for a signal, None
    while it runs.
    """

    def __init__(
        self, argv: Sequence[str], *, environ: Mapping[str, str], holders: Path, stdout: int | None = None
    ) -> None:
        self.code: int | None = None
        self._adopting = adopt_orphans()
        # What an entry script left behind before it became this process is not the engine's.
        self._elders = {each.pid for each in processes() if each.parent == os.getpid()}
        self._asked: set[int] = set()
        told = {**environ, HOLDERS: address(holders, adopting=self._adopting)}
        try:
            self._leader = subprocess.Popen(  # noqa: S603 - this very program
                argv, env=told, stdin=subprocess.DEVNULL, stdout=stdout, start_new_session=True
            )
        except OSError as failure:
            raise Permanent(f"the engine cannot be started: {failure.strerror or failure}") from failure

    def ended(self) -> bool:
        """Whether the engine itself has ended; something of it may run on."""
        self._collect()
        return self.code is not None

    def gone(self) -> bool:
        """Whether nothing of it runs any more, and all of it has been collected."""
        childless = self._collect()
        if self.code is None:
            return False
        if not self._adopting:
            return not group_stands(self._leader.pid)
        # The list is proof too: an adopted process stays on it until this one collects it.
        return childless or (bool(self._elders) and not self._adopted(processes()))

    def ask(self) -> None:
        """Ask everything of it to end, each process once: an engine takes the second TERM for impatience."""
        listed = processes()
        if not self._asked:
            send_group(self._leader.pid, signal.SIGTERM)
            self._asked = {self._leader.pid, *(each.pid for each in listed if each.group == self._leader.pid)}
        for pid in self._adopted(listed) - self._asked:
            send(pid, signal.SIGTERM)
            self._asked.add(pid)

    def kill(self) -> None:
        """Kill what is in reach; the children of what is killed come into reach by it."""
        if self.code is None or not self._adopting:
            send_group(self._leader.pid, signal.SIGKILL)
        for pid in self._adopted(processes()):
            send(pid, signal.SIGKILL)

    def _adopted(self, listed: list[Process]) -> set[int]:
        children = {each.pid for each in listed if each.parent == os.getpid()}
        return children - self._elders - {self._leader.pid}

    def _collect(self) -> bool:
        """Collect whatever has ended; tell whether this process has no child left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == self._leader.pid:
                    self.code = self._leader.returncode = os.waitstatus_to_exitcode(status)
                elif not pid:
                    return False
        except ChildProcessError:
            return True
